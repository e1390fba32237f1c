"""Targets: a study, its published values alone, and what there is of it so far."""

import pytest

from recheck import targets
from recheck.errors import UserError

METHODS = {name: {"label": name.title()} for name in ("pretrained", "triplet", "arcface", "cosface")}
STUDY = {
    "name": "mine",
    "title": "My study",
    "description": "Trains everything.",
    "published": "mine.yaml",
    "datasets": {"birds": {}, "cars": {}, "shoes": {}},
    "methods": METHODS,
}


def document(rows, source="Paper"):
    """Rows: dataset -> methods."""
    values = {data: {method: {"separated": {"P@1": 50.0}} for method in own} for data, own in rows.items()}
    return {"source": source, "values": values}


@pytest.fixture
def paths(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
        return {path.stem: path for path in sorted(tmp_path.glob("*.yaml"))}

    return write


def test_every_study_has_its_variants_and_only_one_with_published_values_quotes(paths):
    assert targets.targets(paths(one="published: one.yaml", two="title: Two", three="published:")) == {
        "one": ("one", None),
        "one_published": ("one", "published"),
        "one_so_far": ("one", "so_far"),
        "two": ("two", None),
        "two_so_far": ("two", "so_far"),
        "three": ("three", None),
        "three_so_far": ("three", "so_far"),
    }


def test_a_study_has_the_published_values_of_its_base_unless_it_says_otherwise(paths):
    found = targets.targets(paths(one="published: one.yaml", two="base: one", three="{base: one, published: }"))
    assert "two_published" in found and "three_published" not in found


def test_a_broken_study_does_not_get_in_the_way_of_others(paths):
    assert "one_published" in targets.targets(paths(one="published: one.yaml", broken="seeds: [0"))


@pytest.mark.parametrize("name", ["one_published", "one_so_far"])
def test_a_file_with_the_name_of_a_variant_is_refused(paths, name):
    with pytest.raises(UserError, match=rf"{name}\.yaml: '{name}' is a target of study 'one' already; rename the file"):
        targets.targets(paths(**{"one": "published: one.yaml", name: "title: Mine"}))


def test_published_values_alone_have_the_datasets_and_rows_of_the_documents(tmp_path):
    documents = [document({"cars": ["triplet"]}, "A"), document({"cars": ["arcface"], "birds": []}, "B")]
    quoted = targets.as_variant(STUDY, "published", documents)
    assert quoted["name"] == "mine_published"
    assert list(quoted["datasets"]) == ["cars"]
    assert list(quoted["methods"]) == ["triplet", "arcface"]
    assert "nothing measured here" in quoted["title"]
    assert quoted["description"].startswith("Nothing was measured here. Every value is quoted from A and B")
    assert "Trains everything" not in quoted["description"]


def test_published_values_of_other_datasets_are_no_table():
    with pytest.raises(UserError, match=r"published/mine\.yaml has no values of a dataset and method of study 'mine'"):
        targets.as_variant(STUDY, "published", [document({"planes": ["triplet"]})])


def test_so_far_keeps_all_rows_and_says_that_some_may_be_missing():
    sofar = targets.as_variant(STUDY, "so_far", [])
    assert (sofar["name"], sofar["methods"], sofar["datasets"]) == ("mine_so_far", METHODS, STUDY["datasets"])
    assert "may be missing" in sofar["description"] and "snakemake --cores all mine" in sofar["description"]
    assert targets.as_variant(STUDY, None, []) is STUDY


def test_a_row_may_be_published_under_another_key():
    study = {**STUDY, "methods": {"pca": {"published_as": "pretrained"}, "triplet": {}}}
    (own,) = targets.for_methods([document({"cars": ["pretrained", "triplet", "arcface"]})], study)
    assert own["values"] == {"cars": {"pca": {"separated": {"P@1": 50.0}}, "triplet": {"separated": {"P@1": 50.0}}}}


def test_a_published_row_is_quoted_once_and_not_under_the_names_of_ours():
    study = {**STUDY, "methods": {name: {"label": name, "published_as": "pretrained"} for name in ("pca", "random")}}
    documents = targets.for_methods([document({"cars": ["pretrained"]})], study)
    quoted = targets.as_variant(study, "published", documents)
    assert [own["label"] for own in quoted["methods"].values()] == ["pretrained"]
    assert list(quoted["methods"]) == ["pca"]
    assert targets.figures_of(quoted, "cars", study["methods"], documents) == ["metrics"]


def of_epochs(**more):
    """A study that is selected on test and watches its training images."""
    selection = {"role": "test", "metric": "R@1", "watch": {"train": ["NMI", "R@1"]}}
    return {**STUDY, "views": ["best_on_test", "last_epoch"], "protocol": {"selection": selection}, **more}


def test_a_study_of_epochs_has_bars_and_one_that_watches_training_images_a_comparison():
    shown = targets.figures_of(of_epochs(), "cars", METHODS, THREE)
    assert shown == ["metrics", "bars", "ranks", "generalisation", "curves", "recall", "distances", "map", "gallery"]
    raw = {**of_epochs()["protocol"], "evaluation": {"normalise": False}}
    assert "distances" not in targets.figures_of(of_epochs(protocol=raw), "cars", METHODS, THREE)
    shown = targets.figures_of(of_epochs(variant="so_far"), "cars", ["triplet"], THREE)
    assert shown == ["metrics", "bars", "generalisation", "curves", "recall"]
    assert targets.figures_of(of_epochs(variant="published"), "cars", METHODS, THREE) == ["metrics", "bars"]
    assert targets.figures_of(of_epochs(variant="so_far"), "cars", [], THREE) == ["metrics", "bars"]
    unwatched = of_epochs(protocol={"selection": {"role": "test", "metric": "R@1"}})
    shown = targets.figures_of(unwatched, "cars", METHODS, [])
    assert shown == ["metrics", "bars", "curves", "recall", "distances", "map", "gallery"]


def test_published_training_images_are_compared_without_any_run():
    views = {"last_epoch": {"R@1": 66.2, "train_R@1": 88.1}}
    quoted = [{"source": "a figure", "values": {"cars": {"triplet": views}}}]
    for more, first in (({}, ["metrics", "bars"]), ({"sweep": {"label": "Size"}}, ["sweep"])):
        shown = targets.figures_of(of_epochs(variant="published", **more), "cars", METHODS, quoted)
        assert shown == [*first, "generalisation"]
    assert targets.figures_of({**STUDY, "variant": "published"}, "cars", METHODS, quoted) == ["metrics"]


def test_a_sweep_is_drawn_as_one_and_not_row_by_row():
    sweep = {"label": "Size", "methods": ["triplet"], "values": {1: {}, 2: {}}}
    assert targets.figures_of(of_epochs(sweep=sweep), "cars", METHODS, THREE) == ["sweep", "generalisation"]
    assert targets.figures_of({**STUDY, "sweep": sweep}, "cars", METHODS, []) == ["sweep"]
    for variant, measured in (("published", METHODS), ("so_far", [])):
        assert targets.figures_of(of_epochs(sweep=sweep, variant=variant), "cars", measured, THREE) == ["sweep"]
        assert targets.figures_of(of_epochs(sweep=sweep, variant=variant), "cars", measured, []) == []


@pytest.mark.parametrize(
    ("selection", "columns"),
    [
        ({"role": "test", "metric": "R@1", "watch": {"train": ["NMI", "R@1"]}}, ("train_R@1", "test_R@1")),
        ({"watch": {"train": ["R@1"], "test": ["R@1"]}}, ("train_R@1", "test_R@1")),
        ({"role": "val", "metric": "R@1", "watch": {"train": ["R@1"]}}, ("train_R@1", "val_R@1")),
        (
            {"role": "val", "metric": "R@1", "watch": {"train": ["R@1"], "test": ["R@1"]}},
            ("train_R@1", "test_R@1"),
        ),
        ({"role": "test", "metric": "NMI", "watch": {"train": ["R@1"]}}, None),
        ({"watch": {"train": ["R@1"]}}, None),
        ({"role": "val", "metric": "R@1"}, None),
        ({}, None),
    ],
)
def test_training_images_are_compared_with_test_images_or_else_those_that_select(selection, columns):
    assert targets.generalised({**STUDY, "protocol": {"selection": selection}}, "cars") == columns
    # a dataset's own settings count
    study = {**STUDY, "datasets": {"cars": {"selection": selection}}}
    assert targets.generalised(study, "cars") == columns


def test_notes_follow_their_rows():
    study = {**STUDY, "methods": {"pca": {"published_as": "pretrained"}, "triplet": {}}}
    noted = {**document({"cars": ["pretrained", "arcface"]}), "notes": {"cars": {"pretrained": "a", "arcface": "b"}}}
    (own,) = targets.for_methods([noted], study)
    assert own["notes"] == {"cars": {"pca": "a"}}


THREE = [document({"cars": ["triplet", "arcface", "cosface"]})]
FULL = ["metrics", "curves", "recall", "map", "gallery"]


@pytest.mark.parametrize(
    ("variant", "measured", "documents", "figures"),
    [
        (None, METHODS, [], FULL),
        (None, METHODS, [document({"cars": ["triplet", "arcface"]})], FULL),
        (None, METHODS, THREE, ["metrics", "ranks", *FULL[1:]]),
        (None, METHODS, [document({"birds": METHODS})], FULL),
        ("so_far", ["triplet", "arcface", "cosface"], THREE, ["metrics", "ranks", "curves", "recall"]),
        ("so_far", ["pretrained", "triplet", "arcface"], THREE, ["metrics", "curves", "recall"]),
        ("so_far", ["triplet"], [], ["metrics", "curves", "recall"]),
        ("so_far", [], THREE, ["metrics"]),
        ("so_far", [], [], []),
        ("published", METHODS, THREE, ["metrics"]),
    ],
)
def test_figures_are_those_that_can_be_drawn(variant, measured, documents, figures):
    assert targets.figures_of({**STUDY, "variant": variant}, "cars", measured, documents) == figures
    assert set(figures) <= set(targets.FIGURES)


def test_rows_that_share_a_published_value_are_no_order():
    methods = {name: {"published_as": "pretrained"} for name in ("pca", "random", "whitened")}
    study = {**STUDY, "methods": methods}
    documents = targets.for_methods([document({"cars": ["pretrained"]})], study)
    assert "ranks" not in targets.figures_of(study, "cars", methods, documents)
