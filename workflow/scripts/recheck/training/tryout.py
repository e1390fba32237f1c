"""Try one row of a study: build it, take one real training step and evaluate a handful of images. Nothing is saved."""

import copy
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from recheck.blame import described_value
from recheck.data.few import evaluated_role
from recheck.data.fold import FoldData
from recheck.methods.losses import compute_loss
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.history import learned

TINY = 1e-12


def try_row(
    configuration: dict[str, Any], data: FoldData, device: torch.device
) -> tuple[list[tuple[str, str]], list[str]]:
    """(name, value) pairs about the first step and an evaluation, and sentences about what looks wrong."""
    configuration, note = _without_downloads(configuration)
    if not configuration["selection"].get("role"):
        configuration["selection"] = {"role": evaluated_role(data), "metric": "P@1"}
    with tempfile.TemporaryDirectory() as folder:
        run = Run(configuration, data, 0, 0, device, StateFile(Path(folder), "try"), Path(folder))
        pairs, wrong = [("model", f"{_count(run.model)} parameters{note}")], []
        if run.trains:
            for pair, doubt in _step(run):
                pairs += [pair] if pair else []
                wrong += [doubt] if doubt else []
        metrics = run.evaluate()
    pairs.append(("evaluation", ", ".join(f"{name} {value:.3f}" for name, value in metrics.items())))
    return pairs, wrong


def _step(run: Run) -> Iterator[tuple[tuple[str, str] | None, str]]:
    """The pairs of the first step, each with a doubt or an empty sentence."""
    before, outputs = learned(run.loss), []
    hook = run.model.register_forward_hook(lambda module, inputs, output: outputs.append(output.detach()))
    started = time.perf_counter()
    pixels, labels, loss = run.take_step()
    seconds = time.perf_counter() - started
    hook.remove()
    embeddings = torch.cat(outputs)
    counts = torch.unique(labels, return_counts=True)[1]
    yield ("batch", f"{described_value(pixels)}, {len(counts)} classes"), _pairs_doubt(counts, bool(before))
    yield (
        ("embeddings", f"{described_value(embeddings)}, mean length {embeddings.norm(dim=-1).mean():.3g}"),
        _collapsed(embeddings),
    )
    yield (
        ("loss", f"{loss:.6g} (after the step, on the same batch: {_again(run, pixels, labels):.6g})"),
        ("The loss is exactly 0, so nothing is learned from this batch." if loss == 0 else ""),
    )
    norms = {name: _gradient(module) for name, module in _modules(run).items()}
    yield (
        ("gradients", ", ".join(f"{name} {'none' if norm is None else f'{norm:.3g}'}" for name, norm in norms.items())),
        "",
    )
    for name, norm in norms.items():
        if name in run.optimisers and not norm:
            yield None, f"The {name} gets no gradient, so its weights do not change."
        if name not in run.optimisers and norm:
            yield None, f"The {name} has a gradient but no optimiser: add 'optimisers.{name}' if it should be trained."
    for name, value in learned(run.loss).items():
        yield ("learned", f"{name} {before[name]:.6g} → {value:.6g}"), ""
    yield ("time", f"{seconds:.2f} s for the step"), ""


def _modules(run: Run) -> dict[str, torch.nn.Module]:
    modules = {"backbone": run.model.backbone, "head": run.model.head, "projector": run.projector, "loss": run.loss}
    return {name: module for name, module in modules.items() if module is not None and list(module.parameters())}


def _gradient(module: torch.nn.Module) -> float | None:
    squares = [parameter.grad.square().sum().item() for parameter in module.parameters() if parameter.grad is not None]
    return math.sqrt(sum(squares)) if squares else None


@torch.no_grad()
def _again(run: Run, pixels: torch.Tensor, labels: torch.Tensor) -> float:
    embeddings = run.forward(run.model, pixels)
    if run.projector is not None:
        embeddings = run.projector(embeddings).float()
    return compute_loss(run.loss, run.miner, embeddings, labels).item()


def _pairs_doubt(counts: torch.Tensor, has_proxies: bool) -> str:
    """What is wrong with a batch; a loss with proxies needs no pairs of images."""
    if len(counts) == 1:
        return "All images of the batch have the same label, so there are no negative pairs."
    if counts.max() == 1 and not has_proxies:
        return "No two images of the batch have the same label, so there are no positive pairs."
    return ""


def _collapsed(embeddings: torch.Tensor) -> str:
    unit = torch.nn.functional.normalize(embeddings.float(), dim=-1)
    return "All embeddings of the batch point in the same direction." if unit.std(0).max() < 1e-4 else ""


def _count(model: torch.nn.Module) -> str:
    return f"{sum(parameter.numel() for parameter in model.parameters()):,}"


def _without_downloads(configuration: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The same settings with random weights where trained ones would have to be downloaded, and a note about it."""
    configuration = copy.deepcopy(configuration)
    backbone = configuration["model"]["backbone"]
    weights = str(backbone.get("weights", "none"))
    missing = Path(weights).suffix and not Path(weights).is_file()
    if missing or (weights == "imagenet" and backbone["name"].startswith("timm/")):
        backbone["weights"] = "none"
        backbone.pop("sha256", None)
        return configuration, f", with random weights instead of '{weights}', which would have to be downloaded"
    return configuration, ""
