"""Fetch the published lists of a dataset's split, or record that they are not available."""

from pathlib import Path

from recheck.data.lists import fetch_lists
from recheck.files import write_json
from recheck.job import job
from recheck.study.yaml import read_yaml

with job(snakemake):
    params, output = snakemake.params, Path(snakemake.output[0])
    lists = read_yaml(params.yaml)["split_lists"]
    write_json(output, fetch_lists(lists, output.with_name("downloads"), params.drop))
