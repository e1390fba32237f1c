"""The parsers of the benchmark datasets, on miniatures with the official layout, intact and damaged."""

import hashlib
import json
import os
import random
import re
import shutil
import signal

import numpy as np
import pandas as pd
import pytest
import scipy.io
from PIL import Image

from recheck.data import cars196
from recheck.data.index import COLUMNS, make_index, names_sha256, read_index, write_index
from recheck.data.packed import PackedImages, pack
from recheck.data.splits import make_split
from recheck.errors import UserError
from recheck.files import sha256
from support.datasets import miniatures
from support.datasets.miniatures import picture, write

PARSERS = {
    "cub200": "cub200",
    "cars196_original": "cars196",
    "cars196_devkit": "cars196",
    "cars196_class_folders": "cars196",
    "sop": "sop",
    "inshop": "inshop",
    "inat_mini": "inaturalist",
    "inat2018": "inaturalist2018",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    return {form: getattr(miniatures, f"make_{form}")(folder / form) for form in PARSERS}


@pytest.fixture(autouse=True)
def tables_are_read_here(request, monkeypatch):
    """A process for every table of Cars196 would take most of the time; two tests read them as users do."""
    if request.function not in (test_all_forms_of_cars196_give_the_same_index, test_a_table_that_crashes_the_reader):
        monkeypatch.setattr(cars196, "isolated", lambda function, *arguments: function(*arguments))


@pytest.fixture
def tree(made, tmp_path):
    """A copy of a miniature that may be damaged."""

    def copy(form):
        return shutil.copytree(made[form], tmp_path / form)

    return copy


def parse(form, folder, downloads=None, **keys):
    dataset = {"name": form, "parser": PARSERS[form], **keys}
    return make_index(dataset, downloads or folder, folder)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("form", PARSERS)
def test_every_image_exists_and_the_file_round_trips(made, tmp_path, form):
    index = parse(form, made[form])
    assert all((made[form] / path).is_file() for path in index["path"])
    write_index(tmp_path / "images.csv", index)
    assert read_index(tmp_path / "images.csv").to_dict("list") == index.to_dict("list")
    assert list(index.columns) == COLUMNS


def test_cub200(made):
    index = parse("cub200", made["cub200"], expected={"images": 12, "classes": 4})
    assert index["label"].tolist() == np.repeat(range(4), 3).tolist()
    assert index["class_name"].unique().tolist() == sorted(index["class_name"].unique())
    assert index["path"].iloc[0] == (
        "CUB_200_2011/images/001.Black_footed_Albatross/Black_footed_Albatross_0002_102.jpg"
    ), "the order of images.txt, not of the names"
    assert (index["role"] == "").all() and (index["super_label"] == "").all()


def test_a_tree_that_the_user_has_unpacked(made):
    """`root` may be the archive's top folder."""
    index = parse("cub200", made["cub200"] / "CUB_200_2011")
    assert index["path"].iloc[0].startswith("images/001.Black_footed_Albatross/")
    index = parse("sop", made["sop"] / "Stanford_Online_Products")
    assert index["path"].iloc[0] == "bicycle_final/111085122801_0.JPG"


def test_sop(made):
    index = parse("sop", made["sop"], expected={"splits": [{"scheme": "official", "images": {"train": 10, "test": 8}}]})
    assert index["label"].tolist() == np.repeat(range(9), 2).tolist(), "class_id − 1, training first"
    assert index["role"].tolist() == ["train"] * 10 + ["test"] * 8
    assert index["super_label"].unique().tolist() == ["bicycle", "coffee_maker"]
    assert index["class_name"].iloc[2] == "coffee_maker 2"


def test_inshop(made):
    index = parse("inshop", made["inshop"])
    assert index["label"].tolist() == np.repeat(range(5), 4).tolist(), "in the order of first appearance"
    assert index["class_name"].unique().tolist() == [f"id_{item:08d}" for item in (2, 5, 9, 1, 7)]
    assert index["role"].value_counts().to_dict() == {"train": 12, "gallery": 4, "query": 4}
    assert index["super_label"].iloc[4] == "MEN/Denim"


def test_inshop_in_the_folders_of_the_authors_drive(tree):
    folder = tree("inshop")
    (folder / "Img").mkdir()
    (folder / "img").rename(folder / "Img" / "img")
    (folder / "Eval").mkdir()
    (folder / "list_eval_partition.txt").rename(folder / "Eval" / "list_eval_partition.txt")
    index = parse("inshop", folder, downloads=folder / "nothing")
    assert index["path"].iloc[0] == "Img/img/WOMEN/Dresses/id_00000002/02_1_front.jpg"


def test_inaturalist(made):
    index = parse("inat_mini", made["inat_mini"])
    assert index["label"].tolist() == np.repeat(range(5), 3).tolist(), "the number of the folder; sorted by path"
    assert index["super_label"].tolist() == ["Birds"] * 9 + ["Fungi"] * 6
    assert index["class_name"].unique().tolist()[:2] == ["Bubo bubo", "Pica pica"]


def test_inaturalist_2018(made):
    sizes = [{"scheme": "official", "images": {"train": 6, "test": 4}}]
    index = parse("inat2018", made["inat2018"], expected={"images": 10, "classes": 5, "splits": sizes})
    assert index["label"].tolist() == np.repeat([7477, 3013, 3014, 5605, 5606], 2).tolist(), "training first"
    assert index["role"].tolist() == ["train"] * 6 + ["test"] * 4
    assert index["super_label"].iloc[[0, 2, 6]].tolist() == ["Plantae", "Aves", "Fungi"]
    assert index["class_name"].iloc[0] == "Plantae 7477"


@pytest.mark.parametrize("form", ["cub200", "sop", "inshop", "inat_mini", "inat2018"])
def test_a_byte_order_mark_changes_nothing(tree, made, form):
    folder = tree(form)
    for path in [*folder.rglob("*.txt"), *folder.rglob("*.json")]:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert parse(form, folder).to_dict("list") == parse(form, made[form]).to_dict("list")


def test_exchanged_classes_of_sop_are_noticed(tree, caplog):
    """The names can't tell which class has which number, but the order can."""
    folder = tree("sop")
    path = folder / "Stanford_Online_Products" / "Ebay_train.txt"
    parse("sop", folder)
    assert not caplog.text
    text = path.read_text()
    for old, new in ((" 1 1 ", " x 1 "), (" 3 1 ", " 1 1 "), (" x 1 ", " 3 1 ")):
        text = text.replace(old, new)
    path.write_text(text)
    parse("sop", folder)
    assert "Ebay_train.txt: classes are not in the order of their numbers" in caplog.text


@pytest.mark.parametrize("name", ["a\udce9.jpg", "caf\udcc3/a.jpg"])
@pytest.mark.parametrize("form", PARSERS)
def test_names_that_are_not_utf8(tree, form, name):
    folder = tree(form)
    photo = next(path for path in sorted(folder.rglob("*")) if path.suffix.lower() == ".jpg")
    (photo.parent / name).parent.mkdir(exist_ok=True)
    (photo.parent / name).write_bytes(b"")
    with pytest.raises(UserError, match=r"\\x[ec]\d.* has a name that is not UTF-8: rename it") as raised:
        parse(form, folder)
    str(raised.value).encode()


@pytest.mark.parametrize("form", PARSERS)
def test_a_tree_that_is_too_deep(tree, form):
    folder = tree(form)
    photo = next(path for path in sorted(folder.rglob("*")) if path.suffix.lower() == ".jpg")
    deep = photo.parent
    for _ in range(70):
        deep /= "a"
        deep.mkdir()
    with pytest.raises(UserError, match="has folders more than 64 levels deep: move its files up"):
        parse(form, folder)


@pytest.mark.parametrize("value", [1.5, "one", 0, -1, 1e300, 2.0**63, float("nan"), float("inf"), [1, 2]])
def test_classes_of_cars196_are_whole_numbers(tree, value):
    folder = tree("cars196_original")
    content = scipy.io.loadmat(folder / "cars_annos.mat")
    content["annotations"]["class"][0, 3] = value if isinstance(value, str) else np.array([[value]])
    scipy.io.savemat(folder / "cars_annos.mat", {key: content[key] for key in ("annotations", "class_names")})
    with pytest.raises(
        UserError, match=r"cars_annos.mat has the class .*, expected a whole number of at least 1: replace it"
    ):
        parse("cars196_original", folder)
    content["annotations"]["class"][0, 3] = np.array([[1.0]])
    scipy.io.savemat(folder / "cars_annos.mat", {key: content[key] for key in ("annotations", "class_names")})
    parse("cars196_original", folder)


@pytest.mark.parametrize(
    ("annotations", "sentence"),
    [
        (5, "do not match|No table lists the images|must be named after"),
        ("text", "do not match|No table lists the images|must be named after"),
        (
            np.zeros((1, 0), [("relative_im_path", object), ("class", object)]),
            "cars_annos.mat lists no images: replace",
        ),
        (np.zeros((1, 0), [("fname", object)]), "cars_annos.mat lists no images: replace"),
    ],
)
def test_unusable_tables_of_cars196(tree, annotations, sentence):
    folder = tree("cars196_original")
    scipy.io.savemat(folder / "cars_annos.mat", {"annotations": annotations})
    with pytest.raises(UserError, match=sentence):
        parse("cars196_original", folder)


@pytest.mark.parametrize("name", ["../out/00000_a/1.jpg", "/out/00000_a/1.jpg"])
def test_images_of_inaturalist_outside_of_its_folder(tree, name):
    """An image that exists elsewhere must not enter the index."""
    folder = tree("inat_mini")
    content = json.loads((folder / "train_mini.json").read_text())
    content["images"].append({"id": 99, "file_name": name})
    content["annotations"].append({"id": 99, "image_id": 99, "category_id": 0})
    (folder / "train_mini.json").write_text(json.dumps(content))
    write(folder.parent / "out" / "00000_a" / "1.jpg", picture(1))
    with pytest.raises(UserError, match=f"lists {re.escape(name)}, which is outside of "):
        parse("inat_mini", folder)


# Cars196: images have the same numbers in every form


def content(folder, index):
    return [(sha256(folder / path), label, name) for path, label, name in index[COLUMNS[:3]].itertuples(index=False)]


def test_all_forms_of_cars196_give_the_same_index(made, tmp_path):
    forms = [form for form in PARSERS if form.startswith("cars196")]
    indices = {form: parse(form, made[form]) for form in forms}
    contents = [content(made[form], indices[form]) for form in forms]
    assert contents[0] == contents[1] == contents[2]
    labels = {sha: label for sha, label, _ in contents[0]}
    for label, data in miniatures.cars():
        write(tmp_path / "one.jpg", data)
        assert labels[sha256(tmp_path / "one.jpg")] == label
    assert sorted(set(labels.values())) == [1, 2, 3, 4]
    packs = [pack(indices[form], made[form], None, tmp_path / form, index_sha256="0") for form in forms]
    assert len({about["sha256"] for about in packs}) == 1, "so every number computed from them is the same"
    splits = [make_split(indices[form]["label"], {"scheme": "class_halves"}) for form in forms]
    assert splits[0] == splits[1] == splits[2]


def renamed(folder, form):
    """Like mirrors, with other file names, other folders and other leading zeros."""
    if form == "cars196_original":
        (folder / "cars_annos.mat").rename(folder / "labels (1).mat")
        target = folder / "Stanford Cars" / "all"
        target.mkdir(parents=True)
        for path in sorted((folder / "car_ims").iterdir()):
            path.rename(target / f"{int(path.stem)}.JPG")
    else:
        (folder / "cars_test_annos_withlabels.mat").rename(folder / "b.mat")
        (folder / "devkit/cars_train_annos.mat").rename(folder / "a.mat")
        for role, name in (("train", "x"), ("test", "y")):
            (folder / name).mkdir()
            (folder / f"cars_{role}").rename(folder / name / name)
    return folder


@pytest.mark.parametrize("form", ["cars196_original", "cars196_devkit"])
def test_renamed_files_of_cars196_are_recognised_by_content(made, tree, form):
    folder = renamed(tree(form), form)
    assert content(folder, parse(form, folder)) == content(made[form], parse(form, made[form]))


def test_known_images_of_cars196(made, tree):
    first = (made["cars196_original"] / "car_ims/000001.jpg").read_bytes()
    known = {"known_images": {"car_ims/000001.jpg": hashlib.md5(first, usedforsecurity=False).hexdigest()}}
    parse("cars196_original", made["cars196_original"], options=known)
    folder = tree("cars196_original")
    names = sorted((folder / "car_ims").iterdir())
    contents = [path.read_bytes() for path in names]
    random.Random(0).shuffle(contents)
    for path, data in zip(names, contents, strict=True):
        path.write_bytes(data)
    with pytest.raises(UserError, match=r"000001.jpg is not the image that .*cars_annos.mat calls .* renumbered"):
        parse("cars196_original", folder, options=known)


def test_cars196_with_images_and_tables_of_different_forms(tree):
    """As after adding cars_annos.mat to a mirror's cars_train and cars_test."""
    folder = tree("cars196_devkit")
    shutil.rmtree(folder / "devkit")
    (folder / "cars_test_annos_withlabels.mat").unlink()
    shutil.copy(tree("cars196_original") / "cars_annos.mat", folder)
    with pytest.raises(
        UserError, match=r"cars_test/00001.jpg\) do not match those listed in .*cars_annos.mat .*same form"
    ):
        parse("cars196_devkit", folder)


@pytest.mark.parametrize(
    ("form", "damage", "sentence"),
    [
        (
            "cars196_original",
            lambda f: (f / "cars_annos.mat").unlink(),
            "No table lists the images .* add cars_annos.mat",
        ),
        (
            "cars196_devkit",
            lambda f: (f / "cars_test_annos_withlabels.mat").unlink(),
            r"cars_test_annos.mat has no classes.*put cars_test_annos_withlabels.mat beside it",
        ),
        (
            "cars196_devkit",
            lambda f: shutil.rmtree(f / "cars_test"),
            r"No folder below .* contains the 11 images .*withl",
        ),
        (
            "cars196_devkit",
            lambda f: shutil.rmtree(f / "cars_train"),
            r"No folder below .* contains the 13 images .*train_a",
        ),
        ("cars196_original", lambda f: shutil.rmtree(f / "car_ims"), "cars196_original contains no images"),
        (
            "cars196_original",
            lambda f: (f / "car_ims/000003.jpg").unlink(),
            r"cars_annos.mat lists 1 image missing from .*car_ims: 000003.jpg",
        ),
        (
            "cars196_devkit",
            lambda f: write(f / "cars_test/00099.jpg", picture(1)),
            r"cars_test has 1 image without a label in .*withlabels.mat: 00099.jpg",
        ),
        (
            "cars196_original",
            lambda f: shutil.copy(f / "car_ims/000003.jpg", f / "car_ims/3.jpg"),
            "3.jpg and car_ims/000003.jpg have the same image number",
        ),
        ("cars196_original", lambda f: write(f / "cars_annos.mat", b"<html>"), "is not a readable MATLAB file"),
        (
            "cars196_class_folders",
            lambda f: write(f / "car_data/test/Trabant 601/1.jpg", picture(1)),
            "must be named after one of the 4 classes, found car_data/test/Trabant 601",
        ),
    ],
)
def test_cars196_that_is_damaged(tree, form, damage, sentence):
    folder = tree(form)
    damage(folder)
    with pytest.raises(UserError, match=sentence) as raised:
        parse(form, folder)
    assert "\n" not in str(raised.value)


HERE = os.getpid()


def crash(file):
    assert os.getpid() != HERE, "the table is read in the process of the job"
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_table_that_crashes_the_reader(made, monkeypatch):
    monkeypatch.setattr(cars196, "_known_variables", crash)
    with pytest.raises(UserError, match=r"cars_annos.mat is not a readable MATLAB file \(reading it crashed\)"):
        parse("cars196_original", made["cars196_original"])


def test_a_table_of_cars196_that_repeats_an_image(tree):
    folder = tree("cars196_original")
    rows = [("car_ims/000001.jpg", 1, 1, 2, 2, 1, 0)] * 2 + [
        (f"car_ims/{number:06d}.jpg", 1, 1, 2, 2, 1, 0) for number in range(2, 25)
    ]
    fields = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
    miniatures.save_mat(folder / "cars_annos.mat", fields, rows, class_names=miniatures.CARS)
    with pytest.raises(UserError, match=r"cars_annos.mat lists 1 image more than once: 000001.jpg"):
        parse("cars196_original", folder)
    rows[0] = ("car_ims/000001.jpg", 1, 1, 2, 2, 5, 0)
    miniatures.save_mat(folder / "cars_annos.mat", fields, [rows[0], *rows[2:]], class_names=miniatures.CARS)
    with pytest.raises(UserError, match="has class 5, but only 4 classes have a name"):
        parse("cars196_original", folder)


# Damage to the other datasets

CUB, SOP = "CUB_200_2011", "Stanford_Online_Products"
OWL = "train_mini/00000_Animalia_Chordata_Aves_Strigiformes_Strigidae_Bubo_bubo"
LISTS = "Inat_dataset_splits"


def change_json(path, change):
    tables = json.loads(path.read_text())
    change(tables)
    path.write_text(json.dumps(tables))


@pytest.mark.parametrize(
    ("form", "damage", "sentence"),
    [
        # an annotation file is missing
        (
            "cub200",
            lambda f: (f / CUB / "image_class_labels.txt").unlink(),
            "file image_class_labels.txt of dataset 'cub200' is",
        ),
        ("cub200", lambda f: shutil.rmtree(f / CUB), r"images.txt of dataset 'cub200' is missing from .*/CUB_200_2011"),
        ("sop", lambda f: (f / SOP / "Ebay_test.txt").unlink(), "file Ebay_test.txt of dataset 'sop' is missing"),
        (
            "inshop",
            lambda f: (f / "list_eval_partition.txt").unlink(),
            r"list_eval_partition.txt of dataset 'inshop' is missing",
        ),
        ("inat_mini", lambda f: (f / "train_mini.json").unlink(), "train_mini.json of dataset 'inat_mini' is missing"),
        (
            "inat2018",
            lambda f: (f / LISTS / "Inaturalist_test_set1.txt").unlink(),
            "Inaturalist_test_set1.txt of dataset 'inat2018' is missing",
        ),
        # a label without an image
        (
            "cub200",
            lambda f: next((f / CUB / "images").glob("002.*/*_0001_201.jpg")).unlink(),
            r"images.txt lists 1 image missing from .*/images: 002.Laysan_Albatross/Laysan_Albatross_0001_201.jpg",
        ),
        ("sop", lambda f: shutil.rmtree(f / SOP / "bicycle_final"), r"lists 10 images missing from .* and 5 more"),
        (
            "inshop",
            lambda f: (f / "img/MEN/Denim/id_00000005/02_2_side.jpg").unlink(),
            "lists 1 image missing from .*02_2_side",
        ),
        ("inat_mini", lambda f: shutil.rmtree(f / OWL), "lists 3 images missing from .*Bubo_bubo"),
        ("inat2018", lambda f: shutil.rmtree(f / "train_val2018/Fungi"), "lists 2 images missing from .*Fungi/5605"),
        # an image without a label
        (
            "cub200",
            lambda f: write(f / CUB / "images/002.Laysan_Albatross/my_own.jpg", picture(1)),
            r"images has 1 image without a label in .*images.txt: 002.Laysan_Albatross/my_own.jpg; remove .*unlisted",
        ),
        ("sop", lambda f: write(f / SOP / "bicycle_final/1_0.JPG", picture(1)), "1 image without a label .*1_0.JPG"),
        ("inshop", lambda f: write(f / "img/MEN/x.jpg", picture(1)), "1 image without a label .* img/MEN/x.jpg"),
        ("inat_mini", lambda f: write(f / OWL / "x.jpg", picture(1)), "1 image without a label .*Bubo_bubo/x.jpg"),
        ("inat2018", lambda f: write(f / "train_val2018/Fungi/5605/x.jpg", picture(1)), "1 image without .*5605/x.jpg"),
        # duplicates
        ("cub200", lambda f: edit(f / CUB / "images.txt", "\n2 ", "\n1 "), "column image_id repeats 1 value: 1"),
        (
            "cub200",
            lambda f: edit(f / CUB / "images.txt", "Albatross_0001_101.jpg", "Albatross_0002_102.jpg"),
            "images.txt lists 1 image more than once: 001.Black_footed_Albatross/Black_footed_Albatross_0002_102.jpg",
        ),
        ("sop", lambda f: edit(f / SOP / "Ebay_test.txt", "06_0", "06_1"), "lists 1 image more than once: .*06_1.JPG"),
        (
            "inshop",
            lambda f: edit(f / "list_eval_partition.txt", "id_00000002/02_2_side", "id_00000002/02_1_front"),
            "lists 1 image more than once: .*02_1_front",
        ),
        (
            "inat_mini",
            lambda f: change_json(f / "train_mini.json", lambda tables: tables["images"].append(tables["images"][0])),
            "column id repeats 1 value",
        ),
        # tables that contradict each other
        (
            "cub200",
            lambda f: edit(f / CUB / "image_class_labels.txt", "\n3 1\n", "\n"),
            r"image_class_labels.txt does not list image 3 of .*images.txt",
        ),
        (
            "cub200",
            lambda f: edit(f / CUB / "images.txt", "\n3 ", "\n33 "),
            "labels.txt does not list image 33 of .*images.txt",
        ),
        (
            "cub200",
            lambda f: edit(f / CUB / "image_class_labels.txt", "\n3 1\n", "\n3 9\n"),
            "classes.txt does not list class 9 of .*image_class_labels.txt",
        ),
        (
            "cub200",
            lambda f: edit(f / CUB / "image_class_labels.txt", "\n3 1\n", "\n3 2\n"),
            "the annotation files do not match",
        ),
        (
            "cub200",
            lambda f: edit(f / CUB / "image_class_labels.txt", "\n3 1\n", "\n3\n"),
            "line 3 is '3', expected 2 fields",
        ),
        (
            "cub200",
            lambda f: edit(f / CUB / "classes.txt", "1 001.Black", "1 009.Black"),
            "in the order of their names",
        ),
        ("cub200", lambda f: write(f / CUB / "classes.txt", b"\xff\xfe\x80"), r"classes.txt is damaged \(not a text"),
        ("cub200", lambda f: write(f / CUB / "classes.txt", "\n"), r"classes.txt is damaged \(it has no rows"),
        (
            "sop",
            lambda f: edit(f / SOP / "Ebay_train.txt", "1 1 1 ", "1 one 1 "),
            "column class_id has 'one', expected a whole number",
        ),
        (
            "sop",
            lambda f: edit(f / SOP / "Ebay_train.txt", "1 1 1 ", "1 1 4 "),
            "folder bicycle does not match super_cl",
        ),
        (
            "sop",
            lambda f: edit(f / SOP / "Ebay_train.txt", "\n2 1 1 ", "\n2 3 1 "),
            "01_1.JPG has class_id 3, another photo of the same item has 1",
        ),
        (
            "sop",
            lambda f: edit(f / SOP / "Ebay_train.txt", "1 1 1 ", "1 0 1 "),
            "class_id 0, but classes are numbered from 1",
        ),
        (
            "inshop",
            lambda f: edit(f / "list_eval_partition.txt", " id_00000002 ", " id_00000005 "),
            "02_1_front.jpg the item id_00000005, which is not the name of its folder",
        ),
        (
            "inshop",
            lambda f: edit(f / "list_eval_partition.txt", "20\n", "21\n"),
            "20 rows, but its first line says 21",
        ),
        (
            "inshop",
            lambda f: edit(f / "list_eval_partition.txt", " query", " qery"),
            "role 'qery' of .*, expected one of train, query, gallery",
        ),
        (
            "inshop",
            lambda f: (f / "img").rename(f / "img_highres"),
            r"the images of img.zip \(256 pixels\): unpack img.zip inst",
        ),
        ("inshop", lambda f: shutil.rmtree(f / "img"), "Folder img of In-Shop is missing below"),
        (
            "inat2018",
            lambda f: edit(f / LISTS / "Inaturalist_train_set1.txt", "/Aves/", "/../"),
            r"it lists 'train_val2018/\.\./3013/.*', expected train_val2018/<group>/<species>/<image>",
        ),
        ("inat_mini", lambda f: write(f / "train_mini.json", "{"), "is not iNaturalist's list of images"),
        ("inat_mini", lambda f: write(f / "train_mini.json", '{"images": []}'), "is not iNaturalist's list of images"),
        (
            "inat_mini",
            lambda f: change_json(f / "train_mini.json", lambda tables: tables["annotations"].pop()),
            r"image ids without an annotation \(1\): 42",
        ),
        (
            "inat_mini",
            lambda f: change_json(f / "train_mini.json", lambda tables: tables["annotations"][0].update(category_id=3)),
            "the category 3, which is not the number of its folder",
        ),
        (
            "inat_mini",
            lambda f: change_json(f / "train_mini.json", lambda tables: tables["categories"].pop(0)),
            r"has 3 images of an undefined category \(0\)",
        ),
    ],
)
def test_inconsistent_data_gives_one_line_with_names(tree, form, damage, sentence):
    folder = tree(form)
    damage(folder)
    with pytest.raises(UserError, match=sentence) as raised:
        parse(form, folder)
    assert "\n" not in str(raised.value)


def test_images_without_a_label_may_be_ignored(tree):
    folder = tree("inshop")
    write(folder / "img/MEN/x.jpg", picture(1))
    assert len(parse("inshop", folder, options={"unlisted": "ignore"})) == 20
    with pytest.raises(UserError, match=r"'options.unlisted' .* is 'ignor'; did you mean 'ignore'"):
        parse("inshop", folder, options={"unlisted": "ignor"})


@pytest.mark.parametrize(
    ("splits", "sentence"),
    [
        (
            [{"scheme": "official", "images": {"train": 10, "test": 9}}],
            "The index of 'sop', split by official, has train 10, test 8 images in fold 0, expected train 10, test 9:",
        ),
        ([{"scheme": "official", "images": {"train": 10}}], "expected train 10: restore the published"),
        (
            [{"scheme": "official", "images": {"train": 10, "test": 8}, "sha256": {"test": "0" * 64}}],
            "differs from the published list of 'test' images and labels",
        ),
    ],
)
def test_splits_that_differ_from_published_sizes_are_refused(made, splits, sentence):
    with pytest.raises(UserError, match=sentence):
        parse("sop", made["sop"], expected={"splits": splits})


def test_a_published_list_is_the_same_in_any_order_and_folder(made):
    index = parse("sop", made["sop"])
    test = index[index["role"] == "test"]
    moved = test.assign(path="elsewhere/" + test["path"]).iloc[::-1]
    assert names_sha256(moved) == names_sha256(test)
    assert names_sha256(test.assign(label=test["label"] + 1)) != names_sha256(test)
    expected = {"scheme": "official", "images": {"train": 10, "test": 8}, "sha256": {"test": names_sha256(test)}}
    parse("sop", made["sop"], expected={"splits": [expected]})


def test_archives_hold_the_trees(made, tmp_path):
    """The archives used by the tests of downloads and extraction."""
    for form in miniatures.ARCHIVES:
        for path in miniatures.make_archives(form, made[form], tmp_path / form):
            assert path.stat().st_size > 100
            if path.suffix in (".tgz", ".gz", ".zip"):
                shutil.unpack_archive(path, tmp_path / "unpacked" / form)
        files = pd.Series(sorted(p.relative_to(made[form]).as_posix() for p in made[form].rglob("*") if p.is_file()))
        loose = [name for name, members in miniatures.ARCHIVES[form].items() if members == [name]]
        assert all((tmp_path / "unpacked" / form / name).is_file() for name in files[~files.isin(loose)])


def test_packed_images_of_a_benchmark_equal_pillows(made, tmp_path):
    """Including grey images."""
    index = parse("cub200", made["cub200"])
    pack(index, made["cub200"], {"shorter": 8}, tmp_path / "packed", "0", reading={"exif": "ignore", "alpha": "drop"})
    packed = PackedImages(tmp_path / "packed")
    modes = set()
    for number, path in enumerate(index["path"]):
        image = Image.open(made["cub200"] / path)
        modes.add(image.mode)
        expected = image.convert("RGB").resize((10, 8), Image.Resampling.BILINEAR)
        assert np.array_equal(packed.image(number), np.asarray(expected))
    assert modes == {"RGB", "L"}
