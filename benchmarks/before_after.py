"""Compare this commit with an earlier one: counts on a simulated GPU, embedding, first batches, states, quickstart.

Both commits are checked out into temporary folders. Each measurement is a new process that uses the package of one of
them. The quickstart's contrastive rows are trained and embedded by both commits from the same packed images; their
weights, embeddings and histories are compared bit by bit. This takes about ten minutes on two idle cores. `--counts`
measures no times and takes a minute on any machine. `report.py before_after` writes the section into
docs/performance.md.
"""

import argparse
import csv
import datetime
import hashlib
import inspect
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from quickstart import link
from timing import goal, ratios, spread

ROOT = Path(__file__).resolve().parents[1]
SNAKEMAKE = Path(sys.executable).with_name("snakemake")
MEASUREMENTS = ("embedding", "waiting", "engine")
EPOCHS, WORKERS = 20, 2


def measured(tree: Path, measurement: str, photos: Path) -> dict[str, float]:
    """Numbers of one measurement, made in a new process with the package of a checked-out commit."""
    command = [sys.executable, __file__, "--measure", measurement, "--tree", str(tree), "--photos", str(photos)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def measure(measurement: str, tree: Path, photos: Path) -> dict[str, float]:
    sys.path.insert(0, str(tree / "benchmarks"))
    import torch
    import training

    torch.set_num_threads(1)
    training.make_deterministic(True)
    if not (photos / "labels.txt").exists():
        training.prepare(photos, 40, 16)
    return {"embedding": _embedding, "waiting": _waiting, "engine": _engine}[measurement](training, photos)


def _embedding(training: Any, photos: Path) -> dict[str, float]:
    """Images per second for a network that costs nothing, as if it ran on a fast GPU; resized as in `unbiased`."""
    import numpy as np
    import torch

    from recheck.data import transforms
    from recheck.training.device import autocast
    from recheck.training.loading import embed

    class Mean(torch.nn.Module):
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return pixels[:, :, 0].float().mean(2)

    data = training.fold(photos)
    data.images.verify()
    numbers = np.tile(np.arange(len(data.labels)), 4)
    steps = [{"resize": {"shorter": 240, "interpolation": "bicubic"}}, {"center_crop": {"size": 224}}]
    workers = {"workers": WORKERS} if "workers" in inspect.signature(embed).parameters else {}
    cpu = torch.device("cpu")
    started = time.perf_counter()
    embed(Mean(), data.images, numbers, transforms.build(steps), 32, cpu, autocast(cpu, "float32"), **workers)
    return {"images_per_second": len(numbers) / (time.perf_counter() - started)}


def _waiting(training: Any, photos: Path) -> dict[str, float]:
    """Mean seconds from the start of an epoch to its first batch, and seconds that training stops to save one state."""
    row = training.configuration(training.Setting(32, 2, WORKERS))
    row["schedule"] = {**row["schedule"], "epochs": EPOCHS}
    run = training.make_run(photos, row, WORKERS)
    epoch, step, save = run._train_epoch, run._step, run.state_file.save
    begun, waits, states = [0.0], [], []

    def timed_epoch(events: Any) -> None:
        begun.append(time.perf_counter())
        epoch(events)

    def timed_step(*batch: Any) -> float:
        if len(waits) < len(begun) - 1:
            waits.append(time.perf_counter() - begun[-1])
        return step(*batch)

    def timed_save(*state: Any) -> None:
        started = time.perf_counter()
        save(*state)
        states.append(time.perf_counter() - started)

    run._train_epoch, run._step = timed_epoch, timed_step
    in_thread = hasattr(run, "saver")  # a thread writes the state
    if not in_thread:
        run.state_file.save = timed_save
    run.train()
    if in_thread:
        run.saver = type(run.saver)(run.state_file)
        started = time.perf_counter()
        run._save()
        states.append(time.perf_counter() - started)
        run.saver.wait()
    return {"first_batch": statistics.mean(waits), "state": statistics.mean(states)}


def _engine(training: Any, photos: Path) -> dict[str, float]:
    """CPU time of the same steps on batches in memory, relative to a whole run, at two image sizes."""
    relative_times = {}
    for crop in (64, 32):
        row = training.configuration(training.Setting(crop, 50, 0))
        row["model"]["backbone"] = {"name": training.LITE, "weights": "imagenet"}
        run, memory = training.make_run(photos, row), training.in_memory(training.make_run(photos, row), 50)
        training.in_memory(training.make_run(photos, row), 5)()  # the first steps prepare kernels for both
        moments = [time.process_time()]
        for function in (run.train, memory):
            function()
            moments.append(time.process_time())
        relative_times[str(crop)] = (moments[2] - moments[1]) / (moments[1] - moments[0])
    return relative_times


def quickstart(tree: Path) -> tuple[float, float]:
    """Wall and CPU seconds of training and embedding the contrastive rows."""
    for made in ("results/quickstart/emoji/contrastive", "results/state", "logs"):
        shutil.rmtree(tree / made, ignore_errors=True)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    _snakemake(tree, "--until", "embed", "--config", "device=cpu", "methods=[contrastive]", "reuse=false")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, busy


def _snakemake(tree: Path, *arguments: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [str(SNAKEMAKE), "--cores", "2", *arguments, "--", "quickstart"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def contents(tree: Path) -> dict[str, str]:
    """Path → hash of every model and embedding, and the text of every history without its times."""
    by_path = {}
    for path in sorted((tree / "results/quickstart/emoji/contrastive").rglob("fold*/*")):
        if path.suffix == ".safetensors":
            by_path[str(path.relative_to(tree))] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name == "history.csv":
            with path.open(encoding="utf-8") as file:
                rows = [{k: v for k, v in row.items() if k != "images_per_second"} for row in csv.DictReader(file)]
            by_path[str(path.relative_to(tree))] = json.dumps(rows)
    return by_path


def checked_out(commit: str, folder: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)], check=True)
    subprocess.run(["git", "checkout", "--quiet", commit], cwd=folder, check=True)
    if (ROOT / "resources/datasets").is_dir():
        shutil.copytree(ROOT / "resources/datasets", folder / "resources/datasets", copy_function=link)
    return folder


def compared(commit: str, turns: int, only_counts: bool, with_quickstart: bool) -> str:
    with tempfile.TemporaryDirectory() as temporary:
        trees = {
            "before": checked_out(commit, Path(temporary) / "before"),
            "now": checked_out("HEAD", Path(temporary) / "now"),
        }
        lines = _counted({name: counts(tree) for name, tree in trees.items()})
        if not only_counts:
            lines += [
                "",
                "Measured on the CPU, in alternation:",
                "",
                *_measured(trees, Path(temporary) / "photos", turns),
            ]
            if with_quickstart:
                lines += _quickstart(trees, turns)
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    about = f"Commit {head.stdout.strip()} compared with {commit}, on {datetime.date.today():%-d %B %Y}"
    command = f"`python benchmarks/before_after.py{' --counts' if only_counts else ''}`"
    return f"## Before and after\n\n{about} ({command}).\n\n" + "\n".join(lines) + "\n"


def counts(tree: Path) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "benchmarks" / "commit_counts.py"), str(tree)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def _counted(by_commit: dict[str, dict[str, Any]]) -> list[str]:
    """Counts of both commits; each cell is before → now, or one number if nothing changed."""

    def both(before: float, now: float, digits: int = 0) -> str:
        first, last = (f"{value:,.{digits}f}" for value in (before, now))
        return first if first == last else f"{first} → {last}"

    columns = (("waits", 0), ("launches", 0), ("sent", 1), ("state", 0))
    before, now = by_commit["before"], by_commit["now"]
    return [
        "One training step, counted on a simulated GPU as in the section *GPU*:",
        "",
        "| study | row | waits | launches | MB to the GPU | MB per state |",
        "|---|---|---:|---:|---:|---:|",
        *(
            f"| {new['study']} | {new['row']} | {' | '.join(both(old[key], new[key], n) for key, n in columns)} |"
            for old, new in zip(before["rows"], now["rows"], strict=True)
        ),
        "",
        f"- States written in {before['saved_epochs']} epochs of {before['seconds']:g} s each (simulated clock): "
        f"{both(before['states'], now['states'])}.",
        f"- Loader processes started in {before['loaded_epochs']} epochs, {before['workers']} at a time: "
        f"{both(before['processes'], now['processes'])}.",
        "- `benchmarks/steps.py` measures `compile`, `channels_last` and the filling of new tensors. The section "
        "*Packs* measures encoded packs. Only a GPU can show what `precision: tf32` and `gpu_share` gain "
        "([gpu.md](gpu.md)).",
    ]


