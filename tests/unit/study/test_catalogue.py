"""Targets: a study, its published values alone, and what is measured of it so far."""

import pytest
from project import ROOT
from studies import FILES, TEXT, weights_of

from recheck.errors import UserError
from recheck.study.catalogue import Catalogue, unknown_target
from recheck.study.compose import Files

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
            tmp_path / "published",
            chosen,
            weights_of,
            lambda dataset, source: None,
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


def test_every_study_has_its_scopes_and_only_one_with_published_values_quotes(catalogue):
    assert catalogue({"one": "published: one.yaml", "two": "title: Two", "three": "published:"}).targets == {
        "one": ("one", "all"),
        "one_published": ("one", "published"),
        "one_so_far": ("one", "so_far"),
        "two": ("two", "all"),
        "two_so_far": ("two", "so_far"),
        "three": ("three", "all"),
        "three_so_far": ("three", "so_far"),
    }


def test_a_study_has_the_published_values_of_its_base_unless_it_says_otherwise(catalogue):
    texts = {"one": "published: one.yaml", "two": "base: one", "three": "{base: one, published: }"}
    targets = catalogue(texts).targets
    assert "two_published" in targets and "three_published" not in targets


def test_a_broken_study_does_not_get_in_the_way_of_others(catalogue):
    assert "one_published" in catalogue({"one": "published: one.yaml", "broken": "seeds: [0"}).targets


@pytest.mark.parametrize("name", ["one_published", "one_so_far"])
def test_a_file_with_the_name_of_a_target_is_refused(catalogue, name):
    with pytest.raises(UserError, match=rf"{name}\.yaml: '{name}' is a target of study 'one' already; rename the file"):
        catalogue({"one": "published: one.yaml", name: "title: Mine"})


def test_published_values_alone_have_the_datasets_and_rows_of_the_documents(catalogue):
    two = documents("A", rows=["triplet"]) + documents("B", rows=["arcface"]).removeprefix("documents:\n")
    made = catalogue({"mine": WITH_PUBLISHED.replace("  emoji:\n", "  cub200:\n  emoji:\n")}, {"paper": two})
    shown = made.shown("mine_published")
    assert (shown.name, shown.scope, shown.datasets) == ("mine_published", "published", ("emoji",))
    assert list(shown.rows) == ["triplet", "arcface"]
    assert "nothing measured here" in shown.title
    assert shown.description.startswith("Nothing was measured here. Every value is quoted from A and B")
    assert "A few emoji" not in shown.description
    assert made.facts("mine_published", "emoji")["measured"] == []


def test_published_values_of_other_datasets_are_no_table(catalogue):
    made = catalogue({"mine": WITH_PUBLISHED}, {"paper": documents("A", dataset="planes")})
    with pytest.raises(UserError, match=r"published/paper\.yaml has no values for a dataset and row of study 'mine'"):
        made.shown("mine_published")


def test_a_view_that_does_not_exist_is_named(catalogue):
    made = catalogue({"mine": WITH_PUBLISHED}, {"paper": documents("A").replace("separated", "seperated")})
    with pytest.raises(
        UserError, match=r"paper\.yaml, 'triplet': There is no view 'seperated': did you mean 'separated'"
    ):
        made.documents("mine")


def test_so_far_keeps_all_rows_and_says_that_some_may_be_missing(catalogue):
    made = catalogue({"mine": TEXT})
    shown = made.shown("mine_so_far")
    assert (shown.name, shown.rows, shown.datasets) == ("mine_so_far", made.study("mine").rows, ("emoji",))
    assert "may be missing" in shown.description and "snakemake --cores all mine" in shown.description
    assert made.shown("mine") is made.study("mine") is made.study("mine_so_far")


def test_a_row_may_be_compared_with_another_published_row(catalogue):
    text = WITH_PUBLISHED.replace("label: MS + miner\n", "label: MS + miner\n    compare_to: triplet\n")
    noted = documents("A", rows=["triplet", "other"]) + "    notes: {emoji: {triplet: a, other: b}}\n"
    made = catalogue({"mine": text}, {"paper": noted})
    (own,) = made.facts("mine", "emoji")["published"]
    assert own["values"] == {row: {"separated": {"P@1": 50.0}} for row in ("mined", "triplet")}
    assert own["notes"] == {"mined": "a", "triplet": "a"}
    quoted = made.shown("mine_published")
    assert [row.label for row in quoted.rows.values()] == ["Triplet"], "a published row is quoted once"


def test_a_published_row_is_not_quoted_under_the_names_of_ours(catalogue):
    text = WITH_PUBLISHED.replace("label: MS + miner\n", "label: MS + miner\n    compare_to: baseline\n")
    quoted = catalogue({"mine": text}, {"paper": documents("A", rows=["baseline"])}).shown("mine_published")
    assert {name: row.label for name, row in quoted.rows.items()} == {"mined": "baseline"}


def test_what_exists_is_found_with_a_stamp_and_the_reasons_of_failures(catalogue, tmp_path):
    made = catalogue({"mine": TEXT})
    needs = ("evaluations", "index")
    assert made.found("mine", ["emoji"], needs) is None
    assert made.needed("mine_so_far", ["emoji"], needs) == {}
    assert len(made.needed("mine", ["emoji"], needs)["evaluations"]) == 8
    nothing = made.found("mine_so_far", ["emoji"], needs)
    assert nothing["evaluations"] == nothing["failures"] == []
    done = tmp_path / "results/mine/emoji/triplet/seed0/separated.json"
    failed = tmp_path / "logs/mine/emoji/arcface/seed0/fold1/train.failed"
    for path in (done, failed):
        path.parent.mkdir(parents=True)
        path.write_text("The loss became nan")
    some = made.found("mine_so_far", ["emoji"], needs)
    assert some["evaluations"] == [str(done)] and some["failures"] == [str(failed)]
    assert some["stamp"] != nothing["stamp"]
    assert made.facts("mine_so_far", "emoji")["measured"] == ["triplet"]
    assert made.facts("mine", "emoji")["measured"] == ["untrained", "triplet", "mined", "arcface"]


def test_other_studies_are_built_with_one_unless_only_some_rows_are_wanted(catalogue):
    texts = {"one": TEXT + "also_build: [two]\n", "two": TEXT}
    one, two, so_far = (
        [f"<results>/{name}/index.html", f"<results>/{name}/references.bib"] for name in ("one", "two", "one_so_far")
    )
    assert catalogue(texts).pages("one") == one + two
    assert catalogue(texts).pages("one_so_far") == so_far
    assert catalogue(texts, methods=["triplet"]).pages("one") == one


def test_an_unknown_target_names_the_nearest(catalogue):
    made = catalogue({"mine": TEXT})
    assert "no study 'mien'; did you mean 'mine'?" in str(unknown_target("mien", made, {}))
    assert "mine.yaml names no 'published' values" in str(unknown_target("mine_published", made, {}))


def test_every_shipped_study_can_be_shown_in_every_scope():
    made = Catalogue(FILES, ROOT / "resources/published", {}, weights_of, lambda *given: None, lambda path: path)
    for target in made.targets:
        shown = made.shown(target)
        for dataset in shown.datasets:
            facts = made.facts(target, dataset)
            assert facts["study"] == target and facts["rows"]
