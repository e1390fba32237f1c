"""Gradient-norm clipping, compared with torch's own, and gradient caching, compared with one pass."""

import numpy as np
import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from recheck.data.fold import FoldData
from recheck.errors import UserError
from recheck.methods.forward import InTurns, Recomputed, Single
from recheck.methods.losses import build_loss, build_miner, compute_loss
from recheck.models.embedding import EmbeddingModel
from support.golden.fidelity import compares
from support.project.runs import CONFIGURATION, make_run, packed_glyphs, with_
from support.project.studies import shipped

RATE = 0.5
PLAIN = {name: {"class": "SGD", "lr": RATE} for name in ("backbone", "head", "loss")}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    images, labels = packed_glyphs(tmp_path_factory.mktemp("glyphs"), classes=6)
    return FoldData(images, labels, {"train": np.flatnonzero(labels < 6)}, np.full(len(labels), ""))


def weights(run):
    return [
        weight
        for optimiser in run.optimisers.values()
        for group in optimiser.param_groups
        for weight in group["params"]
    ]


@compares("optimiser", studies=["hyperbolic"], tolerance="clipping: torch's own")
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("norm", [0.05, 1e6])
def test_a_step_is_clipped_as_torch_clips(data, tmp_path, precision, norm):
    """SGD moves by rate times gradient; the gradient of an equal run is clipped by torch. float16 scales it before."""
    plain = with_(optimisers=PLAIN, selection={}, precision=precision)
    changes = []
    for number, more in enumerate(({}, {"clip_gradient_norm": norm})):
        run = make_run(data, tmp_path / str(number), {**plain, **more}, fold=0)
        if precision == "float16":
            run.scaler = torch.amp.GradScaler("cpu", init_scale=16.0)  # the usual scale overflows in the first steps
        before = [weight.detach().clone() for weight in weights(run)]
        run.take_step()
        changes.append([old - new.detach() for old, new in zip(before, weights(run), strict=True)])
    expected = [torch.nn.Parameter(change) for change in changes[0]]
    for weight, change in zip(expected, changes[0], strict=True):
        weight.grad = change / RATE
    length = clip_grad_norm_(expected, norm)
    assert (length > norm) == (norm < 1)
    for weight, change in zip(expected, changes[1], strict=True):
        torch.testing.assert_close(change, RATE * weight.grad, rtol=1e-3, atol=1e-6)


def test_the_loss_scale_starts_where_the_study_says(data, tmp_path):
    """Torch's scale of 65536 would overflow in the first steps of Hyp-ViT, and on CUB there are only 50."""
    half = with_(optimisers=PLAIN, selection={}, precision="float16")
    first = make_run(data, tmp_path / "scaled", {**half, "loss_scale": 16}, fold=0)
    assert first.scaler.get_scale() == 16
    assert make_run(data, tmp_path / "default", half, fold=0).scaler.get_scale() == 65536
    assert shipped("hyperbolic").run("cub200", "hyp_vit").training["loss_scale"] == 16


def test_clipping_refuses_kept_gradients(data, tmp_path):
    kept = {**PLAIN, "loss": {**PLAIN["loss"], "keep_gradients": True}}
    with pytest.raises(UserError, match=r"^'clip_gradient_norm' would shrink .*'keep_gradients' keeps: remove one"):
        make_run(data, tmp_path, with_(optimisers=kept, selection={}, clip_gradient_norm=1.0), fold=0)


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_a_chunk_is_computed_again_in_the_same_precision(precision):
    """The backward pass is outside of autocast; the chunks that it computes again are not."""
    spec = {**CONFIGURATION["model"], "backbone": {"name": "support.project.small_net:SmallNet", "weights": "none"}}
    images = torch.randint(0, 256, (12, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    gradients = []
    for forward in (InTurns(3), Recomputed(3)):
        torch.manual_seed(0)
        model = EmbeddingModel({**spec, "batch_norm": "frozen"}).train()
        with torch.autocast("cpu", precision):
            embeddings = forward(model, images)
        embeddings.square().sum().backward()
        gradients.append([weight.grad for weight in model.parameters()])
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


class OwnHead(torch.nn.Linear):
    """A user's head: an exception in it would be reported as the user's error."""

    def __init__(self, features, dim):
        super().__init__(features, dim)
        self.dim = dim

    def forward(self, features):
        return super().forward(features).tanh()


def test_a_users_head_can_be_computed_again():
    spec = {**CONFIGURATION["model"], "head": {"class": f"{__name__}:OwnHead", "dim": 4}}
    images = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
    model = EmbeddingModel({**spec, "batch_norm": "frozen"}).train()
    Recomputed(2)(model, images).sum().backward()
    assert model.head.weight.grad is not None


PAIRS = {
    "multi-similarity": ({"class": "MultiSimilarityLoss"}, {"class": "MultiSimilarityMiner", "epsilon": 0.5}),
    "smooth AP": ({"class": "SmoothAPLoss"}, None),
    "contrastive": ({"class": "ContrastiveLoss"}, None),
    "proxies": ({"class": "ProxyAnchorLoss"}, None),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("parts", [2, 6])
def test_cached_gradients_equal_one_pass(name, parts):
    """In float64, with frozen batch norm and without dropout, for losses that compare all images of a batch."""
    loss_spec, miner_spec = PAIRS[name]
    spec = {
        **CONFIGURATION["model"],
        "backbone": {"name": "support.project.small_net:SmallNet", "weights": "none"},
        "batch_norm": "frozen",
    }
    images = torch.randint(0, 256, (12, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels, gradients = torch.arange(12) // 3, []
    for forward in (Single(), Recomputed(parts)):
        torch.manual_seed(0)
        model = EmbeddingModel(spec).double().train()
        loss = build_loss(loss_spec, num_classes=4, embedding_size=model.dim).double()
        embeddings = forward(model, images)
        value = compute_loss(loss, build_miner(miner_spec), embeddings, labels)
        value.backward()
        gradients.append({key: each.grad for key, each in [*model.named_parameters(), *loss.named_parameters()]})
        assert value > 0
    assert gradients[0].keys() == gradients[1].keys()
    assert sum(gradient.abs().sum() for gradient in gradients[0].values()) > 1e-3
    for key, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][key], gradient, rtol=0, atol=1e-10)
