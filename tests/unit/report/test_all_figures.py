"""The figures of a study: they are found in their folder, import quickly and are drawn only where they apply."""

import os
import shutil
import subprocess
import sys

import pytest

from recheck.report.figures import all_figures, study_figures
from support.project import SCRIPTS
from support.report.facts import facts

pytestmark = pytest.mark.slow

METHODS = {name: name.title() for name in ("pretrained", "triplet", "arcface", "cosface")}


def document(rows, **views):
    """A document with published values for these rows."""
    return {"source": "Paper", "values": {"cars": {row: views or {"separated": {"P@1": 50.0}} for row in rows}}}


THREE = [document(["triplet", "arcface", "cosface"])]
OF_EPOCHS = {"views": ["best_on_test", "last_epoch"], "generalisation_columns": ["train_R@1", "test_R@1"]}
SWEEP = {"label": "Size", "lines": [{"label": "Triplet", "points": [[1.0, "triplet"], [2.0, "arcface"]]}]}


def shown(quoted=(), **changes):
    about = facts(METHODS, dataset="cars", quoted=quoted, **changes)
    return [name for name, figure in all_figures().items() if figure.applies(about)]


FULL = ["metrics", "gallery", "recall", "curves", "map"]


@pytest.mark.parametrize(
    ("scope", "measured", "quoted", "figures"),
    [
        ("all", list(METHODS), [], FULL),
        ("all", list(METHODS), [document(["triplet", "arcface"])], FULL),
        ("all", list(METHODS), THREE, ["metrics", "ranks", *FULL[1:]]),
        ("all", list(METHODS), [{"source": "Paper", "values": {"birds": THREE[0]["values"]["cars"]}}], FULL),
        ("so_far", ["triplet", "arcface", "cosface"], THREE, ["metrics", "ranks", "recall", "curves"]),
        ("so_far", ["pretrained", "triplet", "arcface"], THREE, ["metrics", "recall", "curves"]),
        ("so_far", ["triplet"], [], ["metrics", "recall", "curves"]),
        ("so_far", [], THREE, ["metrics"]),
        ("so_far", [], [], []),
        ("published", [], THREE, ["metrics"]),
    ],
)
def test_only_figures_with_data_apply(scope, measured, quoted, figures):
    assert shown(quoted, scope=scope, measured=measured) == figures


def test_a_recall_curve_needs_two_points():
    assert "recall" in shown(recalls=2) and "recall" not in shown(recalls=1)


def test_epoch_views_have_bars_and_watched_training_images_a_comparison():
    every = ["metrics", "bars", "ranks", "generalisation", "gallery", "recall", "curves", "distances", "map"]
    assert shown(THREE, **OF_EPOCHS) == every
    assert "distances" not in shown(THREE, **OF_EPOCHS, normalise=False)
    some = shown(THREE, **OF_EPOCHS, scope="so_far", measured=["triplet"])
    assert some == ["metrics", "bars", "generalisation", "recall", "curves"]
    assert shown(THREE, **OF_EPOCHS, scope="published") == ["metrics", "bars"]
    assert shown(THREE, **OF_EPOCHS, scope="so_far", measured=[]) == ["metrics", "bars"]
    unwatched = shown(views=OF_EPOCHS["views"])
    assert unwatched == ["metrics", "bars", "gallery", "recall", "curves", "distances", "map"]


def test_published_values_of_training_images_are_compared_without_runs():
    quoted = [document(["triplet"], last_epoch={"R@1": 66.2, "train_R@1": 88.1})]
    assert shown(quoted, **OF_EPOCHS, scope="published") == ["metrics", "bars", "generalisation"]
    assert shown(quoted, **OF_EPOCHS, scope="published", sweep=SWEEP) == ["sweep", "generalisation"]
    assert shown(quoted, scope="published") == ["metrics"]


def test_a_sweep_has_its_own_figure_instead_of_figures_by_row():
    assert shown(THREE, **OF_EPOCHS, sweep=SWEEP) == ["sweep", "generalisation"]
    assert shown(sweep=SWEEP) == ["sweep"]
    for scope in ("published", "so_far"):
        assert shown(THREE, **OF_EPOCHS, sweep=SWEEP, scope=scope, measured=[]) == ["sweep"]
        assert shown([], **OF_EPOCHS, sweep=SWEEP, scope=scope, measured=[]) == []


