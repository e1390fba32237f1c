"""Which images make a batch.

A sampler turns training labels into *passes*: lists of batches of positions. A pass is a function of its generator
alone, so any step of a run can be found again. The engine walks from pass to pass; where an epoch ends is the
schedule's business. A sampler whose pass depends on those before it also has ``draw_pass(number, generator_of)``, where
``generator_of(n)`` is the generator of pass n.
"""

from typing import Any

import numpy as np

from recheck.errors import UserError
from recheck.methods.samplers.passes import draw_pass
from recheck.parts import build, takes


def build_sampler(spec: dict[str, Any], labels: np.ndarray, super_labels: np.ndarray | None = None) -> Any:
    """``super_labels`` are for samplers that ask for them, and for these every training image must have one."""
    if takes(spec, "sampler", "super_labels") and (super_labels is None or "" in super_labels):
        raise UserError(f"sampler '{spec['class']}' needs a super-label of every training image: images.csv has none.")
    sampler = build(spec, "sampler", labels=labels, super_labels=super_labels)
    if not draw_pass(sampler, 0, np.random.RandomState):
        raise UserError(f"sampler: {len(labels)} training images do not fill one batch of {spec['batch']}.")
    return sampler
