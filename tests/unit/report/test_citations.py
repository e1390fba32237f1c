"""Citations: on the page, in LaTeX and as BibTeX, each paper once."""

from recheck.report import citations, page, results, tables
from recheck.study.facts import facts as facts_of
from recheck.study.facts import page_facts
from support.report_facts import facts
from support.studies import shipped


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
    plain = page.render(study="s", title="t", description="", sections=[], runs=[], labels={}, command="c")
    assert "Methods" not in plain


def test_a_study_without_papers_has_a_comment_instead_of_bibtex():
    assert citations.bibtex(facts({"mine": "Mine"})["rows"]) == citations.EMPTY
