"""Unpack archives from untrusted sources.

A member is written only if it is a plain file or folder, its path stays inside the tree and is not taken yet, and the
archive stays within its size limit. A link becomes the file that it points to: the disk never holds a link that a later
member, or another program, could follow out of the tree. All archives of a dataset are unpacked into a temporary folder
beside the image root and renamed when complete: a job killed at any moment leaves the old tree or none.
"""

import bz2
import contextlib
import errno
import gzip
import logging
import lzma
import os
import posixpath
import re
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

from recheck.errors import UserError
from recheck.files import check_space, disk_errors, read_json, write_json
from recheck.progress import Progress

log = logging.getLogger("recheck")
CHUNK = 1 << 20
RECORD = ".extracted.json"
"""Stored inside the tree, so that one rename puts both in place."""
FACTOR, LEAST = 20, 64 << 20
"""Default limit of the unpacked size (`unpacked_size` overrides it): FACTOR × the archive's size, at least LEAST."""
MOST_MEMBERS = 5_000_000
LARGEST_HEADER = 4 << 20
LONGEST_LINK = 4096
BLOCK = bytes(512)
DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    RecursionError,
    NotImplementedError,
    LookupError,
    OverflowError,
    ValueError,
)


def extract(archives: list[dict], downloads: str | Path, verified: dict[str, dict], root: str | Path) -> dict:
    """Unpack a dataset's archives below ``root`` and return the content of ``extracted.json``.

    ``archives`` are entries of the dataset's ``files`` with ``path``, ``extract`` (a subfolder, or ``.``) and perhaps
    ``unpacked_size``; ``verified`` has their hashes. A complete tree from the same archives is kept.
    """
    root = Path(root)
    wanted = {
        entry["path"]: {"sha256": verified[entry["path"]]["sha256"], "into": entry["extract"]} for entry in archives
    }
    for stale in root.parent.glob(f".{root.name}.*"):
        shutil.rmtree(stale, ignore_errors=True)  # left by a job that was killed
    if (done := _intact(root, wanted)) is not None:
        log.info("%s is already unpacked", root)
        return done
    with disk_errors(root):
        root.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=root.parent, prefix=f".{root.name}."))
        try:
            done, tree = {}, _Tree(temporary / "images")
            for entry in archives:
                archive = Path(downloads, entry["path"])
                files, size = unpack(archive, tree, entry["extract"], entry.get("unpacked_size"))
                done[entry["path"]] = wanted[entry["path"]] | {"files": files, "bytes": size}
            write_json(tree.root / RECORD, done)
            os.sync()
            if root.exists():
                root.rename(temporary / "old")
            tree.root.rename(root)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return done


def unpack(archive: Path, tree: "_Tree", into: str = ".", unpacked_size: int | None = None) -> tuple[int, int]:
    """Unpack one archive into a tree and return the number of files and their total size in bytes."""
    most = unpacked_size or max(FACTOR * archive.stat().st_size, LEAST)
    writer = _Writer(archive, tree, into, most)
    with archive.open("rb") as raw:
        start = raw.read(len(BLOCK))
        raw.seek(0)
        with _damage(archive):
            if start.startswith(b"PK"):
                _unpack_zip(raw, writer)
            else:
                _unpack_tar(raw, start, writer)
    writer.make_links()
    return writer.files, writer.bytes


class _Tree:
    """A new folder and the paths taken in it; all archives of a dataset share one."""

    def __init__(self, root: Path):
        self.root = root
        self.root.mkdir()
        self.folders = {""}
        self.files = {RECORD}


