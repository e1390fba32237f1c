"""What finished runs took: their speed, time and memory."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from recheck.files import fingerprint, read_json


@dataclass(frozen=True)
class Finished:
    """One finished run. ``seconds`` are those of its training steps, without evaluations.

    ``speed`` is its median number of images per second. A run that was copied from another study has no
    time, speed or memory.
    """

    dataset: str
    row: str
    fingerprint: str
    record: Mapping[str, Any]
    steps: int
    seconds: float
    speed: float | None
    memory: float | None

    @property
    def device(self) -> str:
        return self.record.get("device_name") or self.record.get("device", "an unknown device")


def read_finished(files: Mapping[str, Iterable[str]]) -> list[Finished]:
    """The finished runs with these records, histories and measurements."""
    histories = {str(Path(path).parent): path for path in files["histories"]}
    memory = {str(Path(*Path(path).parts[-6:-1])): _most_memory(path) for path in files["measurements"]}
    return [_finished(path, histories.get(str(Path(path).parent)), memory) for path in files["runs"]]


def _finished(path: str, history: str | None, memory: Mapping[str, float | None]) -> Finished:
    record = read_json(path)
    reused = "reused_from" in record
    steps, seconds, speeds, before = 0, 0.0, [], 0
    batch = record["configuration"].get("sampler", {}).get("batch", 0)  # a released checkpoint has no sampler
    for line in [] if history is None else _lines(history, ","):
        steps = int(line["step"])
        if line.get("images_per_second") and not reused:
            speeds.append(float(line["images_per_second"]))
            seconds += (steps - before) * batch / speeds[-1] if speeds[-1] else 0
        before = steps
    return Finished(
        record["dataset"],
        record["method"],
        fingerprint(record["configuration"]),
        record,
        steps,
        seconds,
        median(speeds) if speeds else None,
        None if reused else memory.get(str(Path(*Path(path).parts[-6:-1]))),
    )


def _lines(path: str, delimiter: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def _most_memory(path: str) -> float | None:
    """The peak of a job's memory in megabytes, as measured by Snakemake."""
    values = [line.get("max_rss") or "" for line in _lines(path, "\t")]
    numbers = [float(value) for value in values if value.replace(".", "", 1).isdigit()]
    return max(numbers) if numbers else None
