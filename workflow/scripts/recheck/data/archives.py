"""Unpack archives from untrusted sources.

A member is written only if it is a plain file or folder, its path stays inside the tree and is not taken yet, and the
archive stays within its limits of size, number and depth. A link becomes the file that it points to: the disk never
holds a link that a later member, or another program, could follow out of the tree. All archives of a dataset are
unpacked into a temporary folder beside the image root and renamed when complete: a job killed at any moment leaves the
old tree or none.
"""

import contextlib
import errno
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

from recheck.data import tars, zips
from recheck.errors import UserError
from recheck.files import MOST_LEVELS, check_space, disk_errors, read_json, walk, write_json
from recheck.progress import Progress

log = logging.getLogger("recheck")
CHUNK = 1 << 20
RECORD = ".extracted.json"
"""Stored inside the tree, so that one rename puts both in place."""
FACTOR, LEAST = 20, 64 << 20
"""Default limit of the unpacked size (`unpacked_size` overrides it): FACTOR × the archive's size, at least LEAST."""
MOST_MEMBERS = 1_000_000
"""Maximum number of members of an archive; iNaturalist 2021 mini has half as many."""
LONGEST_NAMES = 256 << 20
"""Maximum number of characters in all names and link targets together, which are kept in memory."""
LONGEST_LINK = 4096
OTHER_DISK = "choose a folder on another disk (config key 'pathvars'), or use another archive"
SHOW_EVERY = 1000
"""Members between two updates of the progress bar."""
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
    MemoryError,
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
        start = raw.read(tars.BLOCK)
        raw.seek(0)
        with _damage(archive):
            if start.startswith(b"PK") and not tars.is_tar(start):
                _unpack_zip(raw, writer)
            else:
                _unpack_tar(raw, writer)
    writer.make_links()
    if not writer.files:
        raise UserError(f"{archive} contains no files: delete it and get it from another source.")
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
        self.members = self.files = self.bytes = self.names = 0
        self.links: list[tuple[str, str, str]] = []

    def refuse(
        self, name: str, why: str, advice: str = "delete the archive and get it from a source you trust"
    ) -> NoReturn:
        shown = name if len(name) <= 200 else f"{name[:200]}…"
        raise UserError(f"{self.archive} was not unpacked, because its member {shown!r} {why}: {advice}.")

    def place(self, name: str) -> str:
        """A member's path below the tree's root; names that could lead out of it are refused."""
        if "\0" in name or "\\" in name:
            self.refuse(name, "has a backslash or a null byte in its name")
        if not name.isascii() and re.search("[\ud800-\udfff]", name):
            self.refuse(name, "has a name that is not UTF-8")
        if name.count("/") > MOST_LEVELS:
            self.refuse(name, f"is more than {MOST_LEVELS} folders deep")
        if name.startswith("/") or re.match(r"[A-Za-z]:", name):
            self.refuse(name, "has an absolute path")
        if ".." in name.split("/"):
            self.refuse(name, "leads out of the folder ('..' in its name)")
        place = posixpath.normpath(posixpath.join(self.into, name))
        return "" if place == "." else place

    def count(self, name: str, target: str = "") -> None:
        self.members += 1
        self.names += len(name) + len(target)
        if self.names > LONGEST_NAMES:
            raise _too_large(self.archive, f"its members' names have more than {LONGEST_NAMES:,} characters together")
        if self.members > MOST_MEMBERS:
            raise _too_large(self.archive, f"it has more than {MOST_MEMBERS:,} members")

    def folder(self, name: str) -> None:
        self.count(name)
        self._make_folder(name, self.place(name))

    def _make_folder(self, name: str, place: str) -> None:
        if place in self.tree.folders:
            return
        self._make_folder(name, posixpath.dirname(place))
        if place in self.tree.files:
            self.refuse(name, "needs a folder where there is already a file")
        with self._names(name):
            (self.tree.root / place).mkdir()
        self.tree.folders.add(place)

    def _claim(self, name: str) -> Path:
        """Reserve the path of a new file."""
        place = self.place(name)
        if place in self.tree.folders:
            self.refuse(name, "is a file where there is already a folder")
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
            self.refuse(name, "clashes with another member, because this disk ignores case", OTHER_DISK)
        except OSError as error:
            if error.errno not in (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL):
                raise
            self.refuse(name, f"has a name that this disk cannot store ({os.strerror(error.errno)})", OTHER_DISK)

    def room_for(self, name: str, size: int) -> None:
        if self.bytes + size > self.most:
            self.refuse(
                name,
                f"would exceed the limit of {self.most:,} unpacked bytes ({self.archive.stat().st_size:,} packed)",
                "delete the archive, or raise `unpacked_size` in the dataset's YAML if you trust it",
            )

    def file(self, name: str, size: int, content: IO[bytes]) -> None:
        self.count(name)
        path = self._claim(name)
        self.room_for(name, size)
        with self._names(name):
            out = path.open("xb")
        before = self.bytes
        with out:
            while chunk := content.read(CHUNK):
                self.room_for(name, len(chunk))
                self.bytes += len(chunk)
                out.write(chunk)
        if self.bytes - before != size:
            raise ValueError(f"{name!r} has {self.bytes - before:,} bytes, but its header says {size:,}")

    def link(self, name: str, target: str, base: str) -> None:
        """Record a link for :meth:`make_links`; its target is relative to ``base``."""
        self.count(name, target)
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
            size = (self.tree.root / place).stat().st_size
            self.room_for(name, size)  # it may become a copy: see _same_file
            path = self._claim(name)
            with self._names(name):
                _same_file(self.tree.root / place, path)
            self.bytes += size


