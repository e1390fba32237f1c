"""Fetch released checkpoints, one pair of files per fold, from a Google Drive folder or the user's drop folder.

The layout ``mlrc`` is what the program of "A Metric Learning Reality Check" writes: an experiment has one folder
``Test50_50_Partitions4_<fold>`` per fold, with ``trunk_best<epoch>.pth`` and ``embedder_best<epoch>.pth`` at any depth
below it. All other files (last epoch, optimisers, logs) are ignored. That program saves a best epoch only when it beats
all earlier ones, so the highest epoch is the best.
"""

import errno
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from recheck.data.download import CHUNK, Patience, SourceFailed
from recheck.data.hosts import gdrive_files
from recheck.data.sources import fetch
from recheck.errors import UserError
from recheck.files import atomic, check_space, disk_errors, sha256

MODULES = ("trunk", "embedder")
FOLD = re.compile(r"Test\d+_\d+_Partitions(\d+)_(\d+)")
FILE = re.compile(r"(trunk|embedder)_best(\d+)\.pth")
LARGEST = 1 << 30
"""Largest checkpoint accepted from a zip archive, in bytes; BN-Inception's has 41 million."""
SHOWN = 12


class Pair(NamedTuple):
    """The checkpoint of a fold: its epoch, and the paths of trunk and embedder."""

    epoch: int
    files: dict[str, str]


def pairs(paths: Iterable[str], folds: int) -> dict[int, Pair]:
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
            chosen[fold] = Pair(epoch, places[place][epoch])
    return chosen


def collect(
    released: dict[str, Any], folds: int, folder: str | Path, drop: str | Path, patience: Patience | None = None
) -> dict[str, Any]:
    """Get the checkpoints of all folds into ``folder`` and return the content of ``released.json``.

    Dropped files come first: folders, zip archives made by Google Drive, or both. Missing folds are downloaded.
    """
    folder, drop, patience = Path(folder), Path(drop), patience or Patience()
    by_hand = _dropped(drop)
    dropped = chosen = pairs(by_hand, folds)
    ids: dict[str, str] = {}
    failure = None
    if len(dropped) < folds and "gdrive_folder" in released:
        try:
            ids = gdrive_files(released["gdrive_folder"], patience)
        except SourceFailed as error:
            failure = str(error)
        chosen = {**pairs(ids, folds), **dropped}
    missing = [fold for fold in range(folds) if fold not in chosen]
    if missing:
        raise UserError(_what_to_do(released, missing, folds, [*by_hand, *ids], drop, failure))
    records = []
    for fold in range(folds):
        record: dict[str, Any] = {"epoch": chosen[fold].epoch}
        for module, path in chosen[fold].files.items():
            # the id in the path tells files of the same name in different folders apart
            place = folder / f"fold{fold}" / ("dropped" if fold in dropped else ids[path])
            target = place / PurePosixPath(path).name
            if fold in dropped:
                _take(by_hand[path], path, target)
            else:
                fetch({"path": path, "from": [{"gdrive": ids[path]}]}, target, patience=patience)
            record[module] = {
                "file": target.relative_to(folder).as_posix(),
                "found": path,
                "sha256": sha256(target),
            }
        records.append(record)
    return {**released, "folds": records}


def _dropped(drop: Path) -> dict[str, Path]:
    """Dropped files: path below the drop folder, or name inside a dropped zip archive → file or archive."""
    files: dict[str, Path] = {}
    for path in sorted(drop.rglob("[!.]*")) if drop.is_dir() else []:
        if path.is_file() and path.suffix != ".zip":
            files[path.relative_to(drop).as_posix()] = path
        elif path.is_file():
            try:
                with zipfile.ZipFile(path) as archive:
                    files.update({name: path for name in archive.namelist() if not name.endswith("/")})
            except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
                raise UserError(f"{path} is not a complete zip archive ({error}): download it again.") from None
    return files


def _take(source: Path, name: str, target: Path) -> None:
    """Copy a dropped file, or a member of a dropped archive, to ``target``; the original stays."""
    if source.suffix != ".zip":
        with atomic(target) as temporary:
            shutil.copyfile(source, temporary)
        return
    try:
        with zipfile.ZipFile(source) as archive, disk_errors(target):
            size = archive.getinfo(name).file_size
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
    released: dict[str, Any], missing: list[int], folds: int, available: list[str], drop: Path, failure: str | None
) -> str:
    with disk_errors(drop):
        drop.mkdir(parents=True, exist_ok=True)  # ready for the user's files
    folders = ", ".join(f"Test50_50_Partitions{folds}_{fold}" for fold in missing)
    page = f"https://drive.google.com/drive/folders/{released['gdrive_folder']}" if "gdrive_folder" in released else ""
    tried = f" ({failure})" if failure else ""
    source = f"download {page}{tried} in a browser and put" if page else "put"
    return (
        f"Missing trunk_best<epoch>.pth and embedder_best<epoch>.pth of {folders} (found: {_listed(available)}): "
        f"{source} these folders, or zip archives of them, into {drop} and run the same command again."
    )


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "nothing") + more
