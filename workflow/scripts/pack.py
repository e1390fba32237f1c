"""Decode all images of a dataset into one memory-mapped file."""

from pathlib import Path

from recheck.data.images import reading_of
from recheck.data.index import read_index
from recheck.data.packed import pack
from recheck.files import sha256
from recheck.job import job
from recheck.resize import PLAIN_GB, parse_resize

with job(snakemake):
    pack(
        read_index(snakemake.input[0]),
        Path(snakemake.params.root),
        parse_resize(snakemake.wildcards.resize),
        Path(snakemake.output.pack).parent,
        index_sha256=sha256(snakemake.input[0]),
        workers=snakemake.threads,
        reading=reading_of(snakemake.params.reading),
        plain_limit=snakemake.config.get("plain_pack_gb", PLAIN_GB) * 1e9,
    )
