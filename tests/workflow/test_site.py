"""The site in a real browser: `snakemake site`, and everything that a reader does with the table."""

import csv
import io
import shutil
import subprocess

import pytest

from recheck.report.site.render import page
from support.report.site import small_site
from support.services.browser import Tab, chromium

HOSTILE = "<script>alert(1)</script> \"quoted\" 'single' & ünïcode 漢字 \u202e " + "x" * 200
BIRDS = "small/birds"


@pytest.fixture(scope="module")
def browser():
    with chromium() as program:
        yield program


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return small_site(tmp_path_factory.mktemp("studies"))


@pytest.fixture(scope="module")
def path(site, tmp_path_factory):
    """The page with a study of two datasets."""
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page(site.data(), title="Results of all studies"), encoding="utf-8")
    return path


def test_sorting_filtering_and_the_address(browser, path):
    with Tab(browser, path) as tab:
        assert tab.column("label")[:4] == ["Plain", "Triplet", "Proxy", "Quoted"]
        assert "7 rows of 7: 6 measured here, 1 quoted only." in tab.texts(".status")
        tab.page.click('[data-sort="P@1:ours"]')
        values = tab.column("P@1:ours")
        assert values[0].startswith("66.00 ± ") and values[-1] == "not run", "largest first, missing last"
        assert tab.page.get_attribute('th[aria-sort="descending"] button', "data-sort") == "P@1:ours"
        tab.page.click('[data-sort="P@1:ours"]')
        assert tab.column("P@1:ours")[0].startswith("41.00") and tab.column("P@1:ours")[-1] == "not run"
        tab.page.click('[data-menu="dataset"] summary')
        tab.page.check('[data-menu="dataset"] input[value="birds"]')
        tab.page.keyboard.press("Escape")
        assert tab.column("label") == ["Plain", "Triplet", "Proxy", "Quoted"]
        tab.page.click('[data-menu="metrics"] summary')
        tab.page.check('[data-menu="metrics"] input[value="MAP@R"]')
        tab.page.keyboard.press("Escape")
        tab.page.check("#complete")
        assert tab.column("label") == ["Plain", "Triplet", "Proxy"], "the quoted row has no MAP@R"
        tab.page.keyboard.press("/")
        tab.page.keyboard.type("pro")
        assert tab.column("label") == ["Proxy"]
        assert tab.column("MAP@R:published") == ["30.00*"]
        fragment = tab.fragment()
    with Tab(browser, path, "#dataset=birds&q=quoted&metrics=MAP@R") as tab:
        assert tab.column("MAP@R:ours") == ["not run"], "neither measured nor published, but planned"
    with Tab(browser, path, fragment) as tab:
        assert tab.column("label") == ["Proxy"]
        assert tab.column("MAP@R:published") == ["30.00*"]
        assert tab.page.input_value("#search") == "pro"
        assert tab.page.is_checked("#complete")
        tab.page.click("#reset")
        assert len(tab.column("label")) == 7
        tab.page.click('[data-menu="family"] summary')
        tab.page.check('[data-menu="family"] input[value="triplets"]')
        assert tab.column("label") == ["Triplet", "Triplet"]
        assert tab.fragment() == "#family=triplets"
        tab.go_to("#kind=quoted+only")
        assert tab.column("label") == ["Quoted"]
        tab.go_to("#verdict=lower&verdict=not+run")
        assert tab.column("P@1:verdict") == ["·\nnot run", "↓\nlower"], "signs and words, not only colours"
        assert "1 not reproduced" in tab.texts("#summary li")


def test_provenance_by_mouse_and_by_keyboard(browser, path):
    with Tab(browser, path) as tab:
        tab.page.click(f'[data-id="{BIRDS}/triplet/separated"] .ours button')
        text = tab.page.inner_text("dialog")
        assert tab.page.inner_text("#panel-title") == "Triplet: P@1"
        for words in (
            "50.50 ± 1.24 %",
            "51.25 % Paper 9, counted as a single run",
            "The prediction interval for the published value is 48.01 to 52.99; the value lies inside, but",
            "It would take more than 1000 seeds to decide.",
            "Rule: α = 0.05, δ = 1. Standard deviation over seeds: 0.50.",
            "p = 0.33 (adjusted for all tests of the study: p = 0.43). Test of equivalence within δ: p = 0.36.",
            "50.25, 50.75",
            "logs/small/birds/triplet/seed2/fold1/train.log",
            "abababababab",
            "cdcdcdcdcdcd",
            "torch 2.13.0",
            "1 min",
        ):
            assert words in text
        folder = "results/small/birds/triplet/seed{0,1,2}"
        command = f"snakemake --cores all {folder}/separated.json --forcerun {folder}/fold{{0,1}}/model.safetensors"
        assert f"{command} --config reuse=false" in text
        tab.page.click("dialog details summary")
        assert "margin: 0.125" in tab.page.inner_text("dialog details")
        opened = tab.fragment()
        tab.close_dialog()
        assert not tab.page.is_visible("dialog") and tab.fragment() == ""
        tab.page.focus(".board tbody input")
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
            tab.page.keyboard.press(key)
        assert tab.page.inner_text("#panel-title") == "Proxy: P@1"
        assert "One run." in tab.page.inner_text("dialog")
        tab.close_dialog()
        tab.page.click(f'[data-id="{BIRDS}/quoted/separated"] .published button')
        assert 'snakemake --cores all small --config "methods=[quoted]"' in tab.page.inner_text("dialog")
    with Tab(browser, path, opened) as tab:
        assert tab.page.inner_text("#panel-title") == "Triplet: P@1"


