"""Datasets and weights as described by their YAML files: which files, from which sources, and how they are read.

Snakemake imports this module while it parses the workflow, so it must not import anything slow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from recheck.blame import check_class
from recheck.errors import UserError, nearest
from recheck.files import below, canonical, fingerprint, read_json, sha256, walk
from recheck.names import WEIGHTS_SUFFIXES
from recheck.parts import own_files
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml


@dataclass(frozen=True)
class Dataset:
    """A dataset with the files of one distribution. Values for Snakemake's ``params`` are plain and sorted."""

    name: str
    path: Path
    description: Mapping[str, Any]
    folder: str  # downloads, images, index and packs
    drop: str  # files that the user already has

    @property
    def title(self) -> str:
        """The name for readers."""
        return self.description.get("title", self.name)

    @property
    def files(self) -> list[dict[str, Any]]:
        return self.description["files"]

    @property
    def archives(self) -> list[dict[str, Any]]:
        """The files to unpack."""
        return _only(("path", "extract", "unpacked_size"), [entry for entry in self.files if "extract" in entry])

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The files that the parser reads as they are."""
        return [entry for entry in self.files if "extract" not in entry]

    @property
    def checksums(self) -> list[dict[str, Any]]:
        """The known size and checksums of each file."""
        return _only(("path", "sha256", "md5", "git_blob", "size"), self.files)

    @property
    def parser(self) -> dict[str, Any]:
        """The keys on which the index depends."""
        keys = ("name", "parser", "distribution", "root", "csv", "expected", "options")
        return _only(keys, [{"name": self.name, **self.description}])[0]

    @property
    def parser_files(self) -> list[str]:
        """The user's files on which the index depends, besides the images: a parser's module, a table."""
        csv = self.description.get("csv")
        if csv and not Path(csv).is_file():
            raise UserError(f"{self.path}: 'csv' is '{csv}', but there is no such file. Create it, or correct the key.")
        if not self.files and not Path(self.root).is_dir():
            raise UserError(
                f"{self.path}: the image folder 'root' is '{self.root}', which does not exist. Create it, or correct "
                "the key."
            )
        return [*own_files(self.description["parser"]), *([csv] if csv else [])]

    @property
    def image_reading(self) -> dict[str, Any]:
        """How rotated and transparent images are read; a change makes Snakemake pack the images again."""
        return _only(("exif", "alpha"), [self.description["options"]])[0]

    @property
    def root(self) -> str:
        """The image folder: the user's, or the one into which the archives are unpacked."""
        return self.description.get("root", f"{self.folder}/images")

    @cached_property
    def listing(self) -> str | None:
        """A hash of the user's images, to notice added, removed or edited ones; None for a downloaded dataset."""
        return None if self.files else listing(self.root)

    @property
    def split_lists(self) -> list[dict[str, Any]]:
        """The published lists of images: path and checksum of each."""
        return _only(("path", "sha256", "md5", "git_blob"), self.description.get("split_lists", {}).values())

    def downloads(self, entries: Iterable[Mapping[str, Any]]) -> list[str]:
        """The download paths of these entries of ``files``."""
        return [f"<resources>/datasets/{self.name}/downloads/{entry['path']}" for entry in entries]

    def checksum(self, file: str) -> str | None:
        """A file's known checksum, or that of the user's copy: if it changes, Snakemake fetches the file again.

        Other edits of the YAML, such as a new mirror, trigger no download.
        """
        entry = file_entry(self.description, file)
        return entry.get("md5") or entry.get("sha256") or dropped_checksum(file, self.drop, f"{self.folder}/downloads")


