"""A part of a study, chosen by the config: its report never replaces the report of the whole study."""

from types import SimpleNamespace

import pytest

from recheck.study.catalogue import Catalogue
from recheck.study.compose import Files
from recheck.study.selection import LONGEST, Selection
from support.project.studies import FILES, TEXT, weights_of

VARIANTS = TEXT + "variants: {code: {methods: {triplet: {loss: {margin: 0.3}}}}}\n"


@pytest.fixture
def catalogue(tmp_path):
    def make(text=TEXT, **chosen):
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return Catalogue(
            Files({"mine": path}, FILES.methods),
            [tmp_path],
            chosen,
            weights_of,
            lambda dataset, source: SimpleNamespace(title=dataset),
            lambda path: path,
        )

    return make


@pytest.mark.parametrize(
    ("chosen", "folder", "options"),
    [
        ({"methods": ["triplet"]}, "mine_selected_triplet", "'methods=[triplet]'"),
        ({"seeds": [0, 1]}, "mine_selected_seeds_0_1", "'seeds=[0,1]'"),
        (
            {"methods": ["triplet", "arcface"], "seeds": [2]},
            "mine_selected_arcface_triplet_seeds_2",
            "'methods=[triplet,arcface]' 'seeds=[2]'",
        ),
    ],
)
def test_a_part_has_its_own_folder_and_command(catalogue, chosen, folder, options):
    made = catalogue(**chosen)
    assert made.report("mine") == folder
    assert made.pages("mine")[0] == f"<results>/{folder}/index.html"
    assert made.pages("mine_so_far")[0] == f"<results>/{folder}_so_far/index.html"
    facts = made.page_facts(folder)
    assert facts["command"] == f"snakemake --cores all mine --config {options}"
    assert made.page_facts(f"{folder}_so_far")["command"] == f"snakemake --cores all mine_so_far --config {options}"
    assert facts["study"] == folder
    # the runs are the study's
    assert all(
        path.startswith("<results>/mine/") for path in made.needed(folder, ["emoji"], ["evaluations"])["evaluations"]
    )


def test_the_report_of_a_part_names_the_choice_and_the_whole_report_is_unchanged(catalogue):
    made = catalogue(methods=["triplet"], seeds=[4, 5])
    selected, whole = made.page_facts(made.report("mine")), made.page_facts("mine")
    assert selected["title"] == "Letters – 1 of 4 rows, seeds 4, 5"
    assert selected["description"].startswith("Only a part of study mine: 1 of 4 rows, seeds 4, 5. 1 row on")
    assert [row["name"] for row in selected["rows"]] == ["triplet"]
    assert len(whole["rows"]) == 4 and whole["command"] == "snakemake --cores all mine"
    assert len(made.needed("mine", ["emoji"], ["evaluations"])["evaluations"]) == 8


@pytest.mark.parametrize("chosen", [{"seeds": [0]}, {"methods": ["arcface", "mined", "triplet", "untrained"]}, {}])
def test_choosing_everything_is_the_whole_study(catalogue, chosen):
    assert catalogue(**chosen).report("mine") == "mine"


def test_seeds_do_not_change_published_values(catalogue, tmp_path):
    (tmp_path / "paper.yaml").write_text(
        "documents: [{source: A, values: {emoji: {triplet: {separated: {P@1: 50.0}}}}}]", encoding="utf-8"
    )
    made = catalogue(TEXT + "published: paper.yaml\n", seeds=[1, 2])
    assert made.report("mine_published") == "mine_published"
    assert made.report("mine_so_far") == "mine_selected_seeds_1_2_so_far"


def test_a_variant_has_its_own_runs(catalogue):
    made = catalogue(VARIANTS, variant="code", methods=["triplet"])
    report = made.report("mine")
    assert report == "mine_selected_triplet_code"
    (first, *_) = made.needed(report, ["emoji"], ["evaluations"])["evaluations"]
    assert first.startswith("<results>/mine_selected_code/emoji/triplet/")
    assert made.study("mine_selected_code").run("emoji", "triplet").training["loss"]["margin"] == 0.3
    assert "variant code" in made.page_facts(report)["title"]
    assert catalogue(VARIANTS, variant="recommended").report("mine") == "mine"
    # studies without variants ignore the choice
    ignored = catalogue(variant="code")
    assert ignored.report("mine") == ignored.study("mine").name == "mine"


def test_many_rows_give_a_short_name():
    many = Selection(methods=tuple(f"method_{number}" for number in range(40)))
    assert len(many.folder("s")) < len("s_selected_") + LONGEST
    assert many.folder("s") != Selection(methods=many.methods[1:]).folder("s")
    assert many.folder("s") == Selection(methods=many.methods[::-1]).folder("s")