def test_differences_need_two_rows_with_three_seeds():
    assert "differences" in shown(seeds=3) and "differences" not in shown(seeds=2)
    assert "differences" not in shown(seeds=3, scope="so_far", measured=["triplet"])
    assert "differences" not in shown(THREE, seeds=3, scope="published")
    assert "differences" not in shown(seeds=3, sweep=SWEEP)


@pytest.mark.parametrize(
    ("applies", "changes"),
    [
        (True, [{}, {}]),
        (False, [{}]),
        (False, [{"sweep": SWEEP}, {}]),
        (False, [{}, {"measured": ["triplet", "arcface"]}]),
        (True, [{"scope": "published"}, {"scope": "published"}]),
        (False, [{"scope": "published"}, {"scope": "published", "published": []}]),
    ],
)
def test_average_ranks_need_three_rows_on_two_datasets(applies, changes):
    all_facts = [facts(METHODS, dataset="cars", quoted=THREE, **changed) for changed in changes]
    assert study_figures()["critical_difference"].applies(all_facts) == applies


def test_rows_that_share_a_published_value_have_no_ranking():
    about = facts(METHODS, dataset="cars", quoted=THREE)
    assert all_figures()["ranks"].applies(about)
    for row in about["rows"]:
        row["compare_to"] = "pretrained"
    assert not all_figures()["ranks"].applies(about)


def test_query_views_have_their_own_figures_and_costs_need_a_baseline():
    queries = ["seen_queries", "unseen_queries"]
    asked = shown(views=queries)
    assert asked == ["metrics", "thresholds", "matches", "reliability", "gallery", "recall", "curves", "map"]
    assert shown(views=queries, baseline="triplet") == ["costs", *asked]
    some = shown(views=queries, baseline="triplet", scope="so_far", measured=["triplet"])
    assert some == ["costs", "metrics", "recall", "curves"]
    assert "costs" not in shown(views=queries, baseline="triplet", scope="so_far", measured=["arcface"])
    assert "costs" not in shown(views=queries, baseline="triplet", sweep=SWEEP)


def test_every_figure_needs_known_files_and_has_a_unique_place():
    kinds = {"evaluations", "histories", "runs", "embeddings", "searches", "trials", "index", "split", "pack"}
    kinds |= {"quoted_searches", "tables", "importances"}
    figures = [*all_figures().values(), *study_figures().values()]
    assert all(figure.needs and set(figure.needs) <= kinds for figure in figures)
    assert len({figure.place for figure in figures}) == len(figures)
    files = {path.stem for path in (SCRIPTS / "recheck/report/figures").glob("*.py")} - {"__init__"}
    assert {*all_figures(), *study_figures()} == files


def python(code, scripts=SCRIPTS):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(scripts)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_figures_import_without_slow_packages():
    """Snakemake imports them whenever it parses the workflow."""
    heavy = ("matplotlib", "pandas", "scipy", "sklearn", "torch", "PIL", "jinja2")
    code = f"""
import sys
from recheck.report.figures import all_figures
print(len(all_figures()), *(name for name in {heavy} if name in sys.modules))
"""
    assert python(code) == [str(len(all_figures()))]


NEW = """
from recheck.report.figures import Figure
from recheck.report.style import save, styled


class Counts(Figure):
    name, title, place = "counts", "How many rows there are", 5
    caption = "Rows of {dataset}."
    needs = ("evaluations",)

    def draw(self, inputs, png, svg):
        with styled() as plt:
            figure, axis = plt.subplots()
            axis.bar(["rows"], [len(inputs.rows)])
            return save(figure, png, svg)
"""


def test_a_new_figure_is_one_new_file(tmp_path):
    scripts = tmp_path / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "recheck/report/figures/counts.py").write_text(NEW, encoding="utf-8")
    code = f"""
from recheck.files import write_json
from recheck.report import page
from recheck.report.figures import all_figures
from recheck.report.inputs import Inputs
facts = {facts(METHODS)!r}
name, figure = next(iter(all_figures().items()))
inputs = Inputs(facts, {{}})
figure.draw(inputs, "emoji_counts.png", "emoji_counts.svg")
write_json("table.json", inputs.table.json())
captions = {{"emoji": {{name: figure.describe(facts)}}}}
about = {{**facts, "datasets": ["emoji"], "titles": {{"emoji": "Emoji"}}, "captions": captions, "quoted": []}}
text = page.make(about, ["table.json"], ["emoji_counts.png", "emoji_counts.svg"], [])
print(name, figure.applies(facts), figure.title in text, "Rows of emoji." in text)
"""
    assert python(f"import os; os.chdir({str(tmp_path)!r})\n{code}", scripts) == ["counts", "True", "True", "True"]
