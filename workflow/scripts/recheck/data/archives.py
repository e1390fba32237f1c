"""Unpacking archives that nobody has looked into.

A member is written only if its name stays inside the folder, nothing is there yet, it is a plain file or folder, and
the archive stays below its size. Links become the file they point to, so that no link is ever on the disk that a
later member, or a later program, could follow out of the tree. All archives of a dataset are unpacked beside the
image root, which gets its name when it is complete: killed at any moment, there is the old tree or none.
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
"""In the tree itself, so that both get their name at the same moment."""
FACTOR, LEAST = 20, 64 << 20
"""An archive may unpack to so many times its size, and at least to so many bytes, unless `unpacked_size` is given."""
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
    """Unpack the archives of a dataset below ``root`` and return what was unpacked, for ``extracted.json``.

    ``archives`` are entries of a dataset's ``files`` with ``path``, ``extract`` (the subfolder, or ``.``) and perhaps
    ``unpacked_size``; ``verified`` has their hashes. Nothing is done if the tree is there and from these archives.
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
    """Unpack one archive into a tree; the number of files, and their size."""
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
    """A new folder, and what has been put there: all archives of a dataset go into the same one."""

    def __init__(self, root: Path):
        self.root = root
        self.root.mkdir()
        self.folders = {""}
        self.files = {RECORD}


