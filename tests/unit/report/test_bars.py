"""Bars of the best epoch on test and the last epoch, with published values. All numbers here are made up."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from recheck.report import results
from recheck.report.figures import bars
from recheck.report.tables.frame import build
from support.report.drawn import legend_of, texts_of
from support.report.facts import facts

pytestmark = pytest.mark.slow

VIEWS, METRICS = ["best_on_test", "last_epoch"], ["R@1", "NMI"]
LABELS = {"triplet": "Triplet", "npair": "N-pairs", "late": "Not run yet", "unknown": "Nothing at all"}
BARS = {
    "source": "Bars",
    "values": {
        "birds": {
            "npair": {"best_on_test": {"R@1": 53.68, "NMI": 67.31}},
            "late": {"best_on_test": {"R@1": 56.4, "NMI": 64.0}},
        }
    },
    "notes": {"birds": {"npair": "NMI doubtful."}},
}
LOGS = {"source": "Logs", "values": {"birds": {"npair": {"best_on_test": {"R@1": 51.61}, "last_epoch": {"R@1": 50.0}}}}}


def rows(seeds=3, documents=(), labels=LABELS, methods=("triplet", "npair")):
    result = [
        ["birds", method, seed, view, 64, metric, 0.5 + 0.02 * number - 0.04 * VIEWS.index(view) + 0.01 * seed]
        for number, method in enumerate(methods)
        for seed in range(seeds)
        for view in VIEWS
        for metric in METRICS
    ]
    summary = results.summarise(pd.DataFrame(result, columns=results.EVALUATION_COLUMNS))
    return build(facts(labels, dataset="birds", views=VIEWS, metrics=METRICS, quoted=documents), summary)


def draw(files, *arguments, **options):
    return bars.draw(rows(*arguments, **options), views=VIEWS, metrics=METRICS, **files)


@pytest.fixture(scope="module")
def drawn_bars(tmp_path_factory):
    """The figure with one document, drawn once for all tests that only look at it, and its files."""
    folder = tmp_path_factory.mktemp("bars")
    files = {"png": folder / "a.png", "svg": folder / "a.svg"}
    return draw(files, documents=[BARS]), files


def widths(axis, filled):
    return [bar.get_width() for bar in axis.patches if bar.get_fill() == filled and bar.get_height() < 0.9]


def test_both_epochs_are_bars_from_zero_with_outlines_for_published_values(drawn_bars):
    drawn, files = drawn_bars
    recall = drawn.axes[0]
    assert [axis.get_title() for axis in drawn.axes] == METRICS
    assert [tick.get_text() for tick in recall.get_yticklabels()] == ["Triplet", "N-pairs", "Not run yet"]
    assert widths(recall, True) == pytest.approx([51, 47, 53, 49])
    assert widths(recall, False) == [53.68, 56.4]
    assert recall.get_xlim()[0] == 0 and all(bar.get_x() == 0 for bar in recall.patches if bar.get_height() < 0.9)
    assert texts_of(recall) == ["51.00", "53.00 (53.68)", "56.40"]
    assert len(recall.containers) > 4 and "95 % interval over seeds" in legend_of(drawn)
    assert files["png"].stat().st_size > 5000 and files["svg"].stat().st_size > 5000


def test_a_doubtful_value_has_an_asterisk_that_the_legend_explains(files, drawn_bars):
    drawn, _ = drawn_bars
    recall, nmi = drawn.axes
    # the note is about the other metric
    assert "*" not in "".join(texts_of(recall))
    assert texts_of(nmi) == ["51.00", "53.00 (67.31*)", "64.00"]
    assert "doubtful or not comparable" in drawn.legends[0].get_title().get_text()
    assert draw(files).legends[0].get_title().get_text() in ("", "None")


def test_a_second_document_that_disagrees_is_a_line_across_the_bar(files, drawn_bars):
    drawn = draw(files, documents=[BARS, LOGS])
    across = [line.get_xdata()[0] for line in drawn.axes[0].lines if len(set(line.get_xdata())) == 1]
    assert 51.61 in across and "a second document that disagrees" in legend_of(drawn)
    assert "a second document that disagrees" not in legend_of(drawn_bars[0])
    assert texts_of(drawn.axes[0])[1] == "53.00 (53.68, 51.61)"


def test_published_values_without_measurements_are_only_outlines(files):
    drawn = draw(files, methods=(), documents=[BARS, LOGS])
    recall = drawn.axes[0]
    assert "nothing was measured here" in drawn.get_suptitle()
    assert [tick.get_text() for tick in recall.get_yticklabels()] == ["N-pairs", "Not run yet"]
    assert widths(recall, True) == [] and widths(recall, False) == [53.68, 50.0, 56.4]
    assert legend_of(drawn)[:2] == ["best epoch on test, published", "last epoch, published"]
    # without a value of the last epoch there is no bar and no legend entry for it
    only = draw(files, methods=(), documents=[BARS])
    assert legend_of(only) == ["best epoch on test, published"]
    # and no panel for a metric without values
    assert [axis.get_title() for axis in draw(files, methods=(), documents=[LOGS]).axes] == ["R@1"]


def test_one_seed_has_no_interval_and_no_values_give_a_note(files):
    drawn = draw(files, seeds=1)
    assert "95 % interval over seeds" not in legend_of(drawn)
    drawn = draw(files, methods=())
    assert drawn.axes == [] and files["svg"].exists()


def test_an_interval_stays_between_0_and_100_percent(files):
    wide = rows(seeds=2).assign(interval=80.0)
    drawn = bars.draw(wide, views=VIEWS, metrics=METRICS, **files)
    ends = np.concatenate([path for piece in drawn.axes[0].collections for path in piece.get_segments()])[:, 0]
    assert ends.min() >= 0 and ends.max() <= 100


def test_fourteen_rows_with_long_labels_do_not_overlap(files):
    labels = {f"m{number}": f"NormProxy (2048 bits) {number}" for number in range(14)}
    values = {method: {"best_on_test": {"R@1": 50.0 + n, "NMI": 99.0}} for n, method in enumerate(labels)}
    notes = {"birds": dict.fromkeys(labels, "Doubtful.")}
    others = {method: {"best_on_test": {"R@1": 40.0, "NMI": 98.0}} for method in labels}
    documents = [
        {"source": "A", "values": {"birds": values}, "notes": notes},
        {"source": "B", "values": {"birds": others}},
    ]
    drawn = draw(files, labels=labels, methods=tuple(labels), documents=documents)
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [text for axis in drawn.axes for text in axis.texts]
    texts += [*drawn.axes[0].get_yticklabels(), *(axis.title for axis in drawn.axes), *drawn.legends[0].get_texts()]
    boxes = [text.get_window_extent(renderer) for text in [*texts, drawn.legends[0].get_title()]]
    assert not [(a, b) for number, a in enumerate(boxes) for b in boxes[:number] if a.overlaps(b)]
    for axis in drawn.axes:
        panel = axis.get_window_extent(renderer)
        assert all(text.get_window_extent(renderer).x1 <= panel.x1 + 5 for text in axis.texts)
