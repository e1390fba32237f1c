"""Fetch released checkpoints from the web or the user's drop folder.

- The layout ``mlrc`` is what the program of "A Metric Learning Reality Check" writes: an experiment has one folder
  ``Test50_50_Partitions4_<fold>`` per fold, with ``trunk_best<epoch>.pth`` and ``embedder_best<epoch>.pth`` at any
  depth below it. All other files (last epoch, optimisers, logs) are ignored. That program saves a best epoch only when
  it beats all earlier ones, so the highest epoch is the best.
- The layout ``contextual`` is one file ``<dataset>_<loss>_lam_<number>_gamma_<number>_<number>.pt`` per experiment.
"""

import errno
import fnmatch
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from recheck.data.hosts import gdrive_files, github_files
from recheck.data.patience import CHUNK, Patience, SourceFailed
from recheck.data.sources import Unavailable, fetch
from recheck.errors import UserError
from recheck.files import atomic, check_space, disk_errors, sha256, walk

MODULES = ("trunk", "embedder")
FOLD = re.compile(r"Test[0-9]{1,4}_[0-9]{1,4}_Partitions([0-9]{1,4})_([0-9]{1,4})")
FILE = re.compile(r"(trunk|embedder)_best([0-9]{1,9})\.pth")
SUFFIXES = (".pt", ".pth")
LARGEST = 1 << 30
"""Largest checkpoint accepted from a zip archive, in bytes; BN-Inception's has 41 million."""
SHOWN, LETTERS = 12, 200


class Checkpoint(NamedTuple):
    """The checkpoint of a fold: its epoch, if known, and the paths of its files."""

    epoch: int | None
    files: dict[str, str]


class Copy(NamedTuple):
    """A file on the web: an identifier (several files may share a name), its source, and its size if known."""

    identifier: str
    source: dict[str, str]
    size: int | None = None


Checkpoints = dict[int, Checkpoint]
Choose = Callable[[Iterable[str], Mapping[str, Any], int], Checkpoints]


def pairs(paths: Iterable[str], folds: int) -> Checkpoints:
    """The best checkpoint of every fold among the paths; a fold with checkpoints in two folders is refused."""
    candidates: dict[int, dict[str, dict[int, dict[str, str]]]] = {}
    for path in paths:
        *folders, name = PurePosixPath(path).parts or ("",)
        file = FILE.fullmatch(name)
        fold = next((match for folder in reversed(folders) if (match := FOLD.fullmatch(folder))), None)
        if file and fold and int(fold[1]) == folds:
            epochs = candidates.setdefault(int(fold[2]), {}).setdefault(str(PurePosixPath(*folders)), {})
            epochs.setdefault(int(file[2]), {})[file[1]] = path
    chosen = {}
    for fold, places in sorted(candidates.items()):
        whole = {
            place: [e for e, files in epochs.items() if len(files) == len(MODULES)] for place, epochs in places.items()
        }
        whole = {place: max(epochs) for place, epochs in whole.items() if epochs}
        if len(whole) > 1:
            raise UserError(
                f"Several folders have checkpoints of fold {fold}: {_listed(whole)}. Keep only the folder of "
                "one experiment, or set 'gdrive_folder' to it."
            )
        for place, epoch in whole.items():
            chosen[fold] = Checkpoint(epoch, places[place][epoch])
    return chosen


def _mlrc(paths: Iterable[str], released: Mapping[str, Any], folds: int) -> Checkpoints:
    return pairs(paths, folds)


def _contextual(paths: Iterable[str], released: Mapping[str, Any], folds: int) -> Checkpoints:
    """The only checkpoint among the paths, or the only one with the name ``released.file``."""
    checkpoints = [path for path in paths if PurePosixPath(path).suffix.lower() in SUFFIXES]
    pattern = released.get("file", "*").lower()
    named = [path for path in checkpoints if fnmatch.fnmatchcase(PurePosixPath(path).name.lower(), pattern)]
    if len(named) > 1:
        raise UserError(
            f"Several files could be the checkpoint: {_listed(named)}. Keep one of them in the drop folder, or set "
            "'released.file' to its name."
        )
    return {0: Checkpoint(None, {"model": named[0]})} if named else {}


LAYOUTS: dict[str, tuple[Choose, Callable[[list[int], int], str]]] = {
    "mlrc": (
        _mlrc,
        lambda missing, folds: (
            "trunk_best<epoch>.pth and embedder_best<epoch>.pth of "
            + ", ".join(f"Test50_50_Partitions{folds}_{fold}" for fold in missing)
        ),
    ),
    "contextual": (_contextual, lambda missing, folds: "the checkpoint, a .pt file"),
}
"""Layout → how its files are chosen, and what to call those that are missing."""


