"""Free settings: their values, their bounds, and how they are filled in."""

import math

import pytest

from recheck import space
from recheck.space import Parameter

REAL = Parameter("x", -1, 3)
LOG = Parameter("x", 1e-6, 1, log=True)
WHOLE = Parameter("x", 2, 5, integer=True)
LOG_WHOLE = Parameter("x", 1, 1000, log=True, integer=True)
WORDS = Parameter("x", values=("a", "b"))
NUMBERS = Parameter("x", values=(1, 2, 8))


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        (REAL, [-1.0, 1.0, 3.0]),
        (LOG, [1e-6, 1e-3, 1.0]),
        (WHOLE, [2, 4, 5]),
        (LOG_WHOLE, [1, 32, 1000]),
        (WORDS, ["a", "b", "b"]),
        (NUMBERS, [1, 2, 8]),
    ],
)
def test_places_become_values_inside_the_bounds(parameter, values):
    points = [parameter.at(place) for place in (0.0, 0.5, 1.0)]
    assert points == pytest.approx(values) if parameter in (REAL, LOG) else points == values
    assert [type(value) for value in points] == [type(value) for value in values]


def test_proposed_numbers_are_short_and_stay_inside():
    assert REAL.rounded(0.123456789) == 0.123457
    third = Parameter("x", 1 / 3, 1)
    assert third.rounded(1 / 3) == 1 / 3, "rounding must not leave the interval"
    assert WHOLE.rounded(2.6) == 3 and WORDS.rounded("a") == "a"


@pytest.mark.parametrize(
    ("parameter", "inside", "on_bound"),
    [
        (REAL, [0.0, -0.9], [-1, -0.9999, 3]),
        (LOG, [2e-6, 0.5], [1e-6, 1.0]),
        (WHOLE, [3, 4], [2, 5]),
        (WORDS, ["a", "b"], []),
        (NUMBERS, [2], [1, 8]),
        (Parameter("x", values=(8, 16)), [8, 16], []),
    ],
)
def test_optima_on_a_bound(parameter, inside, on_bound):
    assert not any(map(parameter.on_bound, inside))
    assert all(map(parameter.on_bound, on_bound))


def test_the_published_optima_on_bounds_are_recognised():
    """Ends of the intervals as the published trials have them, off by rounding."""
    assert Parameter("pos_margin", -0.2, 2).on_bound(-0.19999999999999726)
    assert Parameter("regularizer_weight", 0, 1).on_bound(5.559067620937891e-18)
    assert Parameter("lr", 1e-6, 1, log=True).on_bound(1.000000000000002e-06)


def test_a_grid_has_every_combination_and_needs_points():
    free = space.parameters({"b": {"values": ["x", "y"]}, "a": {"low": 1, "high": 3, "integer": True}})
    assert [parameter.name for parameter in free] == ["a", "b"]
    points = space.grid(free)
    assert len(points) == 6 and points[0] == {"a": 1, "b": "x"} and points[-1] == {"a": 3, "b": "y"}
    assert REAL.points == ()


def test_dotted_settings_are_read_filled_and_removed():
    settings = {"sampler": {"batch": 8}, "loss": {"margin": 0.1, "class": "A", "distance": {"p": 2}}}
    assert space.get(settings, "loss.distance.p") == 2 and space.get(settings, "loss.distance.q.r", 7) == 7
    changed = space.filled(settings, {"loss.distance.p": 1, "optimisers.loss.lr": 0.5})
    assert changed["loss"] == {"class": "A", "distance": {"p": 1}, "margin": 0.1}
    assert changed["optimisers"] == {"loss": {"lr": 0.5}}
    assert settings["loss"]["distance"] == {"p": 2}, "the original is not changed"
    assert space.without(changed, ["loss.distance.p", "loss.margin", "miner.none"])["loss"] == {
        "class": "A",
        "distance": {},
    }
    assert space.filled({}, {"loss.margin": 1, "loss.scale": 2}) == {"loss": {"margin": 1, "scale": 2}}


def test_filled_settings_do_not_depend_on_the_order_of_keys():
    one = space.filled({"b": 1, "a": {"y": 1, "x": 2}}, {"a.z": 3})
    other = space.filled({"a": {"x": 2, "y": 1}, "b": 1}, {"a.z": 3})
    assert repr(one) == repr(other)


def test_the_place_of_a_value_lies_between_0_and_1():
    assert LOG.place(1e-3) == pytest.approx(0.5) and NUMBERS.place(8) == 1.0
    assert math.isclose(REAL.place(1), 0.5)
