"""Try one row of a study: build it, take one real training step and evaluate a handful of images. Nothing is saved."""

import copy
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recheck.blame import described_value
from recheck.data.few import evaluated_role
from recheck.data.fold import FoldData
from recheck.data.transforms import padding_notes
from recheck.evaluation.sanity import COLLAPSED, spread
from recheck.methods.losses import compute_loss
from recheck.models.precision import at_least_float32
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.history import learned


class Report:
    """What was seen: (name, value) pairs, and sentences about what looks wrong."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []
        self.doubts: list[str] = []

    def add(self, name: str, value: str) -> None:
        self.pairs.append((name, value))

    def doubt(self, sentence: str, holds: bool = True) -> None:
        if holds:
            self.doubts.append(sentence)

    def lines(self) -> list[str]:
        wrong = [("looks wrong", sentence) for sentence in self.doubts or ["nothing"]]
        return [f"{name:<12} {value}" for name, value in (*self.pairs, *wrong)]


def try_row(
    configuration: dict[str, Any], data: FoldData, device: torch.device, own_metrics: Sequence[str] = ()
) -> Report:
    """Build the row, take its first step and evaluate the images that are not for training.

    ``own_metrics`` are the user's metrics of the study's evaluation.
    """
    configuration, note = _without_downloads(configuration)
    if not configuration["selection"].get("role"):
        configuration["selection"] = {"role": evaluated_role(data), "metric": "P@1"}
    selection = configuration["selection"]
    selection["also"] = list(dict.fromkeys([*selection.get("also", []), *own_metrics]))
    report = Report()
    for sentence in padding_notes(configuration["transforms"], _shapes(data, selection["role"])):
        report.doubt(sentence)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(configuration, data, 0, 0, device, StateFile(Path(folder), "try"), Path(folder))
        report.add("model", f"{sum(weight.numel() for weight in run.model.parameters()):,} parameters{note}")
        if run.trains:
            _take_step(run, report)
        metrics = run.evaluate()
    report.add("evaluation", ", ".join(f"{name} {value:.3f}" for name, value in metrics.items()))
    return report


def _take_step(run: Run, report: Report) -> None:
    before, outputs = learned(run.loss), []
    hook = run.model.register_forward_hook(lambda module, inputs, output: outputs.append(output.detach()))
    started = time.perf_counter()
    pixels, labels, loss = run.take_step()
    seconds = time.perf_counter() - started
    hook.remove()
    embeddings = torch.cat(outputs).float()
    norms = {name: _gradient(module) for name, module in _modules(run).items()}

    classes = len(torch.unique(labels))
    report.add("batch", f"{described_value(pixels)}, {classes} {'class' if classes == 1 else 'classes'}")
    report.add("embeddings", f"{described_value(embeddings)}, mean length {embeddings.norm(dim=-1).mean():.3g}")
    report.add("loss", f"{loss:.6g} (after the step, on the same batch: {_loss_again(run, pixels, labels):.6g})")
    report.add("gradients", ", ".join(f"{name} {norm:.3g}" for name, norm in norms.items()))
    for name, value in learned(run.loss).items():
        report.add("learned", f"{name} {before[name]:.6g} → {value:.6g}")
    report.add("time", f"{seconds:.2f} s for the step")

    collapsed = spread(embeddings.cpu().numpy()) < COLLAPSED
    report.doubt("All images of the batch have almost the same embedding.", collapsed)
    report.doubt("The loss is exactly 0, so nothing is learned from this batch.", loss == 0)
    for name, norm in norms.items():
        if name in run.optimisers:
            report.doubt(f"The {name} gets no gradient, so its weights do not change.", not norm)
        else:
            report.doubt(f"The {name} has a gradient but no optimiser: set 'optimisers.{name}'.", norm > 0)
    for finding in run.watch.findings():
        report.doubt(finding["text"])


def _shapes(data: FoldData, role: str) -> np.ndarray:
    """Height and width of the images that are evaluated."""
    return np.array([data.images.image(number).shape[:2] for number in data.roles[role]])


def _modules(run: Run) -> dict[str, torch.nn.Module]:
    modules = {"backbone": run.model.backbone, "head": run.model.head, "projector": run.projector, "loss": run.loss}
    return {name: module for name, module in modules.items() if module is not None and list(module.parameters())}


def _gradient(module: torch.nn.Module) -> float:
    """Euclidean norm of all gradients of a module; 0 if it has none."""
    squares = [weight.grad.square().sum().item() for weight in module.parameters() if weight.grad is not None]
    return math.sqrt(sum(squares))


@torch.no_grad()
def _loss_again(run: Run, pixels: torch.Tensor, labels: torch.Tensor) -> float:
    embeddings = run.forward(run.model, pixels)
    if run.projector is not None:
        embeddings = at_least_float32(run.projector(embeddings))
    return compute_loss(run.loss, run.miner, embeddings, labels).item()


def _without_downloads(configuration: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The same settings with random weights where trained ones would have to be downloaded, and a note about it."""
    configuration = copy.deepcopy(configuration)
    backbone = configuration["model"]["backbone"]
    weights = str(backbone.get("weights", "none"))
    missing = Path(weights).suffix and not Path(weights).is_file()
    if missing or (weights in ("imagenet", "pretrained") and backbone["name"].startswith("timm/")):
        backbone["weights"] = "none"
        backbone.pop("sha256", None)
        return configuration, f", with random weights instead of '{weights}', which would have to be downloaded"
    return configuration, ""
