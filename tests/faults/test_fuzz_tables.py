"""Garbage in the tables of benchmark datasets: a valid index, or one sentence."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recheck.data.index import make_index, write_index
from recheck.errors import UserError
from support.datasets import miniatures
from support.faults.fuzz import Outcomes, damaged, fuzz, mutated, only_below

# miniature → parser and its tables
TABLES = {
    "cub200": (
        "cub200",
        ["CUB_200_2011/images.txt", "CUB_200_2011/image_class_labels.txt", "CUB_200_2011/classes.txt"],
    ),
    "cars196_original": ("cars196", ["cars_annos.mat"]),
    "cars196_devkit": ("cars196", ["devkit/cars_train_annos.mat", "devkit/cars_meta.mat"]),
    "sop": ("sop", ["Stanford_Online_Products/Ebay_train.txt", "Stanford_Online_Products/Ebay_test.txt"]),
    "inshop": ("inshop", ["list_eval_partition.txt"]),
    "inat_mini": ("inaturalist", ["train_mini.json"]),
    "inat2018": ("inaturalist2018", ["Inat_dataset_splits/Inaturalist_train_set1.txt"]),
}
WORDS = [
    "",
    "0",
    "-1",
    "1.5",
    "9" * 30,
    "9" * 5000,
    "nan",
    "\ufeff",
    "\0",
    "../x",
    "/etc/passwd",
    "é",
    "\ud800",
    "a" * 5000,
]


def words_changed(text: str) -> st.SearchStrategy[bytes]:
    """The table with one or three words replaced."""

    def change(number: int) -> bytes:
        random_, lines = random.Random(number), [line.split(" ") for line in text.split("\n")]
        for _ in range(random_.choice((1, 1, 3))):
            line = random_.choice(lines)
            line[random_.randrange(len(line))] = random_.choice([*WORDS, *random_.choice(lines)])
        return "\n".join(map(" ".join, lines)).encode(errors="replace")

    return st.integers(0, 2**32).map(change)


def changed(path) -> st.SearchStrategy[bytes]:
    whole = path.read_bytes()
    if path.suffix == ".txt":
        return st.one_of(damaged(whole), words_changed(whole.decode()), st.just(whole.decode().encode("utf-16")))
    if path.suffix == ".json":
        trees = mutated(json.loads(whole)).map(lambda tree: json.dumps(tree, default=str, skipkeys=True).encode())
        return st.one_of(damaged(whole), trees, st.just(b"[" * 100_000))
    return damaged(whole)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", TABLES)
def test_tables(tmp_path, form, record_property):
    parser, tables = TABLES[form]
    folder = getattr(miniatures, f"make_{form}")(tmp_path / form)
    whole = {table: (folder / table).read_bytes() for table in tables}
    strategies = {table: changed(folder / table) for table in tables}
    outcomes = Outcomes("tables")

    def read():
        index = make_index({"name": form, "parser": parser}, folder, folder)
        write_index(tmp_path / "images.csv", index)
        return index

    def right(result):
        if isinstance(result, UserError):
            return len(str(result)) < 2000
        return all((folder / path).is_file() for path in result["path"])

    @fuzz(20)
    @given(st.sampled_from(tables).flatmap(lambda table: st.tuples(st.just(table), strategies[table])))
    def check(example):
        table, content = example
        (folder / table).write_bytes(content)
        with only_below(tmp_path):
            outcomes.add(f"{table} {content[:300]!r}", read, right)
        (folder / table).write_bytes(whole[table])

    check()
    outcomes.record(record_property)
