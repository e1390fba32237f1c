"""Read files, and write them atomically: a file is either complete or does not exist."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recheck.errors import MachineError, UserError

# Read once: reading it changes it for a moment, for all threads.
UMASK = os.umask(0)
os.umask(UMASK)


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and rename it to ``path`` if the block succeeds.

    The content is synced to the disk before the rename, so neither a crash nor a full disk can leave an incomplete file
    under the final name.
    """
    path = Path(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in path.parent.glob(f".{glob.escape(path.name)}.*{glob.escape(path.suffix)}"):
            stale.unlink(missing_ok=True)  # left by a job that was killed while it wrote this file
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~UMASK)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def disk_errors(path: str | Path) -> Iterator[None]:
    """Turn a full or read-only disk into a MachineError about ``path``."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise MachineError(
                f"No space left while writing {path}: free some space there and run the same command again; "
                "finished work is kept."
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise MachineError(
                f"{path} cannot be written ({os.strerror(error.errno)}): make its folder writable, "
                "or choose another folder (config key 'pathvars')."
            ) from error
        raise


def free_space(path: str | Path) -> int:
    """The free bytes on the disk of ``path``, which need not exist."""
    existing = next(folder for folder in Path(path).absolute().parents if folder.is_dir())
    return shutil.disk_usage(existing).free


def check_space(needed: int, path: str | Path, doing: str) -> None:
    """Refuse to start a job that needs more space than is free on the disk of ``path``."""
    free = free_space(path)
    if needed > free:
        raise MachineError(
            f"{doing} needs {needed / 1e6:,.1f} MB in {Path(path).parent}, but only {free / 1e6:,.1f} MB are free: "
            "free some space, or choose another folder (config key 'pathvars')."
        )


def check_writable(key: str, folder: str | Path, instead: str) -> None:
    """Refuse a read-only folder at the start, not after an hour; ``instead`` shows how to choose another folder."""
    existing = next(path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise UserError(
            f"{key}: {existing} is read-only or not a folder. Make it writable, or choose another folder, "
            f"e.g. {instead}."
        )


MOST_LEVELS = 64
"""Maximum depth of nested folders in a dataset."""


def walk(root: str | Path, skip: Callable[[str], bool] = lambda name: False) -> Iterator[os.DirEntry]:
    """Every file below a folder, in no particular order. Refuses trees deeper than ``MOST_LEVELS``.

    Links to files are files. Links to folders are not followed; pipes, devices and broken links are left out.
    ``skip`` gets the name of a file or folder and says whether to leave it out.
    """
    folders = [(os.fspath(root), 0)] if Path(root).is_dir() else []
    while folders:
        folder, level = folders.pop()
        if level > MOST_LEVELS:
            raise UserError(
                f"{root} has folders more than {MOST_LEVELS} levels deep: move its files up, or remove them."
            )
        for entry in _entries(folder):
            if not skip(entry.name):
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, level + 1))
                elif _is_file(entry):
                    yield entry


def _is_file(entry: os.DirEntry) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


def below(entry: os.DirEntry, root: str | Path) -> str:
    """The path of a file that :func:`walk` has found, relative to the folder."""
    return entry.path[len(os.path.join(root, "")) :]  # noqa: PTH118 (called half a million times)


def _entries(folder: str) -> list[os.DirEntry]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise UserError(f"Folder {folder} cannot be read ({error.strerror}): make it readable.") from None


def check_name(path: str | Path) -> None:
    """Refuse a path that is not UTF-8: no table can list it."""
    if not str(path).isascii() and not str(path).isprintable():
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise UserError(f"{path} has a name that is not UTF-8: rename it and run again.") from None


def write_text(path: str | Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON with floats that read back to the same bits."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON ({error}): delete it and run again.") from None


def sha256(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical(value: Any) -> Any:
    """The same value with the keys of all its mappings in alphabetical order."""
    if isinstance(value, dict):
        return {key: canonical(value[key]) for key in sorted(value)}
    return [canonical(item) for item in value] if isinstance(value, list) else value


def fingerprint(value: Any) -> str:
    """A hash of plain data that ignores the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
