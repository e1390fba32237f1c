"""Figures of query views, compared with counting query by query. All numbers here are made up."""

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot as plt

from recheck.evaluation.calibration import Neighbours, calibrate, class_reliability, match_histogram, threshold_table
from recheck.report import query_sets
from recheck.report.figures import costs, matches, reliability, thresholds
from recheck.report.query_sets import QuerySet
from support.report.drawn import legend_of, texts_of

pytestmark = pytest.mark.slow

SEEN, UNSEEN = "seen_queries", "unseen_queries"
FIGURES = (thresholds, matches, reliability)
LONG = "Multi-similarity, whole network, as published (legacy log-sum-exp), number"


@pytest.fixture
def unsaved(monkeypatch):
    """Skip writing the files, which takes most of the time."""
    for module in (*FIGURES, costs):
        monkeypatch.setattr(module, "save", lambda figure, png, svg: figure)
    yield {"png": "a.png", "svg": "a.svg"}
    plt.close("all")


def query_set(labels, near, distances, maths="fixed"):
    labels = np.asarray(labels)
    closest = Neighbours(np.asarray(near)[:, None], np.asarray(distances, np.float32)[:, None])
    return QuerySet(labels, closest, calibrate(labels, closest, maths))


def clusters(seed, skill=0.7, scale=1.0, classes=12, shots=10):
    """Queries with near correct neighbours and farther wrong ones; ``skill`` is the share of correct ones."""
    random = np.random.RandomState(seed)
    labels = np.repeat(np.arange(classes), shots)
    right = random.rand(len(labels)) < skill
    distances = scale * np.where(right, random.gamma(6, 0.03, len(labels)), random.gamma(12, 0.028, len(labels)))
    return query_set(labels, np.where(right, labels, labels + 1), distances)


def study(count, classes=12):
    sets = {
        f"m{n}": {SEEN: clusters(n, classes=classes), UNSEEN: clusters(50 + n, 0.4, classes=classes)}
        for n in range(count)
    }
    return sets, {f"m{n}": f"Method {n}" for n in range(count)}


def small():
    """Six queries by distance: correct, correct, wrong, correct, wrong, wrong. The best F1, 6 / 7, accepts four."""
    distances = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75]
    return query_set([0, 0, 1, 1, 2, 2], [0, 0, 9, 1, 9, 9], distances), distances


def line(axis, label):
    (line,) = [line for line in axis.lines if line.get_label() == label]
    return line


# precision, recall and F1


def test_curves_agree_with_counting_and_the_line_is_at_the_best_f1(unsaved):
    queries, distances = small()
    (axis,) = thresholds.draw({"a": {SEEN: queries}}, {"a": "A"}, **unsaved).axes
    right = [True, True, False, True, False, False]
    for rate, wanted in (
        ("precision", [100 * sum(right[: n + 1]) / (n + 1) for n in range(6)]),
        ("recall", [100 * sum(right[: n + 1]) / 3 for n in range(6)]),
        ("F1", [100 * 2 * sum(right[: n + 1]) / (n + 1 + 3) for n in range(6)]),
    ):
        drawn = line(axis, f"{SEEN} {rate}")
        assert list(drawn.get_xdata()) == distances and drawn.get_drawstyle() == "steps-post"
        assert list(drawn.get_ydata()) == pytest.approx(wanted)
    assert list(line(axis, f"{SEEN} threshold").get_xdata()) == [0.5, 0.5]
    assert texts_of(axis) == ["seen: F1 85.7"]
    assert axis.get_xlim()[0] < 0.125 and axis.get_xlim()[1] > 0.75


def test_seen_is_solid_and_unseen_dashed_on_a_common_scale(unsaved):
    sets, labels = study(3)
    figure = thresholds.draw(sets, {"m2": "Last", **labels}, **unsaved)
    assert [axis.get_title() for axis in figure.axes] == ["Method 2", "Method 0", "Method 1"]
    for axis, method in zip(figure.axes, ("m2", "m0", "m1"), strict=True):
        for name, style in ((SEEN, "-"), (UNSEEN, "--")):
            table = threshold_table(sets[method][name].labels, sets[method][name].closest)
            for rate in ("precision", "recall", "F1"):
                drawn = line(axis, f"{name} {rate}")
                assert drawn.get_linestyle() == style
                assert np.array_equal(drawn.get_xdata(), table.distance)
                assert np.array_equal(drawn.get_ydata(), 100 * getattr(table, rate.lower()))
            best = table.distance[table.f1 == table.f1.max()].max()
            assert line(axis, f"{name} threshold").get_xdata()[0] == best
        assert axis.get_xlim() == figure.axes[0].get_xlim() and axis.get_ylim() == figure.axes[0].get_ylim()
    assert legend_of(figure)[3:] == ["seen queries", "unseen queries", "chosen threshold"]


