"""FLOPs, memory and weights of a network per image, and a table of them for the networks of Recheck's studies.

`counts.csv` beside this module is for Snakemake, which must plan thousands of jobs without importing torch.
``python benchmarks/counts.py`` writes it.
"""

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from recheck.study.checks import input_side

COUNTS = Path(__file__).with_name("counts.csv")


@dataclass(frozen=True)
class Counts:
    """A network's FLOPs per image in evaluation (``forward``) and in training, and its sizes.

    ``saved`` are bytes per image that the forward pass keeps for the backward pass, in float32. ``parameters`` are all
    weights, ``trainable`` those with gradients, ``dim`` is the size of an embedding.
    """

    forward: float
    training: float
    saved: float
    parameters: int
    trainable: int
    dim: int


Key = tuple[str, str, bool, int]
"""Name, options as JSON, whether it is frozen, side of the input."""
Counter = Callable[[Mapping[str, Any], int], Counts | None]
"""(model settings, side of the square input) → counts, or None if they are not known."""


def side_of(transforms: Mapping[str, Any], phase: str) -> int | None:
    """Side of the network's input, as a square of the shorter side; None if it depends on the image.

    A user's own step is assumed to keep the size.
    """
    steps = [step for step in transforms[phase] if "custom" not in step]
    return input_side({**transforms, phase: steps}, phase, "")


def stored(model: Mapping[str, Any], side: int) -> Counts | None:
    """The stored counts of a backbone; head and pooling are left out, because they hardly matter."""
    backbone = model["backbone"]
    return _table().get(key_of(backbone, side))


def key_of(backbone: Mapping[str, Any], side: int) -> Key:
    """What the counts of a backbone depend on. Freezing only some of its parts hardly matters."""
    options = json.dumps(backbone["options"], sort_keys=True) if backbone.get("options") else ""
    return backbone["name"], options, backbone.get("frozen") is True, side


@cache
def _table() -> dict[Key, Counts]:
    with COUNTS.open(encoding="utf-8", newline="") as file:
        return {
            (row.pop("backbone"), row.pop("options"), row.pop("frozen") == "yes", int(row.pop("side"))): Counts(
                **{name: int(value) for name, value in row.items()}
            )
            for row in csv.DictReader(file)
        }


def write_table(rows: Mapping[Key, Counts], path: Path = COUNTS) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["backbone", "options", "frozen", "side", *Counts.__dataclass_fields__])
        for (name, options, frozen, side), counts in sorted(rows.items()):
            key = [name, options, "yes" if frozen else "no", side]
            writer.writerow([*key, *(round(value) for value in asdict(counts).values())])
