"""One file of a dataset, from the first source that gives exactly it."""

from recheck.data.description import file_entry
from recheck.data.sources import fetch
from recheck.job import job
from recheck.study.yaml import read_yaml

with job(snakemake):
    file = file_entry(read_yaml(snakemake.params.yaml), snakemake.wildcards.file)
    fetch(file, snakemake.output[0], snakemake.params.drop)
