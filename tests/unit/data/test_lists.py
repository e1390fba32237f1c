"""Published lists of images: verified by their Git id, compared with the index, and optional."""

import hashlib
import subprocess

import pandas as pd
import pytest

from recheck.data.description import dropped_texts, load_dataset
from recheck.data.lists import fetch_lists, read_roles
from recheck.data.sources import digests
from recheck.data.splits import make_split
from recheck.errors import UserError
from recheck.files import write_json
from recheck.study.yaml import names_in
from support.project import ROOT
from support.services.servers import patient, serving

QUICK = patient(waits=(0.01,), longest=0.05)
PATHS = [f"train_mini/{label:05d}_Aves_{label}/{number}.jpg" for label in range(4) for number in range(2)]
INDEX = pd.DataFrame({"path": PATHS, "label": [0, 0, 1, 1, 2, 2, 3, 3], "super_label": "Birds"})
ROLES = ["test", "test", "train", "train", "train", "train", "test", "test"]


def blob(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def listed(role):
    """A list in the format of the authors' program: paths below the folder of the images, in any order."""
    rows = [
        f"{path.removeprefix('train_mini/')},0,{label}\n"
        for path, label, role_of_path in zip(PATHS, INDEX["label"], ROLES, strict=True)
        if role_of_path == role
    ]
    return "".join(reversed(rows)).encode()


def lists(**sources):
    return {
        role: {"path": f"{role}.txt", "git_blob": blob(listed(role)), "from": sources.get(role, [{"manual": "ask"}])}
        for role in ("train", "test")
    }


def test_a_git_blob_is_the_id_that_git_gives(tmp_path):
    (tmp_path / "a").write_bytes(b"abc\n" * 1000)
    by_git = subprocess.run(["git", "hash-object", "a"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert digests(tmp_path / "a", ["git_blob"]) == {"git_blob": by_git.stdout.strip()}


def test_lists_are_downloaded_and_dropped_ones_come_first(tmp_path):
    drop = tmp_path / "drop"
    drop.mkdir()
    (drop / "renamed.txt").write_bytes(listed("test"))
    with serving() as server:
        url = server.give("/train.txt", listed("train"))
        made = fetch_lists(lists(train=[{"url": url}]), tmp_path / "downloads", str(drop), QUICK)
    assert made == {"available": True, "files": {"train": "train.txt", "test": "test.txt"}}
    write_json(tmp_path / "lists.json", made)
    roles = read_roles(tmp_path / "lists.json", INDEX)
    assert roles == ROLES
    split = make_split(INDEX["label"], {"scheme": "lists_or_halves", "seed": 0}, None, INDEX["super_label"], roles)
    assert split["folds"] == [{"train": [2, 3, 4, 5], "test": [0, 1, 6, 7]}]


@pytest.mark.parametrize("content", [b"", b"another file"])
def test_without_the_right_lists_the_split_is_generated(tmp_path, content, caplog):
    with serving() as server:
        sources = {role: [{"url": server.give(f"/{role}.txt", content)}] for role in ("train", "test")}
        made = fetch_lists(lists(**sources), tmp_path / "downloads", str(tmp_path / "drop"), QUICK)
    assert made["available"] is False and "train.txt could not be downloaded" in made["reason"]
    assert "Until then, the split is generated." in caplog.text
    write_json(tmp_path / "lists.json", made)
    assert read_roles(tmp_path / "lists.json", INDEX) is None
    columns = (None, INDEX["super_label"], [""] * 8)
    generated, seeded = (
        make_split(INDEX["label"], {"scheme": name, "seed": 0}, *columns)["folds"]
        for name in ("lists_or_halves", "halves_by_super_label")
    )
    assert generated == seeded


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text.replace(",0,1\n", ",0,7\n", 1), "give class 7 to the image 'train_mini/00001"),
        (lambda text: text.split("\n", 1)[1], "do not have the image 'train_mini/00002"),
        (lambda text: text + "x/y.jpg,0,1\n", "have 1 images that the dataset does not have, such as x/y.jpg"),
        (lambda text: text + text, "', which is already listed: "),
        (lambda text: text + "a,b\n", "line 5 has 2 fields, expected 3"),
        (lambda text: text + "\udcff", "cannot be read"),
    ],
)
def test_lists_of_other_images_are_refused(tmp_path, change, sentence):
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    (downloads / "train.txt").write_bytes(change(listed("train").decode()).encode(errors="surrogateescape"))
    (downloads / "test.txt").write_bytes(listed("test"))
    files = {"train": "train.txt", "test": "test.txt"}
    write_json(tmp_path / "lists.json", {"available": True, "files": files})
    with pytest.raises(UserError) as caught:
        read_roles(tmp_path / "lists.json", INDEX)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("record", [[], {}, {"available": True}, {"available": True, "files": "train.txt"}])
def test_a_record_that_names_no_lists_is_refused(tmp_path, record):
    write_json(tmp_path / "lists.json", record)
    with pytest.raises(UserError, match=r"lists\.json does not name the published lists: delete it and run again"):
        read_roles(tmp_path / "lists.json", INDEX)


def test_the_authors_lists_of_inaturalist_are_described(tmp_path):
    dataset = load_dataset("inat_mini", names_in([ROOT / "config/datasets"]), "here", str(tmp_path))
    assert [entry["git_blob"][:8] for entry in dataset.split_lists] == ["e411c0a4", "55d555cc"]
    for entry in dataset.description["split_lists"].values():
        assert "/8433dcb67c2205c0e30ec07ed1e5b2fb92da016d/data/" in entry["from"][0]["url"]
    assert dropped_texts(str(tmp_path / "drop")) == []
