"""The learned parameters of a loss as columns of the history."""

import pytest
import torch

from recheck.training.history import learned


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = torch.nn.Parameter(torch.tensor(0.25))
        self.inner = torch.nn.Linear(2, 1)
        self.inner.weight.data = torch.tensor([[3.0, 4.0]])
        self.register_buffer("counts", torch.zeros(3))


def test_numbers_by_value_and_vectors_by_norm():
    row = learned(Loss())
    assert list(row) == ["loss_temperature", "loss_inner.weight_norm", "loss_inner.bias"]
    assert row["loss_temperature"] == 0.25
    assert row["loss_inner.weight_norm"] == pytest.approx(5.0)


def test_a_loss_without_parameters_adds_no_columns():
    assert learned(torch.nn.Identity()) == {}
