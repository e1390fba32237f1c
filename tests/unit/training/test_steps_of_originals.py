"""What a training step does in some published programs, and that every part of it resumes bit-identically."""

import numpy as np
import pytest
import torch

from recheck.data.fold import FoldData
from recheck.training.interrupt import Interrupted
from support.project.runs import CONFIGURATION, StopAfter, make_run, packed_glyphs, same, with_

SCHEDULE = {"epochs": 3, "steps_per_epoch": 3, "evaluate_every": 3}
SELECTION = {"role": "test", "metric": "R@1"}
PROJECTED = {**CONFIGURATION["model"], "projector": {"class": "LinearProjector", "dim": 24}}
OPTIMISERS = {
    "backbone": {"class": "AdamW", "lr": 1e-3},
    "head": {"class": "AdamW", "lr": 1e-3},
    "projector": {"class": "AdamW", "lr": 1e-3},
    "loss": {"class": "SGD", "lr": 0.1, "momentum": 0.5},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    images, labels = packed_glyphs(tmp_path_factory.mktemp("glyphs"), classes=8)
    return FoldData(images, labels, {"train": np.flatnonzero(labels < 5), "test": np.flatnonzero(labels >= 5)})


def settings(**parts):
    usual = {"model": PROJECTED, "optimisers": OPTIMISERS, "schedule": SCHEDULE, "selection": SELECTION}
    return with_(**{**usual, **parts})


def loss_optimiser(**more):
    return {**OPTIMISERS, "loss": {**OPTIMISERS["loss"], **more}}


def resumes(data, folder, configuration):
    """Assert that the run gives the same bits if it is stopped after some of its first steps."""
    expected = make_run(data, folder / "all", configuration).train()
    for steps in (1, 3, 4, 7):
        with pytest.raises(Interrupted):
            make_run(data, folder / str(steps), configuration, stop=StopAfter(steps)).train()
        same(make_run(data, folder / str(steps), configuration).train(), expected)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [None, {"class": "StepLR", "step_size": 1, "gamma": 0.1}])
def test_an_optimiser_can_have_its_own_learning_rate_schedule(data, tmp_path, schedule):
    run = make_run(data, tmp_path / "run", settings(optimisers=loss_optimiser(lr_schedule=schedule)))
    run.train()
    rates = {name: optimiser.param_groups[0]["lr"] for name, optimiser in run.optimisers.items()}
    expected = 0.1 if schedule is None else 0.1 * 0.1**3
    assert rates == pytest.approx({"backbone": 5e-4, "head": 5e-4, "projector": 5e-4, "loss": expected})
    resumes(data, tmp_path, settings(optimisers=loss_optimiser(lr_schedule=schedule)))


def weights(run):
    parts = {"model": run.model, "projector": run.projector, "loss": run.loss}
    return {
        f"{module_name}.{name}": weight.detach().clone()
        for module_name, module in parts.items()
        for name, weight in module.named_parameters()
    }


def test_an_overflow_anywhere_skips_all_optimisers(data, tmp_path):
    """Only the projector's gradient overflows, once."""
    run = make_run(data, tmp_path, settings(precision="float16"))
    run.scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    overflow = [True, False]
    run.projector.weight.register_hook(lambda gradient: gradient * (torch.inf if overflow.pop(0) else 1))
    batches = run._remaining_batches()
    run.model.train()
    before = weights(run)
    run._step(*next(batches))
    assert all(torch.equal(before[name], weight) for name, weight in weights(run).items())
    assert all(not optimiser.state for optimiser in run.optimisers.values())
    assert run.scaler.get_scale() == 2.0
    run._step(*next(batches))
    moved = [
        module_name
        for module_name in ("model.backbone", "model.head", "projector", "loss")
        if changed(before, run, module_name)
    ]
    assert moved == ["model.backbone", "model.head", "projector", "loss"]


def changed(before, run, module_name):
    return any(not torch.equal(before[name], now) for name, now in weights(run).items() if name.startswith(module_name))


@pytest.mark.slow
def test_the_state_of_the_gradient_scaler_resumes(data, tmp_path):
    """The first steps overflow and the later ones do not, so a scale that starts again would skip other steps."""
    loss = {"class": "ScaledLoss", "factor": 10, "loss": CONFIGURATION["loss"]}
    scaled = {"precision": "float16", "loss_scale": 2048}
    configuration = settings(**scaled, loss=loss, optimisers=loss_optimiser(lr=1e-6))
    run = make_run(data, tmp_path / "run", configuration)
    assert run.scaler.get_scale() == 2048
    run.train()
    assert 2048 / 2**8 < run.scaler.get_scale() < 2048, "some of the nine steps are skipped, but not all of them"
    resumes(data, tmp_path, configuration)


