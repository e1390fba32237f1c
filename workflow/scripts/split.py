"""Which images are train, val and test in each fold of a study."""

from recheck.data.index import read_index
from recheck.data.splits import make_split
from recheck.files import sha256, write_json
from recheck.job import job

with job(snakemake):
    params, wildcards = snakemake.params, snakemake.wildcards
    split = make_split(read_index(snakemake.input[0])["label"].to_numpy(), params.scheme, params.classes)
    write_json(
        snakemake.output[0],
        {"dataset": wildcards.dataset, "index_sha256": sha256(snakemake.input[0]), **split},
    )
