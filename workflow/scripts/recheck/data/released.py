"""Checkpoints that others have published: found in a folder of Google Drive or in what a user dropped, one pair a fold.

The layout ``mlrc`` is what the program of "A Metric Learning Reality Check" writes: an experiment has a folder
``Test50_50_Partitions4_<fold>`` for every fold, and below it, however deep, ``trunk_best<epoch>.pth`` and
``embedder_best<epoch>.pth``. Everything else there (the last epoch, optimisers, logs) is left where it is. A best epoch
is written when it is better than all before, so that the highest of several is the best.
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

PARTS = ("trunk", "embedder")
FOLD = re.compile(r"Test\d+_\d+_Partitions(\d+)_(\d+)")
FILE = re.compile(r"(trunk|embedder)_best(\d+)\.pth")
LARGEST = 1 << 30
"""Bytes of a checkpoint inside a zip archive; those of BN-Inception have 41 million."""
SHOWN = 12


class Pair(NamedTuple):
    """The files of a fold: where they are by part, and the epoch they are of."""

    epoch: int
    files: dict[str, str]


def pairs(paths: Iterable[str], folds: int) -> dict[int, Pair]:
    """The best checkpoint of every fold among the paths; two folders that both have a fold are refused."""
    found: dict[int, dict[str, dict[int, dict[str, str]]]] = {}
    for path in paths:
        *folders, name = PurePosixPath(path).parts or ("",)
        file = FILE.fullmatch(name)
        fold = next((match for folder in reversed(folders) if (match := FOLD.fullmatch(folder))), None)
        if file and fold and int(fold[1]) == folds:
            epochs = found.setdefault(int(fold[2]), {}).setdefault(str(PurePosixPath(*folders)), {})
            epochs.setdefault(int(file[2]), {})[file[1]] = path
    chosen = {}
    for fold, places in sorted(found.items()):
        whole = {
            place: [e for e, files in epochs.items() if len(files) == len(PARTS)] for place, epochs in places.items()
        }
        whole = {place: max(epochs) for place, epochs in whole.items() if epochs}
        if len(whole) > 1:
            raise UserError(
                f"Fold {fold} is there more than once, in {_listed(whole)}: keep or name the folder of one experiment."
            )
        for place, epoch in whole.items():
            chosen[fold] = Pair(epoch, places[place][epoch])
    return chosen


def collect(
    released: dict[str, Any], folds: int, folder: str | Path, drop: str | Path, patience: Patience | None = None
) -> dict[str, Any]:
    """Get the checkpoints of all folds into ``folder``, and return what they are, for ``released.json``.

    What a user dropped comes first: folders, zip archives as Google Drive makes them, or both; the rest is fetched.
    """
    folder, drop, patience = Path(folder), Path(drop), patience or Patience()
    by_hand = _dropped(drop)
    own = chosen = pairs(by_hand, folds)
    ids: dict[str, str] = {}
    failure = None
    if len(own) < folds and "gdrive_folder" in released:
        try:
            ids = gdrive_files(released["gdrive_folder"], patience)
        except SourceFailed as error:
            failure = str(error)
        chosen = {**pairs(ids, folds), **own}
    missing = [fold for fold in range(folds) if fold not in chosen]
    if missing:
        raise UserError(_what_to_do(released, missing, folds, [*by_hand, *ids], drop, failure))
    records = []
    for fold in range(folds):
        record: dict[str, Any] = {"epoch": chosen[fold].epoch}
        for part, path in chosen[fold].files.items():
            # by its id, so that another folder's file of the same name is not taken for it
            place = folder / f"fold{fold}" / ("dropped" if fold in own else ids[path])
            target = place / PurePosixPath(path).name
            if fold in own:
                _take(by_hand[path], path, target)
            else:
                fetch({"path": path, "from": [{"gdrive": ids[path]}]}, target, patience=patience)
            record[part] = {
                "file": target.relative_to(folder).as_posix(),
                "found": path,
                "sha256": sha256(target),
            }
        records.append(record)
    return {**released, "folds": records}


def _dropped(drop: Path) -> dict[str, Path]:
    """What a user dropped, by its path below the drop folder, or by its name inside a zip archive there."""
    found: dict[str, Path] = {}
    for path in sorted(drop.rglob("[!.]*")) if drop.is_dir() else []:
        if path.is_file() and path.suffix != ".zip":
            found[path.relative_to(drop).as_posix()] = path
        elif path.is_file():
            try:
                with zipfile.ZipFile(path) as archive:
                    found.update({name: path for name in archive.namelist() if not name.endswith("/")})
            except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
                raise UserError(f"{path} is no whole zip archive ({error}): download it again.") from None
    return found


def _take(source: Path, name: str, target: Path) -> None:
    """A dropped file, or a member of a dropped archive, under our own name; never moved."""
    if source.suffix != ".zip":
        with atomic(target) as temporary:
            shutil.copyfile(source, temporary)
        return
    try:
        with zipfile.ZipFile(source) as archive, disk_errors(target):
            size = archive.getinfo(name).file_size
            if size > LARGEST:
                raise UserError(f"{source}: '{name}' says that it has {size:,} bytes, which no checkpoint has.")
            check_space(size, target, f"Unpacking {name}")
            with archive.open(name) as member, atomic(target) as temporary, temporary.open("wb") as out:
                shutil.copyfileobj(member, out, CHUNK)
    except (zipfile.BadZipFile, zlib.error, EOFError, LookupError, OSError, RuntimeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # of a place that the file has not
            raise
        raise UserError(f"{source}: '{name}' cannot be unpacked ({error}): download the archive again.") from None


def _what_to_do(
    released: dict[str, Any], missing: list[int], folds: int, found: list[str], drop: Path, failure: str | None
) -> str:
    with disk_errors(drop):
        drop.mkdir(parents=True, exist_ok=True)  # so that dropping is all there is to do
    folders = ", ".join(f"Test50_50_Partitions{folds}_{fold}" for fold in missing)
    page = f"https://drive.google.com/drive/folders/{released['gdrive_folder']}" if "gdrive_folder" in released else ""
    tried = f" ({failure})" if failure else ""
    source = f"download {page}{tried} in a browser, and put" if page else "put"
    return (
        f"No trunk_best<epoch>.pth with an embedder_best<epoch>.pth in {folders}: {source} these folders, or the zip "
        f"archives with them, into {drop} and run the same command again (found: {_listed(found)})."
    )


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "nothing") + more
