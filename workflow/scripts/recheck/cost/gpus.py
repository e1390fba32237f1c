"""The GPUs of config/gpus.yaml, whose speed and memory estimates assume."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml

DEFAULT = "a100_40gb"
CPU = "cpu"


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU: memory in GiB (None: not limited), peak in TFLOP/s and assumed efficiency by precision.

    ``share`` jobs run on each GPU.
    """

    name: str
    title: str
    matches: str
    memory: float | None
    peak: Mapping[str, float]
    efficiency: Mapping[str, float]
    share: int = 1

    @property
    def available(self) -> float | None:
        """GiB for each job."""
        return None if self.memory is None else self.memory / self.share

    def speed(self, precision: str) -> float:
        """Assumed FLOPs per second."""
        return 1e12 * self.peak[precision] * self.efficiency[precision]

    def trained(self, record: Mapping[str, Any]) -> bool:
        """Whether a run was trained on such a GPU, according to its run.json."""
        return bool(re.search(self.matches, f"{record.get('device')} {record.get('device_name')}"))


def load_gpu(name: str | None, path: Path, share: int = 1, device: str = "auto") -> Gpu:
    """The GPU that config 'gpu' names; ``share`` and ``device`` are config 'gpu_share' and 'device'."""
    name, content = name or (CPU if device in (CPU, "mps") else DEFAULT), read_yaml(path)
    validate(content, "gpus", path)
    if name not in content:
        raise UserError(f"Config 'gpu' is '{name}', which {path} does not describe; {nearest(name, content)}.")
    entry = content[name]
    try:
        re.compile(entry["matches"])
    except re.error as error:
        raise UserError(
            f"{path}, '{name}': 'matches' must be a regular expression, found '{entry['matches']}' ({error})."
        ) from None
    return Gpu(name, entry["title"], entry["matches"], entry.get("memory"), entry["peak"], entry["efficiency"], share)
