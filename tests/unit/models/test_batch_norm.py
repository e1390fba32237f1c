"""The running variance of batch norm."""

import pytest
import torch
from torch import nn

from recheck.models.batch_norm import track_biased_variance
from recheck.models.embedding import EmbeddingModel


@pytest.mark.parametrize("momentum", [0.1, 0.5])
def test_the_biased_variance_is_averaged(momentum):
    torch.manual_seed(0)
    norm, images = nn.BatchNorm2d(4, momentum=momentum), torch.randn(5, 4, 3, 2, requires_grad=True)
    track_biased_variance(norm)
    plain = nn.BatchNorm2d(4, momentum=momentum)
    expected = norm.running_var.clone()
    for _ in range(3):
        made, other = norm(images), plain(images)
        expected = (1 - momentum) * expected + momentum * images.detach().var(dim=(0, 2, 3), correction=0)
        assert torch.equal(made, other), "only the average differs"
        made.square().sum().backward()
    torch.testing.assert_close(norm.running_var, expected)
    assert torch.equal(norm.running_mean, plain.running_mean)
    assert (norm.running_var < plain.running_var).all()
    norm.eval()
    before = norm.running_var.clone()
    norm(images)
    assert torch.equal(norm.running_var, before)


def test_a_model_has_it_as_a_setting():
    spec = {
        "backbone": {"name": "support.project.small_net:SmallNet", "weights": "none"},
        "head": {"class": "Linear", "dim": 8},
        "batch_norm": "trained",
    }
    images = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    variances = {}
    for kind in ("unbiased", "biased"):
        torch.manual_seed(0)
        model = EmbeddingModel({**spec, "batch_norm_variance": kind})
        names = list(model.state_dict())
        model(images)
        variances[kind] = model.state_dict()["backbone.1.running_var"]
    assert names == list(EmbeddingModel(spec).state_dict())
    assert (variances["biased"] < variances["unbiased"]).all()
