"""The figure of generalisation: unseen images against training images. All numbers here are made up."""

import numpy as np
import pandas as pd
import pytest

from recheck.report.figures import generalisation
from support.report.drawn import legend_of

pytestmark = pytest.mark.slow

COLUMNS = ("train_R@1", "test_R@1")
LABELS = {"triplet": "Triplet", "contextual": "Contextual", "untrained": "Untrained"}


def histories(methods=("triplet", "contextual"), seeds=2, folds=2, epochs=4, every=2):
    """Evaluated at every second epoch; a run's values differ by its seed and fold."""
    rows = [
        {
            "dataset": "birds",
            "method": method,
            "seed": seed,
            "fold": fold,
            "epoch": epoch,
            "step": 10 * epoch,
            "train_R@1": 0.3 + 0.1 * epoch + 0.02 * seed if epoch % every == 0 else np.nan,
            "test_R@1": 0.2 + 0.05 * epoch + 0.04 * fold + 0.1 * number if epoch % every == 0 else np.nan,
        }
        for number, method in enumerate(methods)
        for seed in range(seeds)
        for fold in range(folds)
        for epoch in range(epochs + 1)
    ]
    return pd.DataFrame(rows)


def draw(files, frame, **options):
    shown = {"labels": LABELS, "columns": COLUMNS, **options}
    return generalisation.draw(frame, **shown, **files)


def test_a_curve_is_the_mean_over_seeds_and_folds_with_a_star_at_its_end(files):
    drawn = draw(files, histories())
    (axis,) = drawn.axes
    curves = [line for line in axis.lines if line.get_marker() != "*"]
    stars = [line for line in axis.lines if line.get_marker() == "*"]
    assert list(curves[0].get_xdata()) == pytest.approx([31, 51, 71])
    assert list(curves[0].get_ydata()) == pytest.approx([22, 32, 42])
    assert [(star.get_xdata()[0], star.get_ydata()[0]) for star in stars] == [
        pytest.approx((71, 42)),
        pytest.approx((71, 52)),
    ]
    assert [star.get_color() for star in stars] == [curve.get_color() for curve in curves]
    assert legend_of(drawn) == ["Triplet", "Contextual", "last evaluated epoch"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("R@1 on training images (%)", "R@1 on test images (%)")


def test_a_curve_ends_where_the_first_run_stops():
    frame = histories(epochs=6)
    stopped = frame[~((frame["seed"] == 1) & (frame["epoch"] > 2))]
    path = generalisation.path_of(stopped, "triplet", COLUMNS)
    assert list(path.index) == [0, 2]
    # in a sweep each run contributes its last epoch: 0.3 + 0.6 and 0.3 + 0.2 + 0.02
    assert generalisation.end_of(stopped, "triplet", COLUMNS).iloc[0] == pytest.approx(100 * (0.9 + 0.52) / 2)


def test_a_sweep_has_one_point_per_value_in_the_order_of_the_values(files):
    rows = ("loss_1", "loss_0", "loss_2")
    values = {"Contextual": [(1.0, "loss_1"), (0.0, "loss_0"), (0.5, "loss_2"), (9.0, "not_run")]}
    drawn = draw(files, histories(rows), labels=dict.fromkeys(rows, "x"), values=values, setting="Weight λ")
    (axis,) = drawn.axes
    (line,) = axis.lines
    assert list(line.get_ydata()) == pytest.approx([52, 62, 42])
    assert [text.get_text() for text in axis.texts] == ["0", "0.5", "1"]
    assert legend_of(drawn) == ["Contextual"]
    assert drawn.axes[0].get_title(loc="left") == "The numbers beside the marks: weight λ"


def test_many_curves_of_a_sweep_label_only_their_ends(files):
    values = {f"M{n}": [(float(v), f"m{n}_{v}") for v in (1, 2, 4)] for n in range(3)}
    rows = [row for points in values.values() for _, row in points]
    drawn = draw(files, histories(rows), labels=dict.fromkeys(rows, "x"), values=values, setting="Size")
    assert [text.get_text() for text in drawn.axes[0].texts] == ["1", "4"] * 3


@pytest.mark.parametrize("columns", [None, COLUMNS])
def test_without_training_images_there_is_a_note(files, columns):
    frame = histories().drop(columns="train_R@1")
    assert draw(files, frame, columns=columns).axes == [] and files["svg"].exists()
    assert draw(files, histories(every=100).assign(**{"train_R@1": np.nan})).axes == []
    assert draw(files, histories().iloc[:0]).axes == []


def test_published_ends_are_hollow_marks_of_the_same_colour(files):
    drawn = draw(files, histories(), published={"contextual": (88.1, 66.2), "untrained": (20.0, 10.0)}, read_off=True)
    hollow = [line for line in drawn.axes[0].lines if line.get_markerfacecolor() == "white"]
    curves = [line for line in drawn.axes[0].lines if line.get_marker() != "*" and line not in hollow]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in hollow] == [(88.1, 66.2), (20.0, 10.0)]
    assert hollow[0].get_color() == curves[1].get_color() != hollow[1].get_color()
    assert hollow[0].get_marker() == curves[1].get_marker() != hollow[1].get_marker()
    assert legend_of(drawn) == [*LABELS.values(), "last evaluated epoch", "published, read off a plot"]


def test_a_figure_with_only_published_ends_says_so(files):
    drawn = draw(files, histories().iloc[:0], published={"contextual": (88.1, 66.2)})
    assert "nothing was measured here" in drawn.get_suptitle()
    assert legend_of(drawn) == ["Contextual", "published"]
    assert draw(files, histories(), columns=None, published={"contextual": (88.1, 66.2)}).axes == []


def test_a_sweep_shows_measured_and_published_points(files):
    rows = ("loss_1", "loss_0")
    values = {"Contextual": [(1.0, "loss_1"), (0.0, "loss_0"), (0.5, "quoted")]}
    published = {"loss_1": (90.0, 70.0), "quoted": (80.0, 60.0)}
    options = {"labels": dict.fromkeys(rows, "x"), "values": values, "setting": "Weight", "published": published}
    drawn = draw(files, histories(rows), **options)
    measured, quoted = drawn.axes[0].lines
    assert list(measured.get_ydata()) == pytest.approx([52, 42]) and measured.get_markerfacecolor() != "white"
    assert list(quoted.get_xdata()) == [80, 90] and quoted.get_markerfacecolor() == "white"
    assert [text.get_text() for text in drawn.axes[0].texts] == ["0", "1", "0.5", "1"]
    assert legend_of(drawn) == ["Contextual", "published"]
