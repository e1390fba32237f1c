"""A pack on the disk of a node: copied once, shared by the jobs of the node, removed by the last of them.

``pathvars.scratch`` names the disk. Each user has a folder there, with one folder per pack, named after its content,
and a lock file beside it.

- A job that reads a copy holds a shared lock on it, and a job that makes a copy holds an exclusive one. The kernel
  releases the locks of a process that ends, however it ends.
- A copy is made under another name, compared with the original and then renamed, so a copy that was not finished is
  never read.
- Every job removes the copies that no job uses: when it begins, to clean up after killed jobs, and when it ends. So the
  last reader of a copy removes it.
- One more lock, of the whole folder, lets only one job at a time look for copies, lock them and remove them. Copying
  does not need this lock.
- If no copy can be made, for example because the disk is full, the job logs the reason and reads the original.
"""

import atexit
import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from recheck.data.packed import FILES, PackedImages
from recheck.errors import UserError
from recheck.files import sha256

log = logging.getLogger("recheck")
CHUNK = 8 << 20
LOCK = "lock"


def local_pack(pack: str | Path, scratch: str | None, make: bool = True) -> Path:
    """The folder to read a pack from: its copy on the disk ``scratch``, or the pack itself.

    The copy stays until this process ends. With ``make=False`` only a copy that another job has made is used: a job
    that reads every image once gains nothing by copying them first.
    """
    pack = Path(pack)
    if not scratch:
        return pack
    try:
        home = _home(scratch)
        copy = home / _name(pack)
        held = _reserve(pack, copy, make)
    except (OSError, UserError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        log.warning("No copy of %s on scratch disk %s (%s): reading the original.", pack, scratch, reason)
        return pack
    if held is None:
        return pack
    atexit.register(_leave, home, held, os.getpid())
    log.info("Reading the copy of %s in %s", pack, copy)
    return copy


def _home(scratch: str) -> Path:
    """The user's folder on the disk. Variables such as $TMPDIR get their values from this node."""
    disk = Path(os.path.expandvars(scratch)).expanduser()
    if "$" in str(disk):
        raise UserError(f"'pathvars.scratch' names an environment variable that is not set here: {scratch}")
    home = disk / f"recheck-packs-{os.getuid()}"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = home.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise UserError(f"{home} is not a folder that belongs to you")
    return home


def _name(pack: Path) -> str:
    """The name of a pack's copy. It depends on the content, so a new pack never gets the copy of an old one."""
    return hashlib.sha256((pack / "pack.json").read_bytes()).hexdigest()[:16]


def _reserve(pack: Path, copy: Path, make: bool) -> int | None:
    """The lock of a reader of the copy; None if there is no copy and none may be made."""
    waited = False
    while True:
        with _folder_lock(copy.parent):
            _remove_unused(copy.parent, keep=copy.name)
            if not make and not copy.exists():
                return None
            lock = _open(_lock_file(copy))
            free = _try(lock, fcntl.LOCK_SH)  # denied while another job makes the copy
            if free and _is_whole(copy):
                return lock
            makes = free and make and _try(lock, fcntl.LOCK_EX)
            if free and not makes and copy.exists():
                os.close(lock)
                raise UserError(f"{copy} is damaged")
        if makes:
            try:
                _remove(copy)
                _make(pack, copy)
                with _folder_lock(copy.parent):
                    fcntl.flock(lock, fcntl.LOCK_SH)
            except BaseException:
                _leave(copy.parent, lock, os.getpid())
                raise
            return lock
        if not waited:
            log.info("Waiting for another job that copies %s to %s", pack, copy)
            waited = True
        with _closing(lock):
            fcntl.flock(lock, fcntl.LOCK_SH)  # granted when that job has finished or died


@contextlib.contextmanager
def _folder_lock(home: Path) -> Iterator[None]:
    """Briefly keep other jobs from looking for copies and from removing them."""
    with _closing(_open(home / LOCK)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _closing(file: int) -> Iterator[int]:
    try:
        yield file
    finally:
        os.close(file)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_file(copy: Path) -> Path:
    return copy.with_name(f"{copy.name}.{LOCK}")


def _partial(copy: Path) -> Path:
    return copy.with_name(f"{copy.name}.partial")


def _is_whole(copy: Path) -> bool:
    try:
        PackedImages(copy)
    except (OSError, UserError):
        return False  # for example, a program that cleans the disk has removed some files
    return True


def _make(pack: Path, copy: Path) -> None:
    needed = sum((pack / name).stat().st_size for name in FILES)
    free = shutil.disk_usage(copy.parent).free
    if needed > free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    log.info("Copying %s (%.1f MB) to %s", pack, needed / 1e6, copy)
    partial = _partial(copy)
    with _removed_on_failure(partial):
        partial.mkdir(mode=0o700)
        for name in FILES:
            _copy_file(pack / name, partial / name)
        if not _is_whole(partial):
            raise UserError("it was replaced while it was copied")
        partial.rename(copy)


@contextlib.contextmanager
def _removed_on_failure(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file, and compare the checksum of the copy with that of the bytes that were read."""
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("xb") as written:
        while chunk := read.read(CHUNK):
            digest.update(chunk)
            written.write(chunk)
        written.flush()
        os.fsync(written.fileno())
        if hasattr(os, "posix_fadvise"):  # so that the checksum is of the bytes on the disk, not in memory
            os.posix_fadvise(written.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if sha256(target) != digest.hexdigest():
        raise UserError(f"the copy of {source} differs from it")


def _leave(home: Path, lock: int, process: int) -> None:
    """Release a lock and remove the copies that no job uses any more."""
    if os.getpid() != process:  # a forked process that ends is not the job
        return
    with contextlib.suppress(OSError), _folder_lock(home):
        fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough while a loader process has the file open
        os.close(lock)
        _remove_unused(home)


def _remove_unused(home: Path, keep: str = "") -> None:
    """Remove copies that no job makes or reads, finished or not."""
    for name in {entry.name.partition(".")[0] for entry in home.iterdir()} - {LOCK, keep}:
        copy = home / name
        with _closing(_open(_lock_file(copy))) as lock:
            if _try(lock, fcntl.LOCK_EX):
                _remove(copy)
                _lock_file(copy).unlink()


def _remove(copy: Path) -> None:
    """Remove a copy, finished or not; the job must hold its exclusive lock."""
    shutil.rmtree(_partial(copy), ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        copy.rename(_partial(copy))  # first, so that a kill leaves no copy that lacks files
    shutil.rmtree(_partial(copy), ignore_errors=True)
