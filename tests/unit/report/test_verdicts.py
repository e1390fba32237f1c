"""Verdicts in tables of all formats, in ``verdicts.csv`` and in the sentence at the top of a page. Made-up numbers."""

import io

import numpy as np
import pandas as pd
import pytest

from recheck.files import write_json
from recheck.report import page, results, tables, verdicts
from recheck.statistics import verdict
from support.report.facts import facts

METHODS = {"same": "Same", "near": "Near", "far": "Far", "once": "Once", "never": "Never"}
MEANS = {"same": 60.0, "near": 60.6, "far": 62.0, "once": 60.0}
# five seeds with mean 0 and standard deviation 0.25
SEEDS = 0.25 * np.array([-1.0, -0.5, 0.0, 0.5, 1.0]) / np.std([-1.0, -0.5, 0.0, 0.5, 1.0], ddof=1)


def document(view="concatenated", rows=METHODS, dataset="emoji", **more):
    values = {row: {view: {"P@1": 60.0}} for row in rows}
    return {"source": "Paper", "values": {dataset: values}, **more}


def made(quoted=(), dataset="emoji", views=("concatenated",), **options):
    """A table with five seeds per row, except `once` (one seed) and `never` (none)."""
    rows = [
        [dataset, method, seed, view, 512, "P@1", (mean + noise) / 100]
        for method, mean in MEANS.items()
        for view in views
        for seed, noise in enumerate(SEEDS[:1] if method == "once" else SEEDS)
        if options.get("scope") != "published"
    ]
    about = facts(METHODS, seeds=5, quoted=quoted, dataset=dataset, views=list(views), metrics=["P@1"], **options)
    return tables.make(about, results.summarise(pd.DataFrame(rows, columns=results.EVALUATION_COLUMNS)))


@pytest.fixture(scope="module")
def table():
    return made([document()])


def test_every_published_cell_has_a_verdict(table):
    assert table.frame["verdict"].tolist() == ["reproduced", "undecided", "higher", "one seed", "not run"]
    frame = table.frame.set_index("method")
    expected = verdict.seeds_needed(60.6, 0.25, 5, verdict.Quote(60.0, error=0.005), 1.0, 0.05)
    assert frame["seeds_needed"].tolist() == ["", str(expected), "", "", ""]
    assert frame["sd"].tolist()[:3] == pytest.approx([0.25] * 3) and np.isnan(frame["sd"].iloc[3])
    half = verdict.compare(0.0, 0.25, 5, verdict.Quote(0.0, error=0.005), 1.0, 0.05).high
    assert frame.loc["far", ["low", "high"]].tolist() == pytest.approx([62 - half, 62 + half])


def test_the_verdict_is_a_column_of_every_format(table):
    needed = table.frame["seeds_needed"].iloc[1]
    head, _, *lines = table.markdown().splitlines()[:7]
    assert "Concatenated 512-d P@1 verdict" in head
    words = ["reproduced", f"undecided ({needed} seeds)", "higher", "one seed", "not run"]
    assert [line.split("|")[5].strip() for line in lines] == words
    wide = pd.read_csv(io.StringIO(table.csv())).set_index("method")
    assert wide["concatenated_P@1_verdict"].tolist() == table.frame["verdict"].tolist()
    assert wide.loc["near", "concatenated_P@1_seeds_needed"] == float(needed)
    assert '<th scope="col" class="verdict">verdict</th>' in table.html()
    assert all(f'<td class="verdict">{word}</td>' in table.html() for word in words)
    assert r"{\scriptsize higher}" in table.latex() and "and the verdict." in table.latex()


def test_a_column_of_verdicts_needs_a_tested_cell():
    one_seed = made([document(rows=["once", "never"])])
    assert "verdict" not in one_seed.markdown().splitlines()[0]
    assert "0 of 2 published cells reproduced, 0 not, 0 undecided, 1 without a verdict (one seed), 1 not run." in (
        one_seed.caption
    )
    assert "verdict" not in made().caption and "verdict" not in made().csv()


def test_the_caption_counts_the_verdicts_and_states_the_rule(table):
    assert "1 of 5 published cells reproduced, 1 not, 1 undecided, 1 without a verdict (one seed), 1 not run." in (
        table.caption
    )
    assert "(α = 0.05, δ = 1 point)" in table.caption and "within δ" not in table.caption
    assert "0.15 of the 3 tested cells would still be called “not reproduced” by chance (α × 3)." in table.caption


def test_the_study_sets_alpha_and_delta():
    strict = made([document()], verdicts={"alpha": 0.01, "delta": {"P@1": 0.5}})
    assert strict.frame["verdict"].tolist()[:3] == ["undecided", "undecided", "higher"]
    assert "(α = 0.01, δ = 0.5 points)" in strict.caption
    assert "δ = 11 points" in made([document()], verdicts={"delta": 11}).caption
    lax = made([document(runs={"emoji": dict.fromkeys(METHODS, 10)})], verdicts={"delta": 5})
    assert lax.frame["verdict"].tolist()[:3] == ["reproduced", "higher", "higher"]
    assert "higher, within δ" in lax.markdown() and "“within δ”: different, but by less than δ." in lax.caption


