"""docs/fidelity.md is up to date with the tests."""

import re

import pytest

from recheck.study.yaml import read_yaml
from support.golden import fidelity
from support.project import ROOT
from support.project.studies import FILES, shipped

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page():
    return fidelity.page()


def test_the_page_is_up_to_date(page):
    assert fidelity.PAGE.read_text(encoding="utf-8") == page, "run `make fidelity`"


def test_every_study_with_published_numbers_is_on_the_page(page):
    for name in FILES.studies:
        if shipped(name).published:
            assert f"### `{name}`" in page, name


def test_every_row_is_on_the_page(page):
    for name in (name for names in fidelity.STUDIES.values() for name in names if name in FILES.studies):
        study, section = shipped(name), page.split(f"### `{name}`\n")[1].split("\n#")[0]
        if not study.sweep and "These rows were not compared." not in section:
            lines = [line for line in section.splitlines() if line.startswith("|")][2:]  # without the heading
            if lines[0].startswith("| all rows |"):
                assert len(lines) == 1, name
            else:
                assert set(study.rows) <= set(re.findall(r"\w+", section)), name


def test_deviations_name_tests_that_exist():
    entries = [entry for of_page in read_yaml(fidelity.DEVIATIONS)["deviations"].values() for entry in of_page]
    named = {entry["test"] for entry in entries if "test" in entry}
    assert named and named <= fidelity.test_names()


def test_a_comparison_needs_a_row_that_uses_its_part():
    study = shipped("unbiased")
    words = {row: fidelity.words_of(study.run("cub200", row).settings) for row in study.rows}

    def covered(**options):
        made = fidelity.compares("loss", tolerance=1e-8, **options)(lambda: None).comparisons[0]
        return [row for row in study.rows if made.covers(study, row, words)]

    assert covered(studies=["unbiased"], parts=["NPairLoss"]) == ["npair"]
    assert covered(studies=["unbiased"], rows=["npair", "margin"]) == ["npair", "margin"]
    assert covered(studies=["mlrc"], parts=["NPairLoss"]) == []
    assert covered(studies=["unbiased"]) == list(study.rows)


def test_comparisons_apply_to_studies_based_on_theirs_unless_exact():
    study = shipped("unbiased_resnet50")
    for exact in (True, False):
        made = fidelity.Comparison("loss", "1e-8", ("unbiased",), exact=exact)
        assert made.covers(study, "npair", {}) != exact


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{page}.md" for page in fidelity.STUDIES)])
def test_pages_link_it(name):
    assert "fidelity.md)" in (ROOT / name).read_text(encoding="utf-8")
