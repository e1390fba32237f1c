"""Compare two runs: the settings that differ, and their metrics side by side.

With --images, both models are also compared on your own images, which need one subfolder per class.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recheck.cli.text import YES, Skipped, add_model, load, print_json
from recheck.errors import UserError
from recheck.files import read_json
from recheck.names import DISTANCES

if TYPE_CHECKING:
    from recheck.api.runs import Description

HELP = "compare the settings and metrics of two runs"
EXAMPLES = """\
  recheck compare results/quickstart/emoji/triplet/seed0 results/quickstart/emoji/arcface/seed0
  recheck compare results/quickstart/emoji/triplet/seed0 results/quickstart/emoji/arcface/seed0 --images photos --json
"""
NOTES = """\
Metrics of two runs are comparable only if both were measured on the same images; the first line says whether they were.
One seed cannot rank two methods: the study's table has intervals over several seeds, and comparison.csv has tests.
"""
METRICS = ("P@1", "RP", "MAP@R")


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("other", metavar="RUN", help="folder of another finished run")
    command.add_argument("--images", metavar="FOLDER", help="your own images, one subfolder per class")
    command.add_argument("--json", action="store_true", help="print JSON, with all digits")


def run(options: argparse.Namespace) -> int:
    from recheck.api.runs import describe

    folders = (options.run_folder, options.other)
    both = [describe(folder, options.own_code) for folder in folders]
    result: dict[str, Any] = {
        "runs": list(folders),
        "same_data": _same_data(both),
        "settings": _differences(*(_settings(description) for description in both)),
        "metrics": _side_by_side(*(_measured(description) for description in both)),
    }
    if options.images:
        result["images"] = _side_by_side(*(_on_images(options, folder) for folder in folders))
    if options.json:
        print_json(result)
    else:
        _print(result)
    return YES


def _same_data(both: list["Description"]) -> bool | None:
    """Whether both runs have the same images and split; None if a run does not record them."""
    data = [description.records[0].get("data") if description.records else None for description in both]
    return None if None in data else data[0] == data[1]


def _settings(description: "Description") -> dict[str, Any]:
    record = description.records[0] if description.records else {}
    names = {key: description.about.get(key) for key in ("study", "dataset", "method", "seed")}
    return _flat({**names, **record.get("configuration", {}), "folds": len(description.files)})


def _flat(value: Any, where: str = "") -> dict[str, Any]:
    """Dotted keys of nested mappings → values."""
    if not isinstance(value, dict) or not value:
        return {where: value}
    return {
        key: leaf
        for name, inner in value.items()
        for key, leaf in _flat(inner, f"{where}{'.' * bool(where)}{name}").items()
    }


def _differences(first: dict[str, Any], second: dict[str, Any]) -> dict[str, list[Any]]:
    keys = dict.fromkeys((*first, *second))
    return {key: [first.get(key), second.get(key)] for key in keys if first.get(key) != second.get(key)}


def _measured(description: "Description") -> dict[str, float]:
    """Metrics of the evaluations beside the run, as ``view metric`` → fraction."""
    folder = description.files[0].parent
    fold = folder.name.removeprefix("fold")
    seed_folder = folder.parent if fold.isdecimal() else folder
    is_fold = "fold" in description.about and fold.isdecimal()
    values = {}
    for path in sorted(seed_folder.glob("*.json")):
        content = read_json(path)
        if not isinstance(content, dict) or "view" not in content or not isinstance(content.get("metrics"), dict):
            continue
        metrics = content["metrics"]
        if is_fold:  # one fold has its own values in the view that evaluates folds separately
            folds = content.get("folds", [])
            metrics = folds[int(fold)] if int(fold) < len(folds) else {}
        values |= {f"{content['view']} {name}": value for name, value in metrics.items()}
    return values


def _side_by_side(first: dict[str, float], second: dict[str, float]) -> dict[str, dict[str, float | None]]:
    table: dict[str, dict[str, float | None]] = {}
    for name in dict.fromkeys((*first, *second)):
        a, b = first.get(name), second.get(name)
        table[name] = {"first": a, "second": b, "difference": None if a is None or b is None else b - a}
    return table


def _on_images(options: argparse.Namespace, folder: str) -> dict[str, float]:
    from recheck.api.metrics import metrics
    from recheck.data.found_images import images_below

    images, others = images_below(options.images)
    root, skipped = Path(options.images), Skipped(others)
    labelled = [path for path in images if len(path.relative_to(root).parts) > 1]
    if not labelled:
        raise UserError(f"{root} has no images in subfolders: add one subfolder per class.")
    model, rows, labels = load(options, folder), [], []
    for positions, batch in model.stream(labelled, skipped=skipped):
        rows += list(batch)
        labels += [labelled[position].relative_to(root).parts[0] for position in positions]
    skipped.report()
    return metrics(rows, labels, metrics=METRICS)


def _print(result: dict[str, Any]) -> None:
    same = {True: "the same images and split", False: "DIFFERENT images or splits", None: "unknown images"}
    print(f"Measured on {same[result['same_data']]}.")
    print("\nSettings that differ:" if result["settings"] else "\nNo setting differs.")
    for key, (first, second) in result["settings"].items():
        print(f"  {key}: {_word(first)} → {_word(second)}")
    for title, name in (
        ("Metrics, in percent (distances unscaled)", "metrics"),
        ("On your images, in percent", "images"),
    ):
        if rows := result.get(name):
            print(f"\n{title}:")
            width = max(map(len, rows))
            for metric, values in rows.items():
                factor = 1 if metric.endswith(DISTANCES) else 100
                first, second = (_number(values[key], factor) for key in ("first", "second"))
                print(f"  {metric:<{width}}  {first}  {second}  {_number(values['difference'], factor, '+')}")
    if not result["metrics"]:
        print("\nNo evaluation was found beside either run.")


def _word(value: Any) -> str:
    return "–" if value is None else str(value)


def _number(value: float | None, factor: int, sign: str = "") -> str:
    return f"{'–':>7}" if value is None else f"{factor * value:{sign}7.2f}"