def test_a_long_table_is_reduced_to_some_of_its_rows():
    queries = clusters(3, classes=200)
    table = threshold_table(queries.labels, queries.closest)
    kept = thresholds.thinned(table, queries.threshold)
    assert len(kept) <= thresholds.POINTS + 1 < len(table)
    rows = np.flatnonzero(np.isin(table.distance, kept.distance))
    assert np.array_equal(table.f1[rows], kept.f1) and {0, len(table) - 1} <= set(rows)
    assert queries.threshold in kept.distance and kept.f1.max() == table.f1.max()
    # a dropped step is drawn at the next row, which is too close to see
    following = kept.distance[np.searchsorted(kept.distance, table.distance)]
    assert (following - table.distance).max() <= (table.distance[-1] - table.distance[0]) / (thresholds.POINTS - 1)


def test_a_legacy_threshold_is_at_the_end_of_the_curves(unsaved):
    labels, closest = (fixed := clusters(0)).labels, fixed.closest
    legacy = QuerySet(labels, closest, calibrate(labels, closest, "legacy"))
    (axis,) = thresholds.draw({"a": {UNSEEN: legacy}}, {"a": "A"}, **unsaved).axes
    drawn = line(axis, f"{UNSEEN} F1")
    assert len(drawn.get_xdata()) == len(threshold_table(labels, closest)) > len(legacy.calibration.thresholds)
    assert line(axis, f"{UNSEEN} threshold").get_xdata()[0] == drawn.get_xdata()[-1] > fixed.threshold
    assert texts_of(axis) == [f"unseen: F1 {drawn.get_ydata()[-1]:.1f}"]


@pytest.mark.parametrize(("scale", "shared"), [(0.5, True), (0.001, False)])
def test_distances_that_are_not_comparable_have_separate_scales(unsaved, scale, shared):
    sets = {"a": {SEEN: clusters(0)}, "b": {SEEN: clusters(0, scale=scale)}}
    for module, rows in ((thresholds, "panel"), (matches, "row")):
        figure = module.draw(sets, {"a": "A", "b": "B"}, **unsaved)
        first, second = (axis.get_xlim() for axis in figure.axes)
        assert (first == second) is shared
        said = figure.legends[0].get_title().get_text()
        assert (f"each {rows} has its own distance scale" in said) is not shared


# correct and wrong matches


def test_every_query_is_in_one_bin_of_its_row(unsaved):
    sets, labels = study(2)
    sets["m1"] = {SEEN: clusters(1), UNSEEN: clusters(9, 0.2, scale=1.7, classes=7)}
    figure = matches.draw(sets, labels, **unsaved)
    panels = iter(figure.axes)
    for queries_of in sets.values():
        edges = []
        for queries in queries_of.values():
            axis = next(panels)
            up, down = (patch.get_data() for patch in axis.patches)
            hits = queries.closest.labels[:, 0] == queries.labels
            assert up.values.sum() == hits.sum() and down.values.sum() == -(~hits).sum()
            assert up.values.min() >= 0 and down.values.max() <= 0
            near, far = queries.distances[hits], up.edges[10]
            assert up.values[:10].sum() == (near < far).sum()
            assert list(line(axis, "threshold").get_xdata()) == [queries.threshold] * 2
            taken = queries.distances <= queries.threshold + 1e-7
            assert texts_of(axis) == [
                f"{hits.sum()} correct, {(hits & taken).sum()} of them accepted",
                f"{(~hits).sum()} wrong, {(~hits & taken).sum()} of them accepted",
            ]
            edges += [up.edges, down.edges]
        assert all(np.array_equal(one, edges[0]) for one in edges)
        everything = np.concatenate([queries.distances for queries in queries_of.values()])
        assert edges[0][0] == everything.min() and edges[0][-1] == everything.max()
    assert [axis.get_title() for axis in figure.axes] == ["seen queries", "unseen queries", "", ""]
    assert [axis.get_ylabel() for axis in figure.axes] == ["Method 0", "", "Method 1", ""]


