"""Which images are train, val and test in each fold of a study."""

from recheck.data.index import read_index
from recheck.data.splits import check_disjoint, make_split
from recheck.files import sha256, write_json
from recheck.job import job

with job(snakemake):
    params, wildcards = snakemake.params, snakemake.wildcards
    labels = read_index(snakemake.input[0])["label"].to_numpy()
    split = make_split(labels, params.scheme, params.classes)
    check_disjoint(split, labels)
    write_json(
        snakemake.output[0],
        {"dataset": wildcards.dataset, "index_sha256": sha256(snakemake.input[0]), **split},
    )
