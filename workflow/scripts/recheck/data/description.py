"""Datasets and weights as their YAML files describe them: files, where they come from, how they are read.

Imported while Snakemake parses the workflow, so nothing heavy is imported here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from recheck.errors import UserError, nearest
from recheck.files import canonical, fingerprint
from recheck.names import WEIGHTS_SUFFIXES
from recheck.parts import own_files
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml


@dataclass(frozen=True)
class Dataset:
    """A dataset with the files of one of its distributions. What leaves it for ``params`` is plain and sorted."""

    name: str
    path: Path
    description: Mapping[str, Any]
    folder: str  # of all that is downloaded and made of it

    @property
    def files(self) -> list[dict[str, Any]]:
        return self.description["files"]

    @property
    def archives(self) -> list[dict[str, Any]]:
        """The files that are unpacked."""
        return _only(("path", "extract", "unpacked_size"), [entry for entry in self.files if "extract" in entry])

    @property
    def checksums(self) -> list[dict[str, Any]]:
        """What each file is verified against."""
        return _only(("path", "sha256", "md5", "size"), self.files)

    @property
    def parser(self) -> dict[str, Any]:
        """What the index depends on."""
        keys = ("name", "parser", "distribution", "root", "csv", "expected", "options")
        return _only(keys, [{"name": self.name, **self.description}])[0]

    @property
    def parser_files(self) -> list[str]:
        """The user's own files that the index is made from, besides the images."""
        csv = self.description.get("csv")
        return [*own_files(self.description["parser"]), *([csv] if csv else [])]

    @property
    def image_reading(self) -> dict[str, Any]:
        """How turned and transparent images are read: another choice packs again."""
        return _only(("exif", "alpha"), [self.description["options"]])[0]

    @property
    def root(self) -> str:
        """The folder of the images: the user's own, or where archives are unpacked."""
        return self.description.get("root", f"{self.folder}/images")

    @cached_property
    def listing(self) -> str | None:
        """A hash of the user's own images, so that added, removed or edited ones are noticed; None if fetched."""
        return None if self.files else listing(self.root)

    def downloads(self, entries: Iterable[Mapping[str, Any]]) -> list[str]:
        """Where these of its files are downloaded to."""
        return [f"<resources>/datasets/{self.name}/downloads/{entry['path']}" for entry in entries]

    def checksum(self, file: str) -> str | None:
        """One checksum alone: a new mirror, another word or one more checksum in the YAML does not fetch again."""
        entry = file_entry(self.description, file)
        return entry.get("md5") or entry.get("sha256")


