"""Watching a run for signs that it learns nothing.

The watch uses data that is on the host anyway: the labels of a batch and the value of the loss. It looks at a module's
gradients on the device only until one is not zero, and at its weights only until one has changed: in a sane run, these
are the first step and the first epoch. Its counts are part of the run's state, so an interrupted run has the same
findings.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from recheck.models.embedding import EmbeddingModel
from recheck.sanity import Finding, finding

# At this share of batches or more, missing positive or negative pairs are a finding.
SHARE = 0.5


@dataclass
class _Counts:
    """Numbers of steps, and the modules with a gradient and with changed weights."""

    steps: int = 0
    without_positives: int = 0
    without_negatives: int = 0
    zero_losses: int = 0
    first_loss: float | None = None
    losses_like_first: int = 0
    with_gradient: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


class Watch:
    """Counts over the steps of a run.

    ``weights`` are the trained parameters by module (backbone, head, projector, loss) before the first step.
    ``needs_pairs`` says whether the loss compares the images of a batch with each other (:func:`needs_pairs`).
    """

    def __init__(self, weights: Mapping[str, Sequence[nn.Parameter]], needs_pairs: bool, frozen_batch_norm: bool):
        self.weights, self.needs_pairs, self.frozen_batch_norm = weights, needs_pairs, frozen_batch_norm
        self.start = {
            name: [weight.detach().cpu().clone() for weight in parameters] for name, parameters in weights.items()
        }
        self.counts = _Counts()

    def batch(self, labels: np.ndarray, loss: float) -> None:
        """Count a batch and its loss."""
        counts, classes = self.counts, len(np.unique(labels))
        counts.steps += 1
        counts.without_positives += classes == len(labels)
        counts.without_negatives += classes == 1
        counts.zero_losses += loss == 0
        counts.first_loss = loss if counts.first_loss is None else counts.first_loss
        counts.losses_like_first += loss == counts.first_loss

    def gradients(self) -> None:
        """Look at the gradients, after the backward pass."""
        for name in self._other_than(self.counts.with_gradient):
            nonzero = [weight.grad.any() for weight in self.weights[name] if weight.grad is not None]
            if nonzero and torch.stack(nonzero).any():  # the host waits for the device once, not once per weight
                self.counts.with_gradient.append(name)

    def epoch(self) -> None:
        """Look at the weights, after an epoch."""
        for name in self._other_than(self.counts.changed):
            pairs = zip(self.weights[name], self.start[name], strict=True)
            if any(not torch.equal(weight.detach().cpu(), start) for weight, start in pairs):
                self.counts.changed.append(name)
                del self.start[name]

    def _other_than(self, names: Iterable[str]) -> list[str]:
        return [name for name in self.weights if name not in names]

    def state(self) -> dict[str, Any]:
        return asdict(self.counts)

    def resume(self, state: Mapping[str, Any]) -> None:
        self.counts = _Counts(**state)
        for name in self.counts.changed:
            del self.start[name]

    def findings(self) -> list[Finding]:
        return [*self.findings_before(), *self._of_batches(), *self._of_losses()]

    def findings_before(self) -> list[Finding]:
        """Findings that are known before the first step."""
        if not self.frozen_batch_norm:
            return []
        text = (
            "Batch norm is frozen, but its statistics are those of random weights (mean 0, variance 1): set "
            "'model.batch_norm: trained', or start from pretrained weights."
        )
        return [finding("frozen_batch_norm", text)]

    def _of_batches(self) -> list[Finding]:
        counts, findings = self.counts, []
        if not self.needs_pairs:
            return []
        if counts.without_negatives >= SHARE * max(1, counts.steps):
            text = (
                f"{counts.without_negatives} of {counts.steps} batches had images of only one class, so no negative "
                "pairs: lower 'sampler.per_class', or raise 'sampler.batch'."
            )
            findings.append(finding("no_negative_pairs", text))
        if counts.without_positives >= SHARE * max(1, counts.steps):
            text = (
                f"{counts.without_positives} of {counts.steps} batches had no two images of one class, so no positive "
                "pairs: use a sampler with several images per class."
            )
            findings.append(finding("no_positive_pairs", text))
        return findings

    def _of_losses(self) -> list[Finding]:
        """Findings about losses, gradients and weights, leaving out those that another finding already explains."""
        counts, steps = self.counts, self.counts.steps
        if steps < 2:
            return []
        if counts.zero_losses == steps:
            text = (
                f"The loss was exactly 0 in all {steps} steps, so nothing was learned: check the loss, the miner and "
            )
            return [finding("zero_loss", text + "the classes in a batch.")]
        findings = []
        if counts.losses_like_first == steps:
            text = (
                f"The loss was {counts.first_loss:.6g} in all {steps} steps: check that it depends on the embeddings, "
                "and that images have different embeddings."
            )
            findings.append(finding("constant_loss", text))
        if without := self._other_than(counts.with_gradient):
            text = (
                f"No gradient reached the {_listed(without)} in {steps} steps: check that the loss depends on "
                "the embeddings and detaches nothing that should be trained."
            )
            findings.append(finding("zero_gradient", text))
        elif unchanged := self._other_than(counts.changed):
            rates = _listed([f"'optimisers.{name}.lr'" for name in unchanged])
            text = (
                f"The weights of the {_listed(unchanged)} did not change in {steps} steps: check {rates} and the "
                "learning-rate schedule."
            )
            findings.append(finding("unchanged_weights", text))
        return findings


def needs_pairs(loss: nn.Module, dim: int, num_classes: int) -> bool:
    """Whether a loss compares the images of a batch with each other.

    It does not if it has vectors of its own to compare them with (proxies, class weights, a memory of embeddings), or
    if the embedding has one dimension per class.
    """
    tensors = [*loss.parameters(), *loss.buffers()]
    tensors += [value for module in loss.modules() for value in vars(module).values() if torch.is_tensor(value)]
    return dim != num_classes and not any(tensor.ndim >= 2 and dim in tensor.shape for tensor in tensors)


def random_frozen_batch_norm(model: EmbeddingModel) -> bool:
    """Whether the backbone's batch norm is frozen but has never seen an image."""
    if not (model.frozen or model.frozen_batch_norm):
        return False
    layers = [layer for layer in model.batch_norms() if layer.running_mean is not None]
    return bool(layers) and not any(layer.running_mean.any() or (layer.running_var != 1).any() for layer in layers)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
