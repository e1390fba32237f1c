"""The emoji parser, on a few small sets with every case of its rules."""

import json

import numpy as np
import pytest
from PIL import Image

from recheck.data import emoji
from recheck.data.index import make_index
from recheck.errors import UserError

SETS = ["fxemoji", "noto", "one", "two", "wide"]


def square(colour, at=2, size=6):
    return {"body": f'<rect x="{at}" y="{at}" width="{size}" height="{size}" fill="{colour}"/>'}


def make_sets():
    """Five sets; `red-ball`, `blue-ball` and `green-ball` are valid classes, each of the others breaks a rule."""
    balls = {"red-ball": "red", "blue-ball": "blue", "green-ball": "green"}
    sets = {name: {"width": 10, "height": 10, "icons": {}, "aliases": {}} for name in SETS}
    for at, name in enumerate(SETS):
        for ball, colour in balls.items():
            icon = ball.replace("-", "") if name == "fxemoji" else ball
            sets[name]["icons"][icon] = square(colour, at=at % 3, size=4 + at)
    sets["wide"].update(width=20)
    noto, one, two = (sets[name]["icons"] for name in ("noto", "one", "two"))
    for at, name in enumerate(("wave-light-skin-tone", "elf-tone3", "wave-dark", "traffic-light", "ghost")):
        for number, (set_name, icon_set) in enumerate(sets.items()):
            icon = name.replace("-", "") if set_name == "fxemoji" else name
            icon_set["icons"][icon] = square(f"#{40 + at}{40 + number}99")
    noto["ghost"]["hidden"] = True
    noto["rare"] = square("brown")
    one["rare"] = square("tan")
    # aliases: a plain one, a mirrored one, one shared by two classes, a chain, one without a target
    for icon_set in (one, two):
        del icon_set["green-ball"]
    one["verdant-ball"] = square("green", at=1, size=5)
    sets["one"]["aliases"]["green-ball"] = {"parent": "emerald-ball"}
    sets["one"]["aliases"]["emerald-ball"] = {"parent": "verdant-ball"}
    sets["two"]["aliases"]["green-ball"] = {"parent": "red-ball", "hFlip": True}
    sets["wide"]["aliases"]["rare"] = {"parent": "nowhere"}
    # the same drawing for two classes, by alias and by pixels
    for number, name in enumerate(("twin-a", "twin-b")):
        noto[name] = square(f"#0000{80 + number}")
        two[name] = square("orange", at=1)
        one[name] = square(f"#00{80 + number}00")
        sets["fxemoji"]["icons"][name.replace("-", "")] = square(f"#{80 + number}0000")
    sets["wide"]["icons"]["twin"] = square("gold")
    sets["wide"]["aliases"] |= {"twin-a": {"parent": "twin"}, "twin-b": {"parent": "twin"}}
    # hidden in one set only
    two["blue-ball"]["hidden"] = True
    return sets


@pytest.fixture
def downloads(tmp_path):
    for name, icon_set in make_sets().items():
        (tmp_path / "downloads" / name).mkdir(parents=True)
        (tmp_path / "downloads" / name / "icons.json").write_text(json.dumps(icon_set))
    categories = {"Balls": ["red-ball", "blue-ball"], "Plants": ["green-ball", "twin-a"]}
    (tmp_path / "downloads" / "noto" / "metadata.json").write_text(json.dumps({"categories": categories}))
    return tmp_path / "downloads"


def dataset(least=3, **more):
    return {"name": "emoji", "parser": "emoji", "options": {"size": 16, "min_images": least, "sets": SETS}} | more


def classes_of(index):
    return {name: [path.split("/")[1][:-4] for path in rows["path"]] for name, rows in index.groupby("class_name")}


def test_rules(tmp_path, downloads):
    index = make_index(dataset(), downloads, tmp_path / "images")
    assert classes_of(index) == {
        "red-ball": ["fxemoji", "noto", "one", "two", "wide"],
        "blue-ball": ["fxemoji", "noto", "one", "wide"],
        "green-ball": ["fxemoji", "noto", "one", "wide"],
        "twin-a": ["fxemoji", "noto", "one"],
        "twin-b": ["fxemoji", "noto", "one"],
    }
    assert index["label"].tolist() == [0] * 4 + [1] * 4 + [2] * 5 + [3] * 3 + [4] * 3
    supers = dict(zip(index["class_name"], index["super_label"], strict=True))
    assert supers == {
        "red-ball": "Balls",
        "blue-ball": "Balls",
        "green-ball": "Plants",
        "twin-a": "Plants",
        "twin-b": "",
    }