def _only(keys: Iterable[str], entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return canonical([{key: entry[key] for key in keys if key in entry} for entry in entries])


def load_dataset(name: str, paths: Mapping[str, Path], source: str | Path, resources: str = "resources") -> Dataset:
    """A dataset by name. Files of it that the user dropped or downloaded decide between its distributions."""
    if name not in paths:
        raise UserError(f"{source}: there is no dataset '{name}'; {nearest(name, paths)} (config/datasets/*.yaml).")
    description, folder = read_yaml(paths[name]), f"{resources}/datasets/{name}"
    validate(description, "dataset", paths[name])
    _check_files(description, paths[name])
    present = [drop_folder(resources, name), f"{folder}/downloads"]
    description = _with_distribution({"files": [], "options": {}, **description}, present)
    return Dataset(name, paths[name], description, folder)


def drop_folder(resources: str, name: str) -> str:
    """Where users put files that they have themselves: of a dataset, of `weights`, of `released` checkpoints."""
    return f"{resources}/drop/{name}"


def _check_files(description: dict[str, Any], source: str | Path) -> None:
    """What the schema can't say of files in a sentence."""
    forms = description.get("distributions", {})
    chosen = description.get("distribution")
    if chosen is not None and chosen not in forms:
        raise UserError(f"{source}: there is no distribution '{chosen}'; {nearest(chosen, forms)}.")
    common = description.get("files", [])
    for files in [common, *(common + form["files"] for form in forms.values())]:
        paths = [entry["path"] for entry in files]
        if twice := [path for path in paths if paths.count(path) > 1]:
            raise UserError(f"{source}: file '{twice[0]}' is listed twice.")
    entries = [*common, *(entry for form in forms.values() for entry in form["files"])]
    for entry in entries:
        if not any(entry.get(key) for key in ("size", "sha256", "md5", "unverified")):
            raise UserError(
                f"{source}: '{entry['path']}' has no 'sha256', 'md5' or 'size' to be checked by; "
                "give one, or 'unverified: true' if none is known."
            )
        if entry != next(other for other in entries if other["path"] == entry["path"]):
            raise UserError(f"{source}: '{entry['path']}' is not the same in all distributions.")


def _with_distribution(description: dict[str, Any], folders: Iterable[str | Path]) -> dict[str, Any]:
    """The files of one distribution: the one that the YAML names, else the one of which most is in the folders.

    A file counts by its name, or by its size where that is known: a user's copy may have another name.
    """
    forms = description.get("distributions")
    if not forms:
        return description
    name = description.get("distribution") or max(forms, key=lambda form: _share(forms[form]["files"], folders))
    return {**description, "distribution": name, "files": [*description["files"], *forms[name]["files"]]}


def _share(files: list[dict[str, Any]], folders: Iterable[str | Path]) -> float:
    """The share of the files that are in the folders."""
    present = [path for folder in folders for path in Path(folder).rglob("[!.]*") if path.is_file()]
    names, sizes = {path.name for path in present}, {path.stat().st_size for path in present}
    matches = [Path(entry["path"]).name in names or entry.get("size") in sizes for entry in files]
    return sum(matches) / max(len(matches), 1)


def listing(root: str | Path) -> str:
    """A hash of the files below a folder by name, size and time; hidden ones (.DS_Store) do not count."""
    files = sorted(path for path in Path(root).rglob("[!.]*") if path.is_file())
    stats = [(path.relative_to(root).as_posix(), path.stat()) for path in files]
    return fingerprint([[name, about.st_size, about.st_mtime_ns] for name, about in stats])


def file_entry(description: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The entry with that path, among the ``files`` of a YAML or those of any of its distributions."""
    forms = description.get("distributions", {}).values()
    files = {entry["path"]: entry for part in (description, *forms) for entry in part.get("files", [])}
    if path not in files:
        raise UserError(f"There is no file '{path}'; {nearest(path, files)}.")
    return files[path]


@dataclass(frozen=True)
class WeightsFile:
    """A file of weights, and the YAML that describes it."""

    entry: Mapping[str, Any]
    path: Path


Weights = dict[tuple[str, str], WeightsFile]
"""By backbone and the word that a study names the weights by."""


def load_weights(paths: Mapping[str, Path]) -> Weights:
    """All files of config/weights."""
    found: Weights = {}
    for path in paths.values():
        description = read_yaml(path)
        validate(description, "weights", path)
        _check_files(description, path)
        key, entry = (description["backbone"], description["weights"]), description["files"][0]
        if not entry.get("sha256") or "extract" in entry:
            raise UserError(
                f"{path}: '{entry['path']}' needs a 'sha256' and no 'extract': runs are tied to its content."
            )
        if Path(entry["path"]).suffix not in WEIGHTS_SUFFIXES:
            raise UserError(f"{path}: '{entry['path']}' is none of {', '.join(WEIGHTS_SUFFIXES)}.")
        for other, known in found.items():
            if other == key or known.entry["path"] == entry["path"]:
                raise UserError(f"{path}: {known.path} has the same backbone and weights, or the same file.")
        found[key] = WeightsFile(entry, path)
    return found


def with_weights(settings: dict[str, Any], weights: Weights, folder: str, source: str) -> dict[str, Any]:
    """The settings of a run with the file that its backbone's weights are in, and the file's hash.

    ``{name: bn_inception, weights: imagenet}`` becomes a path and a ``sha256``: another content is another run, another
    mirror is not. Weights without an entry (a user's file, a package's, timm's, none) stay as they are.
    """
    backbone = settings["model"]["backbone"]
    name, word = backbone["name"], backbone["weights"]
    known = [other for own, other in weights if own == name]
    if (name, word) in weights:
        entry = weights[name, word].entry
        backbone = {**backbone, "weights": f"{folder}/{entry['path']}", "sha256": entry["sha256"]}
    elif known and word != "none" and Path(word).suffix not in WEIGHTS_SUFFIXES:
        raise UserError(
            f"{source}: backbone '{name}' has no weights '{word}'; {nearest(word, [*known, 'none'])} "
            f"(config/weights/*.yaml), or a file ({', '.join(WEIGHTS_SUFFIXES)})."
        )
    return {**settings, "model": {**settings["model"], "backbone": backbone}}
