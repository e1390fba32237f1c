"""Losses of pytorch-metric-learning that Recheck corrects, compared with the library's where those do not fail."""

import inspect
import re

import pytest
import torch
from pytorch_metric_learning import losses

from recheck.methods.losses import build_loss
from recheck.models.heads import build_head
from support.project import ROOT
from support.project.studies import shipped

LABELS = torch.arange(24) // 4
CLASSES, SIZE = 6, 10
OF_LIBRARY = {
    "DynamicSoftMarginLoss": losses.DynamicSoftMarginLoss,
    "HistogramLoss": losses.HistogramLoss,
    "P2SGradLoss": lambda: losses.P2SGradLoss(descriptors_dim=SIZE, num_classes=CLASSES),
}


def features(seed=0):
    drawn = torch.randn(len(LABELS), SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return drawn.requires_grad_()


def both(name):
    ours, theirs = build_loss({"class": name}, CLASSES, SIZE).double(), OF_LIBRARY[name]().double()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", OF_LIBRARY)
def test_values_are_those_of_the_library(name):
    """Also the gradient, except that of the histogram of DynamicSoftMarginLoss, which is a constant here.

    The library computes bins (HistogramLoss) and lengths (P2SGradLoss) to 1e-7 only.
    """
    torch.manual_seed(0)
    ours, theirs = both(name)
    x, y = features(), features()
    value, expected = ours(x, LABELS), theirs(y, LABELS)
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=0)
    value.backward()
    expected.backward()
    if name != "DynamicSoftMarginLoss":
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-5, atol=2e-6)
    for parameter, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", OF_LIBRARY)
def test_several_steps_and_equal_or_opposite_images(name):
    """Each of the library's losses fails in one of these steps, or in its next one."""
    loss = build_loss({"class": name}, CLASSES, SIZE).double()
    optimiser = torch.optim.Adam(loss.parameters(), lr=1.0) if list(loss.parameters()) else None
    equal = features().detach()[:1].repeat(len(LABELS), 1)
    opposite = equal * torch.where(torch.arange(len(LABELS)) % 4 < 2, 1.0, -1.0)[:, None]
    for drawn in (features(0), features(1), equal, opposite, features(2)):
        x = drawn.detach().requires_grad_()
        value = loss(x, LABELS)
        value.backward()
        assert value.isfinite() and x.grad.isfinite().all()
        if optimiser:
            optimiser.step()


def test_the_histogram_of_a_dynamic_margin_is_that_of_the_library():
    """Over several steps, which the library takes only without gradients."""
    ours, theirs = both("DynamicSoftMarginLoss")
    for seed in range(3):
        value = ours(features(seed), LABELS)
        torch.testing.assert_close(value.detach(), theirs(features(seed).detach(), LABELS), rtol=1e-10, atol=0)
        torch.testing.assert_close(ours.hist_, theirs.hist_, rtol=1e-10, atol=1e-12)
        assert not ours.hist_.requires_grad


def test_the_recipe_of_2025_has_every_loss_or_its_page_says_why_not():
    study = shipped("recipe_2025")
    rows = {run.training["loss"]["class"] for run in map(_run(study), study.rows) if run.trained}
    every = {name for name, each in vars(losses).items() if inspect.isclass(each)}
    assert rows <= every
    page = (ROOT / "docs/modern.md").read_text(encoding="utf-8")
    without = page.split("without a row:")[1]
    assert set(re.findall(r"`(\w+)`", without)) == every - rows


def _run(study):
    return lambda row: study.run("cub200", row)


@pytest.mark.parametrize("row", ["angular", "large_margin_softmax", "sphere_face"])
def test_losses_of_the_recipe_of_2025_see_embeddings_of_length_1(row):
    """These three depend on the length; the original network normalises its output."""
    settings = shipped("recipe_2025").run("cub200", row).training
    head, loss = build_head(settings["model"]["head"], SIZE), build_loss(settings["loss"], CLASSES, SIZE).double()
    x = features().detach()
    torch.testing.assert_close(head(x).norm(dim=1), torch.ones(len(x), dtype=torch.float64))
    expected = loss(torch.nn.functional.normalize(x), LABELS)
    torch.testing.assert_close(loss(head(7 * x), LABELS), expected, rtol=1e-9, atol=0)
    assert abs(loss(7 * x, LABELS) - expected) > 0.1
    assert head(x.bfloat16()).dtype == torch.float32
