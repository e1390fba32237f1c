"""Fetch one file of a dataset, or one weights file, from the first source with the right content."""

from recheck.data.description import file_entry
from recheck.data.sources import fetch
from recheck.job import job
from recheck.study.yaml import read_yaml

with job(snakemake):
    file = file_entry(read_yaml(snakemake.params.yaml), snakemake.wildcards.file)
    fetch(file, snakemake.output[0], snakemake.params.drop)