def test_two_rows_are_compared_on_every_dataset(browser, path):
    with Tab(browser, path) as tab:
        for method in ("triplet", "plain", "proxy"):
            tab.page.click(f'[data-id="{BIRDS}/{method}/separated"] input')
        assert tab.texts(".pick") == ["A: Plain", "B: Proxy"], "the two latest"
        tab.page.click(".picked .strong")
        lines = [line.split("\t") for line in tab.texts("dialog .plain tbody tr")]
        assert [line[0] for line in lines] == ["Birds (Caltech)", "Cars"]
        assert [line[3] for line in lines] == ["−18.00", "−18.00"], "41 − 59"
        # of three seeds with the differences −20, −18 and −16
        assert all(line[4] == "−20.00 to −16.00 (75 %)" and line[-3:] == ["0.00", "0.25", "3"] for line in lines)
        assert "no retrieval galleries" in tab.page.inner_text("dialog")
        fragment = tab.fragment()
        tab.page.click("dialog .close")
        tab.page.click(f'[data-id="{BIRDS}/plain/separated"] input')
        tab.page.click(f'[data-id="{BIRDS}/quoted/separated"] input')
        tab.page.click(".picked .strong")
        [reason] = [text for text in tab.texts("dialog .note") if text.startswith("No paired")]
        assert reason == "No paired comparison on Birds (Caltech): at least one of the two rows was not measured."
    with Tab(browser, path, fragment) as tab:
        assert tab.page.inner_text("#panel-title") == "Plain or Proxy?"


def test_exports_are_what_is_shown(browser, path, tmp_path):
    with Tab(browser, path, "#dataset=birds&sort=-P%401%3Apublished", accept_downloads=True) as tab:
        tab.page.click('[data-export="CSV"]')
        with tab.page.expect_download() as download:
            tab.page.click("dialog a.button")
        text = download.value.path().read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["label"] for row in rows] == ["Quoted", "Proxy", "Triplet", "Plain"]
        assert float(rows[2]["P@1 ours"]) == pytest.approx(50.5)
        assert rows[2]["P@1 verdict"] == "undecided" and rows[0]["P@1 ours"] == ""
        assert [rows[2][f"P@1 {kind}"] for kind in ("published", "approximate", "source")] == ["51.25", "no", "Paper 9"]
        tab.page.click("dialog .close")
        tab.page.click('[data-export="LaTeX"]')
        latex = tab.page.inner_text("dialog code")
        assert r"\toprule" in latex and r"Triplet~\cite{key1}" in latex and r"50.50 $\pm$ 1.24" in latex
        assert r"\caption{P@1 in percent on Birds (Caltech)." in latex and r"\cite{key9}" in latex
        assert r"Verdicts ($\alpha$ = 0.05, $\delta$ = 1): ``not reproduced''" in latex
        tab.page.click("dialog .close")
        tab.page.click('[data-export="BibTeX"]')
        bibtex = tab.page.inner_text("dialog code")
        assert [f"@article{{key{number}," in bibtex for number in (0, 1, 2, 3, 9)] == [True] * 5
    compiled(latex, tmp_path)


def compiled(latex, folder):
    """Compile a table with pdfLaTeX, if it is installed."""
    if shutil.which("pdflatex"):
        document = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}" + latex + r"\end{document}"
        (folder / "table.tex").write_text(document, encoding="utf-8")
        subprocess.run(["pdflatex", "-halt-on-error", "table.tex"], cwd=folder, check=True, capture_output=True)