class _Writer:
    """Writes an archive's members into a tree and refuses everything that no dataset needs."""

    def __init__(self, archive: Path, tree: _Tree, into: str, most: int):
        self.archive, self.tree, self.into, self.most = archive, tree, into, most
        self.members = self.files = self.bytes = 0
        self.links: list[tuple[str, str, str]] = []

    def refuse(self, name: str, why: str, advice: str = "delete it and get it from a source you trust") -> NoReturn:
        shown = name if len(name) <= 200 else f"{name[:200]}…"
        raise UserError(f"{self.archive} was not unpacked, because its member {shown!r} {why}: {advice}.")

    def place(self, name: str) -> str:
        """A member's path below the tree's root; names that could lead out of it are refused."""
        if "\0" in name or "\\" in name:
            self.refuse(name, "has a backslash or a null byte in its name")
        if name.startswith("/") or re.match(r"[A-Za-z]:", name):
            self.refuse(name, "has an absolute path")
        if ".." in name.split("/"):
            self.refuse(name, "leads out of the folder ('..' in its name)")
        place = posixpath.normpath(posixpath.join(self.into, name))
        return "" if place == "." else place

    def count(self, name: str) -> None:
        self.members += 1
        if self.members > MOST_MEMBERS:
            self.refuse(name, f"is beyond the limit of {MOST_MEMBERS:,} members per archive")

    def folder(self, name: str) -> None:
        self.count(name)
        self._make_folder(name, self.place(name))

    def _make_folder(self, name: str, place: str) -> None:
        if place in self.tree.folders:
            return
        self._make_folder(name, posixpath.dirname(place))
        if place in self.tree.files:
            self.refuse(name, "needs a folder where there already is a file")
        with self._names(name):
            (self.tree.root / place).mkdir()
        self.tree.folders.add(place)

    def _claim(self, name: str) -> Path:
        """Reserve the path of a new file."""
        place = self.place(name)
        if place in self.tree.folders:
            self.refuse(name, "is a file where there already is a folder")
        if place in self.tree.files:
            self.refuse(name, "has the same path as another member")
        self._make_folder(name, posixpath.dirname(place))
        self.tree.files.add(place)
        self.files += 1
        return self.tree.root / place

    @contextlib.contextmanager
    def _names(self, name: str) -> Iterator[None]:
        """Refuse a name that the disk can't store: too long, or equal to another one where case is ignored."""
        try:
            yield
        except FileExistsError:
            self.refuse(name, "clashes with another member on this disk, which ignores upper and lower case")
        except OSError as error:
            if error.errno not in (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL):
                raise
            self.refuse(name, f"has a name that this disk can't store ({os.strerror(error.errno)})")

    def room_for(self, name: str, size: int) -> None:
        if self.bytes + size > self.most:
            self.refuse(
                name,
                f"would exceed the limit of {self.most:,} unpacked bytes ({self.archive.stat().st_size:,} packed)",
                "delete it, or raise `unpacked_size` in the dataset's YAML if you trust the archive",
            )

    def file(self, name: str, size: int, content: IO[bytes]) -> None:
        self.count(name)
        path = self._claim(name)
        self.room_for(name, size)
        with self._names(name):
            out = path.open("xb")
        with out:
            while chunk := content.read(CHUNK):
                self.room_for(name, len(chunk))
                self.bytes += len(chunk)
                out.write(chunk)

    def link(self, name: str, target: str, base: str) -> None:
        """Record a link for :meth:`make_links`; its target is relative to ``base``."""
        self.count(name)
        self.place(name)
        if target.startswith("/") or re.match(r"[A-Za-z]:", target) or "\\" in target or "\0" in target:
            self.refuse(name, f"links out of the folder, to {target!r}")
        place = posixpath.normpath(posixpath.join(base, target))
        if place == ".." or place.startswith("../"):
            self.refuse(name, f"links out of the folder, to {target!r}")
        self.links.append((name, target, posixpath.normpath(posixpath.join(self.into, place))))

    def make_links(self) -> None:
        """Give each linked file its second name; a link to a folder, a missing file or a later link is refused."""
        for name, target, place in self.links:
            if place == RECORD or place not in self.tree.files:
                self.refuse(name, f"links to {target!r}, which is not a file of the archive")
            path = self._claim(name)
            with self._names(name):
                _same_file(self.tree.root / place, path)
            self.bytes += path.stat().st_size


def _same_file(source: Path, path: Path) -> None:
    try:
        os.link(source, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        shutil.copyfile(source, path)  # this disk has no hard links


def _unpack_zip(raw: IO[bytes], writer: _Writer) -> None:
    with zipfile.ZipFile(raw) as archive:
        members = archive.infolist()
        declared = 0
        for member in members:
            declared += member.file_size
            writer.room_for(member.filename, declared)
        check_space(declared, writer.tree.root, f"Unpacking {writer.archive.name}")
        with _bar(writer, declared) as bar:
            for member in members:
                _unpack_zip_member(archive, member, writer)
                bar.update(writer.bytes - bar.n)


def _unpack_zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, writer: _Writer) -> None:
    name, kind = member.orig_filename, stat.S_IFMT(member.external_attr >> 16)
    if member.flag_bits & 0x1:
        writer.refuse(name, "is encrypted", "get an archive without a password")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        writer.refuse(name, "is a device, a pipe or a socket")
    if member.is_dir() or kind == stat.S_IFDIR:
        return writer.folder(name)
    with archive.open(member) as content:
        if kind == stat.S_IFLNK:
            target = content.read(LONGEST_LINK).decode("utf-8", "surrogateescape")
            return writer.link(name, target, posixpath.dirname(name))
        writer.file(name, member.file_size, content)


