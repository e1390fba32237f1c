"""Copies of packs on a node's disk: shared, verified, and gone after the last job. Jobs are forked processes."""

import atexit
import logging
import os
import resource
import shutil
import signal
import sys
import traceback
from functools import partial

import pytest

from recheck.data import scratch as module
from recheck.data.folder import parse_folder
from recheck.data.packed import FILES, PackedImages, pack
from recheck.data.scratch import local_pack
from support.datasets.glyphs import make_glyphs
from support.faults.crashes import crash, crash_points

ORIGINAL = "original"


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    """Two packs of different content."""
    folder = tmp_path_factory.mktemp("packs")
    root = make_glyphs(folder / "images", classes=2, per_class=2, size=12)
    index = parse_folder({"name": "glyphs"}, folder, root)
    for name, count in (("one", 4), ("two", 3)):
        pack(index.head(count), root, {"exact": [40, 40]}, folder / name, index_sha256="abc")
    return folder / "one", folder / "two"


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


def home(disk):
    return disk / f"recheck-packs-{os.getuid()}"


def left(disk):
    """What is in the user's folder, without the lock of the folder itself."""
    return sorted(entry.name for entry in home(disk).iterdir() if entry.name != "lock")


class Job:
    """A process that asks for a pack, reports which copy it reads, and ends normally on request."""

    def __init__(self, pack, disk, make=True, prepare=lambda tell, wait: None):
        read, self._tells = os.pipe()
        waits, self._told = os.pipe()
        self.answers = os.fdopen(read)
        self.process = os.fork()
        if self.process:
            os.close(self._tells)
            os.close(waits)
            return
        self.answers.close()
        os.close(self._told)
        code = 1
        try:
            atexit._clear()  # the exit handlers of the test process
            prepare(self._tell, lambda: os.read(waits, 1))
            folder = local_pack(pack, str(disk), make)
            images = PackedImages(folder)
            images.verify()
            self._tell(ORIGINAL if folder == pack else folder.name)
            os.read(waits, 1)
            images.verify()
            atexit._run_exitfuncs()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _tell(self, text):
        os.write(self._tells, f"{text}\n".encode())

    def hear(self):
        return self.answers.readline().strip()

    def go_on(self):
        os.write(self._told, b"x")

    def end(self):
        self.go_on()
        os.close(self._told)
        assert os.waitpid(self.process, 0)[1] == 0
        self.answers.close()

    def kill(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self._told)
        self.answers.close()


def test_off_unless_it_is_set(packs):
    assert local_pack(packs[0], None) == packs[0]


def test_the_last_of_several_jobs_removes_the_copy(packs, disk):
    one, two = Job(packs[0], disk), Job(packs[0], disk)
    name = one.hear()
    assert two.hear() == name != ORIGINAL
    for file in FILES:
        assert (home(disk) / name / file).read_bytes() == (packs[0] / file).read_bytes()
    assert home(disk).stat().st_mode & 0o777 == 0o700
    embedding = Job(packs[0], disk, make=False)
    assert embedding.hear() == name
    for job in (one, embedding):
        job.end()
        assert left(disk) == [name, f"{name}.lock"], "another job reads it"
    two.end()
    assert left(disk) == []
    embedding = Job(packs[0], disk, make=False)
    assert embedding.hear() == ORIGINAL
    embedding.end()
    assert left(disk) == []


def test_a_job_waits_for_the_copy_and_makes_it_if_the_other_is_killed(packs, disk):
    def slowly(tell, wait):
        def copy(source, target):
            if target.name == "pixels.bin":
                target.write_bytes(b"half")
                tell("copying")
                wait()
            copy_file(source, target)

        copy_file, module._copy_file = module._copy_file, copy

    def noting(tell, wait):
        class Handler(logging.Handler):
            def emit(self, record):
                tell(record.getMessage().partition(" ")[0])

        module.log.addHandler(Handler())
        module.log.setLevel(logging.INFO)

    one = Job(packs[0], disk, prepare=slowly)
    assert one.hear() == "copying"
    embedding = Job(packs[0], disk, make=False)
    assert embedding.hear() == ORIGINAL, "it does not wait"
    embedding.end()
    two = Job(packs[0], disk, prepare=noting)
    assert two.hear() == "Waiting"
    one.kill()
    assert [two.hear() for _ in range(3)] == ["Copying", "Reading", module._name(packs[0])]
    two.end()
    assert left(disk) == []


