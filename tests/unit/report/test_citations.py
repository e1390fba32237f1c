"""Citations: on the page, in LaTeX and as BibTeX, each paper once."""

import pytest

from recheck.errors import UserError
from recheck.report import citations, page, results, tables
from recheck.study.facts import facts as facts_of
from recheck.study.facts import page_facts
from recheck.study.published import load_published
from support.project import ROOT
from support.project.studies import shipped
from support.report.facts import facts


def test_rows_of_one_paper_share_its_entry():
    rows = facts_of(shipped("mlrc"), "cub200", [], [])["rows"]
    keys, text = citations.keys(rows), citations.bibtex(rows)
    assert keys["margin"] == keys["margin_class"] and "pretrained" not in keys
    assert text.count("@") == len(set(keys.values()))
    assert all(f"{{{key}," in text for key in keys.values())


def test_a_latex_row_cites_its_paper():
    paper = {"bibtex": "@inproceedings{schroff2015facenet,\n  title = {FaceNet}\n}\n"}
    about = facts({"pretrained": "Pretrained", "triplet": "Triplet & more"})
    about["rows"][1]["paper"] = paper
    table = tables.make(about, results.summarise(results.read_evaluations([])))
    rows = [line for line in table.latex().splitlines() if line.endswith("\\\\")]
    assert any(row.startswith(r"Triplet \& more~\cite{schroff2015facenet} &") for row in rows)
    assert any(row.startswith("Pretrained &") for row in rows)
    assert "references.bib" in table.latex() and "cite" not in table.markdown()


def test_the_page_lists_methods_with_links_and_offers_their_references():
    about = page_facts(shipped("quickstart"))
    text = page.render(
        study="s", title="t", description="", sections=[], runs=[], labels={}, command="c", rows=about["rows"]
    )
    assert 'href="https://arxiv.org/abs/' in text and 'download="references.bib"' in text
    assert "ArcFace (classification)" in text
    rows = [{"name": "mine", "label": "Mine", "family": None, "paper": None}]
    text = page.render(study="s", title="t", description="", sections=[], runs=[], labels={}, command="c", rows=rows)
    assert "Mine (defined in this study)" in text and "references.bib" not in text
    plain = page.render(study="s", title="t", description="", sections=[], runs=[], labels={}, command="c")
    assert "Methods" not in plain


def test_quoted_documents_are_linked_and_cited():
    documents = load_published(ROOT / "resources/published/unbiased.yaml")
    study = shipped("unbiased")
    about = page_facts(study, documents)
    paper = documents[0]["paper"]
    assert paper["link"] == "https://arxiv.org/abs/1911.12528"
    assert citations.bibtex([*about["rows"], *about["quoted"]]).count("@misc{fehervari2019unbiased,") == 1
    options = {
        "sections": [],
        "runs": [],
        "labels": {},
        "command": "c",
        "rows": about["rows"],
        "quoted": about["quoted"],
    }
    text = page.render(study="s", title="t", description="", **options)
    assert f'<a href="{paper["link"]}">{documents[0]["source"]}</a>' in text
    table = tables.make(facts_of(study, "cub200", documents, []), results.summarise(results.read_evaluations([])))
    assert r"Sources of published values: \cite{fehervari2019unbiased}." in table.latex()
    assert "cite" not in table.markdown()


@pytest.mark.parametrize("path", sorted((ROOT / "resources/published").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_document_has_a_link_and_bibtex(path):
    for document in load_published(path):
        assert document["paper"]["link"].startswith("https://")
        assert document["paper"]["bibtex"].startswith("@") and "%" not in document["paper"]["bibtex"]


def test_an_unknown_key_is_an_error_that_names_the_nearest(tmp_path):
    (tmp_path / "papers.bib").write_text("@misc{me2020paper,\n  url = {https://example.org}\n}\n")
    path = tmp_path / "mine.yaml"
    path.write_text("documents: [{source: Mine, cite: me2021paper, values: {}}]\n")
    with pytest.raises(UserError, match=r"'cite' names 'me2021paper'.*papers\.bib.*me2020paper"):
        load_published(path)


def test_a_study_without_papers_has_a_comment_instead_of_bibtex():
    assert citations.bibtex(facts({"mine": "Mine"})["rows"]) == citations.EMPTY
