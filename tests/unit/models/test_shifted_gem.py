"""Min-shifted generalised-mean pooling, compared with the formula and checked for invariants."""

import pytest
import torch

from recheck.errors import UserError
from recheck.models.shifted_gem import ShiftedGeM

MATHS = ("fixed", "legacy")


@pytest.fixture
def maps():
    return torch.randn(3, 4, 5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def slow(maps, p):
    result = torch.empty(maps.shape[:2], dtype=maps.dtype)
    for image in range(maps.shape[0]):
        for channel in range(maps.shape[1]):
            values = maps[image, channel].flatten().tolist()
            least = min(values)
            mean = sum((value - least + 1) ** p for value in values) / len(values)
            result[image, channel] = mean ** (1 / p) + least - 1
    return result


@pytest.mark.parametrize("maths", MATHS)
@pytest.mark.parametrize("p", [0.5, 1, 3, 8])
def test_entry_by_entry(maps, p, maths):
    torch.testing.assert_close(ShiftedGeM(p, maths)(maps), slow(maps, p), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("maths", MATHS)
def test_between_mean_and_maximum(maps, maths):
    torch.testing.assert_close(ShiftedGeM(1, maths)(maps), maps.mean(dim=(2, 3)))
    torch.testing.assert_close(ShiftedGeM(300, maths)(maps), maps.amax(dim=(2, 3)), rtol=0, atol=0.1)
    torch.testing.assert_close(ShiftedGeM(3, maths)(maps + 7), ShiftedGeM(3, maths)(maps) + 7)


def test_small_activations_are_not_rounded_away(maps):
    """Activations of a random network are about 1e-7, and the legacy computation leaves only noise."""
    small = maps * 1e-7
    exact = slow(small, 3)
    error = {
        maths: ((ShiftedGeM(3, maths)(small.float()).double() - exact).abs().max() / exact.abs().max()).item()
        for maths in MATHS
    }
    assert error["fixed"] < 1e-5
    assert error["legacy"] > 0.1


@pytest.mark.parametrize("maths", MATHS)
def test_gradients(maps, maths):
    assert torch.autograd.gradcheck(ShiftedGeM(3, maths), maps[:1].clone().requires_grad_())
    flat = torch.zeros(1, 2, 3, 3, requires_grad=True)
    ShiftedGeM(3, maths)(flat).sum().backward()
    torch.testing.assert_close(flat.grad.sum(dim=(2, 3)), torch.ones(1, 2))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"p": 0}, "'p' of the pooling 'ShiftedGeM' must be a number above 0, found 0"),
        ({"p": "3"}, "must be a number above 0, found '3'"),
        ({"maths": "legasy"}, "Unknown value 'legasy' for 'maths' of the pooling 'ShiftedGeM'; did you mean 'legacy'"),
    ],
)
def test_invalid_arguments_are_named(arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        ShiftedGeM(**arguments)
