"""Samplers, which choose the images of each batch.

A sampler turns training labels into *passes*: lists of batches, each a list of positions. A pass depends only on its
generator, so any step of a run can be reproduced. The engine walks through the passes; the schedule decides where an
epoch ends. A sampler whose pass depends on earlier passes also has ``draw_pass(number, generator_of)``, where
``generator_of(n)`` is the generator of pass n.
"""

from typing import Any

import numpy as np

from recheck.blame import wrong_result
from recheck.errors import UserError
from recheck.methods.samplers.passes import draw_pass
from recheck.names import MODULE_ATTRIBUTE
from recheck.parts import build, takes


def build_sampler(spec: dict[str, Any], labels: np.ndarray, super_labels: np.ndarray | None = None) -> Any:
    """Sampler by name. If it takes ``super_labels``, every training image must have one."""
    if takes(spec, "sampler", "super_labels") and (super_labels is None or "" in super_labels):
        raise UserError(
            f"The sampler '{spec['class']}' needs a super-label for every training image, but some have "
            "none in images.csv: choose another sampler."
        )
    sampler = build(spec, "sampler", labels=labels, super_labels=super_labels)
    drawn = draw_pass(sampler, 0, np.random.RandomState)
    if not _are_batches(drawn, len(labels)):
        raise wrong_result(
            "sampler", sampler, drawn, f"a list of batches, each a list of positions from 0 to {len(labels) - 1}"
        )
    if not drawn and MODULE_ATTRIBUTE.fullmatch(spec["class"]):
        raise wrong_result("sampler", sampler, drawn, "at least one batch")
    if not drawn:
        raise UserError(
            f"{len(labels)} training images do not fill one batch: lower 'sampler.batch' ({spec['batch']})."
        )
    return sampler


def _are_batches(drawn: Any, images: int) -> bool:
    if not isinstance(drawn, (list, tuple)) or not all(isinstance(batch, (list, tuple, np.ndarray)) for batch in drawn):
        return False
    positions = np.concatenate([np.asarray(batch).ravel() for batch in drawn]) if drawn else np.empty(0, int)
    return not len(positions) or (
        np.issubdtype(positions.dtype, np.integer) and positions.min() >= 0 and positions.max() < images
    )
