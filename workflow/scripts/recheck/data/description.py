"""Datasets and weights as their YAML files describe them: files, where they come from, how they are read.

Imported while Snakemake parses the workflow, so nothing heavy is imported here.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest
from recheck.files import fingerprint
from recheck.names import WEIGHTS_SUFFIXES
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml


def load_dataset(name: str, paths: dict[str, Path], source: str | Path) -> dict[str, Any]:
    if name not in paths:
        raise UserError(f"{source}: there is no dataset '{name}'; {nearest(name, paths)} (config/datasets/*.yaml).")
    dataset = read_yaml(paths[name])
    validate(dataset, "dataset", paths[name])
    _check_files(dataset, paths[name])
    return {"name": name, "files": [], "options": {}, **dataset}


def _check_files(dataset: dict[str, Any], source: str | Path) -> None:
    """What the schema can't say of a dataset's files in a sentence."""
    forms = dataset.get("distributions", {})
    chosen = dataset.get("distribution")
    if chosen is not None and chosen not in forms:
        raise UserError(f"{source}: there is no distribution '{chosen}'; {nearest(chosen, forms)}.")
    common = dataset.get("files", [])
    for files in [common, *(common + form["files"] for form in forms.values())]:
        paths = [entry["path"] for entry in files]
        if twice := [path for path in paths if paths.count(path) > 1]:
            raise UserError(f"{source}: the file '{twice[0]}' is there twice.")
    entries = [*common, *(entry for form in forms.values() for entry in form["files"])]
    for entry in entries:
        if not any(entry.get(key) for key in ("size", "sha256", "md5", "unverified")):
            raise UserError(
                f"{source}: '{entry['path']}' has no 'sha256', 'md5' or 'size' to be checked by; "
                "give one, or 'unverified: true' if none is known."
            )
        if entry != next(other for other in entries if other["path"] == entry["path"]):
            raise UserError(f"{source}: '{entry['path']}' is not the same in all distributions.")


def with_distribution(dataset: dict[str, Any], folders: Iterable[str | Path]) -> dict[str, Any]:
    """The dataset with the files of one of its distributions.

    That is the one its YAML names, else the one of which most is in the folders already (by name, or by size where
    that is known: a user's copy may have another name), else the first.
    """
    forms = dataset.get("distributions")
    if not forms:
        return dataset
    name = dataset.get("distribution") or max(forms, key=lambda form: _share(forms[form]["files"], folders))
    return {**dataset, "distribution": name, "files": [*dataset["files"], *forms[name]["files"]]}


def _share(files: list[dict[str, Any]], folders: Iterable[str | Path]) -> float:
    """Which part of the files is there."""
    found = [path for folder in folders for path in Path(folder).rglob("[!.]*") if path.is_file()]
    names, sizes = {path.name for path in found}, {path.stat().st_size for path in found}
    there = [Path(entry["path"]).name in names or entry.get("size") in sizes for entry in files]
    return sum(there) / max(len(there), 1)


def listing(root: str | Path) -> str:
    """A hash of the files below a folder by name, size and time; hidden ones (.DS_Store) do not count."""
    files = sorted(path for path in Path(root).rglob("[!.]*") if path.is_file())
    stats = [(path.relative_to(root).as_posix(), path.stat()) for path in files]
    return fingerprint([[name, about.st_size, about.st_mtime_ns] for name, about in stats])


def file_of(dataset: dict[str, Any], path: str) -> dict[str, Any]:
    """The entry with that path, of the dataset's ``files`` or of any of its distributions."""
    forms = dataset.get("distributions", {}).values()
    files = {entry["path"]: entry for part in (dataset, *forms) for entry in part.get("files", [])}
    if path not in files:
        raise UserError(f"There is no file '{path}'; {nearest(path, files)}.")
    return files[path]


def load_weights(paths: dict[str, Path]) -> dict[tuple[str, str], dict[str, Any]]:
    """The files of config/weights by the backbone and the word that a study names them by."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in paths.values():
        own = read_yaml(path)
        validate(own, "weights", path)
        _check_files(own, path)
        key, file = (own["backbone"], own["weights"]), own["files"][0]
        if not file.get("sha256") or "extract" in file:
            raise UserError(
                f"{path}: '{file['path']}' needs a 'sha256' and no 'extract': runs are tied to its content."
            )
        if Path(file["path"]).suffix not in WEIGHTS_SUFFIXES:
            raise UserError(f"{path}: '{file['path']}' is none of {', '.join(WEIGHTS_SUFFIXES)}.")
        for other, known in found.items():
            if other == key or known["file"]["path"] == file["path"]:
                raise UserError(f"{path}: {known['yaml']} has the same backbone and weights, or the same file.")
        found[key] = {"file": file, "yaml": str(path)}
    return found


def with_weights(
    resolved: dict[str, Any], registry: dict[tuple[str, str], dict[str, Any]], folder: str, source: str
) -> dict[str, Any]:
    """The settings of a run with the file that its backbone's weights are in, and the file's hash.

    ``{name: bn_inception, weights: imagenet}`` becomes a path and a ``sha256``: another content is another run, another
    mirror is not. Weights without an entry (a user's file, a package's, timm's, none) stay as they are.
    """
    backbone = resolved["model"]["backbone"]
    name, weights = backbone["name"], backbone["weights"]
    known = [word for own, word in registry if own == name]
    if (name, weights) in registry:
        file = registry[name, weights]["file"]
        backbone = {**backbone, "weights": f"{folder}/{file['path']}", "sha256": file["sha256"]}
    elif known and weights != "none" and Path(weights).suffix not in WEIGHTS_SUFFIXES:
        raise UserError(
            f"{source}: backbone '{name}' has no weights '{weights}'; {nearest(weights, [*known, 'none'])} "
            f"(config/weights/*.yaml), or a file ({', '.join(WEIGHTS_SUFFIXES)})."
        )
    return {**resolved, "model": {**resolved["model"], "backbone": backbone}}