def test_hostile_names_are_shown_as_text(browser, tmp_path):
    names = {"triplet": HOSTILE, "proxy": "=HYPERLINK(1)", "plain": "[漢] ę"}
    data = small_site(tmp_path, labels=names, reason=HOSTILE, title=HOSTILE).data()
    thumbnail = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
    data["galleries"][BIRDS] = {
        "queries": [1],
        "neighbours": {"triplet": [[1, 2]], "proxy": [[2]]},
        "classes": {"1": HOSTILE, "2": "two"},
        "labels": {"1": 1, "2": 2},
        "thumbnails": {"1": thumbnail, "2": thumbnail},
    }
    data["rows"][0]["warned"] = ["epoch 0 was chosen"]
    [cell] = [row["cells"]["P@1"] for row in data["rows"] if row["id"] == f"{BIRDS}/triplet/separated"]
    cell.update({"verdict": "lower", "p_equivalence": 0.01})
    cell["quotes"].append({"value": 51.0, "approximate": True, "note": "", "source": HOSTILE})
    path = tmp_path / "index.html"
    path.write_text(page(data, title=HOSTILE, description=HOSTILE), encoding="utf-8")
    chosen = f"#dataset=birds&rows={BIRDS}/triplet/separated&rows={BIRDS}/proxy/separated"
    with Tab(browser, path, chosen) as tab:
        assert tab.page.inner_text("h1") == HOSTILE
        assert tab.page.text_content(f'[data-id="{BIRDS}/triplet/separated"] .name') == HOSTILE
        assert HOSTILE.split()[0] in tab.page.text_content("#studies details"), "the reason of a failure"
        assert tab.page.locator("script").count() == 2
        assert tab.texts('[data-verdict="lower"]') == ["↓\nlower, within δ"]
        tab.page.click(".picked .strong")
        assert tab.page.get_attribute("dialog .right img", "alt") == f"right: {HOSTILE}"
        tab.page.click("dialog .close")
        tab.page.click('[data-export="CSV"]')
        rows = list(csv.DictReader(io.StringIO(tab.page.text_content("dialog code"))))
        assert [row["label"] for row in rows] == ["[漢] ę", HOSTILE, "'=HYPERLINK(1)", "Quoted"]
        assert rows[1]["P@1 also published"] == f"51 ({HOSTILE})" and rows[0]["warnings"] == "Epoch 0 was chosen."
        tab.page.click("dialog .close")
        tab.page.click('[data-export="LaTeX"]')
        latex = tab.page.text_content("dialog code")
        assert r"\textless{}script\textgreater{}" in latex and "[U+6F22]" in latex
        assert "\n{}[[U+6F22]] [U+0119]\\textsuperscript{$\\dagger$}~" in latex, "not an option of the line before it"
        assert "not reproduced: lower, within $\\delta$" in latex
        # without colour, at the width of a phone
        tab.page.click("dialog .close")
        tab.page.set_viewport_size({"width": 400, "height": 800})
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 400
    compiled(latex, tmp_path)


def test_a_table_of_thousands_of_rows_is_drawn_in_parts_and_printed_whole(browser, site, tmp_path):
    data = site.data()
    [row] = [row for row in data["rows"] if row["id"] == f"{BIRDS}/proxy/separated"]
    data["rows"] = [{**row, "id": f"row{number}", "label": f"Row {number}"} for number in range(5000)]
    path = tmp_path / "index.html"
    path.write_text(page(data, title="Many"), encoding="utf-8")
    with Tab(browser, path) as tab:
        assert tab.page.locator(".board tbody tr").count() == 200
        assert tab.texts(".status") == ["5,000 rows of 5,000: 5,000 measured here, 0 quoted only."]
        tab.page.click('[data-sort="label"]')
        tab.page.click('[data-sort="label"]')
        assert tab.column("label")[:2] == ["Row 4999", "Row 4998"], "numbers in names count as numbers"
        tab.page.fill("#search", "row 77")
        assert tab.texts(".status") == ["95 rows of 5,000: 95 measured here, 0 quoted only."]
        tab.page.fill("#search", "")
        tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert tab.page.locator(".board tbody tr").count() == 5000


def test_the_target_site_trains_nothing_and_shows_every_study(browser, project):
    project.add_shipped_studies()
    stats = project.succeed("--cores", "1", "site").split("Job stats:")[1].split("total")[0]
    assert [line.split() for line in stats.splitlines()[3:] if line] == [["galleries", "1"], ["site", "1"]]
    assert project.planned("site") == {}, "nothing has changed"
    with Tab(browser, project.path("results/index.html"), "#study=letters") as tab:
        assert {"Pretrained", "Triplet", "ProxyNCA"} == {name.split()[0] for name in tab.column("label")}
        for method in ("triplet", "proxy_nca"):
            tab.page.click(f'[data-id="letters/glyphs/{method}/separated"] input')
        tab.page.click(".picked .strong")
        assert tab.page.locator("dialog .line img").count() == 2 * 5 * 7, "five queries with six neighbours, twice"
        tab.page.click("dialog .close")
        tab.page.click("#reset")
        assert "mlrc" in tab.column("study"), "quoted rows of studies that were never run"
    with Tab(browser, project.path("results/site/mlrc.html")) as tab:
        assert "ArcFace" in tab.column("label")
        assert tab.page.inner_text(".headline").startswith("0 of ")
    with Tab(browser, project.path("results/letters/index.html")) as tab:
        tab.page.click('[data-id="letters/glyphs/triplet/concatenated"] .ours button')
        command = tab.page.inner_text("dialog code >> nth=1")
        tab.page.click("dialog .close")
        tab.page.locator(".values-on").first.scroll_into_view_if_needed()
        tab.page.locator(".plate:has(metadata.values)").first.focus()
        tab.page.keyboard.press("ArrowRight")
        assert "P@1" in tab.page.inner_text(".value-tip >> nth=0")
    arguments = command.replace("{0,1}", "0").split()[1:]
    assert project.planned(*arguments)["train"] == 1, "the command trains this run again"
