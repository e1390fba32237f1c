"""The cost of a study as one plain document, which the report renders."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from recheck.cost.counts import Counter, side_of
from recheck.cost.estimate import Estimate, estimate, fits
from recheck.cost.finished import Finished
from recheck.cost.gpus import Gpu
from recheck.cost.plan import settings_of
from recheck.cost.sizes import Sizes
from recheck.cost.steps import courses

HOUR = 3600
ASSUMED, OF_ROW, OF_STUDY = "assumed", "row", "study"
"""Where the speed of a row comes from: config/gpus.yaml, its own finished runs, or those of other rows."""


def tally(plan: Mapping[str, Any], count: Counter, finished: Sequence[Finished]) -> dict[str, Any]:
    """Every number of the cost report: rows by dataset, and what finished runs took."""
    gpu = Gpu(**plan["gpu"])
    rows = [(dataset, row, _estimate(dataset, row, count)) for dataset in plan["datasets"] for row in dataset["rows"]]
    done = {
        (dataset["name"], row["name"]): [
            run
            for run in finished
            if (run.dataset, run.row) == (dataset["name"], row["name"])
            and row["fingerprint"] in (None, run.fingerprint)
        ]
        for dataset, row, _ in rows
    }
    reached = _reached(rows, done, gpu)
    return {
        **{key: plan[key] for key in ("study", "title", "command", "also", "left_out", "gpu")},
        "datasets": [
            {key: value for key, value in dataset.items() if key != "rows"} | {"jobs": 1 + len(dataset["packs"])}
            for dataset in plan["datasets"]
        ],
        "rows": [
            _row(dataset, row, cost, gpu, reached, done[dataset["name"], row["name"]]) for dataset, row, cost in rows
        ],
    }


def _estimate(dataset: Mapping[str, Any], row: Mapping[str, Any], count: Counter) -> Estimate | None:
    return estimate(settings_of(row), _sizes(dataset), row["trained"], count)


def _sizes(dataset: Mapping[str, Any]) -> Sizes | None:
    return Sizes(**dataset["sizes"]) if dataset["sizes"] else None


def _reached(rows: Sequence[tuple], done: Mapping[tuple[str, str], list[Finished]], gpu: Gpu) -> dict[Any, float]:
    """FLOPs per second of finished runs on this kind of GPU, by (dataset, row) and by precision."""
    speeds: dict[Any, list[float]] = {}
    for dataset, row, cost in rows:
        for run in done[dataset["name"], row["name"]]:
            if cost is not None and run.speed and gpu.trained(run.record):
                speed = run.speed * cost.step_flops / cost.batch
                speeds.setdefault((dataset["name"], row["name"]), []).append(speed)
                speeds.setdefault(cost.precision, []).append(speed)
    return {key: median(values) for key, values in speeds.items()}


def _row(
    dataset: Mapping[str, Any],
    row: Mapping[str, Any],
    cost: Estimate | None,
    gpu: Gpu,
    reached: Mapping[Any, float],
    done: Sequence[Finished],
) -> dict[str, Any]:
    runs, trials = len(row["seeds"]) * row["members"], row["trials"]
    line = {
        "dataset": dataset["name"],
        "row": row["name"],
        "label": row["label"],
        "trained": row["trained"],
        "runs": runs,
        "trials": trials,
        "jobs": 2 * runs + trials + len(row["seeds"]),
        "finished": len(done),
    }
    if cost is None:
        return line | {"unknown": _reason(dataset, row)}
    source = OF_ROW if (dataset["name"], row["name"]) in reached else OF_STUDY if cost.precision in reached else ASSUMED
    speed = {
        OF_ROW: reached.get((dataset["name"], row["name"])),
        OF_STUDY: reached.get(cost.precision),
        ASSUMED: gpu.speed(cost.precision),
    }[source]
    both = (cost.least, cost.most)
    # trials of a search are trained and evaluated, but not embedded
    times = {"training": runs + trials, "evaluating": runs + trials, "embedding": runs}
    flops = {name: [count * getattr(work, name) for work in both] for name, count in times.items()}
    whole = [sum(ends) for ends in zip(*flops.values(), strict=True)]
    return line | {
        "precision": cost.precision,
        "steps": [work.steps for work in both],
        "images": [(runs + trials) * work.loaded + runs * work.embedded for work in both],
        "flops": whole,
        "step_flops": cost.step_flops if row["trained"] else 0,
        "hours": [end / speed / HOUR for end in whole],
        "parts": {name: [end / speed / HOUR for end in ends] for name, ends in flops.items()},
        "speed": speed,
        "speed_from": source,
        "memory": cost.memory,
        "fits": fits(cost.memory, gpu),
        "disk": runs * cost.disk,
        "state": cost.state,
        **({"actual": _actual(cost, speed, gpu, done)} if done else {}),
    }


def _actual(cost: Estimate, speed: float, gpu: Gpu, done: Sequence[Finished]) -> dict[str, Any]:
    """What the finished runs took, and the hours that the same steps would take at the assumed speed."""
    timed = [run for run in done if run.seconds]
    flops = sum(run.steps for run in timed) * cost.step_flops
    memory = [run.memory for run in done if run.memory is not None]
    return {
        "devices": sorted({run.device for run in timed}),
        "timed": len(timed),
        "reused": sum("reused_from" in run.record for run in done),
        "steps": [min(run.steps for run in done), max(run.steps for run in done)],
        "hours": sum(run.seconds for run in timed) / HOUR,
        "assumed_hours": flops / gpu.speed(cost.precision) / HOUR,
        "on_gpu": bool(timed) and all(gpu.trained(run.record) for run in timed),
        "wall_hours": sum(run.record.get("wall_seconds", 0) for run in timed) / HOUR,
        "memory_mb": max(memory) if memory else None,
    }


def _reason(dataset: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    settings = settings_of(row)
    if dataset["sizes"] is None:
        command = f"snakemake --cores 1 {dataset['split']}"
        return f"the number of images of {dataset['name']} is unknown until `{command}` has run"
    if courses(settings, _sizes(dataset), row["trained"]) is None:
        sampler = settings["sampler"]["class"]
        return f"the number of steps of the sampler '{sampler}' is unknown; set 'schedule.steps_per_epoch'"
    if None in (side_of(settings["transforms"], "train"), side_of(settings["transforms"], "eval")):
        return "the size of the network's input depends on the images"
    return f"the FLOPs of the network '{settings['model']['backbone']['name']}' cannot be counted"