def test_kept_gradients_add_up_over_all_steps(data, tmp_path):
    kept = make_run(data, tmp_path / "kept", settings(optimisers=loss_optimiser(keep_gradients=True, lr=0.0)))
    usual = make_run(data, tmp_path / "usual", settings(optimisers=loss_optimiser(lr=0.0)))
    total, seen = 0, []
    for run in (kept, usual):
        run.model.train()
        batches = run._remaining_batches()
        for _ in range(3):
            torch.manual_seed(0)
            run._step(*next(batches))
            if run is usual:
                total = total + run.loss.proxies.grad
                seen.append(run.loss.proxies.grad.clone())
    torch.testing.assert_close(kept.loss.proxies.grad, total)
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(kept.model.head.weight, usual.model.head.weight)


@pytest.mark.slow
def test_kept_gradients_resume(data, tmp_path):
    resumes(data, tmp_path, settings(optimisers=loss_optimiser(keep_gradients=True)))


def test_kept_gradients_that_overflowed_do_not_stop_training(data, tmp_path):
    run = make_run(data, tmp_path, settings(precision="float16", optimisers=loss_optimiser(keep_gradients=True)))
    run.scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    overflow = [True, False]
    run.loss.proxies.register_hook(lambda gradient: gradient * (torch.inf if overflow.pop(0) else 1))
    run.model.train()
    before, batches = weights(run), run._remaining_batches()
    for _ in range(2):
        run._step(*next(batches))
    assert changed(before, run, "loss") and changed(before, run, "model.head")


@pytest.mark.slow
@pytest.mark.parametrize("trains", [True, False])
def test_batch_norm_may_train_after_the_warm_up(data, tmp_path, trains):
    configuration = settings(
        model={**PROJECTED, "batch_norm": "frozen_affine"},
        schedule={**SCHEDULE, "warm_up": {"epochs": 1}, "train_affine_after_warm_up": trains},
    )
    run = make_run(data, tmp_path / "run", configuration)
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    history = []
    end = run._end_epoch
    run._end_epoch = lambda *args, **more: (history.append(weights(run)), end(*args, **more))
    run.train()
    scale = "model.backbone.1.weight"
    assert torch.equal(history[1][scale], before["backbone.1.weight"]), "not during the warm-up"
    assert torch.equal(history[2][scale], before["backbone.1.weight"]) != trains
    after = run.model.state_dict()
    for name in ("running_mean", "running_var"):
        assert torch.equal(after[f"backbone.1.{name}"], before[f"backbone.1.{name}"])
    resumes(data, tmp_path, configuration)


def test_without_a_warm_up_frozen_batch_norm_stays_frozen(data, tmp_path):
    model = {**PROJECTED, "batch_norm": "frozen_affine"}
    run = make_run(data, tmp_path, settings(model=model, schedule={**SCHEDULE, "train_affine_after_warm_up": True}))
    assert not run.model.backbone[1].weight.requires_grad


@pytest.mark.parametrize("full", [True, False])
def test_a_projector_can_be_computed_outside_of_mixed_precision(data, tmp_path, full):
    model = {**PROJECTED, "projector": {**PROJECTED["projector"], "full_precision": full}}
    run = make_run(data, tmp_path / "run", settings(model=model, precision="bfloat16"))
    run.model.train()
    seen = {}
    run.loss.register_forward_pre_hook(lambda module, args: seen.update(projected=args[0].detach()))
    run.projector.register_forward_pre_hook(lambda module, args: seen.update(embeddings=args[0].detach()))
    before = run.projector.weight.detach().clone()
    run._step(*next(run._remaining_batches()))
    exact = torch.nn.functional.normalize(seen["embeddings"] @ before.T)
    error = (seen["projected"] - exact).abs().max()
    assert error < 1e-6 if full else error > 1e-4


def test_float64_computes_everything_in_float64(data, tmp_path):
    run = make_run(data, tmp_path, settings(precision="float64"))
    seen = []
    run.loss.register_forward_pre_hook(lambda module, args: seen.append(args[0].dtype))
    run.train()
    assert set(seen) == {torch.float64}
    assert {weight.dtype for weight in weights(run).values()} == {torch.float64}
    assert torch.get_default_dtype() is torch.float32
