"""Targets: a study, its published values and its results so far."""

from types import SimpleNamespace

import pytest

from recheck.data.description import load_dataset
from recheck.errors import UserError
from recheck.study.catalogue import Catalogue, unknown_target
from recheck.study.compose import Files
from recheck.study.yaml import names_in
from support.project import ROOT
from support.project.studies import FILES, TEXT, weights_of

VALUES = "{separated: {P@1: 50.0}}"


@pytest.fixture
def catalogue(tmp_path):
    """A catalogue of studies with these texts, and of files of published numbers."""

    def make(studies, published=None, **chosen):
        for folder, texts in (("studies", studies), ("published", published or {})):
            (tmp_path / folder).mkdir(exist_ok=True)
            for name, text in texts.items():
                (tmp_path / folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        paths = {path.stem: path for path in sorted((tmp_path / "studies").glob("*.yaml"))}
        return Catalogue(
            Files(paths, FILES.methods),
            [tmp_path / "published"],
            chosen,
            weights_of,
            lambda dataset, source: SimpleNamespace(title=dataset),
            lambda path: path.replace("<", f"{tmp_path}/").replace(">", ""),
        )

    return make


def documents(*sources, dataset="emoji", rows=("triplet",)):
    """A file of published numbers: one document per source, each with all rows."""
    lines = ["documents:"]
    for source in sources:
        lines += [f"  - source: {source}", "    values:", f"      {dataset}:"]
        lines += [f"        {row}: {VALUES}" for row in rows]
    return "\n".join([*lines, ""])


WITH_PUBLISHED = TEXT + "published: paper.yaml\n"


def test_only_studies_with_published_values_have_a_published_target(catalogue):
    assert catalogue({"one": "published: one.yaml", "two": "title: Two", "three": "published:"}).targets == {
        "one": ("one", "all"),
        "one_published": ("one", "published"),
        "one_so_far": ("one", "so_far"),
        "one_cost": ("one", "cost"),
        "two": ("two", "all"),
        "two_so_far": ("two", "so_far"),
        "two_cost": ("two", "cost"),
        "three": ("three", "all"),
        "three_so_far": ("three", "so_far"),
        "three_cost": ("three", "cost"),
    }


def test_the_cost_of_a_study_includes_what_its_target_also_builds(catalogue):
    texts = {"one": TEXT + "also_build: [two]\n", "two": TEXT}
    made = catalogue(texts)
    assert made.pages("one_cost")[::5] == ["<results>/one_cost/cost.md", "<results>/two_cost/cost.md"]
    assert catalogue(texts, methods=["triplet"]).pages("one_cost")[0] == "<results>/one_selected_triplet_cost/cost.md"
    assert len(catalogue(texts, methods=["triplet"]).pages("one_cost")) == 5


def test_published_values_are_inherited_from_the_base_by_default(catalogue):
    texts = {"one": "published: one.yaml", "two": "base: one", "three": "{base: one, published: }"}
    targets = catalogue(texts).targets
    assert "two_published" in targets and "three_published" not in targets


def test_a_broken_study_does_not_affect_other_studies(catalogue):
    assert "one_published" in catalogue({"one": "published: one.yaml", "broken": "seeds: [0"}).targets


@pytest.mark.parametrize("name", ["one_published", "one_so_far", "one_cost"])
def test_a_study_file_named_like_a_target_is_an_error(catalogue, name):
    with pytest.raises(
        UserError, match=rf"{name}\.yaml: '{name}' is already a target of study 'one'. Rename this file"
    ):
        catalogue({"one": "published: one.yaml", name: "title: Mine"})


def test_the_published_target_has_the_datasets_and_rows_of_the_documents(catalogue):
    two = documents("A", rows=["triplet"]) + documents("B", rows=["arcface"]).removeprefix("documents:\n")
    made = catalogue({"mine": WITH_PUBLISHED.replace("  emoji:\n", "  cub200:\n  emoji:\n")}, {"paper": two})
    shown = made.shown("mine_published")
    assert (shown.name, shown.scope, shown.datasets) == ("mine_published", "published", ("emoji",))
    assert list(shown.rows) == ["triplet", "arcface"]
    assert "nothing measured here" in shown.title
    assert shown.description.startswith("Nothing was measured here. Every value is quoted from A and B")
    assert "A few emoji" not in shown.description
    assert made.facts("mine_published", "emoji")["measured"] == []


def test_published_values_of_other_datasets_only_are_an_error(catalogue):
    made = catalogue({"mine": WITH_PUBLISHED}, {"paper": documents("A", dataset="planes")})
    with pytest.raises(UserError, match=r"published/paper\.yaml has no values for any dataset and row of study 'mine'"):
        made.shown("mine_published")


def test_an_unknown_view_in_published_values_is_an_error(catalogue):
    made = catalogue({"mine": WITH_PUBLISHED}, {"paper": documents("A").replace("separated", "seperated")})
    with pytest.raises(UserError, match=r"paper\.yaml, 'triplet': Unknown view 'seperated'; did you mean 'separated'"):
        made.documents("mine")


def test_so_far_keeps_all_rows_and_says_that_some_may_be_missing(catalogue):
    made = catalogue({"mine": TEXT})
    shown = made.shown("mine_so_far")
    assert (shown.name, shown.rows, shown.datasets) == ("mine_so_far", made.study("mine").rows, ("emoji",))
    assert "may be missing" in shown.description and "snakemake --cores all mine" in shown.description
    assert made.shown("mine").rows is made.study("mine").rows


def test_a_row_may_be_compared_with_another_published_row(catalogue):
    text = WITH_PUBLISHED.replace("label: MS + miner\n", "label: MS + miner\n    compare_to: triplet\n")
    noted = documents("A", rows=["triplet", "other"]) + "    notes: {emoji: {triplet: a, other: b}}\n"
    made = catalogue({"mine": text}, {"paper": noted})
    (document,) = made.facts("mine", "emoji")["published"]
    assert document["values"] == {row: {"separated": {"P@1": 50.0}} for row in ("mined", "triplet")}
    assert document["notes"] == {"mined": "a", "triplet": "a"}
    quoted = made.shown("mine_published")
    assert [row.label for row in quoted.rows.values()] == ["Triplet"], "a published row is shown once"


def test_a_published_row_keeps_its_published_name(catalogue):
    text = WITH_PUBLISHED.replace("label: MS + miner\n", "label: MS + miner\n    compare_to: baseline\n")
    quoted = catalogue({"mine": text}, {"paper": documents("A", rows=["baseline"])}).shown("mine_published")
    assert {name: row.label for name, row in quoted.rows.items()} == {"mined": "baseline"}


def test_existing_files_are_found_with_a_stamp_and_failures(catalogue, tmp_path):
    made = catalogue({"mine": TEXT})
    needs = ("evaluations", "index")
    assert made.existing("mine", ["emoji"], needs) is None
    assert made.needed("mine_so_far", ["emoji"], needs) == {}
    assert len(made.needed("mine", ["emoji"], needs)["evaluations"]) == 8
    nothing = made.existing("mine_so_far", ["emoji"], needs)
    assert nothing["evaluations"] == nothing["failures"] == []
    done = tmp_path / "results/mine/emoji/triplet/seed0/separated.json"
    failed = tmp_path / "logs/mine/emoji/arcface/seed0/fold1/train.failed"
    for path in (done, failed):
        path.parent.mkdir(parents=True)
        path.write_text("The loss became nan")
    some = made.existing("mine_so_far", ["emoji"], needs)
    assert some["evaluations"] == [str(done)] and some["failures"] == [str(failed)]
    assert some["stamp"] != nothing["stamp"]
    assert made.facts("mine_so_far", "emoji")["measured"] == ["triplet"]
    assert made.facts("mine", "emoji")["measured"] == ["untrained", "triplet", "mined", "arcface"]


def test_also_build_is_ignored_if_the_config_selects_methods(catalogue):
    texts = {"one": TEXT + "also_build: [two]\n", "two": TEXT}
    one, two, so_far = (
        [f"<results>/{name}/{file}" for file in ("index.html", "references.bib", "verdicts.csv")]
        for name in ("one", "two", "one_so_far")
    )
    assert catalogue(texts).pages("one") == one + two
    assert catalogue(texts).pages("one_so_far") == so_far
    (page, *_) = catalogue(texts, methods=["triplet"]).pages("one")
    assert page == "<results>/one_selected_triplet/index.html"


def test_an_unknown_target_suggests_the_nearest(catalogue):
    made = catalogue({"mine": TEXT})
    assert "Unknown study 'mien'; did you mean 'mine'?" in str(unknown_target("mien", made, {}))
    assert "_so_far" not in str(unknown_target("mien", made, {}))
    assert "mine.yaml has no 'published' values, so there is no target 'mine_published'" in str(
        unknown_target("mine_published", made, {})
    )


@pytest.mark.slow
def test_every_shipped_study_can_be_shown_in_every_scope():
    datasets = names_in([ROOT / "config/datasets"])
    made = Catalogue(
        FILES,
        [ROOT / "resources/published"],
        {},
        weights_of,
        lambda name, source: load_dataset(name, datasets, source),
        lambda path: path,
    )
    for target in made.targets:
        shown = made.shown(target)
        for dataset in shown.datasets:
            facts = made.facts(target, dataset)
            assert facts["study"] == target and facts["rows"]
            assert facts["dataset_title"] not in ("", dataset)


def test_the_site_shows_the_seeds_that_the_config_selects(catalogue):
    [study] = catalogue({"mine": TEXT}, seeds=[3, 4]).site(["evaluations"])
    [(facts, _)] = study["datasets"]
    assert study["about"]["study"] == "mine" and {row["seeds"] for row in facts["rows"]} == {2}
    assert catalogue({"mine": TEXT}, seeds=[3], methods=["triplet"]).site_reports() == {"mine_so_far": "mine"}