def test_a_histogram_has_the_given_edges():
    queries, _ = small()
    histogram = match_histogram(queries.labels, queries.closest, np.array([0, 0.3, 0.75]))
    assert (
        list(histogram.edges) == [0, 0.3, 0.75] and list(histogram.right) == [2, 1] and list(histogram.wrong) == [0, 3]
    )


def test_a_missing_query_set_is_marked_as_not_measured(unsaved):
    sets = {"a": {UNSEEN: clusters(0)}, "b": {SEEN: clusters(1), UNSEEN: clusters(2)}, "c": {}}
    labels = {"a": "A", "b": "B", "c": "C", "d": "D"}
    figure = matches.draw(sets, labels, **unsaved)
    assert len(figure.axes) == 4 and texts_of(figure.axes[0]) == ["not measured"]
    assert [axis.get_title() for axis in thresholds.draw(sets, labels, **unsaved).axes] == ["A", "B"]
    assert len(reliability.draw(sets, labels, **unsaved).axes) == 4
    single = matches.draw({"a": sets["a"]}, labels, **unsaved)
    assert [axis.get_title() for axis in single.axes] == ["unseen queries"]


# classes


def four_classes():
    """Correct of accepted at threshold 0.5: class 0 has 2 of 2, 1 has 1 of 2 (one rejected), 2 has 0 of 1, 3 none."""
    labels, near = [0, 0, 1, 1, 1, 2, 3, 3], [0, 0, 1, 9, 1, 9, 3, 9]
    queries = query_set(labels, near, [0.1, 0.2, 0.3, 0.4, 0.9, 0.5, 0.8, 0.7])
    return at(queries, 0.5)


def at(queries, distance, **other):
    optimal = replace(queries.calibration.optimal, distance=distance, **other)
    return replace(queries, calibration=replace(queries.calibration, optimal=optimal))


def test_classes_by_hand(unsaved):
    queries = four_classes()
    classes = class_reliability(queries.labels, queries.closest, 0.5)
    x, y = reliability.curve(classes)
    # the shares of all classes, then of those with a precision, above 0, and above a half
    assert list(zip(x, y, strict=True))[1:] == [(reliability.BORDER, 100), (0, 75), (50, 50), (100, 25)]
    precision, coverage, counts = reliability.points(classes)
    assert list(zip(precision, coverage.round(2), counts, strict=True)) == [
        (reliability.NONE, 0, 1),
        (0, 100, 1),
        (50, 66.67, 1),
        (100, 100, 1),
    ]
    lower, upper = reliability.draw({"a": {SEEN: queries}}, {"a": "A"}, **unsaved).axes
    assert texts_of(upper) == ["classes without accepted queries:\nseen 1 of 4"]
    drawn = line(upper, SEEN)
    assert drawn.get_drawstyle() == "steps-pre" and list(drawn.get_ydata()) == list(y)
    (marks,) = lower.collections
    assert marks.get_offsets().tolist() == np.column_stack([precision, coverage]).tolist()
    assert lower.get_xticklabels()[0].get_text() == "none"
    assert lower.get_xticks()[0] == reliability.NONE > lower.get_xlim()[0]


def test_the_areas_of_marks_add_up_to_all_classes(unsaved):
    sets, labels = study(2, classes=60)
    figure = reliability.draw(sets, labels, **unsaved)
    fullest = 0
    for lower, queries_of in zip(figure.axes[::2], sets.values(), strict=True):
        for marks, queries in zip(lower.collections, queries_of.values(), strict=True):
            classes = class_reliability(queries.labels, queries.closest, queries.threshold)
            pairs = [
                (100 * both / taken if taken else reliability.NONE, 100 * taken / every)
                for both, taken, every in zip(
                    classes.right_and_accepted, classes.accepted, classes.queries, strict=True
                )
            ]
            places = [tuple(place) for place in marks.get_offsets()]
            assert len(places) == len(set(places))
            counts = [sum(pair == pytest.approx(place) for pair in pairs) for place in places]
            assert sum(counts) == 60
            shown = np.asarray(counts) * reliability.PER_CLASS
            assert marks.get_sizes() == pytest.approx(np.maximum(reliability.SMALLEST, shown))
            fullest = max(fullest, *counts)
    assert legend_of(figure) == ["seen queries", "unseen queries", "one class", f"{fullest} classes"]