def test_published_runs_spread_and_reading_error_are_used():
    more = {
        "runs": {"emoji": dict.fromkeys(METHODS, 10)},
        "spread": {"emoji": {"near": {"concatenated": {"P@1": 3.0}}}},
        "reading_error": 0.3,
    }
    frame = made([document(**more)]).frame.set_index("method")
    quotes = {"same": verdict.Quote(60.0, 10, error=0.3), "near": verdict.Quote(60.0, 10, 3.0, 0.3)}
    for method, quote in quotes.items():
        expected = verdict.compare(MEANS[method], 0.25, 5, quote, 1.0, 0.05)
        for name in ("low", "high", "p", "p_equivalence"):
            assert frame.loc[method, name] == pytest.approx(float(getattr(expected, name)))
    assert frame.loc["near", ["published_runs", "published_spread", "reading_error"]].tolist() == [10, 3.0, 0.3]


def test_values_selected_on_the_test_set_are_compared_with_ours_only():
    both = made([document("best_on_test", ["far"])], views=("best_on_test", "last_epoch"))
    judged = both.frame[both.frame["verdict"] != ""]
    assert judged[["method", "view"]].to_numpy().tolist() == [["far", "best_on_test"]]


def test_the_best_of_many_trials_gets_no_verdict():
    quoted = document("validation", ["same"])
    assert (made([quoted], validation="P@1").frame["verdict"] == "").all()


def test_the_scopes_without_results_have_no_verdict(tmp_path):
    only = made([document()], scope="published")
    assert (only.frame["verdict"] == "").all() and verdicts.lines({"emoji": only.frame}).empty
    assert verdicts.csv(verdicts.lines({"emoji": only.frame})) == ",".join(verdicts.COLUMNS) + "\n"
    so_far = tables.make(
        facts(METHODS, seeds=5, quoted=[document()], scope="so_far", metrics=["P@1"], views=["concatenated"]),
        results.summarise(pd.DataFrame(columns=results.EVALUATION_COLUMNS)),
    )
    assert so_far.frame["verdict"].tolist() == ["not run"] * 5


def test_a_table_keeps_its_verdicts_in_its_file(table, tmp_path):
    write_json(tmp_path / "table.json", table.json())
    restored = tables.load(tmp_path / "table.json")
    pd.testing.assert_frame_equal(
        verdicts.lines({"emoji": restored.frame}), verdicts.lines({"emoji": table.frame}), check_dtype=False
    )
    assert restored.markdown() == table.markdown() and restored.csv() == table.csv()


def test_lines_are_adjusted_over_all_datasets_of_a_study(table):
    other = made([document(dataset="letters")], dataset="letters")
    frame = verdicts.lines({"emoji": table.frame, "letters": other.frame})
    assert list(frame.columns) == list(verdicts.COLUMNS) and len(frame) == 10
    assert frame["dataset"].tolist() == ["emoji"] * 5 + ["letters"] * 5
    tested = frame[frame["p"].notna()]
    assert len(tested) == 6 and frame["p_adjusted"].notna().sum() == 6
    assert tested["p_adjusted"].tolist() == pytest.approx(verdict.adjusted(tested["p"]))
    read = pd.read_csv(io.StringIO(verdicts.csv(frame)), keep_default_na=False)
    assert read["verdict"].tolist() == frame["verdict"].tolist() and read["p"].tolist()[-1] == ""


def test_the_sentence_counts_all_cells_and_the_note_the_false_alarms(table):
    cells = ["reproduced"] * 41 + ["lower", "higher", "lower"] + ["undecided"] * 12 + ["not run"] * 172
    assert verdicts.sentence(cells) == "41 of 228 published cells reproduced, 3 not, 12 undecided, 172 not run."
    assert verdicts.sentence([]) == ""
    p = [0.2] * 41 + [0.0001, 0.04, 0.045] + [0.5] * 12
    frame = pd.DataFrame({"verdict": cells[:56], "alpha": 0.05, "p": p, "p_adjusted": verdict.adjusted(p)})
    assert verdicts.multiplicity(frame) == (
        "If all published means equalled ours, 2.8 of the 56 tested cells would still be called “not reproduced” "
        "by chance (α × 56). With the false-discovery rate of the whole study controlled at 0.05 (Benjamini–Hochberg), "
        "1 of the 3 cells called “not reproduced” remain so."
    )
    assert verdicts.multiplicity(verdicts.lines({"emoji": made().frame})) == ""


def test_the_page_begins_with_the_sentence(table, tmp_path):
    write_json(tmp_path / "table.json", table.json())
    about = {
        **{"study": "quick", "title": "Quick", "description": "About.", "command": "snakemake --cores all quick"},
        **{"datasets": ["emoji"], "titles": {"emoji": "Emoji"}, "rows": [], "quoted": [], "captions": {"emoji": {}}},
    }
    text = page.make(about, [tmp_path / "table.json"], [], [])
    header = text.split("</header>")[0]
    assert "1 of 5 published cells reproduced" in header and "of the 3 tested cells" in header
    write_json(tmp_path / "table.json", made().json())
    assert "published cells" not in page.make(about, [tmp_path / "table.json"], [], [])
