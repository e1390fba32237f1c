"""The content of the site: rows, runs, quotes, and data that no text can break out of."""

import json
import re

import pytest

from recheck.report.site.collect import Site, by_dataset, relative
from recheck.report.site.render import SCRIPTS, VALUES, asset, embedded, page
from support.report.site import add_study, small_site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return small_site(tmp_path_factory.mktemp("site"))


def test_a_row_has_mean_interval_seeds_folds_quotes_and_difference(site):
    rows = {row["id"]: row for row in site.data()["rows"]}
    row = rows["small/birds/triplet/separated"]
    cell = row["cells"]["P@1"]
    assert (row["family"], row["backbone"], row["dim"]) == ("triplets", "resnet50", 64)
    assert cell["mean"] == pytest.approx(50.5)
    assert cell["seeds"] == pytest.approx({0: 50.0, 1: 50.5, 2: 51.0})
    assert cell["folds"][1] == pytest.approx([50.25, 50.75])
    assert cell["interval"] == pytest.approx(4.302652729911275 * 0.5 / 3**0.5)
    assert cell["difference"] == pytest.approx(-0.75)
    assert [(each["value"], each["source"]) for each in cell["quotes"]] == [(51.25, "Paper 9")]
    assert rows["small/birds/quoted/separated"]["cells"]["P@1"]["mean"] is None
    assert "small/cars/quoted/separated" not in rows, "neither measured nor published"


def test_cells_have_verdicts_with_p_values_adjusted_for_the_whole_study(site):
    cells = {row["id"]: row["cells"]["P@1"] for row in site.data()["rows"]}
    lower, not_run = cells["small/cars/triplet/separated"], cells["small/birds/quoted/separated"]
    assert (lower["verdict"], not_run["verdict"]) == ("lower", "not run")
    assert lower["p_adjusted"] == pytest.approx(4 * lower["p"]), "the smallest of four tests"
    assert "verdict" not in cells["small/birds/plain/separated"], "nothing was published"
    assert site.studies[0]["verdicts"].startswith("0 of 5 published cells reproduced, 1 not")


def test_records_of_runs_name_log_data_versions_and_settings(site):
    data = site.data()
    runs = data["runs"]["small/birds/proxy"]
    assert runs["settings"]["loss"]["margin"] == 0.125
    assert len(runs["runs"]) == 6
    last = runs["runs"][-1]
    assert last["log"] == "logs/small/birds/proxy/seed2/fold1/train.log"
    assert last["data"] == {"split": "ab" * 32, "pixels": "cd" * 32}
    assert data["versions"][last["versions"]] == {"torch": "2.13.0"}


def test_a_quoted_row_of_two_studies_appears_once_on_the_page_of_all_studies(tmp_path):
    site = small_site(tmp_path)
    add_study(site, tmp_path, name="other")
    quoted = [row["id"] for row in site.data()["rows"] if row["method"] == "quoted"]
    assert quoted == ["small/birds/quoted/separated"]
    assert [row["id"] for row in site.data("other")["rows"] if row["method"] == "quoted"] == [
        "other/birds/quoted/separated"
    ]
    assert {row["study"] for row in site.data("other")["rows"]} == {"other"}


def test_embedded_data_is_json_without_angle_brackets():
    hostile = {"</script><script>alert(1)</script>": ["<!--", "\u2028", "]]>", "é"]}
    text = embedded(hostile)
    assert "<" not in text
    assert json.loads(text) == hostile


def test_the_policy_of_a_page_allows_its_own_script_only(site):
    text = page(site.data(), title="<b>")
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    assert "<title>&lt;b&gt; · Recheck</title>" in text


@pytest.mark.parametrize("name", [*SCRIPTS, VALUES])
def test_scripts_never_make_html_from_text_and_end_no_element(name):
    text = asset(name)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "</script", "fetch("):
        assert word not in text


def test_files_are_sorted_by_dataset():
    files = {"runs": ["r/s/birds/m/seed0/fold0/run.json", "r/s/cars/m/seed0/fold0/run.json"]}
    sorted_files = by_dataset([{"dataset": "cars"}, {"dataset": "birds"}], files)
    assert sorted_files["cars"][1] == {"evaluations": [], "runs": [files["runs"][1]], "failures": []}


def test_links_are_relative_to_the_folder_of_results():
    assert relative("results/mlrc_published/index.html", "results") == "mlrc_published/index.html"


def test_an_empty_site_is_a_page_too():
    assert "Results" in page(Site().data(), title="Results")