# costs


def rows(interval=math.nan, extra=0):
    def both(*values):
        seen, unseen = ({"R@1": (v, interval), "f1": (v + 0.1, interval), "accuracy": (0.7, interval)} for v in values)
        return {SEEN: seen, UNSEEN: unseen}

    more = [(f"{LONG} {n}", both(0.5, 0.4)) for n in range(extra)]
    return [("Corrected", both(0.8, 0.6)), ("Re-initialised", both(0.488, 0.01)), *more, ("All", both(0.8, 0.62))]


def test_costs_are_marks_lines_and_differences(unsaved):
    figure = costs.draw(rows(), 0.0156, **unsaved)
    recall, f1, accuracy = figure.axes
    assert [axis.get_title() for axis in figure.axes] == ["R@1", "F1", "accuracy"]
    assert [tick.get_text() for tick in recall.get_yticklabels()] == ["Corrected", "Re-initialised", "All"]
    marks = {
        marker: [one.get_xdata()[0] for one in recall.lines if one.get_marker() == marker] for marker in ("o", "s")
    }
    assert marks == {"o": pytest.approx([80, 48.8, 80]), "s": pytest.approx([60, 1, 62])}
    assert list(line(recall, SEEN).get_xdata()) == pytest.approx([80, 80])
    assert list(line(f1, UNSEEN).get_xdata()) == pytest.approx([70, 70])
    assert list(line(recall, "chance").get_xdata()) == pytest.approx([1.56, 1.56])
    assert not [one for axis in (f1, accuracy) for one in axis.lines if one.get_label() == "chance"]
    assert texts_of(recall) == ["80.0", "−31.2", "0.0", "60.0", "−59.0", "+2.0"]
    assert texts_of(accuracy) == ["70.0", "0.0", "0.0"] * 2
    assert "R@1 by chance" in legend_of(figure) and "95 % interval over seeds" not in legend_of(figure)
    assert not recall.collections and recall.get_xlim()[0] == 0


def test_intervals_of_costs_stay_between_0_and_100_percent(unsaved):
    figure = costs.draw(rows(interval=0.5), math.nan, **unsaved)
    ends = np.concatenate([path for collection in figure.axes[0].collections for path in collection.get_segments()])[
        :, 0
    ]
    assert ends.min() == pytest.approx(0) and ends.max() == pytest.approx(100)
    assert "95 % interval over seeds" in legend_of(figure) and "R@1 by chance" not in legend_of(figure)


def test_costs_that_are_not_measured_yet_leave_a_gap(unsaved):
    some = [("Corrected", {}), ("Fault", {SEEN: {"R@1": (0.3, math.nan)}}), ("Other", {})]
    (axis,) = costs.draw(some, 0.01, **unsaved).axes
    assert texts_of(axis) == [""] and len(axis.get_yticklabels()) == 3
    half = [("Corrected", {SEEN: {"R@1": (0.3, math.nan)}}), ("Fault", {SEEN: {"R@1": (math.nan, math.nan)}})]
    assert texts_of(costs.draw(half, 0.01, **unsaved).axes[0]) == ["30.0"]


# all figures