class _Writer:
    """The only way from an archive into a tree; it refuses everything that a dataset has no need of."""

    def __init__(self, archive: Path, tree: _Tree, into: str, most: int):
        self.archive, self.tree, self.into, self.most = archive, tree, into, most
        self.members = self.files = self.bytes = 0
        self.links: list[tuple[str, str, str]] = []

    def refuse(self, name: str, why: str, advice: str = "delete it and get it from a source you trust") -> NoReturn:
        shown = name if len(name) <= 200 else f"{name[:200]}…"
        raise UserError(f"{self.archive} is not unpacked, because its member {shown!r} {why}: {advice}.")

    def place(self, name: str) -> str:
        """Where below the tree's root a member goes, if that is a place that it may go to."""
        if "\0" in name or "\\" in name:
            self.refuse(name, "has a backslash or a zero byte in its name")
        if name.startswith("/") or re.match(r"[A-Za-z]:", name):
            self.refuse(name, "has an absolute path")
        if ".." in name.split("/"):
            self.refuse(name, "leads out of the folder ('..')")
        place = posixpath.normpath(posixpath.join(self.into, name))
        return "" if place == "." else place

    def count(self, name: str) -> None:
        self.members += 1
        if self.members > MOST_MEMBERS:
            self.refuse(name, f"is one more than the {MOST_MEMBERS:,} that an archive may have")

    def folder(self, name: str) -> None:
        self.count(name)
        self._make_folder(name, self.place(name))

    def _make_folder(self, name: str, place: str) -> None:
        if place in self.tree.folders:
            return
        self._make_folder(name, posixpath.dirname(place))
        if place in self.tree.files:
            self.refuse(name, "needs a folder where the archive has a file")
        with self._names(name):
            (self.tree.root / place).mkdir()
        self.tree.folders.add(place)

    def _claim(self, name: str) -> Path:
        """The path of a new file, which nothing else has."""
        place = self.place(name)
        if place in self.tree.folders:
            self.refuse(name, "is a file where the archive has a folder")
        if place in self.tree.files:
            self.refuse(name, "is there twice")
        self._make_folder(name, posixpath.dirname(place))
        self.tree.files.add(place)
        self.files += 1
        return self.tree.root / place

    @contextlib.contextmanager
    def _names(self, name: str) -> Iterator[None]:
        """What this disk says about a name: too long, or – where case does not count – the name of another member."""
        try:
            yield
        except FileExistsError:
            self.refuse(name, "has the same name as another one on this disk (in capitals, say)")
        except OSError as error:
            if error.errno not in (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL):
                raise
            self.refuse(name, f"has a name that this disk does not take ({os.strerror(error.errno)})")

    def room_for(self, name: str, size: int) -> None:
        if self.bytes + size > self.most:
            self.refuse(
                name,
                f"makes it larger than {self.most:,} bytes unpacked ({self.archive.stat().st_size:,} packed)",
                "delete it, or set `unpacked_size` in the dataset's YAML if it is right",
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
        """Remember a link; ``base`` is the folder that its target is relative to."""
        self.count(name)
        self.place(name)
        if target.startswith("/") or re.match(r"[A-Za-z]:", target) or "\\" in target or "\0" in target:
            self.refuse(name, f"is a link out of the folder, to {target!r}")
        place = posixpath.normpath(posixpath.join(base, target))
        if place == ".." or place.startswith("../"):
            self.refuse(name, f"is a link out of the folder, to {target!r}")
        self.links.append((name, target, posixpath.normpath(posixpath.join(self.into, place))))

    def make_links(self) -> None:
        """The linked file under both names. A link to a folder, to nothing or to a later link has no use here."""
        for name, target, place in self.links:
            if place == RECORD or place not in self.tree.files:
                self.refuse(name, f"is a link to {target!r}, which is no file of the archive")
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
        shutil.copyfile(source, path)  # a disk without hard links


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
        writer.refuse(name, "is encrypted", "get the archive that has no password")
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
                archive.members.clear()  # it would keep them all, half a gigabyte for iNaturalist
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
        writer.refuse(name, "is a device, a pipe or of another special kind")
    if hasattr(tarfile, "data_filter"):  # Python's own opinion; 3.11.0 to 3.11.3 have none
        try:
            tarfile.data_filter(member, str(writer.tree.root))
        except tarfile.FilterError as error:
            writer.refuse(name, f"is refused by Python's data filter ({error})")
    if member.isdir():
        writer.folder(name)
    elif member.isreg():
        writer.file(name, member.size, archive.extractfile(member))


class _Forward:
    """What tarfile reads from: forwards only, never much at once, and the end of the archive must be its end mark.

    tarfile takes a broken header for the end of the archive, and reads a header of any size into memory.
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
        """To the end of the stream, where the checksum of gzip, bzip2 or xz is."""
        if self.last != BLOCK:
            raise tarfile.ReadError("it ends before its end mark")
        end = self.position + LEAST
        while self.position < end and self.read(CHUNK):
            pass


def _decompressed(raw: IO[bytes], start: bytes) -> contextlib.AbstractContextManager[IO[bytes]]:
    """By what the file begins with: mirrors rename."""
    openers = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
    return next((opener for magic, opener in openers.items() if start.startswith(magic)), contextlib.nullcontext)(raw)


@contextlib.contextmanager
def _damage(archive: Path) -> Iterator[None]:
    """The many ways in which libraries say that an archive is broken, in one sentence."""
    try:
        yield
    except DAMAGE as error:
        problem = error
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # gzip and bz2 raise it without a number, zipfile seeks to nowhere
            raise
        problem = error
    else:
        return
    raise UserError(
        f"{archive} is damaged, or no tar or zip archive ({problem or type(problem).__name__}): "
        "delete it and run again, or get it from another source."
    ) from problem


def _bar(writer: _Writer, total: int) -> Progress:
    return Progress(total=total, desc=f"Unpacking {writer.archive.name}", unit="B", unit_scale=True)


def _intact(root: Path, wanted: dict[str, dict]) -> dict[str, dict] | None:
    """What was unpacked, if it is what is wanted and still there.

    Number and size of the files tell, without reading half a million of them.
    """
    try:
        done = read_json(root / RECORD)
        same = {path: {key: about[key] for key in ("sha256", "into")} for path, about in done.items()} == wanted
        files, size = (sum(about[key] for about in done.values()) for key in ("files", "bytes"))
    except (OSError, UserError, AttributeError, KeyError, TypeError):
        return None
    found = [entry.stat().st_size for entry in _files(root) if entry.name != RECORD] if same else []
    return done if same and len(found) >= files and sum(found) >= size else None


def _files(folder: str | Path) -> Iterator[os.DirEntry]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry
