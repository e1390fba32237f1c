"""One file of a dataset, from the first source that gives exactly it."""

from recheck.data.sources import fetch
from recheck.job import job

with job(snakemake):
    fetch(snakemake.params.entry, snakemake.output[0])
