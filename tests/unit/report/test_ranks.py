"""Our ranks against published ranks, ties, and ranks possible within the intervals. All numbers here are made up."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy import stats

from recheck.report.figures import ranks

pytestmark = pytest.mark.slow

VIEWS = {"concatenated": "concatenated, 512-d", "separated": "separated, 128-d"}


def frame(published, ours, interval=np.nan, views=VIEWS, labels=None):
    """The frame of a table with these values in every view."""
    labels = labels or [f"Method {number}" for number in range(len(published))]
    return pd.DataFrame(
        [
            {"label": label, "view": view, "metric": "MAP@R", "published": quote, "mean": mean, "interval": interval}
            for view in views
            for label, quote, mean in zip(labels, published, ours, strict=True)
        ]
    )


def drawn(table, tmp_path, views=VIEWS):
    return ranks.draw(table, views=views, metric="MAP@R", png=tmp_path / "a.png", svg=tmp_path / "a.svg")


def test_values_that_are_printed_the_same_share_the_best_rank():
    assert ranks.ranked([30.0, 40.0, 30.004, 20.0]).tolist() == [2, 1, 2, 4]
    assert ranks.ranked([5.0, 5.0, 5.0]).tolist() == [1, 1, 1]


def test_methods_with_overlapping_intervals_can_swap_ranks():
    best, worst = ranks.open_ranks([40.0, 39.0, 30.0, 20.0], [1.0, 0.5, 0.5, np.nan])
    assert best.tolist() == [1, 1, 3, 4]
    assert worst.tolist() == [2, 2, 3, 4]


def test_methods_are_in_the_published_order_with_their_moves():
    result = ranks.ranking(frame([20, 40, 30, 10], [35, 30, 31, 5]), "separated", "MAP@R")
    assert result["label"].tolist() == ["Method 1", "Method 2", "Method 0", "Method 3"]
    assert result["published"].tolist() == [1, 2, 3, 4]
    assert result["ours"].tolist() == [3, 2, 1, 4]
    assert result["move"].tolist() == [-2, 0, 2, 0]
    assert result["emphasised"].tolist() == [True, False, True, False]
    assert result["best"].isna().all()


def test_only_methods_with_measured_and_published_values_are_ranked():
    result = ranks.ranking(frame([40, np.nan, 30, 20], [1, 2, np.nan, 3]), "separated", "MAP@R")
    assert result["published"].tolist() == [1, 2] and result["ours"].tolist() == [2, 1]


def test_a_move_of_one_place_is_not_emphasised_and_equal_moves_are_treated_alike():
    order = np.arange(20.0)
    swapped = order.reshape(-1, 2)[:, ::-1].ravel()
    assert not ranks.ranking(frame(order, swapped), "separated", "MAP@R")["emphasised"].any()
    twisted = order.reshape(-1, 5)[:, ::-1].ravel()
    result = ranks.ranking(frame(order, twisted), "separated", "MAP@R")
    assert set(result.loc[result["emphasised"], "move"].abs()) == {4}
    assert set(result.loc[~result["emphasised"], "move"].abs()) == {0, 2}


def test_the_title_has_the_correlation_of_the_printed_values():
    published, ours = [10, 20, 30, 40, 50], [11.001, 11.004, 33, 31, 60]
    text = ranks.agreement(frame(published, ours), "separated", "MAP@R")
    rho = stats.spearmanr(published, np.round(ours, 2)).statistic
    assert text == f"Spearman’s ρ = {rho:.2f}, n = 5"
    assert "ρ = −1.00" in ranks.agreement(frame([1, 2, 3], [3, 2, 1]), "separated", "MAP@R")
    assert ranks.agreement(frame([1, 2, 3], [7, 7, 7]), "separated", "MAP@R") == "n = 3"


@pytest.mark.parametrize("interval", [np.nan, 0.6])
def test_a_panel_shows_both_ranks_moves_and_possible_ranks(tmp_path, interval):
    figure = drawn(frame([40, 30, 20], [20, 30, 41], interval), tmp_path)
    assert [axis.get_title().splitlines()[0] for axis in figure.axes] == [f"MAP@R, {title}" for title in VIEWS.values()]
    axis = figure.axes[0]
    hollow = [line.get_xdata()[0] for line in axis.lines if line.get_markerfacecolor() == "white"]
    filled = [line.get_xdata()[0] for line in axis.lines if line.get_marker() == "o" and line.get_markersize() == 5]
    assert (hollow, filled) == ([1, 2, 3], [3, 2, 1])
    assert [text.get_text() for text in axis.texts] == ["▼\u20092", "=", "▲\u20092"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("interval" in text for text in legend) != np.isnan(interval)
    assert (tmp_path / "a.png").stat().st_size > 5000 and (tmp_path / "a.svg").exists()


def test_nineteen_long_labels_do_not_overlap(tmp_path):
    generator = np.random.default_rng(0)
    labels = [f"Multi-similarity + within-pair {number}" for number in range(19)]
    values = generator.uniform(15, 30, 19)
    figure = drawn(frame(values, values + generator.normal(0, 2, 19), 0.5, labels=labels), tmp_path)
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [label for axis in figure.axes for label in [*axis.get_yticklabels(), *axis.texts, *axis.get_xticklabels()]]
    texts += [axis.title for axis in figure.axes] + figure.legends[0].get_texts()
    boxes = [text.get_window_extent(renderer) for text in texts]
    assert not [(a, b) for number, a in enumerate(boxes) for b in boxes[:number] if a.overlaps(b)]
    width, height = figure.canvas.get_width_height()
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)


def test_a_view_with_too_few_rows_is_left_out_and_no_view_gives_a_note(tmp_path):
    table = pd.concat([frame([3, 2, 1], [3, 2, 1], views=["separated"]), frame([3, 2], [3, 2], views=["concatenated"])])
    figure = drawn(table, tmp_path)
    assert len(figure.axes) == 1 and "separated" in figure.axes[0].get_title()
    note = drawn(frame([3, 2], [3, 2]), tmp_path)
    assert not note.axes and "3 or more methods" in note.texts[0].get_text()
