"""CONTRIBUTING.md tells the truth: its excerpts are in the files, its commands and files exist; templates are valid."""

import re

import pytest
import yaml

import recheck
from support.project import ROOT
from support.project.studies import shipped

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXCERPTS = re.findall(r"```text\n# (\S+)\n(.*?)```", TEXT, re.DOTALL)
TEMPLATES = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def test_the_example_has_an_excerpt_per_step():
    assert len(EXCERPTS) == 7


@pytest.mark.parametrize(("name", "excerpt"), EXCERPTS)
def test_excerpts_are_in_their_files(name, excerpt):
    text = (ROOT / name).read_text(encoding="utf-8")
    for piece in excerpt.split("# …\n"):
        assert piece and piece in text


def test_named_files_and_make_targets_exist():
    names = {name for name in re.findall(r"`([\w./-]+)`", TEXT) if "/" in name or name.endswith(".md")}
    assert len(names) >= 8
    assert not [name for name in names if not (ROOT / name).exists()]
    targets = set(re.findall(r"\bmake ([a-z]+)\b(?=[`\n])", TEXT))
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"setup", "check", "test", "format", "fidelity"} == targets and targets <= known


def test_commands_name_a_study_with_the_row():
    (tiny,) = re.findall(r"study=(\w+) methods=\[angular\]", TEXT)
    assert "angular" in shipped(tiny).rows


def test_the_golden_numbers_have_the_keys():
    import numpy as np

    with np.load(ROOT / "tests/golden/unbiased_angular.npz") as golden:
        assert set(re.findall(r"`(case0_\w+)`", TEXT)) <= set(golden)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_issue_templates_are_valid_forms(path):
    """GitHub's rules: name, description and body; elements with unique ids, labels, and options of dropdowns."""
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem == "config":
        assert set(form) <= {"blank_issues_enabled", "contact_links"}
        return
    assert form["name"] and form["description"] and set(form) <= {"name", "description", "title", "labels", "body"}
    fields = [element for element in form["body"] if element["type"] != "markdown"]
    assert {element["type"] for element in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
    ids = [element["id"] for element in fields]
    assert fields and len(set(ids)) == len(ids)
    assert all(element["attributes"]["label"] for element in fields)
    assert all(element["attributes"]["options"] for element in fields if element["type"] == "dropdown")


def test_there_is_a_template_for_numbers_that_do_not_reproduce():
    names = [yaml.safe_load(path.read_text(encoding="utf-8")).get("name") for path in TEMPLATES]
    assert {"A number does not reproduce", "Bug", "Question"} <= set(names)
    form = (ROOT / ".github/ISSUE_TEMPLATE/number.yml").read_text(encoding="utf-8")
    assert "run.json" in form and "verdicts.csv" in form


def test_the_newest_version_is_everywhere_the_same():
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == newest == getattr(recheck, "__version__", newest)


def test_the_citation_names_papers_whose_tables_are_regenerated():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= set(citation)
    papers = (ROOT / "resources/published/papers.bib").read_text(encoding="utf-8")
    titles = [reference["title"] for reference in citation["references"]]
    assert len(titles) >= 4 and set(titles) <= set(re.findall(r"title = \{(.*)\}", papers))