def _only(keys: Iterable[str], entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return canonical([{key: entry[key] for key in keys if key in entry} for entry in entries])


def load_dataset(name: str, paths: Mapping[str, Path], source: str | Path, resources: str = "resources") -> Dataset:
    """A dataset by name. Files that the user has dropped or downloaded decide between its distributions."""
    if name not in paths:
        raise UserError(f"{source}: unknown dataset '{name}'; {nearest(name, paths)} (config/datasets/*.yaml).")
    description, folder = read_yaml(paths[name]), f"{resources}/datasets/{name}"
    validate(description, "dataset", paths[name])
    _check_files(description, paths[name])
    if ":" in description["parser"]:
        check_class(description["parser"], str(paths[name]), "parser")
    present = [drop_folder(resources, name), f"{folder}/downloads"]
    description = _with_distribution({"files": [], "options": {}, **description}, present)
    return Dataset(name, paths[name], description, folder, drop_folder(resources, name))


def drop_folder(resources: str, name: str) -> str:
    """The folder for files that users already have: of a dataset, of `weights` or of `released` checkpoints."""
    return f"{resources}/drop/{name}"


def dropped_names(path: str, drop: str | Path) -> list[Path]:
    """Where the user's copy of a file may be: at its path in the drop folder, or directly in the folder."""
    return list(dict.fromkeys([Path(drop, path), Path(drop, Path(path).name)]))


def dropped_note(copy: str | Path) -> Path:
    """A record of the user's file that ``copy`` was taken from, for files without a known checksum."""
    return Path(copy).with_name(f".{Path(copy).name}.dropped.json")


def dropped_checksum(path: str, drop: str | Path, downloads: str | Path) -> str | None:
    """The SHA-256 of the user's file in the drop folder, or of the last one that was taken from there."""
    copy, taken = Path(downloads, path), {}
    if dropped_note(copy).is_file():
        taken = read_json(dropped_note(copy))
    file = next((file for file in dropped_names(path, drop) if file.is_file()), None)
    if file is None or (copy.exists() and copy.samefile(file)) or taken.get("stat") == stat_of(file):
        return taken.get("sha256")
    return sha256(file)


def stat_of(file: Path) -> list[int]:
    """Numbers that change with the file's content, without reading it; a user can't set the last two.

    The last one is the inode: many systems give two quick changes the same times.
    """
    about = file.stat()
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]


def dropped_texts(folder: str) -> list[list[Any]]:
    """Names and sizes of dropped .txt files, to notice lists that the user adds later."""
    return sorted([path.name, path.stat().st_size] for path in Path(folder).rglob("*.txt") if path.is_file())


def _check_files(description: dict[str, Any], source: str | Path) -> None:
    """Check what the schema can't check, or can't report clearly."""
    forms = description.get("distributions", {})
    chosen = description.get("distribution")
    if chosen is not None and chosen not in forms:
        raise UserError(f"{source}: unknown distribution '{chosen}'; {nearest(chosen, forms)}.")
    common = description.get("files", [])
    for files in [common, *(common + form["files"] for form in forms.values())]:
        paths = [entry["path"] for entry in files]
        if twice := [path for path in paths if paths.count(path) > 1]:
            raise UserError(f"{source}: file '{twice[0]}' is listed twice. Remove one of the entries.")
    lists = description.get("split_lists", {}).values()
    entries = [*common, *(entry for form in forms.values() for entry in form["files"]), *lists]
    for entry in entries:
        if not any(entry.get(key) for key in ("size", "sha256", "md5", "git_blob", "unverified")):
            raise UserError(
                f"{source}: file '{entry['path']}' has no 'sha256', 'md5', 'git_blob' or 'size' to verify it. "
                "Add one, or 'unverified: true' if none is known."
            )
        if entry != next(other for other in entries if other["path"] == entry["path"]):
            raise UserError(f"{source}: file '{entry['path']}' must be described identically in all distributions.")


def _with_distribution(description: dict[str, Any], folders: Iterable[str | Path]) -> dict[str, Any]:
    """The description with the files of one distribution: the one named in the YAML, else the most complete one.

    A file counts as present by its name or its known size, because a user's copy may have another name.
    """
    forms = description.get("distributions")
    if not forms:
        return description
    name = description.get("distribution") or max(forms, key=lambda form: _share(forms[form]["files"], folders))
    return {**description, "distribution": name, "files": [*description["files"], *forms[name]["files"]]}


