"""What training costs, in tables, and the figure of cost against quality."""

import io
import math
import random

import numpy as np
import pandas as pd
import pytest

from recheck.report import tables
from recheck.report.figures.pareto import Pareto, Point, draw, front
from recheck.report.price import Price, prices
from support.report.facts import facts


def slow_front(points):
    """All points that no other point beats, by comparing all pairs."""

    def beats(one, other):
        better = one.seconds < other.seconds or one.value > other.value
        return one.seconds <= other.seconds and one.value >= other.value and better

    return {point for point in points if not any(beats(other, point) for other in points)}


@pytest.mark.parametrize("seed", range(20))
def test_the_front_has_the_points_that_no_other_point_beats(seed):
    generator = random.Random(seed)
    # few distinct values, so that many points are equal in one or both
    points = [
        Point(str(number), "pairs", float(generator.randint(1, 8)), float(generator.randint(1, 8)))
        for number in range(generator.randint(1, 30))
    ]
    best = front(points)
    assert set(best) == slow_front(points)
    assert len(best) == len(set(best))
    assert [point.seconds for point in best] == sorted(point.seconds for point in best)


def record(method, fold, seed=0, **more):
    return {"method": method, "seed": seed, "fold": fold, **more}


def test_the_price_of_a_row_is_that_of_one_seed():
    runs = [
        record(
            "ms",
            fold,
            seed,
            images_forwarded=640,
            trainable_parameters={"backbone": 30, "head": 2},
            cpu_seconds=seconds,
        )
        for seed, fold, seconds in ((0, 0, 10.0), (0, 1, 11.0), (1, 0, 12.0), (1, 1, 100.0))
    ]
    costs = prices([*runs, record("older", 0)])
    assert costs["ms"] == Price(1280, 64, 2 * 11.5)
    assert all(math.isnan(value) for value in vars(costs["older"]).values())


def test_the_table_has_the_needs_and_the_costs_of_every_row():
    names = {"pretrained": "Pretrained", "ms": "MS", "dreml": "DREML"}
    about = facts(names, show_cost=True, metrics=["MAP@R"])
    for row, needs in zip(about["rows"], ([], [], ["16 members", "32-d"]), strict=True):
        row["needs"] = needs
    values = [(name, view) for name in names for view in about["views"]]
    summary = pd.DataFrame(
        {
            "method": [name for name, _ in values],
            "view": [view for _, view in values],
            "metric": "MAP@R",
            "mean": 0.5,
            "interval": np.nan,
            "seeds": 1,
            "dim": 128,
            "by_seed": [{0: 0.5}] * len(values),
        }
    )
    costs = {"pretrained": Price(0, 0, 0.4), "ms": Price(3072, 14_139_904, 41.6)}
    made = tables.make(about, summary, prices=costs)
    lines = [line for line in made.markdown().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[0][-5:] == ["Needs", "Images", "Parameters", "CPU s", "Seeds"]
    assert [row[-5:-1] for row in cells[2:]] == [
        ["—", "0", "0.00 M", "0"],
        ["—", "3,072", "14.14 M", "42"],
        ["16 members; 32-d", "—", "—", "—"],
    ]
    read = pd.read_csv(io.StringIO(made.csv())).set_index("method")
    assert read.loc["ms", "cost_parameters"] == 14_139_904
    assert read.loc["dreml", "cost_needs"] == "16 members; 32-d"
    assert "“Needs”" in made.caption
    assert "Needs" not in tables.make(about, summary).markdown()


def test_a_table_with_costs_is_restored_from_its_file(tmp_path):
    from recheck.files import write_json

    about = facts({"ms": "MS"}, show_cost=True, metrics=["MAP@R"])
    about["rows"][0]["needs"] = ["1 per class"]
    summary = pd.DataFrame(columns=["method", "view", "metric", "mean", "interval", "seeds", "dim", "by_seed"])
    made = tables.make(about, summary, prices={})
    write_json(tmp_path / "table.json", made.json())
    assert tables.load(tmp_path / "table.json").markdown() == made.markdown()


def test_the_figure_is_drawn_only_for_studies_that_show_costs(tmp_path):
    assert Pareto().applies(facts({"ms": "MS"}, show_cost=True))
    assert not Pareto().applies(facts({"ms": "MS"}))
    points = [Point("MS", "pairs", 10, 40, 1), Point("Triplet", "triplets", 12, 41)]
    files = {"png": tmp_path / "a.png", "svg": tmp_path / "a.svg"}
    drawn = draw(points, {"Pretrained": 30.0}, metric="MAP@R", title="MAP@R", **files)
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert {"MS  40.0", "Triplet  41.0", "Pretrained"} <= set(texts)
    assert "MS: MAP@R 40.00, 10 CPU s" in files["svg"].read_text(encoding="utf-8")


def test_labels_of_lines_that_are_close_do_not_overlap(tmp_path):
    points = [Point("MS", "pairs", 10.0, 40.0), Point("Triplet", "triplets", 20.0, 41.0)]
    untrained = {"Pretrained": 20.5, "Untrained head": 20.2}
    files = {"png": tmp_path / "x.png", "svg": tmp_path / "x.svg"}
    drawn = draw(points, untrained, metric="MAP@R", title="MAP@R", **files)
    drawn.canvas.draw()
    one, other = [text.get_window_extent() for text in drawn.axes[0].texts if text.get_text() in untrained]
    assert not one.overlaps(other)
