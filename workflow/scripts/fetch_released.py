"""Fetch the released checkpoints of one method on one dataset."""

from pathlib import Path

from recheck.data.released import collect
from recheck.files import write_json
from recheck.job import job

with job(snakemake):
    params, output = snakemake.params, snakemake.output[0]
    write_json(output, collect(params.released, params.folds, Path(output).parent, params.drop))
