"""Unpack the archives of a dataset into its image folder."""

from pathlib import Path

from recheck.data.archives import extract
from recheck.files import read_json, write_json
from recheck.job import job

with job(snakemake):
    folder = Path(snakemake.output[0]).parent
    verified = read_json(snakemake.input.verified)
    write_json(
        snakemake.output[0], extract(snakemake.params.archives, folder / "downloads", verified, folder / "images")
    )
