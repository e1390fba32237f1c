"""The YAML files of the datasets, and published sizes on indices of the real size."""

import gzip
import hashlib
import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recheck.data import description, sources
from recheck.data.index import BUILT_IN, check, make_index, names_sha256
from recheck.data.splits import check_disjoint, make_split
from recheck.errors import UserError
from recheck.study.yaml import names_in
from support.datasets.miniatures import save_mat
from support.project import ROOT

pytestmark = pytest.mark.slow

PATHS = names_in([ROOT / "config/datasets"])
BENCHMARKS = ("cub200", "cars196", "sop", "inshop", "inat_mini", "inat2018")
# super-category of iNaturalist 2021 → number of species, for training, for testing
SPECIES = {
    "Amphibians": (170, 85, 85),
    "Animalia": (142, 71, 71),
    "Arachnids": (153, 77, 76),
    "Birds": (1486, 743, 743),
    "Fungi": (341, 171, 170),
    "Insects": (2526, 1263, 1263),
    "Mammals": (246, 123, 123),
    "Mollusks": (169, 85, 84),
    "Plants": (4271, 2136, 2135),
    "Ray-finned Fishes": (183, 92, 91),
    "Reptiles": (313, 157, 156),
}


def sizes(images, classes):
    """The number of images per class, as even as possible."""
    return [images // classes + (place < images % classes) for place in range(classes)]


def table(label, super_label="", role=""):
    paths = [f"{number}.jpg" for number in range(len(label))]
    names = [f"class {value}" for value in label]
    return pd.DataFrame({"path": paths, "label": label, "class_name": names, "super_label": super_label, "role": role})


@cache
def full_size(name):
    """An index with as many images and classes as the real one."""
    if name == "cub200":
        return table(np.repeat(np.arange(200), sizes(5864, 100) + sizes(5924, 100)))
    if name == "cars196":
        return table(np.repeat(np.arange(1, 197), sizes(8054, 98) + sizes(8131, 98)))
    if name == "sop":
        labels = np.repeat(np.arange(22634), sizes(59551, 11318) + sizes(60502, 11316))
        return table(labels, role=np.where(labels < 11318, "train", "test"))
    if name == "inshop":
        asked = np.arange(3997, 7982)
        labels = [np.repeat(np.arange(3997), sizes(25882, 3997))]
        labels += [np.repeat(asked, sizes(count, 3985)) for count in (14218, 12612)]
        return table(np.concatenate(labels), role=np.repeat(["train", "query", "gallery"], [25882, 14218, 12612]))
    if name == "inat2018":
        labels = np.repeat(np.arange(8142), sizes(325846, 5690) + sizes(136093, 2452))
        return table(labels, role=np.where(labels < 5690, "train", "test"))
    groups = np.repeat(list(SPECIES), [species for species, _, _ in SPECIES.values()])
    return table(np.repeat(np.arange(10000), 50), super_label=np.repeat(groups, 50))


def expected_of(name):
    return description.load_dataset(name, PATHS, "here").description["expected"]


@pytest.mark.parametrize("name", sorted(PATHS))
def test_every_dataset_is_valid(name):
    dataset = description.load_dataset(name, PATHS, "here")
    assert dataset.parser["parser"] in BUILT_IN


def test_an_unknown_dataset_names_the_nearest():
    with pytest.raises(UserError, match="here: unknown dataset 'emojis'; did you mean 'emoji'"):
        description.load_dataset("emojis", PATHS, "here")


def test_every_kind_of_checksum_is_verified():
    known = {"path": "a.tgz", "size": 1, **dict.fromkeys(sources.CHECKSUMS, "00")}
    dataset = description.Dataset("mine", Path(), {"files": [{**known, "extract": "."}]}, "", "")
    assert dataset.checksums == [known]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_are_read_as_their_authors_did(name):
    options = description.load_dataset(name, PATHS, "here").image_reading
    assert (options["exif"], options["alpha"]) == ("ignore", "drop")


def test_published_sizes_are_in_the_files():
    first = {name: list(expected_of(name)["splits"][0]["images"].values()) for name in BENCHMARKS}
    assert first == {
        "cub200": [5864, 5924],
        "cars196": [8054, 8131],
        "sop": [59551, 60502],
        "inshop": [25882, 14218, 12612],
        "inat_mini": [250150, 249850],
        "inat2018": [325846, 136093],
    }


@pytest.mark.parametrize("name", BENCHMARKS)
def test_published_sizes_come_out_of_the_schemes(name):
    index, expected = full_size(name), expected_of(name)
    for split in expected["splits"]:
        split.pop("sha256", None)
    check(index, expected, name)
    with pytest.raises(UserError, match=r"expected .*: restore the published files, or correct 'expected'"):
        check(index.iloc[1:], {"splits": expected["splits"]}, name)


def test_classes_of_the_official_sop_split():
    index = full_size("sop")
    fold = make_split(index["label"], {"scheme": "official"}, roles=index["role"])["folds"][0]
    assert [index["label"].iloc[fold[role]].nunique() for role in ("train", "test")] == [11318, 11316]
    halves = make_split(index["label"], {"scheme": "class_halves"})["folds"][0]
    assert [index["label"].iloc[halves[role]].nunique() for role in ("train", "test")] == [11317, 11317]


def test_species_of_every_super_category_of_inaturalist():
    index = full_size("inat_mini")
    scheme = {"scheme": "halves_by_super_label", "seed": 0}
    split = make_split(index["label"], scheme, super_labels=index["super_label"])
    check_disjoint(split, index["label"])
    for place, role in ((1, "train"), (2, "test")):
        chosen = index.iloc[split["folds"][0][role]]
        counts = chosen.groupby("super_label")["label"].nunique().to_dict()
        assert counts == {name: numbers[place] for name, numbers in SPECIES.items()}
    # the seed gives the same split on every machine and with every version
    tested = index["label"].iloc[split["folds"][0]["test"]].unique()
    recorded = "29654e9505650553ca1e33542ffa12e23353d81b0ef0299b5fa8fdb1eafd86c1"
    assert hashlib.sha256(",".join(map(str, tested)).encode()).hexdigest() == recorded
    other = make_split(index["label"], {**scheme, "seed": 1}, super_labels=index["super_label"])
    assert other["sha256"] != split["sha256"]


# The lists published with "Contextual Similarity", for users who have them; the repository has only their hashes.

LISTS = {
    "cub200_train": "5926ccd38535d3fac50acb61401c186da82b395ae6470a045caa33393c68edcf",
    "cub200_test": "10d04e1a6c97d7ede49684579d9d15d9285742d81b840f2a018f01d74d2111cf",
    "cars196_train": "97065ab2ae0c9faefe13fd4ffc0ecb5f9e8dc446243d0a3505fb15a4b3378a12",
    "cars196_test": "6e037160dff089febac20e06b3a9bec0bfaaa898649a27f0a732a0f4879a8603",
    "inshop_train": "9813c70d9cca11976d9cb8ba53e3ee44a3b63efe22075728427b85c861c424e7",
    "inshop_query": "a74c06a18c37f4cf5a3596e79ddf1f2ebdf3bd085643290de1e460a70edb9ec4",
    "inshop_gallery": "4dd78963c81781870bb8926d4c7232c532e8247b662a239ad91c69309772f86e",
}
HEADER = "image_id class_id super_class_id path\n"


@pytest.fixture(scope="module")
def lists():
    """The published lists by name, from the folder in RECHECK_SPLITS."""
    folder = os.environ.get("RECHECK_SPLITS")
    if not folder:
        pytest.skip("RECHECK_SPLITS does not name a folder with the published lists (cub200_train.txt.gz, …)")
    result = {}
    for name, known in LISTS.items():
        text = gzip.decompress(Path(folder, f"{name}.txt.gz").read_bytes()).decode()
        assert hashlib.sha256(text.encode()).hexdigest() == known, name
        rows = [line.split() for line in text.removeprefix(HEADER).splitlines()]
        result[name] = pd.DataFrame(rows, columns=HEADER.split()).astype({"image_id": int, "class_id": int})
    return result


def touch(paths):
    """Create empty image files: parsers read only their names; only packing would open them."""
    for folder in {path.parent for path in paths}:
        folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        path.touch()


def list_text(rows, image_ids):
    """A list in its published format."""
    lines = zip(image_ids, rows["class_id"], rows["path"], strict=True)
    return HEADER + "".join(f"{image} {label} 1 {path}\n" for image, label, path in lines)


def compare(name, rows, image_ids):
    assert hashlib.sha256(list_text(rows, image_ids).encode()).hexdigest() == LISTS[name], name


def test_cub200_is_split_as_published(lists, tmp_path):
    listed = pd.concat([lists["cub200_train"], lists["cub200_test"]], ignore_index=True)
    home = tmp_path / "CUB_200_2011"
    paths = listed["path"].str.removeprefix("images/")
    touch([home / "images" / path for path in paths])
    names = paths.str.split("/").str[0].unique()
    for file, rows in (
        ("images.txt", enumerate(paths, start=1)),
        ("image_class_labels.txt", enumerate(listed["class_id"], start=1)),
        ("classes.txt", enumerate(names, start=1)),
    ):
        (home / file).write_text("".join(f"{number} {value}\n" for number, value in rows))
    # the checks of the shipped YAML, including the hashes of the published lists
    index = make_index(description.load_dataset("cub200", PATHS, "here").parser, tmp_path, tmp_path)
    rows = index.assign(class_id=index["label"] + 1, path=index["path"].str.removeprefix("CUB_200_2011/"))
    for role, images in make_split(index["label"], {"scheme": "class_halves"})["folds"][0].items():
        compare(f"cub200_{role}", rows.iloc[images], range(len(images)))


def test_cars196_is_split_as_published(lists, tmp_path):
    listed = pd.concat([lists["cars196_train"], lists["cars196_test"]], ignore_index=True).sort_values("path")
    touch([tmp_path / path for path in listed["path"]])
    records = [(path, 1, 1, 2, 2, label, 0) for path, label in zip(listed["path"], listed["class_id"], strict=True)]
    fields = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
    save_mat(tmp_path / "cars_annos.mat", fields, records, class_names=[f"car {label}" for label in range(1, 197)])
    dataset = {**description.load_dataset("cars196", PATHS, "here").parser, "options": {}}
    index = make_index(dataset, tmp_path, tmp_path)
    rows = index.assign(class_id=index["label"])
    for role, images in make_split(index["label"], {"scheme": "class_halves"})["folds"][0].items():
        # our order is by class and content, so it is the same for every form of the dataset
        compare(f"cars196_{role}", rows.iloc[images].sort_values("path"), range(len(images)))


def test_inshop_is_split_as_published(lists, tmp_path):
    roles = ("train", "query", "gallery")
    listed = pd.concat([lists[f"inshop_{role}"].assign(role=role) for role in roles]).sort_values("image_id")
    touch([tmp_path / path for path in listed["path"]])
    rows = zip(listed["path"], listed["path"].str.split("/").str[-2], listed["role"], strict=True)
    (tmp_path / "list_eval_partition.txt").write_text(
        f"{len(listed)}\nimage_name item_id evaluation_status\n"
        + "".join(f"{path:<80} {item} {role}\n" for path, item, role in rows)
    )
    index = make_index(description.load_dataset("inshop", PATHS, "here").parser, tmp_path, tmp_path)
    rows = index.assign(class_id=index["label"])
    split = make_split(index["label"], {"scheme": "official"}, roles=index["role"])
    for role, images in split["folds"][0].items():
        compare(f"inshop_{role}", rows.iloc[images], images)


def test_hashes_in_the_files_are_those_of_the_lists(lists):
    for name, less in (("cub200", 1), ("inshop", 0)):
        for role, known in expected_of(name)["splits"][0]["sha256"].items():
            rows = lists[f"{name}_{role}"]
            assert names_sha256(rows.assign(label=rows["class_id"] - less)) == known
