"""Figures: their content, that they are reproducible, and that nothing overlaps."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

from recheck.report import results, style
from recheck.report.figures import curves, map, metrics, recall
from recheck.report.tables.frame import Published
from support.report.drawn import legend_of

pytestmark = pytest.mark.slow

LABELS = {"pretrained": "Pretrained", "triplet": "Triplet", "arcface": "ArcFace"}
VIEWS, METRICS = ["concatenated", "separated"], ["P@1", "MAP@R", "R@1", "R@2", "R@4"]


@pytest.fixture
def files(tmp_path):
    return pair(tmp_path)


def summary(seeds=1, labels=LABELS):
    rows = [
        ["emoji", method, seed, view, {"concatenated": 512, "separated": 128}[view], metric, value]
        for number, method in enumerate(labels)
        for seed in range(seeds)
        for view in VIEWS
        for metric in METRICS
        for value in [0.3 + 0.01 * number + 0.05 * METRICS.index(metric) + 0.01 * seed]
    ]
    return results.summarise(pd.DataFrame(rows, columns=results.EVALUATION_COLUMNS))


def folds(labels=LABELS):
    rows = [
        ["emoji", method, 0, "separated", fold, metric, 0.3 + 0.02 * fold]
        for method in labels
        for metric in METRICS
        for fold in range(4)
    ]
    return pd.DataFrame(rows, columns=results.FOLD_COLUMNS)


def histories(epochs=5, column="val_MAP@R", labels=LABELS):
    rows = [
        ["emoji", method, 0, fold, epoch, 20 * epoch, 1 / (epoch + 1) if epoch else np.nan, 0.1 + 0.02 * epoch]
        for method in labels
        for fold in range(3)
        for epoch in range((epochs if method != "pretrained" else 0) + 1)
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "seed", "fold", "epoch", "step", "loss", column])


def draw_metrics(files, seeds=1, **options):
    shown = {"labels": LABELS, "views": VIEWS, "metrics": ["P@1", "MAP@R"], **files, **options}
    return metrics.draw(summary(seeds, shown["labels"]), folds(shown["labels"]), **shown)


def draw_curves(files, frame, **options):
    chosen = {("triplet", 0, fold): 4 for fold in range(3)}
    shown = {"labels": LABELS, "selection": "val_MAP@R", "chosen": chosen, **files, **options}
    return curves.draw(frame, **shown)


def pair(folder):
    return {"png": folder / "figures" / "a.png", "svg": folder / "figures" / "a.svg"}


@pytest.fixture(scope="module")
def metrics_files(tmp_path_factory):
    return pair(tmp_path_factory.mktemp("metrics"))


@pytest.fixture(scope="module")
def drawn_metrics(metrics_files):
    """The figure of one seed, in ``metrics_files``, drawn once for all tests that only look at it."""
    return draw_metrics(metrics_files)


@pytest.fixture(scope="module")
def drawn_curves(tmp_path_factory):
    """The curves of three folds, drawn once for all tests that only look at them."""
    return draw_curves(pair(tmp_path_factory.mktemp("curves")), histories())


def overlapping(texts, renderer):
    boxes = [text.get_window_extent(renderer) for text in texts if text.get_text() and text.get_visible()]
    return [(a, b) for number, a in enumerate(boxes) for b in boxes[:number] if a.overlaps(b)]


def test_both_files_are_written_and_reproducible(drawn_metrics, metrics_files, files):
    first = {name: path.read_bytes() for name, path in metrics_files.items()}
    draw_metrics(files)
    assert {name: path.read_bytes() for name, path in files.items()} == first
    with Image.open(files["png"]) as image:
        assert round(image.info["dpi"][0]) == style.DPI and image.width > 800
    text = first["svg"].decode()
    assert text.lstrip().startswith("<?xml") and "dc:date" not in text


def test_metrics_show_every_method_and_view_once_per_metric(files):
    drawn = draw_metrics(files, reference="pretrained")
    panels = drawn.axes
    assert [axis.get_title() for axis in panels] == ["P@1", "MAP@R"]
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == list(LABELS.values())
    points = [line for line in panels[0].lines if line.get_marker() in ("o", "s") and line.get_markersize() == 6]
    assert len(points) == len(LABELS) * len(VIEWS)
    assert {line.get_marker() for line in points} == {"o", "s"}
    assert sorted(line.get_xdata()[0] for line in points) == pytest.approx([30, 30, 31, 31, 32, 32])
    assert "Pretrained, concatenated" in legend_of(drawn)


def test_one_seed_shows_folds_and_several_show_intervals(files, drawn_metrics):
    assert "a single fold" in legend_of(drawn_metrics) and not drawn_metrics.axes[0].containers
    drawn = draw_metrics(files, seeds=3)
    assert "95 % interval over seeds" in legend_of(drawn) and "a single fold" not in legend_of(drawn)
    assert len(drawn.axes[0].containers) == len(LABELS) * len(VIEWS)


def test_a_published_value_is_a_hollow_mark(files):
    quoted = Published("Paper", {"triplet": {"concatenated": {"P@1": 61.0}}})
    drawn = draw_metrics(files, quoted=[quoted])
    assert hollow_of(drawn) == [61.0]
    assert "published (quoted)" in legend_of(drawn)
    other = Published("Paper", {"triplet": {"concatenated": {"P@1": 59.0}}})
    assert hollow_of(draw_metrics(files, quoted=[quoted, other, quoted])) == [61.0, 59.0]


def hollow_of(drawn):
    return [line.get_xdata()[0] for line in drawn.axes[0].lines if line.get_markerfacecolor() == "white"]


def test_a_figure_with_only_published_values_says_so(files):
    quoted = Published("Paper", {"triplet": {"concatenated": {"P@1": 61.0}}})
    shown = {"labels": LABELS, "views": VIEWS, "metrics": ["P@1"], "reference": "pretrained"}
    drawn = metrics.draw(summary().iloc[:0], folds().iloc[:0], quoted=[quoted], **shown, **files)
    assert "nothing was measured here" in drawn.get_suptitle()
    assert len(drawn.axes[0].lines) == 1 and hollow_of(drawn) == [61.0]
    assert legend_of(drawn) == VIEWS[:1]
    assert all(handle.get_markerfacecolor() == "white" for handle in drawn.legends[0].legend_handles)
    high = Published("Paper", {"triplet": {"concatenated": {"R@4": 99.5}}})
    shown["metrics"] = ["P@1", "R@4"]
    drawn = metrics.draw(summary().iloc[:0], folds().iloc[:0], quoted=[high], **shown, **files)
    assert [axis.get_title() for axis in drawn.axes] == ["R@4"] and drawn.axes[0].get_xlim()[1] < 101


def test_no_tick_is_above_100_percent(files):
    quoted = Published("Paper", {"triplet": {"concatenated": {"P@1": 100.0}}})
    drawn = draw_metrics(files, quoted=[quoted])
    high = drawn.axes[0].get_xlim()[1]
    assert high > 100 >= max(tick for tick in drawn.axes[0].get_xticks() if tick <= high)


def test_a_method_without_results_keeps_its_row(files):
    labels = {**LABELS, "late": "Not run yet"}
    drawn = metrics.draw(summary(), folds(), labels=labels, views=VIEWS, metrics=["P@1"], **files)
    assert [tick.get_text() for tick in drawn.axes[0].get_yticklabels()] == list(labels.values())


def test_many_methods_with_long_labels_do_not_overlap(files):
    labels = {f"m{number}": f"Multi-similarity + miner {number}" for number in range(19)}
    drawn = draw_metrics(files, labels=labels)
    renderer = FigureCanvasAgg(drawn).get_renderer()
    ticks = [label for axis in drawn.axes for label in axis.get_xticklabels()]
    texts = [
        *drawn.axes[0].get_yticklabels(),
        *ticks,
        *(axis.title for axis in drawn.axes),
        *drawn.legends[0].get_texts(),
    ]
    assert overlapping(texts, renderer) == []


def test_curves_show_each_fold_the_mean_and_the_selected_checkpoint(files):
    drawn = draw_curves(files, histories(), reference="pretrained")
    titled = {axis.get_title(): axis for axis in drawn.axes if axis.get_title()}
    assert set(titled) == {"Triplet", "ArcFace"}
    lines = titled["Triplet"].lines
    assert sum(line.get_linewidth() == 0.8 for line in lines) == 3
    mean = next(line for line in lines if line.get_linewidth() == 2)
    assert list(mean.get_ydata()) == pytest.approx([10, 12, 14, 16, 18, 20])
    kept = [line for line in lines if line.get_marker() == "D"]
    assert [list(line.get_xdata()) for line in kept] == [[80]] * 3


def test_the_mean_curve_ends_where_the_first_fold_stops(files):
    frame = histories()
    stopped = frame[~((frame["fold"] == 1) & (frame["epoch"] > 3))]
    drawn = draw_curves(files, stopped)
    axis = next(axis for axis in drawn.axes if axis.get_title() == "Triplet")
    mean = next(line for line in axis.lines if line.get_linewidth() == 2)
    assert max(mean.get_xdata()) == 60


def test_the_legend_explains_a_run_as_fold_or_fold_of_a_seed(files, drawn_curves):
    assert "single run (one fold)" in legend_of(drawn_curves)
    frame = histories()
    both = pd.concat([frame, frame.assign(seed=1)])
    assert "single run (one fold of one seed)" in legend_of(draw_curves(files, both))


def test_a_loss_that_falls_far_has_a_logarithmic_scale(files):
    frame = histories()
    frame.loc[(frame["method"] == "triplet") & (frame["epoch"] == 1), "loss"] = 40.0
    drawn = draw_curves(files, frame, reference="pretrained")
    far, near = (axis for axis in drawn.axes if axis.get_xlabel() == "step")
    assert (far.get_yscale(), near.get_yscale()) == ("log", "linear")
    drawn.canvas.draw()
    assert not any("$" in label.get_text() for label in far.get_yticklabels())


def test_without_a_selection_metric_only_losses_are_drawn(files):
    drawn = draw_curves(files, histories().drop(columns="val_MAP@R"), selection=None)
    assert len(drawn.axes) == 2 and "selected checkpoint" not in legend_of(drawn)


def test_a_study_without_training_still_gets_its_curves_file(files):
    draw_curves(files, histories(epochs=0))
    assert files["png"].stat().st_size > 0 and files["svg"].stat().st_size > 0


def test_recall_is_drawn_against_k_in_both_views(files):
    drawn = recall.draw(summary(), labels=LABELS, views=VIEWS, reference="pretrained", **files)
    panels = drawn.axes
    assert len(panels) == 2 and not drawn.legends
    assert all({text.get_text() for text in axis.texts} == set(LABELS.values()) for axis in panels)
    for axis in panels:
        assert all(list(line.get_xdata()) == [1, 2, 4] for line in axis.lines)
        assert axis.get_xscale() == "log"
    assert list(panels[0].lines[1].get_ydata()) == pytest.approx([41, 46, 51])


def test_each_of_many_recall_lines_has_a_label_beside_its_end(files):
    labels = {f"m{number}": f"Multi-similarity + miner {number}" for number in range(26)}
    values = summary(labels=labels)
    values["mean"] = 0.5 + 0.001 * values["mean"]  # all lines end close together
    drawn = recall.draw(values, labels=labels, views=VIEWS, **files)
    renderer = FigureCanvasAgg(drawn).get_renderer()
    for axis in drawn.axes:
        assert len({text.get_text() for text in axis.texts}) == 26
        boxes = [Text.get_window_extent(text, renderer) for text in axis.texts]
        boxes.sort(key=lambda box: box.y0)
        assert all(below.y1 <= above.y0 + 0.5 for below, above in itertools.pairwise(boxes))
        assert boxes[0].y0 >= drawn.bbox.y0 and boxes[-1].y1 <= drawn.bbox.y1
        assert [text.xy[1] for text in axis.texts] == sorted(text.xy[1] for text in axis.texts)


def test_labels_are_moved_apart_as_little_as_possible():
    assert style.spread([0, 10, 20], 5) == [0, 10, 20]
    assert style.spread([10, 10, 10], 4) == [6, 10, 14]
    assert style.spread([0, 1, 9], 2) == [-0.5, 1.5, 9]
    assert style.spread([], 2) == []


def test_every_figure_has_the_same_width_so_that_letters_look_the_same(files, drawn_metrics, drawn_curves):
    drawn = [
        drawn_metrics,
        draw_metrics(files, metrics=["P@1"]),
        drawn_curves,
        recall.draw(summary(), labels=LABELS, views=VIEWS[:1], **files),
        style.note("Nothing to draw.", **files),
    ]
    assert {figure.get_figwidth() for figure in drawn} == {style.WIDTH}
    sizes = {text.get_fontsize() for figure in drawn for text in figure.findobj(Text) if text.get_text()}
    assert sizes <= {style.SMALL, style.NORMAL, style.TITLE}


def test_a_view_without_values_has_no_legend_entry(files):
    only = summary()
    drawn = metrics.draw(
        only[only["view"] == VIEWS[1]],
        folds(),
        labels=LABELS,
        views=VIEWS,
        metrics=["P@1"],
        reference="pretrained",
        **files,
    )
    assert not [label for label in legend_of(drawn) if VIEWS[0] in label]
    square = [line for line in drawn.axes[0].lines if line.get_marker() == style.VIEW_STYLES[1]["marker"]]
    assert len(square) == len(LABELS)


def test_selected_checkpoints_are_in_the_legend_only_if_there_are_any(files, drawn_curves):
    assert "selected checkpoint" in legend_of(drawn_curves)
    assert "selected checkpoint" not in legend_of(draw_curves(files, histories(), chosen={}))
    assert legend_of(draw_curves(files, histories().query("fold == 0"), chosen={})) == ["run"]


def test_characters_without_a_font_are_named_once(files, caplog):
    with caplog.at_level("WARNING", logger="recheck"):
        draw_metrics(files, labels={"pretrained": "β × ± ≈ – → ✓", "triplet": "Triplet", "arcface": "ArcFace"})
        assert not caplog.records
        draw_metrics(files, labels={"pretrained": "Klingon \uf8d0\uf8d1", "triplet": "\uf8d0", "arcface": "ArcFace"})
    assert [record.args for record in caplog.records] == [("\uf8d0\uf8d1",)]


def test_recall_without_two_ranks_gives_a_note(files):
    few = summary()
    few = few[few["metric"] != "R@2"]
    recall.draw(few[few["metric"] != "R@4"], labels=LABELS, views=VIEWS, **files)
    assert files["png"].exists()


def test_methods_are_distinguishable_without_colour():
    looks = [style.series(number) for number in range(60)]
    assert len({(look["color"], look["marker"], str(look["linestyle"])) for look in looks}) == 60
    assert all(looks[n]["marker"] != looks[n + 1]["marker"] for n in range(59))


def test_colours_differ_for_colour_blind_readers():
    """Simulated after Machado et al. (2009), severity 1: the two views stay distinct under red-green blindness."""
    deuteranopia = np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    )
    protanopia = np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    )
    for simulated in (deuteranopia, protanopia):
        one, other = (simulated @ np.array(colors.to_rgb(colour)) for colour in (style.BLUE, style.VERMILLION))
        assert np.linalg.norm(one - other) > 0.4


def clusters(classes=12, each=8, dim=16, spread=0.05):
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), each)
    return generator.standard_normal((classes, dim))[labels] + spread * generator.standard_normal(
        (len(labels), dim)
    ), labels


def test_the_projection_is_deterministic_and_keeps_neighbours_together():
    vectors, labels = clusters()
    points = map.project(vectors)
    assert np.array_equal(points, map.project(vectors))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (labels[distance.argmin(1)] == labels).mean() > 0.95


@pytest.mark.parametrize(("count", "dim"), [(1, 3), (2, 1), (4, 5), (6, 2)])
def test_a_few_points_can_be_projected(count, dim):
    points = map.project(np.random.default_rng(0).standard_normal((count, dim)))
    assert points.shape == (count, 2) and np.isfinite(points).all()


def test_highlighted_classes_come_from_every_group():
    labels = np.repeat(np.arange(40), 5)
    groups = {label: "abcd"[label // 10] for label in range(40)}
    chosen = map.highlighted_classes(labels, groups, count=8)
    assert [sum(groups[cls] == group for cls in chosen) for group in "abcd"] == [2, 2, 2, 2]
    assert len(map.highlighted_classes(labels, count=8)) == 8
    assert map.highlighted_classes(np.array([3, 3, 7, 7]), count=8) == [3, 7]


@pytest.mark.parametrize("pictures", [False, True])
def test_a_map_names_its_classes_without_overlap(files, pictures):
    vectors, labels = clusters()
    shown = map.highlighted_classes(labels, count=7)
    thumbnails = {int(at): np.full((16, 12, 3), 90, np.uint8) for at in np.flatnonzero(np.isin(labels, shown))}
    names = {label: f"a rather long class name {label}" for label in range(12)}
    drawn = map.draw(
        {"Pretrained": vectors, "Triplet": vectors[:, :8]},
        labels,
        shown=shown,
        names=names,
        thumbnails=thumbnails if pictures else None,
        **files,
    )
    texts = drawn.axes[-1].texts
    assert [text.get_text() for text in texts] == [*(names[cls] for cls in shown), "all other classes"]
    assert overlapping(texts, FigureCanvasAgg(drawn).get_renderer()) == []
    assert [axis.get_title() for axis in drawn.axes[:2]] == ["Pretrained", "Triplet"]


def test_a_map_of_thumbnails_only_shows_all_of_them(files):
    vectors, labels = clusters(classes=4)
    thumbnails = {at: np.full((16, 16, 3), 90, np.uint8) for at in range(len(labels))}
    names = {label: str(label) for label in range(4)}
    drawn = map.draw({"Triplet": vectors}, labels, shown=[0, 1, 2, 3], names=names, thumbnails=thumbnails, **files)
    (left, right), (low, high) = drawn.axes[0].get_xlim(), drawn.axes[0].get_ylim()
    points = map.project(vectors)
    assert left < points[:, 0].min() and points[:, 0].max() < right
    assert low < points[:, 1].min() and points[:, 1].max() < high
