"""Write split.json: the images of each role (train, val, test, …) in each fold of a study."""

from recheck.data.index import read_index
from recheck.data.lists import read_roles
from recheck.data.splits import check_disjoint, make_split
from recheck.files import sha256, write_json
from recheck.job import job

with job(snakemake):
    params, wildcards = snakemake.params, snakemake.wildcards
    index = read_index(snakemake.input[0])
    lists = snakemake.input.get("lists")
    roles = read_roles(lists, index) if lists else None
    columns = {"super_labels": index["super_label"], "roles": index["role"] if roles is None else roles}
    split = make_split(index["label"], params.scheme, params.classes, **columns)
    check_disjoint(split, index["label"])
    params.reductions.check(split["folds"][0])
    write_json(
        snakemake.output[0],
        {
            "dataset": wildcards.dataset,
            "index_sha256": sha256(snakemake.input[0]),
            **split,
            **({"lists": roles is not None} if lists else {}),
        },
    )