def _same_file(source: Path, path: Path) -> None:
    try:
        os.link(source, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        shutil.copyfile(source, path)  # no hard links on this disk, or too many to this file


def _unpack_zip(raw: IO[bytes], writer: _Writer) -> None:
    with zips.opened(raw, MOST_MEMBERS) as archive:
        members = archive.infolist()
        declared = 0
        for member in members:
            declared += member.file_size
            writer.room_for(member.filename, declared)
        check_space(declared, writer.tree.root, f"Unpacking {writer.archive.name}")
        with _Bar(writer, declared) as bar:
            for member in members:
                _unpack_zip_member(archive, member, writer)
                bar.show(writer.bytes)


def _unpack_zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, writer: _Writer) -> None:
    name, kind = member.orig_filename, stat.S_IFMT(member.external_attr >> 16)
    if member.flag_bits & 0x1:
        writer.refuse(name, "is encrypted", "get an archive without a password")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        writer.refuse(name, "is a device, a pipe or a socket")
    if member.compress_type not in zips.METHODS:
        known = ", ".join(zips.METHODS.values())
        writer.refuse(name, f"is compressed by method {member.compress_type}", f"pack it again as one of: {known}")
    if member.is_dir() or kind == stat.S_IFDIR:
        if member.file_size:
            writer.refuse(name, f"is a folder, but has {member.file_size:,} bytes of content")
        return writer.folder(name)
    with zips.content(archive, member) as content:
        if kind == stat.S_IFLNK:
            target = content.read(LONGEST_LINK).decode("utf-8", "surrogateescape")
            return writer.link(name, target, posixpath.dirname(name))
        writer.file(name, member.file_size, content)


def _unpack_tar(raw: IO[bytes], writer: _Writer) -> None:
    size = writer.archive.stat().st_size
    check_space(size, writer.tree.root, f"Unpacking {writer.archive.name}")
    with _Bar(writer, size) as bar:
        for member, content in tars.members(raw, writer.most):
            _unpack_tar_member(member, content, writer)
            bar.show(raw.tell())


def _unpack_tar_member(member: tarfile.TarInfo, content: IO[bytes] | None, writer: _Writer) -> None:
    name = member.name
    writer.place(name)
    if member.issym():
        writer.link(name, member.linkname, posixpath.dirname(name))
    elif member.islnk():
        writer.link(name, member.linkname, "")
    elif not (member.isreg() or member.isdir()):
        writer.refuse(name, "is a device, a pipe or another special file")
    if member.isdir():
        writer.folder(name)
    elif content is not None:
        writer.file(name, member.size, content)


def _too_large(archive: Path, why: str) -> UserError:
    advice = "delete the archive, or split it into several if you trust it"
    return UserError(f"{archive} was not unpacked, because {why}: {advice}.")


@contextlib.contextmanager
def _damage(archive: Path) -> Iterator[None]:
    """Turn any exception that means "broken archive" into one UserError."""
    try:
        yield
    except zips.TooManyMembers:
        raise _too_large(archive, f"it has more than {MOST_MEMBERS:,} members") from None
    except DAMAGE as error:
        problem = error
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # gzip and bz2 set no errno; zipfile may seek to a bad position
            raise
        problem = error
    else:
        return
    raise UserError(
        f"{archive} is damaged or not a tar or zip archive ({str(problem) or type(problem).__name__}): "
        "delete it and run again, or get it from another source."
    ) from problem


class _Bar(Progress):
    """Shows how much of an archive is done, in bytes, and the number of its members so far."""

    def __init__(self, writer: _Writer, total: int):
        self.writer = writer
        super().__init__(total=total, desc=f"Unpacking {writer.archive.name}", unit="B", unit_scale=True)

    def show(self, position: int) -> None:
        if self.writer.members % SHOW_EVERY == 0 or position - self.n >= CHUNK:
            self.set_postfix_str(f"{self.writer.members:,} members", refresh=False)
            self.update(position - self.n)
            self.refresh()


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
    sizes = [entry.stat().st_size for entry in walk(root) if entry.name != RECORD] if same else []
    return done if same and len(sizes) >= files and sum(sizes) >= size else None