def _measured(trees: dict[str, Path], photos: Path, turns: int) -> list[str]:
    photos.mkdir()
    by_commit: dict[str, dict[str, list]] = {}
    for turn in range(turns):
        for name, tree in trees.items():
            for measurement in MEASUREMENTS:
                if measurement != "engine" or name == "now" or turn == 0:
                    by_commit.setdefault(name, {}).setdefault(measurement, []).append(
                        measured(tree, measurement, photos)
                    )
    return _lines(by_commit)


def _lines(by_commit: dict[str, dict[str, list]]) -> list[str]:
    def values(name: str, measurement: str, key: str) -> list[float]:
        return [each[key] for each in by_commit[name][measurement]]

    def both(measurement: str, key: str, digits: int) -> str:
        return " → ".join(spread(values(name, measurement, key), digits) for name in ("before", "now"))

    faster = ratios(values("now", "embedding", "images_per_second"), values("before", "embedding", "images_per_second"))
    lines = [
        f"- Embedding with {WORKERS} loader processes and a network that costs nothing, images/s: "
        f"{both('embedding', 'images_per_second', 0)}; ratio {spread(faster)}.",
        f"- Seconds to the first batch of an epoch, mean of {EPOCHS} epochs with {WORKERS} loader processes: "
        f"{both('waiting', 'first_batch', 4)}.",
        f"- Seconds that training stops for one state: {both('waiting', 'state', 3)}.",
    ]
    for crop, least in (("64", 0.97), ("32", 0.93)):
        before = spread(values("before", "engine", crop))
        lines.append(
            goal(
                f"CPU time of batches in memory ÷ a run, efficientnet_lite0, {crop} pixels (earlier commit: {before})",
                values("now", "engine", crop),
                least,
            )
        )
    return lines


