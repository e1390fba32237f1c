"""The retrieval gallery: its choice of queries, and how correct and wrong neighbours differ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import colors
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle

from recheck.report.figures import gallery

pytestmark = pytest.mark.slow

LABELS = np.repeat(np.arange(12), 4)


def picture(position):
    generator = np.random.default_rng(position)
    return generator.integers(0, 255, (20 + position % 3, 30, 3), dtype=np.uint8)


def draw(tmp_path, neighbours, queries, labels=LABELS, names=None):
    files = {"png": tmp_path / "g.png", "svg": tmp_path / "g.svg"}
    names = names or {number: f"class {number}" for number in range(12)}
    return gallery.draw(picture, labels, queries, neighbours, names=names, **files)


def test_queries_are_evenly_spaced_over_the_classes():
    shuffled = np.random.default_rng(0).permutation(LABELS)
    for labels in (LABELS, shuffled):
        queries = gallery.choose_queries(labels, np.ones(len(labels), bool), 6)
        assert list(labels[queries]) == [1, 3, 5, 7, 9, 11]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_queries_are_distinct_and_have_an_image_to_find(labels, count, seed):
    labels = np.array(labels)
    answerable = np.random.default_rng(seed).random(len(labels)) < 0.5
    queries = gallery.choose_queries(labels, answerable, count)
    assert len(set(queries)) == len(queries) == min(count, answerable.sum())
    assert answerable[queries].all()


def test_all_queries_are_counted_not_only_those_shown(tmp_path):
    labels = np.array([0, 0, 1, 1])
    counts = gallery.count(labels, labels, np.array([[1, 2], [2, 0], [3, -1], [0, 1]]))
    assert counts == gallery.Counts(queries=4, right=2, neighbours=7, right_neighbours=3)
    files = {"png": tmp_path / "g.png", "svg": tmp_path / "g.svg"}
    one = {"Triplet": np.array([[1, 2]])}
    drawn = gallery.draw(picture, labels, [0], one, names={0: "a", 1: "b"}, counts={"Triplet": counts}, **files)
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert any("correct for 2 of all 4 queries (50.0 %), and 42.9 % of all" in text for text in texts)


def test_correct_and_wrong_neighbours_differ_in_colour_line_and_sign(tmp_path):
    drawn = draw(tmp_path, {"Pretrained": np.array([[1, 5, 2]]), "Triplet": np.array([[1, 2, 3]])}, [0])
    axis = drawn.axes[0]
    tiles = [p for p in axis.patches if isinstance(p, Rectangle) and p.get_width() == gallery.TILE]
    looks = [(colors.to_hex(p.get_edgecolor()).upper(), p.get_linestyle()) for p in tiles]
    assert [colour for colour, _ in looks] == [
        gallery.RIGHT,
        gallery.WRONG,
        gallery.RIGHT,
        gallery.RIGHT,
        gallery.RIGHT,
        gallery.RIGHT,
    ]
    assert len({str(line) for _, line in looks}) == 2
    texts = [text.get_text() for text in axis.texts]
    assert texts.count(gallery.CHECK) == 5 and texts.count(gallery.CROSS) == 1
    assert "2 of 3 correct" in texts and "3 of 3 correct" in texts


def test_texts_do_not_overlap_even_with_long_names(tmp_path):
    names = {number: f"woman and man holding hands in medium light {number}" for number in range(12)}
    neighbours = np.arange(16).reshape(2, 8)
    drawn = draw(
        tmp_path, {"Pretrained": neighbours, "Multi-similarity + miner, tuned": neighbours}, [0, 20], names=names
    )
    renderer = FigureCanvasAgg(drawn).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in drawn.axes[0].texts]
    inside = drawn.bbox
    assert not [1 for number, a in enumerate(boxes) for b in boxes[:number] if a.overlaps(b)]
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 for box in boxes)


def test_names_of_queries_have_room_with_a_single_method(tmp_path):
    names = {number: f"woman and man holding hands {number}" for number in range(12)}
    drawn = draw(tmp_path, {"Triplet": np.arange(24).reshape(3, 8)}, [0, 20, 40], names=names)
    renderer = FigureCanvasAgg(drawn).get_renderer()
    (axis,) = drawn.axes
    frames = [p for p in axis.patches if isinstance(p, Rectangle) and p.get_width() == gallery.QUERY]
    bold = [text for text in axis.texts if text.get_fontweight() == "bold" and "woman" in text.get_text()]
    assert len(frames) == len(bold) == 3
    boxes = [text.get_window_extent(renderer) for text in bold]
    assert not [1 for box in boxes for frame in frames if box.overlaps(frame.get_window_extent(renderer))]
    assert boxes[-1].y0 >= drawn.bbox.y0


def test_images_are_never_stretched(tmp_path):
    drawn = draw(tmp_path, {"Triplet": np.array([[1, 2, 3]])}, [0])
    for image, position in zip(drawn.axes[0].images, [0, 1, 2, 3], strict=True):
        left, right, bottom, top = image.get_extent()
        height, width = picture(position).shape[:2]
        assert (right - left) / (bottom - top) == pytest.approx(width / height)


def test_a_missing_neighbour_leaves_an_empty_place(tmp_path):
    drawn = draw(tmp_path, {"Triplet": np.array([[1, -1, -1]])}, [0])
    assert len(drawn.axes[0].images) == 2
    assert "1 of 1 correct" in [text.get_text() for text in drawn.axes[0].texts]


def test_the_gallery_is_reproducible(tmp_path):
    neighbours = {"Triplet": np.array([[1, 5, 2]])}
    for folder in ("a", "b"):
        draw(tmp_path / folder, neighbours, [0])
    for name in ("g.png", "g.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