ODD = {
    "one right query": lambda: query_set([0], [0], [0.2]),
    "one wrong query": lambda: query_set([0], [1], [0.2]),
    "no distance": lambda: query_set([0, 0, 1], [0, 1, 1], [0, 0, 0]),
    "all right": lambda: clusters(0, 1.1),
    "all wrong": lambda: clusters(0, -1),
    "all rejected": lambda: at(clusters(0), 0.0, f1=0.0),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("module", FIGURES, ids=lambda module: module.__name__.split(".")[-1])
@pytest.mark.filterwarnings("error")
def test_edge_cases_are_drawn_within_their_panels(unsaved, module, case):
    queries = ODD[case]()
    figure = module.draw({"a": {SEEN: queries, UNSEEN: queries}}, {"a": "A"}, **unsaved)
    figure.set_layout_engine("none")
    figure.draw_without_rendering()
    if module is not reliability:
        for axis in figure.axes:
            low, high = axis.get_xlim()
            assert low < queries.threshold < high
            assert low < queries.distances.min() and queries.distances.max() < high
    if module is matches:
        assert all(
            abs(sum(abs(p.get_data().values).sum() for p in axis.patches)) == len(queries.labels)
            for axis in figure.axes
        )


def test_all_rejected_leaves_no_class_with_a_precision(unsaved):
    queries = ODD["all rejected"]()
    lower, upper = reliability.draw({"a": {UNSEEN: queries}}, {"a": "A"}, **unsaved).axes
    assert line(upper, UNSEEN).get_ydata()[2:].max() == 0
    assert lower.collections[0].get_offsets().tolist() == [[reliability.NONE, 0]]
    assert "unseen 12 of 12" in texts_of(upper)[0]
    axis = matches.draw({"a": {UNSEEN: queries}}, {"a": "A"}, **unsaved).axes[0]
    assert all(", 0 of them accepted" in text for text in texts_of(axis))


def drawn_texts(figure):
    texts = [text for legend in figure.legends for text in [*legend.get_texts(), legend.get_title()]]
    for axis in figure.axes:
        texts += [*axis.texts, axis.title, axis.xaxis.label, axis.yaxis.label]
        for side, limits in ((axis.xaxis, axis.get_xlim()), (axis.yaxis, axis.get_ylim())):
            texts += [tick.label1 for tick in side.get_major_ticks() if min(limits) <= tick.get_loc() <= max(limits)]
    return [text for text in texts if text.get_visible() and text.get_text()]


@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("module", [*FIGURES, costs], ids=lambda module: module.__name__.split(".")[-1])
def test_no_text_overlaps_or_lies_outside(unsaved, module, count):
    sets, _ = study(count)
    labels = {method: f"{LONG} {n}" if n % 2 else "Circle" for n, method in enumerate(sets)}
    figure = (
        costs.draw([(LONG, rows()[0][1]), *rows(0.1, count)], 0.01, **unsaved)
        if module is costs
        else module.draw(sets, labels, **unsaved)
    )
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    texts = drawn_texts(figure)
    boxes = [text.get_window_extent(renderer) for text in texts]
    page = figure.bbox
    outside = [text.get_text() for text, box in zip(texts, boxes, strict=True) if box.x0 < 0 or box.x1 > page.x1]
    assert not outside and min(box.y0 for box in boxes) >= 0 and max(box.y1 for box in boxes) <= page.y1
    assert not [
        (texts[a].get_text(), texts[b].get_text())
        for a in range(len(boxes))
        for b in range(a)
        if boxes[a].overlaps(boxes[b])
    ]


@pytest.mark.parametrize("module", FIGURES, ids=lambda module: module.__name__.split(".")[-1])
def test_query_figures_are_reproducible_and_no_queries_give_a_note(files, module):
    sets, labels = {"m0": {SEEN: clusters(0)}}, {"m0": "Circle"}
    written = []
    for _ in range(2):
        module.draw(sets, labels, **files)
        written.append((files["png"].read_bytes(), files["svg"].read_bytes()))
    assert written[0] == written[1]
    assert module.draw({}, labels, **files).axes == [] and files["svg"].read_bytes() != written[0][1]


def test_costs_are_reproducible_and_no_results_give_a_note(files):
    written = []
    for _ in range(2):
        costs.draw(rows(), 0.01, **files)
        written.append((files["png"].read_bytes(), files["svg"].read_bytes()))
    assert written[0] == written[1]
    assert costs.draw([("Corrected", {})], 0.01, **files).axes == [] and costs.draw([], 0.01, **files).axes == []


def test_a_label_is_wrapped_between_words():
    assert query_sets.wrapped("class-balanced batches", 16) == "class-balanced\nbatches"
    assert query_sets.wrapped("a b c d", 1).endswith("…") and query_sets.wrapped("a b c d", 1).count("\n") == 2
