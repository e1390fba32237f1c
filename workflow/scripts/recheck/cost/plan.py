"""What the cost report needs to know about a study, as plain data: rows, sizes of datasets, finished runs."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recheck.cost.estimate import packed_bytes, stored_bytes
from recheck.cost.gpus import Gpu
from recheck.cost.sizes import Sizes, sizes
from recheck.files import canonical, fingerprint, read_json
from recheck.resize import resize_slug
from recheck.study import grid
from recheck.study.model import Run, Study

Place = Callable[[str], str]
USED = ("evaluation", "forward", "model", "precision", "sampler", "schedule", "selection", "transforms")
"""Settings that a run's cost depends on."""


def plan(
    study: Study,
    dataset_of: Callable[[str], Any],
    place: Place,
    gpu: Gpu,
    plain_limit: float,
    only: Collection[str] | None = None,
    also: Collection[str] = (),
) -> dict[str, Any]:
    """Facts for the cost report of a study; ``only`` restricts it to some of its datasets.

    ``place`` replaces pathvars by folders, packs of more than ``plain_limit`` bytes are encoded, and ``also`` are
    studies that the study's target builds too.
    """
    chosen = [name for name in study.datasets if not only or name in only]
    return canonical(
        {
            "study": study.name,
            "title": study.title,
            "command": study.command,
            "also": list(also),
            "left_out": [name for name in study.datasets if name not in chosen],
            "gpu": asdict(gpu),
            "datasets": [_dataset(study, name, dataset_of(name), place, plain_limit) for name in chosen],
        }
    )


def _dataset(study: Study, name: str, dataset: Any, place: Place, plain_limit: float) -> dict[str, Any]:
    expected, split = dataset.description.get("expected", {}), Path(place(f"<results>/{study.name}/{name}/split.json"))
    known = sizes(expected, study.split(name), study.classes[name], read_json(split) if split.is_file() else None)
    files = [entry.get("size") for entry in dataset.files]
    runs = study.runs[name]
    return {
        "name": name,
        "title": dataset.title,
        "sizes": None if known is None else asdict(known),
        "split": str(split),
        "downloads": sum(size for size in files if size),
        "downloads_complete": None not in files,
        "packs": [
            _pack(name, resize, expected.get("images"), place, plain_limit) for resize in _resizes(runs.values())
        ],
        "rows": [
            {
                "name": row.name,
                "label": row.label,
                "seeds": list(row.seeds),
                "members": runs[row.name].members,
                "trained": runs[row.name].trained,
                "trials": (search.folds or runs[row.name].members) * search.total
                if (search := runs[row.name].search)
                else 0,
                # the settings of a searched row are known only after the search
                "fingerprint": None if search else fingerprint(runs[row.name].training),
                "settings": {key: runs[row.name].settings.get(key) for key in USED},
            }
            for row in study.rows.values()
        ],
    }


def _resizes(runs: Collection[Run]) -> list[Any]:
    different = {resize_slug(run.settings["transforms"].get("resize")): run for run in runs}
    return [run.settings["transforms"].get("resize") for run in different.values()]


def _pack(dataset: str, resize: Any, images: int | None, place: Place, plain_limit: float) -> dict[str, Any]:
    slug = resize_slug(resize)
    folder = Path(place(f"<resources>/datasets/{dataset}/packed/{slug}"))
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) if folder.is_dir() else 0
    if size:
        return {"name": slug, "made": True, "encoded": False, "bytes": size}
    pixels = packed_bytes(resize, images)
    stored = None if pixels is None else stored_bytes(resize, pixels, plain_limit)
    return {"name": slug, "made": False, "encoded": stored != pixels, "bytes": stored}


def sizes_of(study: Study, dataset_of: Callable[[str], Any], name: str) -> Sizes | None:
    """The sizes of a dataset by its description, without reading any other file."""
    expected = dataset_of(name).description.get("expected", {})
    return sizes(expected, study.split(name), study.classes[name])


def finished_files(study: Study, datasets: Collection[str], place: Place) -> dict[str, Any]:
    """The record, history and measurement of every finished run, with a stamp that changes when one of them does."""
    files: dict[str, list[str]] = {"runs": [], "histories": [], "measurements": []}
    for dataset in datasets:
        for path in grid.run_files(study, dataset, "run.json"):
            record = Path(place(path))
            if not record.exists():
                continue
            files["runs"].append(str(record))
            history, measured = record.with_name("history.csv"), _measurement(path, place)
            files["histories"] += [str(history)] if history.exists() else []
            files["measurements"] += [str(measured)] if measured.exists() else []
    return grid.stamped(files)


def _measurement(path: str, place: Place) -> Path:
    """Snakemake's benchmark file of the run with this record."""
    return Path(place(path.replace("<results>", "<logs>"))).with_name("train.tsv")


def settings_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row's settings, without those that are not set (None in the plan)."""
    return {key: value for key, value in row["settings"].items() if value is not None}