def _share(files: list[dict[str, Any]], folders: Iterable[str | Path]) -> float:
    """The fraction of the files that are in the folders."""
    present = [entry for folder in folders for entry in walk(folder) if entry.name[0] != "."]
    names, sizes = {entry.name for entry in present}, {entry.stat().st_size for entry in present}
    matches = [Path(entry["path"]).name in names or entry.get("size") in sizes for entry in files]
    return sum(matches) / max(len(matches), 1)


def listing(root: str | Path) -> str:
    """A hash of the names, sizes and times of all files below a folder, except hidden ones such as .DS_Store."""
    files = [entry for entry in walk(root) if entry.name[0] != "."]
    stats = sorted(((below(entry, root).split("/"), entry.stat()) for entry in files), key=lambda pair: pair[0])
    return fingerprint([["/".join(parts), about.st_size, about.st_mtime_ns] for parts, about in stats])


def file_entry(description: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The entry with that path, in the ``files`` of a YAML or of any of its distributions."""
    forms = description.get("distributions", {}).values()
    files = {entry["path"]: entry for form in (description, *forms) for entry in form.get("files", [])}
    if path not in files:
        raise UserError(f"Unknown file '{path}'; {nearest(path, files)}.")
    return files[path]


@dataclass(frozen=True)
class WeightsFile:
    """A weights file and the YAML that describes it."""

    entry: Mapping[str, Any]
    path: Path


Weights = dict[tuple[str, str], WeightsFile]
"""(backbone, name of the weights in a study) → weights file."""


def load_weights(paths: Mapping[str, Path]) -> Weights:
    """All weights described in config/weights."""
    loaded: Weights = {}
    for path in paths.values():
        description = read_yaml(path)
        validate(description, "weights", path)
        _check_files(description, path)
        key, entry = (description["backbone"], description["weights"]), description["files"][0]
        if not entry.get("sha256") or "extract" in entry:
            raise UserError(
                f"{path}: file '{entry['path']}' must have 'sha256' and must not have 'extract', because runs depend "
                "on its content."
            )
        if Path(entry["path"]).suffix not in WEIGHTS_SUFFIXES:
            raise UserError(
                f"{path}: the weights file '{entry['path']}' must have one of the suffixes "
                f"{', '.join(WEIGHTS_SUFFIXES)}."
            )
        for other, known in loaded.items():
            if other == key or known.entry["path"] == entry["path"]:
                raise UserError(
                    f"{path}: {known.path} already describes these weights of this backbone, or this file. Remove "
                    "one of the two descriptions."
                )
        loaded[key] = WeightsFile(entry, path)
    return loaded


def with_weights(settings: dict[str, Any], weights: Weights, folder: str, source: str) -> dict[str, Any]:
    """Run settings in which the backbone's named weights are replaced by the path and hash of their file.

    ``{name: bn_inception, weights: imagenet}`` becomes a path and a ``sha256``: a file with different content makes a
    different run, a new mirror does not. Weights without an entry (a user's file, a package's, timm's, none) are kept.
    """
    backbone = settings["model"]["backbone"]
    name, word = backbone["name"], backbone["weights"]
    known = [weights_name for backbone_name, weights_name in weights if backbone_name == name]
    if (name, word) in weights:
        entry = weights[name, word].entry
        backbone = {**backbone, "weights": f"{folder}/{entry['path']}", "sha256": entry["sha256"]}
    elif known and word != "none" and Path(word).suffix not in WEIGHTS_SUFFIXES:
        raise UserError(
            f"{source}: backbone '{name}' has no weights '{word}'; {nearest(word, [*known, 'none'])} "
            f"(config/weights/*.yaml), or a file ({', '.join(WEIGHTS_SUFFIXES)})."
        )
    return {**settings, "model": {**settings["model"], "backbone": backbone}}