def _quickstart(trees: dict[str, Path], turns: int) -> list[str]:
    _snakemake(trees["before"], "--until", "pack")
    target = trees["now"] / "resources/datasets"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(trees["before"] / "resources/datasets", target, copy_function=link)
    for tree in trees.values():
        _snakemake(tree, "--until", "split")
    seconds: dict[str, list] = {name: [] for name in trees}
    for _ in range(max(1, turns - 1)):
        for name, tree in trees.items():
            seconds[name].append(quickstart(tree))
    lines = []
    for place, clock in enumerate(("seconds", "CPU seconds")):
        before, now = ([pair[place] for pair in seconds[name]] for name in ("before", "now"))
        saved = [1 - ratio for ratio in ratios(now, before)]
        change = f"{spread(before, 0)} → {spread(now, 0)}"
        lines.append(goal(f"share of {clock} saved in the quickstart's training and embedding ({change})", saved, 0.15))
    one, other = (contents(tree) for tree in trees.values())
    equal = sum(one[name] == other.get(name) for name in one)
    lines.append(f"- Models, embeddings and histories that are identical: {equal} of {len(one | other)}.")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default="f7f1f9f", help="the earlier commit (default: f7f1f9f)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--counts", "--quick", action="store_true", help="only count, measure no times")
    parser.add_argument("--no-quickstart", action="store_true", help="leave out the training of real rows")
    parser.add_argument("--measure", choices=MEASUREMENTS, help=argparse.SUPPRESS)
    parser.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--photos", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.tree, options.photos)))
    else:
        print(compared(options.before, options.turns, options.counts, not options.no_quickstart))


if __name__ == "__main__":
    main()
