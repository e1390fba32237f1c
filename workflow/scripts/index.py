"""Write images.csv: every image of a dataset with its class."""

from pathlib import Path

from recheck.data.index import make_index, write_index
from recheck.job import job

with job(snakemake):
    params = snakemake.params
    downloads = Path(snakemake.input.verified).with_name("downloads")
    index = make_index(params.dataset, downloads, Path(params.root), workers=snakemake.threads)
    write_index(snakemake.output[0], index)
