"""The index: parsers, checks and file."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recheck.data import description
from recheck.data.index import COLUMNS, check, make_index, read_index, read_labels, write_index
from recheck.errors import UserError
from support.datasets.glyphs import make_glyphs


def table(**changes):
    columns = {
        "path": ["a/1.png", "a/2.png", "b/1.png"],
        "label": [0, 0, 1],
        "class_name": ["a", "a", "b"],
        "super_label": ["", "", ""],
        "role": ["", "", ""],
    }
    return pd.DataFrame(columns | changes)


def test_a_folder_of_class_folders(tmp_path):
    images = make_glyphs(tmp_path / "images", classes=3, per_class=2)
    (images / "A" / "notes.txt").write_text("not an image")
    (images / "A" / ".hidden.png").write_bytes(b"")
    (images / "A" / "deeper").mkdir()
    (images / "A" / "deeper" / "x.png").write_bytes(b"")
    (images / ".git").mkdir()
    (images / "README.md").write_text("beside the classes")
    (images / "A" / "DejaVuSans.png").rename(images / "A" / "DejaVuSans.PNG")
    dataset = {"name": "mine", "parser": "folder", "expected": {"images": 6, "classes": 3}}
    index = make_index(dataset, tmp_path, images)
    assert index["path"].tolist() == [
        f"{letter}/{font}" for letter, first in zip("ABC", ("PNG", "png", "png"), strict=True)
        for font in ("DejaVuSans-Bold.png", f"DejaVuSans.{first}")
    ]  # fmt: skip
    assert index["label"].tolist() == [0, 0, 1, 1, 2, 2]
    assert index["class_name"].tolist() == list("AABBCC")
    assert list(index.columns) == COLUMNS


def test_folders_that_cannot_be_indexed(tmp_path):
    with pytest.raises(UserError, match="missing of dataset 'mine' does not exist"):
        make_index({"name": "mine", "parser": "folder"}, tmp_path, tmp_path / "missing")
    (tmp_path / "A").mkdir()
    with pytest.raises(UserError, match="has no images in class folders"):
        make_index({"name": "mine", "parser": "folder"}, tmp_path, tmp_path)


@pytest.mark.parametrize("name", ["A/caf\udce9.png", "caf\udce9/a.png"])
def test_names_that_are_not_utf8(tmp_path, name):
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError, match=r"caf\\xe9.* has a name that is not UTF-8: rename it and run again") as raised:
        make_index({"name": "mine", "parser": "folder"}, tmp_path, tmp_path)
    str(raised.value).encode()
    assert description.listing(tmp_path) != description.listing(tmp_path / "A"), "the DAG can be built"


def test_the_listing_notices_files_in_order(tmp_path):
    images = make_glyphs(tmp_path / "images", classes=3, per_class=2)
    before = description.listing(images)
    (images / "A" / ".DS_Store").write_bytes(b"x")
    assert description.listing(images) == before
    (images / "A" / "new.png").write_bytes(b"x")
    assert description.listing(images) != before
    assert description.listing(tmp_path / "nothing") == description.listing(tmp_path / "A")
    deep = images / "/".join("a" * 70)
    deep.mkdir(parents=True)
    with pytest.raises(UserError, match="has folders more than 64 levels deep"):
        description.listing(images)


def test_a_table_with_a_byte_order_mark(tmp_path):
    assert csv_index(tmp_path, "\ufeffpath,label\nx.png,7\n")["path"].tolist() == ["x.png"]


def csv_index(tmp_path, text):
    (tmp_path / "table.csv").write_text(text)
    return make_index({"name": "mine", "parser": "csv", "csv": str(tmp_path / "table.csv")}, tmp_path, tmp_path)


def test_a_table_with_numbers(tmp_path):
    index = csv_index(tmp_path, "path,label,super_label\nx.png,7,big\ny.png,3,\nz.png,7,big\n")
    assert index["label"].tolist() == [7, 3, 7]
    assert index["class_name"].tolist() == ["7", "3", "7"]
    assert index["super_label"].tolist() == ["big", "", "big"]


def test_a_table_with_names(tmp_path):
    index = csv_index(tmp_path, "path,label\nx.png,wolf\ny.png,NA\nz.png,wolf\n")
    assert index["label"].tolist() == [1, 0, 1]
    assert index["class_name"].tolist() == ["wolf", "NA", "wolf"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("path,labels\nx.png,1\n", "has no column 'label', only path, labels"),
        ("path,label\nx.png,1\ny.png,\n", r"table\.csv, line 3: the label is empty"),
        ("path,label\n../x.png,1\n", "has the path '../x.png', which leads out of the image folder"),
        ("path,label\n/etc/x.png,1\n", "has the path '/etc/x.png', which leads out of the image folder"),
        ("path,label\nx.png,1\nx.png,2\n", r"has duplicate paths \(1\), such as 'x.png'"),
        ("path,label\n", "has no images"),
        ('path,label\n"x.png,1\n', "is not a valid CSV file"),
    ],
)
def test_tables_that_cannot_be_indexed(tmp_path, text, sentence):
    with pytest.raises(UserError, match=sentence):
        csv_index(tmp_path, text)


def test_a_missing_table(tmp_path):
    with pytest.raises(UserError, match="has no key 'csv'"):
        make_index({"name": "mine", "parser": "csv"}, tmp_path, tmp_path)
    with pytest.raises(UserError, match=r"nowhere.csv of dataset 'mine' does not exist"):
        make_index({"name": "mine", "parser": "csv", "csv": "nowhere.csv"}, tmp_path, tmp_path)


def test_a_users_parser(tmp_path, monkeypatch):
    (tmp_path / "parser_of_mine.py").write_text(
        "import pandas as pd\n"
        "def parse(dataset, downloads, images):\n"
        "    row = (f'{downloads.name}/{images.name}.png', 5, dataset['options']['word'], '', 'query')\n"
        "    return pd.DataFrame([row], columns=['path', 'label', 'class_name', 'super_label', 'role'])\n"
        "def nothing(dataset, downloads, images):\n"
        "    return None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    dataset = {"name": "mine", "parser": "parser_of_mine:parse", "options": {"word": "owl"}}
    index = make_index(dataset, tmp_path / "down", tmp_path / "pictures", workers=2)
    assert index.iloc[0].tolist() == ["down/pictures.png", 5, "owl", "", "query"]
    with pytest.raises(UserError, match=r"must return a pandas.DataFrame, found NoneType"):
        make_index({"name": "mine", "parser": "parser_of_mine:nothing"}, tmp_path, tmp_path)
    with pytest.raises(UserError, match="'parser_of_mine' has no 'pars'"):
        make_index({"name": "mine", "parser": "parser_of_mine:pars"}, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("foldr", "did you mean 'folder'"), ("no_such_module:parse", "Cannot import module 'no_such_module'")],
)
def test_unknown_parsers(tmp_path, name, sentence):
    with pytest.raises(UserError, match=sentence):
        make_index({"name": "mine", "parser": name}, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("index", "expected", "sentence"),
    [
        (table().drop(columns=["role", "label"]), {}, "is missing the columns label, role"),
        (table().iloc[:0], {}, "has no images"),
        (table(label=["0", "0", "1"]), {}, "not whole numbers"),
        (table(label=[0.0, 0.0, 1.0]), {}, "not whole numbers"),
        (table(path=["a", "", "c"]), {}, "a row without a path"),
        (table(path=["a", "b", "a"]), {}, r"has duplicate paths \(1\), such as 'a'"),
        (table(class_name=["a", "a", ""]), {}, "no class name for label 1"),
        (table(class_name=["a", "x", "b"]), {}, "gives label 0 to several class names"),
        (table(), {"images": 4}, "has 3 images, expected 4"),
        (table(), {"classes": 3}, "has 2 classes, expected 3"),
        (table(), {"clases": 2}, "did you mean 'classes'"),
    ],
)
def test_tables_that_are_not_an_index(index, expected, sentence):
    with pytest.raises(UserError, match=sentence):
        check(index, expected, "images.csv")


def test_counts():
    assert check(table(), {"images": 3, "classes": 2}, "images.csv") == {"images": 3, "classes": 2, "singles": 1}


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(names, min_size=1, max_size=8, unique=True), st.data())
def test_the_file_gives_back_what_was_written(tmp_path_factory, words, data):
    path = tmp_path_factory.mktemp("index") / "images.csv"
    classes = data.draw(st.lists(names, min_size=len(words), max_size=len(words)))
    index = pd.DataFrame({"path": words, "class_name": classes, "super_label": classes, "role": ""})
    index["label"] = pd.factorize(index["class_name"])[0].astype("int64")
    write_index(path, index)
    assert read_index(path).to_dict("list") == index[COLUMNS].to_dict("list")
    labels, super_labels = read_labels(path)
    assert labels.dtype == "int64" and labels.tolist() == index["label"].tolist()
    assert super_labels.tolist() == classes


def test_files_that_are_not_an_index(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_index(tmp_path / "images.csv")
    (tmp_path / "images.csv").write_text("path,label\na.png,one\n")
    with pytest.raises(UserError, match="is not an index of images"):
        read_index(tmp_path / "images.csv")
    (tmp_path / "images.csv").write_text("path,label\na.png,1\n")
    with pytest.raises(UserError, match="is missing the columns class_name, super_label, role"):
        read_index(tmp_path / "images.csv")
