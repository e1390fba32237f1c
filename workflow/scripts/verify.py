"""Verify the checksums of all files of a dataset, read again from the disk."""

from pathlib import Path

from recheck.data.sources import verify
from recheck.files import write_json
from recheck.job import job

with job(snakemake):
    write_json(snakemake.output[0], verify(snakemake.params.files, Path(snakemake.output[0]).with_name("downloads")))