def test_dropping_duplicates_can_drop_the_class(tmp_path, downloads):
    """The twins have five drawings by name, four after removing shared aliases, three after removing equal pixels."""
    assert set(classes_of(make_index(dataset(4), downloads, tmp_path / "images"))) == {
        "red-ball",
        "blue-ball",
        "green-ball",
    }
    assert set(classes_of(make_index(dataset(5), downloads, tmp_path / "images"))) == {"red-ball"}


def test_same_pixels_in_two_sets_and_two_classes(tmp_path, downloads):
    sets = make_sets()
    sets["wide"]["width"] = 10
    sets["wide"]["icons"]["red-ball"] = sets["one"]["icons"]["blue-ball"]
    rewrite(downloads, sets)
    result = classes_of(make_index(dataset(), downloads, tmp_path / "images"))
    assert result["red-ball"] == ["fxemoji", "noto", "one", "two"]
    assert result["blue-ball"] == ["fxemoji", "noto", "wide"]


def rewrite(downloads, sets):
    for name, icon_set in sets.items():
        (downloads / name / "icons.json").write_text(json.dumps(icon_set))


def test_duplicates_within_a_set_do_not_remove_drawings_of_other_sets(tmp_path, downloads):
    """Duplicates within a set are removed first, so their pixels no longer clash with other sets."""
    sets = make_sets()
    sets["one"]["icons"]["twin-a"] = sets["two"]["icons"]["twin-a"]
    rewrite(downloads, sets)
    assert classes_of(make_index(dataset(), downloads, tmp_path / "images"))["twin-a"] == ["fxemoji", "noto", "one"]


def test_an_alias_counts_even_if_the_other_class_is_too_small(tmp_path, downloads):
    sets = make_sets()
    sets["wide"]["aliases"]["rare"] = {"parent": "red-ball"}
    rewrite(downloads, sets)
    result = classes_of(make_index(dataset(4), downloads, tmp_path / "images"))
    assert result["red-ball"] == ["fxemoji", "noto", "one", "two"]
    assert "rare" not in result


def test_drawings(tmp_path, downloads):
    index = make_index(dataset(), downloads, tmp_path / "images")
    for path in index["path"]:
        with Image.open(tmp_path / "images" / path) as image:
            assert (image.size, image.mode) == ((16, 16), "RGB")
    pixels = np.asarray(Image.open(tmp_path / "images" / "red-ball" / "noto.png"))
    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[5, 5].tolist() == [255, 0, 0]
    # a drawing twice as wide as high is centred, not stretched: the upper and lower quarters stay white
    wide = np.asarray(Image.open(tmp_path / "images" / "red-ball" / "wide.png"))
    assert (wide[:4] == 255).all()
    assert (wide[12:] == 255).all()
    assert not (wide[4:12] == 255).all()


def test_the_number_of_workers_does_not_change_the_files(tmp_path, downloads):
    one = make_index(dataset(), downloads, tmp_path / "one", workers=1)
    two = make_index(dataset(), downloads, tmp_path / "two", workers=2)
    assert one.equals(two)
    for path in one["path"]:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()


def test_a_new_folder_replaces_the_old_one(tmp_path, downloads):
    (tmp_path / "images" / "old").mkdir(parents=True)
    index = make_index(dataset(), downloads, tmp_path / "images")
    assert sorted(path.name for path in (tmp_path / "images").iterdir()) == sorted(set(index["class_name"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["downloads", "images"]


def test_a_drawing_that_is_not_svg(tmp_path, downloads):
    sets = make_sets()
    sets["one"]["icons"]["red-ball"]["body"] = "<rect"
    (downloads / "one" / "icons.json").write_text(json.dumps(sets["one"]))
    with pytest.raises(UserError, match="Icon 'red-ball' of set 'one' cannot be drawn"):
        make_index(dataset(), downloads, tmp_path / "images", workers=2)
    assert not (tmp_path / "images").exists()


def test_files_that_are_not_the_published_ones(tmp_path, downloads):
    with pytest.raises(UserError, match="has 19 images, expected 11107"):
        make_index(dataset(expected={"images": 11107, "classes": 1048}), downloads, tmp_path / "images")


def test_the_naming_set_is_needed(tmp_path, downloads):
    with pytest.raises(UserError, match="must include 'noto', which names the classes, found one"):
        make_index(
            {"name": "e", "parser": "emoji", "options": {"size": 8, "min_images": 1, "sets": ["one"]}},
            downloads,
            tmp_path,
        )


def test_aliases_in_a_circle():
    circle = {"icons": {}, "aliases": {"a": {"parent": "b"}, "b": {"parent": "a"}}}
    assert emoji.find(circle, "one", "a") is None
