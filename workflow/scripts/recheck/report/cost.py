"""The cost of a study as Markdown, which is also readable in a terminal, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

GIB, GB, PETA, MEGA = 2**30, 1e9, 1e15, 1e6
UNKNOWN, SMALLEST = "?", 0.001
ROLES = ("train", "val", "test", "query", "gallery", "index", "seen_queries", "unseen_queries")
Row = Mapping[str, Any]
Document = Mapping[str, Any]


def number(value: float) -> str:
    """Three significant digits, without powers of ten."""
    if value == 0:
        return "0"
    if value < SMALLEST:
        return f"<{SMALLEST}"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.995 else f"{float(f'{value:.2g}'):g}"


def between(low: float, high: float, show: Callable[[float], str] = number) -> str:
    """A range, or one number if its ends look the same."""
    first, last = show(low), show(high)
    return first if first == last else f"{first}–{last}"


def total(rows: Iterable[Row], key: str) -> list[float]:
    """The sums of both ends of a range, or of a number, over the rows in which it is known."""
    pairs = [row[key] if isinstance(row[key], list) else [row[key]] * 2 for row in rows if key in row]
    return [sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)]


def kind_of(gpu: Document) -> str:
    """CPU or GPU. An entry of config/gpus.yaml without memory describes a CPU."""
    return "CPU" if gpu["memory"] is None else "GPU"


def columns(document: Document) -> list[str]:
    kind = kind_of(document["gpu"])
    counted = ["runs", "steps per run", "M images loaded", "PFLOP"]
    return [*counted, f"{kind} memory", f"{kind} hours", "GB on disk", "SLURM jobs"]


def markdown(document: Document) -> str:
    """The whole report."""
    rows, gpu = document["rows"], document["gpu"]
    known = [row for row in rows if "hours" in row]
    blocks = [f"# Cost of {document['study']}", document["title"] + ".", _summary(document)]
    for dataset in document["datasets"]:
        chosen = [row for row in rows if row["dataset"] == dataset["name"]]
        blocks += [f"## {dataset['title']}", _table(chosen, columns(document)), _files(dataset)]
    if len(document["datasets"]) > 1:
        blocks += ["## All datasets", _datasets(document)]
    if large := [row for row in known if not row["fits"]]:
        names = ", ".join(f"{row['label']} on {row['dataset']} ({row['memory'] / GIB:.1f} GiB)" for row in large)
        owner = f"of {gpu['title']}" if gpu["share"] == 1 else f"that each of {gpu['share']} jobs has on {gpu['title']}"
        blocks += [
            "## Rows that do not fit",
            f"They need more than the {gpu['memory'] / gpu['share']:g} GiB {owner}: {names}.",
        ]
    if any("actual" in row for row in rows):
        blocks += ["## Estimated and actual hours", _actual(document)]
    if rows:
        blocks += ["## Assumptions", "\n".join(f"- {sentence}" for sentence in assumptions(document))]
    return "\n\n".join(blocks) + "\n"


def _summary(document: Document) -> str:
    rows, datasets = document["rows"], document["datasets"]
    if not datasets:
        return f"Config 'datasets' leaves out every dataset of the study: {', '.join(document['left_out'])}."
    jobs = int(total(rows, "jobs")[0]) + sum(dataset["jobs"] for dataset in datasets)
    hours, disk = total(rows, "hours"), total(rows, "disk")[0] / GB
    unknown = [row for row in rows if "unknown" in row]
    runs = _runs(rows)
    sentence = (
        f"{runs} {'run takes' if runs == '1' else 'runs take'} {between(*hours)} hours on {document['gpu']['title']}, "
        f"{number(disk)} GB for checkpoints and embeddings, and {jobs:,} SLURM jobs."
    )
    if unknown:
        reasons = "; ".join(dict.fromkeys(row["unknown"] for row in unknown))
        sentence += f" The hours and the disk space leave out {len(unknown)} of {len(rows)} rows: {reasons}."
    return sentence


def _table(rows: Sequence[Row], head: Sequence[str]) -> str:
    body = [[row["label"].replace("|", r"\|"), *_cells(row)] for row in rows]
    if len(rows) > 1:
        body.append(["all rows", *_sums(rows)])
    return _aligned([["row", *head], *body])


def _cells(row: Row) -> list[str]:
    if "unknown" in row:
        return [_runs([row]), *[UNKNOWN] * 6, f"{row['jobs']:,}"]
    return [
        _runs([row]),
        between(*row["steps"], lambda value: f"{value:,}"),
        between(*(value / MEGA for value in row["images"])),
        between(*(value / PETA for value in row["flops"])),
        f"≥ {row['memory'] / GIB:.1f} GiB",
        between(*row["hours"]),
        number(row["disk"] / GB),
        f"{row['jobs']:,}",
    ]


def _runs(rows: Sequence[Row]) -> str:
    """The runs, and the trainings of the searches for their settings."""
    runs, trials = (int(total(rows, key)[0]) for key in ("runs", "trials"))
    return f"{runs:,} + {trials:,}" if trials else f"{runs:,}"


def _sums(rows: Sequence[Row], prepared: int = 0) -> list[str]:
    """The totals of the columns, with the largest memory; ``prepared`` counts the jobs that prepare the data."""
    memory = [row["memory"] for row in rows if "memory" in row]
    return [
        _runs(rows),
        "",
        between(*(value / MEGA for value in total(rows, "images"))),
        between(*(value / PETA for value in total(rows, "flops"))),
        f"≥ {max(memory) / GIB:.1f} GiB" if memory else UNKNOWN,
        between(*total(rows, "hours")),
        number(total(rows, "disk")[0] / GB),
        f"{prepared + int(total(rows, 'jobs')[0]):,}",
    ]


def _datasets(document: Document) -> str:
    prepared = {dataset["name"]: dataset["jobs"] for dataset in document["datasets"]}
    body = [
        [
            dataset["title"],
            *_sums([row for row in document["rows"] if row["dataset"] == dataset["name"]], prepared[dataset["name"]]),
        ]
        for dataset in document["datasets"]
    ]
    body.append(["all datasets", *_sums(document["rows"], sum(prepared.values()))])
    head = ["dataset", *columns(document)]
    steps = head.index("steps per run")
    return _aligned([[cell for place, cell in enumerate(line) if place != steps] for line in [head, *body]])


def _files(dataset: Document) -> str:
    """Images, downloads and packs of a dataset in one sentence each."""
    if dataset["sizes"] is None:
        images = "The number of images is not known yet."
    else:
        about = "" if dataset["sizes"]["exact"] else "about "
        sizes = dataset["sizes"]["roles"]
        counts = [(role, sizes[role]) for role in dict.fromkeys([*ROLES, *sizes]) if role in sizes]
        roles = ", ".join(f"{count:,} {role.replace('_', ' ')}" for role, count in counts)
        images = f"Images per fold: {about}{roles}."
    least = "" if dataset["downloads_complete"] else "at least "
    downloads = f" Downloads: {least}{number(dataset['downloads'] / GB)} GB." if dataset["downloads"] else ""
    packs = [f"{pack['name']} {_size(pack)}" for pack in dataset["packs"]]
    return f"{images}{downloads} Packed images: {', '.join(packs)}. Preparing them takes {dataset['jobs']} SLURM jobs."


def _size(pack: Mapping[str, Any]) -> str:
    if pack["bytes"] is None:
        return "(size known after packing)"
    encoded = " (encoded)" if pack["encoded"] else ""
    return f"{'' if pack['made'] else 'about '}{number(pack['bytes'] / GB)} GB{encoded}"


def _actual(document: Document) -> str:
    head = ["row", "dataset", "finished", "steps per run", "hours", "estimated", "actual ÷ estimated", "wall hours",
            "host memory"]  # fmt: skip
    body, notes = [], []
    for row in document["rows"]:
        if not (actual := row.get("actual")):
            continue
        assumed = actual["assumed_hours"]
        comparable = actual["on_gpu"] and assumed
        body.append(
            [
                row["label"].replace("|", r"\|"),
                row["dataset"],
                f"{row['finished']:,} of {row['runs']:,}",
                between(*actual["steps"], lambda value: f"{value:,}"),
                number(actual["hours"]),
                number(assumed) if comparable else "",
                f"{actual['hours'] / assumed:.2f}" if comparable else "",
                number(actual["wall_hours"]),
                "" if actual["memory_mb"] is None else f"{actual['memory_mb'] / 1000:.1f} GB",
            ]
        )
    devices = sorted({device for row in document["rows"] for device in row.get("actual", {}).get("devices", [])})
    notes.append(
        "Hours cover the training steps of finished runs, computed from the images per second in history.csv; the "
        "estimate is for the same steps at the speed that config/gpus.yaml assumes. Wall hours include evaluations "
        "and waiting for images, but only the last attempt of a run that was interrupted."
    )
    if devices:
        notes.append(f"Trained on {', '.join(devices)}.")
    if any("actual" in row and row["actual"]["timed"] and not row["actual"]["on_gpu"] for row in document["rows"]):
        notes.append(
            f"Runs on devices other than {document['gpu']['title']} are not compared with the estimate. To compare "
            "them, set config 'gpu' to their device."
        )
    if any(row.get("actual", {}).get("reused") for row in document["rows"]):
        notes.append("Runs that were copied from another finished run have no hours.")
    return _aligned([head, *body], texts=2) + "\n\n" + " ".join(notes)


def assumptions(document: Document) -> list[str]:
    """The assumptions behind the numbers, in one or two sentences each."""
    rows = [row for row in document["rows"] if "hours" in row]
    gpu = document["gpu"]
    kind = kind_of(gpu)
    started = "CUDA" if kind == "GPU" else "Python and its libraries"
    sentences = [_speeds(rows, gpu)]
    if any(row["steps"][0] != row["steps"][1] for row in rows):
        sentences.append(
            "The lower end of a range is a run that never improves, so that early stopping ends it as soon as "
            "possible; the upper end is a run that takes all steps of its schedule."
        )
    sentences += [
        "FLOPs are computed from the shapes of the network's tensors; a multiply-add counts as two. "
        "They cover training steps and the forward passes for evaluation and embedding. For grouped convolutions the "
        "backward pass counts as two forward passes. Losses, miners, optimisers, nearest-neighbour search and "
        "clustering are not counted.",
        f"{kind} memory is a lower bound: 0.5 GiB for {started}, the batch, the weights, their gradients, two values "
        "per weight for the optimiser, and all tensors that the forward pass keeps for the backward pass (half as "
        "large with float16 and bfloat16). Workspaces and fragmentation add to it.",
        "Loading images is not included."
        if kind == "CPU"
        else "Loading images is assumed to keep up with the GPU. Small networks and small batches use less of a GPU "
        "than assumed.",
        "GB on disk: the checkpoints and embeddings of all runs. Each unfinished run also has a state of up to "
        f"{number(2 * max((row['state'] for row in rows), default=0) / GB)} GB.",
        "Images that are resized by their shorter side are assumed to be 4:3. A pack that exceeds config "
        "'plain_pack_gb' is encoded, and is assumed to take 7 % of the size of its pixels if the protocol saves JPEGs, "
        "else 40 %.",
        "SLURM jobs: two per run (training, embedding), one per row and seed (metrics), and a few that prepare data.",
        "A run that can be copied from another finished run is counted as if it were trained.",
    ]
    if any(row["trials"] for row in rows):
        sentences.append(
            "Runs after a + are trials of the search for a row's settings. Each is assumed to take as long as a run of "
            "the row, and is one SLURM job, because trials embed no test images."
        )
    spread = [dataset["name"] for dataset in document["datasets"] if dataset["sizes"] and not dataset["sizes"]["exact"]]
    if spread:
        sentences.append(
            f"The numbers of images of {', '.join(spread)} come from config/datasets and assume classes of equal size; "
            "they become exact once the dataset is split."
        )
    if document["left_out"]:
        sentences.append(
            f"Left out by config 'datasets': {', '.join(document['left_out'])}. `{document['command']}` includes them."
        )
    if document["also"]:
        sentences.append(
            f"`{document['command']}` also builds {', '.join(document['also'])}; their cost is in their own reports."
        )
    return sentences


def _speeds(rows: Sequence[Row], gpu: Mapping[str, Any]) -> str:
    """Where the hours come from."""
    used = list(dict.fromkeys(row["precision"] for row in rows))
    assumed = [
        f"{100 * gpu['efficiency'][precision]:g} % of {gpu['peak'][precision]:g} TFLOP/s in {precision}"
        for precision in used
    ]
    measured = [row for row in rows if row["speed_from"] != "assumed"]
    sentence = (
        f"Hours are for {gpu['title']} at {' and '.join(assumed)} (config/gpus.yaml; a guess, not a measurement)."
    )
    if not measured:
        return sentence + " Once runs on such a device have finished, their speed is used instead."
    rates = [row["speed"] / 1e12 for row in measured]
    of_rows = sum(row["speed_from"] == "row" for row in measured)
    replaced = f"The hours of {len(measured)} of {len(rows)} rows use the speed of finished runs instead"
    return (
        f"{sentence} {replaced}: that of the row's own runs ({of_rows}), or the median of all runs of the same "
        f"precision ({len(measured) - of_rows}). These speeds are {between(min(rates), max(rates))} TFLOP/s."
    )


def _aligned(lines: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A Markdown table with padded cells; the first ``texts`` columns are left-aligned."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rule = ["-" * width if place < texts else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
    padded = [
        [cell.ljust(width) if place < texts else cell.rjust(width) for place, (cell, width) in enumerate(pairs)]
        for pairs in (list(zip(line, widths, strict=True)) for line in [lines[0], rule, *lines[1:]])
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


CSV = (
    "dataset", "row", "runs", "trials", "jobs", "steps_least", "steps_most", "images_least", "images_most",
    "flops_least", "flops_most", "hours_least", "hours_most", "flops_per_step", "memory_bytes", "fits", "disk_bytes",
    "state_bytes", "precision", "flops_per_second", "speed_from", "finished", "actual_hours",
    "actual_assumed_hours", "unknown",
)  # fmt: skip
"""Columns of the CSV, in basic units."""


def table_csv(document: Document) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in document["rows"]:
        line = dict(row)
        for name in ("steps", "images", "flops", "hours"):
            if name in row:
                line[f"{name}_least"], line[f"{name}_most"] = row[name]
        if "hours" in row:
            line |= {"flops_per_step": row["step_flops"], "memory_bytes": row["memory"], "disk_bytes": row["disk"]}
            line |= {"state_bytes": row["state"], "flops_per_second": row["speed"]}
        if actual := row.get("actual"):
            line |= {"actual_hours": actual["hours"], "actual_assumed_hours": actual["assumed_hours"]}
        writer.writerow({name: round(value) if _large(value) else value for name, value in line.items() if name in CSV})
    return text.getvalue()


def _large(value: Any) -> bool:
    return isinstance(value, float) and value > 1e6