@pytest.mark.slow
def test_killed_at_any_moment(packs, disk, record_property, tmp_path):
    """Whatever a killed job leaves, the next job reads the right pixels and leaves nothing."""

    def work():
        atexit._clear()
        PackedImages(local_pack(packs[0], str(disk))).verify()
        atexit._run_exitfuncs()

    def use(following, places):
        atexit._clear()
        for place in places:
            folder = local_pack(following, str(place))
            assert folder == home(place) / module._name(following), place.name
            PackedImages(folder).verify()
            assert left(place) == [folder.name, f"{folder.name}.lock"], place.name
            atexit._run_exitfuncs()
            assert left(place) == [], place.name

    disks = {"one": [], "two": []}
    for number in crash_points(work, record_property, least=12):
        for name, copies in disks.items():
            copies.append(shutil.copytree(disk, tmp_path / f"{name}_{number}"))
        shutil.rmtree(home(disk), ignore_errors=True)
    for following in packs:  # the next job reads the same pack, or another one
        # one process for all disks, because forks cost most of the time
        assert crash(partial(use, following, disks[following.name]), sys.maxsize) == 0


def test_old_copies_are_removed_unless_a_job_reads_them(packs, disk):
    old = Job(packs[0], disk)
    name = old.hear()
    new = Job(packs[1], disk)
    other = new.hear()
    assert left(disk) == sorted([name, f"{name}.lock", other, f"{other}.lock"])
    old.kill()
    assert name in left(disk)
    new.end()
    assert left(disk) == []


def test_a_copy_that_lost_files(packs, disk):
    reader = Job(packs[0], disk)
    name = reader.hear()
    (home(disk) / name / "shapes.npy").unlink()
    other = Job(packs[0], disk)
    assert other.hear() == ORIGINAL, "it can be neither read nor replaced"
    other.end()
    reader.kill()
    again = Job(packs[0], disk)
    assert again.hear() == name
    again.end()
    assert left(disk) == []


def limit_files(tell, wait):
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))


def test_a_disk_that_fills_up(packs, disk):
    job = Job(packs[0], disk, prepare=limit_files)
    assert job.hear() == ORIGINAL
    job.end()
    assert left(disk) == []


def test_why_there_is_no_copy(packs, disk, monkeypatch, caplog, tmp_path):
    def reason(place):
        caplog.clear()
        assert local_pack(packs[0], str(place)) == packs[0]
        assert caplog.text.count("\n") == 1 and ": reading the original." in caplog.text
        return caplog.text

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 0))
        assert "(No space left on device)" in reason(disk)
    assert left(disk) == []
    with monkeypatch.context() as patch:
        patch.setattr(module, "_copy_file", lambda source, target: target.write_bytes(source.read_bytes()[:-1]))
        assert "(it was replaced while it was copied)" in reason(disk)
    with monkeypatch.context() as patch:
        patch.setattr(module, "sha256", lambda path: "another")
        assert "differs from it" in reason(disk)
    assert left(disk) == []
    (tmp_path / "file").touch()
    assert "(Not a directory)" in reason(tmp_path / "file" / "below")
    monkeypatch.delenv("RECHECK_UNSET", raising=False)
    assert "names an environment variable that is not set here: $RECHECK_UNSET/x" in reason("$RECHECK_UNSET/x")
    (tmp_path / "linked").mkdir()
    home(tmp_path / "linked").symlink_to(disk)
    assert "is not a folder that belongs to you" in reason(tmp_path / "linked")
