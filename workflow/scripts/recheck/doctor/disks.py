"""Checks of the folders that runs write to and read from: space, number of files, speed."""

import errno
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from recheck.doctor.finding import Finding, note, ok, problem

LEAST, LITTLE = 1_000_000_000, 20_000_000_000
"""Free bytes: below the first, even a small study stops; below the second, the disk will soon be full."""
FEWEST_FILES = 20_000
"""Files that can still be created: a benchmark dataset may have this many images."""
WRITTEN, IMAGE, READS = 32 << 20, 150_000, 100
"""Bytes of the file that is written, bytes of a packed image, and images that are read."""
SLOW_WRITE, SLOW_READ = 30e6, 200
"""Lower speeds are noted: bytes written per second, and images read per second by one process."""
OTHER_FOLDER = (
    "choose other folders: --config 'pathvars={results: /scratch/me/results, resources: /scratch/me/resources}'"
)
FULL = f"free some space, or {OTHER_FOLDER}"


def folders(places: Mapping[str, Path]) -> Iterator[Finding]:
    """The free space of each folder, and the speed of each file system."""
    measured: dict[int, Finding] = {}
    for key, folder in places.items():
        name = f"disk: {key}"
        existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
        yield space(name, existing)
        device = existing.stat().st_dev
        if device not in measured:
            measured[device] = speed(f"speed: {key}", existing)
            yield measured[device]


def space(name: str, folder: Path) -> Finding:
    about = os.statvfs(folder)
    free = about.f_bavail * about.f_frsize
    text = f"{free / 1e9:,.1f} GB free in {folder}"
    if free < LEAST:
        return problem(name, f"{text}, but even a small study needs {LEAST / 1e9:.0f} GB", FULL)
    if about.f_files and about.f_favail < FEWEST_FILES:
        return problem(name, f"only {about.f_favail:,} more files can be created in {folder}", FULL)
    if free < LITTLE:
        return note(name, f"{text}: packed images take 3 GB (CUB) to 25 GB (SOP)", FULL)
    return ok(name, text)


def speed(name: str, folder: Path) -> Finding:
    """Write a file as a run saves its state, and read pieces of it as loaders read packed images."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor.") as file:
            content = random.Random(0).randbytes(WRITTEN)
            started = time.perf_counter()
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            written = WRITTEN / (time.perf_counter() - started)
            if hasattr(os, "posix_fadvise"):  # read from the disk, not from memory
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            places = random.Random(1).choices(range(WRITTEN - IMAGE), k=READS)
            started = time.perf_counter()
            right = all(os.pread(file.fileno(), IMAGE, place) == content[place : place + IMAGE] for place in places)
            read = READS / (time.perf_counter() - started)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        remedy = FULL if error.errno == errno.ENOSPC else f"make {folder} writable, or {OTHER_FOLDER}"
        return problem(name, f"a file of {WRITTEN / 1e6:.0f} MB cannot be written to {folder} ({reason})", remedy)
    if not right:
        return problem(name, f"{folder} returned different bytes from those written", "check the disk")
    text = f"writes {written / 1e6:,.0f} MB/s, reads {read:,.0f} images/s in {folder}"
    if written < SLOW_WRITE or read < SLOW_READ:
        return note(name, f"{text}: slow, and a GPU may have to wait for images", "use a local or faster disk")
    return ok(name, text)