def collect(
    released: dict[str, Any], folds: int, folder: str | Path, drop: str | Path, patience: Patience | None = None
) -> dict[str, Any]:
    """Get the checkpoints of all folds into ``folder`` and return the content of ``released.json``.

    Dropped files come first: folders, zip archives, or both. Missing folds are downloaded.
    """
    folder, drop, patience = Path(folder), Path(drop), patience or Patience()
    choose, missing_files = LAYOUTS[released["layout"]]
    by_hand = _dropped(drop)
    # a file that the user has dropped for this row may have any name
    anything = {key: value for key, value in released.items() if key != "file"}
    files = [path for path in by_hand if PurePosixPath(path).suffix.lower() in SUFFIXES]
    dropped = chosen = choose(by_hand, anything if len(files) == 1 else released, folds)
    online: dict[str, Copy] = {}
    failure = None
    if len(dropped) < folds:
        try:
            online = _online(released, patience)
        except SourceFailed as error:
            failure = str(error)
        chosen = {**choose(online, released, folds), **dropped}
    missing = [fold for fold in range(folds) if fold not in chosen]
    if missing:
        raise Unavailable(_what_to_do(released, missing_files(missing, folds), [*by_hand, *online], drop, failure))
    records = []
    for fold in range(folds):
        record: dict[str, Any] = {"epoch": chosen[fold].epoch}
        for module, path in chosen[fold].files.items():
            place = folder / f"fold{fold}" / ("dropped" if fold in dropped else online[path].identifier)
            target = place / PurePosixPath(path).name
            if fold in dropped:
                _take(_only(by_hand[path], path), path, target)
            else:
                known = {"size": online[path].size} if online[path].size else {}
                fetch({"path": path, "from": [online[path].source], **known}, target, patience=patience)
            record[module] = {
                "file": target.relative_to(folder).as_posix(),
                "found": path,
                "sha256": sha256(target),
            }
        records.append(record)
    return {**released, "folds": records}


def _online(released: Mapping[str, Any], patience: Patience) -> dict[str, Copy]:
    """Path → file on the web, for all released files; none of them is downloaded."""
    if "gdrive_folder" in released:
        ids = gdrive_files(released["gdrive_folder"], patience)
        return {path: Copy(identifier, {"gdrive": identifier}) for path, identifier in ids.items()}
    if "github_release" in released:
        assets = github_files(released["github_release"], patience)
        return {name: Copy(str(asset["id"]), {"url": asset["url"]}, asset["size"]) for name, asset in assets.items()}
    return {}


def _page(released: Mapping[str, Any]) -> str:
    """The page on which people find the released files; empty if there is none."""
    if "gdrive_folder" in released:
        return f"https://drive.google.com/drive/folders/{released['gdrive_folder']}"
    if "github_release" in released:
        repository, _, tag = released["github_release"].partition("@")
        return f"https://github.com/{repository}/releases/tag/{tag}"
    return ""


def _dropped(drop: Path) -> dict[str, list[Path]]:
    """Dropped files: path below the drop folder, or name inside a dropped zip archive → files or archives with it."""
    files: dict[str, list[Path]] = {}
    for path in sorted(Path(entry.path) for entry in walk(drop, skip=lambda name: name[0] == ".")):
        names = _names_in(path) if _is_zip(path) else [path.relative_to(drop).as_posix()]
        for name in names:
            files.setdefault(name, []).append(path)
    return files


def _only(sources: list[Path], name: str) -> Path:
    """The only file or archive that has the name; refuses to choose between several."""
    if len(sources) > 1:
        places = " and ".join(map(str, dict.fromkeys(sources)))
        raise UserError(
            f"'{_short(name)}' was found {len(sources)} times (in {places}), expected once: keep one of them."
        )
    return sources[0]


def _is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def _names_in(archive: Path) -> list[str]:
    try:
        with zipfile.ZipFile(archive) as file:
            return [name for name in file.namelist() if not name.endswith("/")]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UserError(f"{archive} is not a complete zip archive ({error}): download it again.") from None


def _take(source: Path, name: str, target: Path) -> None:
    """Copy a dropped file, or a member of a dropped archive, to ``target``; the original stays."""
    if not _is_zip(source):
        with atomic(target) as temporary:
            shutil.copyfile(source, temporary)
        return
    try:
        with zipfile.ZipFile(source) as archive, disk_errors(target):
            about = archive.getinfo(name)
            size = about.file_size
            if about.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # bzip2 and LZMA can need any amount of memory for a few bytes
                raise UserError(
                    f"{source}: '{_short(name)}' must be stored or deflated, found another compression: unpack the "
                    "archive yourself and put its files into the drop folder."
                )
            if size > LARGEST:
                raise UserError(
                    f"{source}: '{name}' has {size:,} bytes, expected a checkpoint of at most {LARGEST:,}: "
                    "download the archive again."
                )
            check_space(size, target, f"Unpacking {name}")
            with archive.open(name) as member, atomic(target) as temporary, temporary.open("wb") as out:
                shutil.copyfileobj(member, out, CHUNK)
    except (zipfile.BadZipFile, zlib.error, EOFError, LookupError, OSError, RuntimeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: a seek to a bad position
            raise
        raise UserError(f"{source}: '{name}' cannot be unpacked ({error}): download the archive again.") from None


def _what_to_do(
    released: Mapping[str, Any], missing: str, available: list[str], drop: Path, failure: str | None
) -> str:
    with disk_errors(drop):
        drop.mkdir(parents=True, exist_ok=True)  # ready for the user's files
    tried = f"; the download failed: {failure}" if failure else ""
    page = _page(released)
    source = f"download {page} in a browser and put" if page else "put"
    what = (
        "this file, or a zip archive of it,"
        if released["layout"] == "contextual"
        else "these folders, or zip archives of them,"
    )
    return (
        f"Missing {missing} (found: {_listed(available)}{tried}): {source} {what} into {drop} and run the same command "
        "again."
    )


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(map(_short, names[:SHOWN])) or "nothing") + more


def _short(name: str) -> str:
    """A name from an archive, fit for a message."""
    name = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return name if len(name) <= LETTERS else f"{name[:LETTERS]}…"