def _unpack_tar(raw: IO[bytes], start: bytes, writer: _Writer) -> None:
    size = writer.archive.stat().st_size
    check_space(size, writer.tree.root, f"Unpacking {writer.archive.name}")
    with _decompressed(raw, start) as stream, _bar(writer, size) as bar:
        reader = _Forward(stream)
        with tarfile.open(fileobj=reader, mode="r:") as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # tarfile keeps every member: half a gigabyte for iNaturalist
                _unpack_tar_member(archive, member, writer)
                bar.update(raw.tell() - bar.n)
        reader.finish()


def _unpack_tar_member(archive: tarfile.TarFile, member: tarfile.TarInfo, writer: _Writer) -> None:
    name = member.name
    writer.place(name)
    if member.issym():
        writer.link(name, member.linkname, posixpath.dirname(name))
    elif member.islnk():
        writer.link(name, member.linkname, "")
    elif not (member.isreg() or member.isdir()):
        writer.refuse(name, "is a device, a pipe or another special file")
    if hasattr(tarfile, "data_filter"):  # a second check; Python 3.11.0 to 3.11.3 lack it
        try:
            tarfile.data_filter(member, str(writer.tree.root))
        except tarfile.FilterError as error:
            writer.refuse(name, f"is refused by Python's data filter ({error})")
    if member.isdir():
        writer.folder(name)
    elif member.isreg():
        writer.file(name, member.size, archive.extractfile(member))


class _Forward:
    """A forward-only stream for tarfile that refuses huge headers and archives without an end mark.

    tarfile itself takes a broken header for the end of the archive, and reads a header of any size into memory.
    """

    def __init__(self, stream: IO[bytes]):
        self.stream = stream
        self.position = 0
        self.last = b""

    def read(self, size: int) -> bytes:
        if size > LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        self.last = self.stream.read(size)
        self.position += len(self.last)
        return self.last

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> None:
        while self.position < position and self.read(min(CHUNK, position - self.position)):
            pass

    def finish(self) -> None:
        """Read to the end of the stream, where gzip, bzip2 and xz store their checksum."""
        if self.last != BLOCK:
            raise tarfile.ReadError("it has no end mark")
        end = self.position + LEAST
        while self.position < end and self.read(CHUNK):
            pass


def _decompressed(raw: IO[bytes], start: bytes) -> contextlib.AbstractContextManager[IO[bytes]]:
    """The decompressed stream. The first bytes tell the format, because mirrors rename files."""
    openers = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
    return next((opener for magic, opener in openers.items() if start.startswith(magic)), contextlib.nullcontext)(raw)


@contextlib.contextmanager
def _damage(archive: Path) -> Iterator[None]:
    """Turn any exception that means "broken archive" into one UserError."""
    try:
        yield
    except DAMAGE as error:
        problem = error
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # gzip and bz2 set no errno; zipfile may seek to a bad position
            raise
        problem = error
    else:
        return
    raise UserError(
        f"{archive} is damaged or not a tar or zip archive ({problem or type(problem).__name__}): "
        "delete it and run again, or get it from another source."
    ) from problem


def _bar(writer: _Writer, total: int) -> Progress:
    return Progress(total=total, desc=f"Unpacking {writer.archive.name}", unit="B", unit_scale=True)


def _intact(root: Path, wanted: dict[str, dict]) -> dict[str, dict] | None:
    """The record of an earlier extraction, if it is of the wanted archives and the tree is still complete.

    Only the number and total size of the files are compared, because there may be half a million.
    """
    try:
        done = read_json(root / RECORD)
        same = {path: {key: about[key] for key in ("sha256", "into")} for path, about in done.items()} == wanted
        files, size = (sum(about[key] for about in done.values()) for key in ("files", "bytes"))
    except (OSError, UserError, AttributeError, KeyError, TypeError):
        return None
    sizes = [entry.stat().st_size for entry in _files(root) if entry.name != RECORD] if same else []
    return done if same and len(sizes) >= files and sum(sizes) >= size else None


def _files(folder: str | Path) -> Iterator[os.DirEntry]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry
