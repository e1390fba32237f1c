"""The figure of a sweep. All numbers here are made up."""

import pandas as pd
import pytest

from recheck.report import results, style
from recheck.report.figures import sweep
from recheck.report.tables.frame import build
from support.report.drawn import legend_of
from support.report.facts import facts

pytestmark = pytest.mark.slow

VIEWS = ["best_on_test", "last_epoch"]
VALUES = {
    "Triplet": [(64.0, "triplet_64"), (256.0, "triplet_256"), (2048.0, "triplet_2048")],
    "N-pairs": [(64.0, "npair_64"), (256.0, "npair_256"), (2048.0, "npair_2048")],
}
LABELS = {row: row for points in VALUES.values() for _, row in points}
PLOT = {
    "source": "Plot",
    "approximate": True,
    "values": {
        "birds": {row: {"best_on_test": {"R@1": 50.0 + n}} for n, row in enumerate(LABELS) if row.startswith("trip")}
    },
}
LOG = {"source": "Log", "values": {"birds": {row: {"best_on_test": {"R@1": 60.5}} for row in LABELS}}}


def rows(methods=tuple(LABELS), seeds=3, documents=()):
    result = [
        ["birds", method, seed, view, 64, "R@1", 0.4 + 0.05 * number + 0.01 * seed]
        for number, method in enumerate(methods)
        for seed in range(seeds)
        for view in VIEWS
    ]
    summary = results.summarise(pd.DataFrame(result, columns=results.EVALUATION_COLUMNS))
    return build(facts(LABELS, dataset="birds", views=VIEWS, metrics=["R@1"], quoted=documents), summary)


def draw(files, table, values=VALUES, names=None):
    shown = {"setting": "Embedding size", "views": VIEWS, "metric": "R@1", "names": names}
    return sweep.draw(table, values=values, **shown, **files)


def lines(axis, hollow):
    drawn = [line for line in axis.lines if len(line.get_xdata()) > 1 and line.get_linestyle() != "None"]
    return [line for line in drawn if (line.get_markerfacecolor() == "white") is hollow]


def test_measured_and_published_lines_of_a_method_share_colour_and_marker(files):
    drawn = draw(files, rows(documents=[PLOT, LOG]))
    best, last = drawn.axes
    assert (best.get_title(), last.get_title()) == ("Best epoch on test", "Last epoch")
    ours, quoted = lines(best, False), lines(best, True)
    assert [list(line.get_ydata()) for line in ours] == [pytest.approx([41, 46, 51]), pytest.approx([56, 61, 66])]
    # the first document that has a value: the plot for one method, the log for the other
    assert [list(line.get_ydata()) for line in quoted] == [[50, 51, 52], [60.5] * 3]
    assert [line.get_color() for line in ours] == [line.get_color() for line in quoted]
    assert [line.get_marker() for line in ours] == [line.get_marker() for line in quoted] == ["o", "s"]
    assert all(line.get_linestyle() == "-" for line in ours) and all(line.get_linestyle() != "-" for line in quoted)
    assert lines(last, True) == []
    assert legend_of(drawn) == [
        *VALUES,
        "measured here",
        "95 % interval over seeds",
        "published",
        "published, read off a plot",
    ]


def test_values_are_the_ticks_of_a_logarithmic_axis(files):
    drawn = draw(files, rows())
    axis = drawn.axes[0]
    drawn.canvas.draw()
    assert axis.get_xscale() == "log" and axis.get_xlabel() == "Embedding size" and axis.figure.axes[0] is axis
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["64", "256", "2048"]
    near = {"Triplet": [(0.5, "triplet_64"), (0.85, "triplet_256"), (1.0, "triplet_2048")]}
    drawn = draw(files, rows(), near)
    drawn.canvas.draw()
    assert drawn.axes[0].get_xscale() == "linear"
    assert [tick.get_text() for tick in drawn.axes[0].get_xticklabels()] == ["0.5", "0.85", "1"]


def test_words_and_numbers_are_shown_as_the_study_writes_them(files):
    words = {"Triplet": [(0.0, "triplet_64"), (1.0, "triplet_256"), (2.0, "triplet_2048")]}
    drawn = draw(files, rows(), words, {0.0: "small", 1.0: "Large", 2.0: "1e-4"})
    drawn.canvas.draw()
    assert drawn.axes[0].get_xscale() == "linear"
    assert [tick.get_text() for tick in drawn.axes[0].get_xticklabels()] == ["small", "Large", "1e-4"]


def test_published_values_without_measurements_have_no_solid_line(files):
    drawn = draw(files, rows(methods=(), documents=[PLOT]))
    assert len(drawn.axes) == 1 and "nothing was measured here" in drawn.get_suptitle()
    assert lines(drawn.axes[0], False) == [] and len(lines(drawn.axes[0], True)) == 1
    assert legend_of(drawn) == ["Triplet", "published, read off a plot"]


def test_rows_without_results_are_left_out(files):
    drawn = draw(files, rows(methods=("triplet_64", "triplet_2048", "npair_256"), seeds=1))
    ours = lines(drawn.axes[0], False)
    assert [list(line.get_xdata()) for line in ours] == [[64, 2048]]
    assert legend_of(drawn) == [*VALUES, "measured here"]


def test_no_values_give_a_note(files):
    assert draw(files, rows(methods=())).axes == []
    assert draw(files, rows(), {}).axes == [] and files["png"].exists()


def test_eight_methods_have_eight_colours_and_no_star():
    looks = [style.line_of(number) for number in range(24)]
    assert len({look["color"] for look in looks[:8]}) == 8
    assert len({(look["color"], look["marker"]) for look in looks}) == 24
    assert "*" not in {look["marker"] for look in looks}
