"""Downloads from a local HTTP server that drops connections, stalls and sends wrong answers."""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from recheck.data import download as http
from recheck.data.download import Patience, SourceFailed
from recheck.data.sources import fetch
from recheck.errors import UserError
from support.project import SCRIPTS
from support.services.servers import Answer, serving

DATA = bytes(range(256)) * 5000
HALF = len(DATA) // 2
QUICK = Patience(waits=(0.01, 0.02), longest=0.05)
PAGE = b"<!DOCTYPE html><html><title>Page &amp;\n moved</title></html>"
TAGGED = {"ETag": '"v1"'}


@pytest.fixture
def server():
    with serving() as running:
        yield running


def entry(*urls, **more):
    known = {"path": "file.bin", "size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
    made = known | {"from": [{"url": url} for url in urls]} | more
    return {key: value for key, value in made.items() if value is not None}


def left_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("headers", [TAGGED, {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {}])
def test_after_a_lost_connection_only_the_rest_is_requested(tmp_path, server, caplog, headers):
    url = server.give("/file.bin", Answer(DATA, headers=headers, cut=HALF), Answer(DATA, headers=headers))
    fetch(entry(url), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert server.asked_for("/file.bin") == [None, f"bytes={HALF}-"]
    assert server.asked_for("/file.bin", "If-Range") == [None, next(iter(headers.values()), None)]
    assert f"file.bin: the connection ended after {HALF} of {len(DATA)} bytes; retrying in 0 s." in caplog.text
    assert left_in(tmp_path) == ["file.bin"]


CHILD = """
import json, sys
from recheck.data.sources import fetch
fetch(json.loads(sys.argv[1]), sys.argv[2])
"""


def child(file, destination, **options):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, json.dumps(file), str(destination)],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_killed_process_loses_nothing(tmp_path, server):
    url = server.give("/file.bin", Answer(DATA, headers=TAGGED, cut=HALF, hold=True), Answer(DATA, headers=TAGGED))
    process, part = child(entry(url), tmp_path / "file.bin"), tmp_path / "file.bin.part"
    while not (part.exists() and part.stat().st_size == HALF):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert left_in(tmp_path) == ["file.bin.part", "file.bin.part.json"]
    fetch(entry(url), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert server.asked_for("/file.bin") == [None, f"bytes={HALF}-"]
    assert left_in(tmp_path) == ["file.bin"]


def test_a_full_disk(tmp_path, server):
    """A limit on file sizes gives the same error as a full disk, on every machine."""
    url = server.give("/file.bin", DATA)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, HALF))

    process = child(entry(url), tmp_path / "file.bin", preexec_fn=limit)
    error = process.communicate(timeout=600)[1]
    assert process.returncode
    assert f"No space left while writing {tmp_path}/file.bin.part: free some space there and run the same" in error
    assert not (tmp_path / "file.bin").exists()
    fetch(entry(url), tmp_path / "file.bin", patience=QUICK)  # with enough space, it resumes
    assert server.asked_for("/file.bin") == [None, f"bytes={HALF}-"]
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_too_little_space_is_reported_before_writing(tmp_path, server):
    size = 10**18
    url = server.give("/file.bin", Answer(DATA, length=size))
    for known in (size, None):
        with pytest.raises(UserError, match=r"Downloading file.bin needs 1,000,000,000,000.0 MB in .* MB are free"):
            fetch(entry(url, size=known), tmp_path / "file.bin", patience=QUICK)
    assert left_in(tmp_path) == []


def test_a_server_that_cannot_resume_starts_over(tmp_path, server):
    url = server.give("/file.bin", Answer(DATA, cut=HALF), Answer(DATA, ranges=False))
    fetch(entry(url), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert server.asked_for("/file.bin") == [None, f"bytes={HALF}-"]


def test_a_file_that_changed_on_the_server_is_not_spliced(tmp_path, server):
    """Without a checksum, only the server can tell (If-Range)."""
    new = DATA[::-1]
    url = server.give("/file.bin", Answer(DATA, headers=TAGGED, cut=HALF), Answer(new, headers={"ETag": '"v2"'}))
    fetch(entry(url, sha256=None), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == new
    assert server.asked_for("/file.bin") == [None, f"bytes={HALF}-"]


def test_without_checksum_and_validator_nothing_is_resumed(tmp_path, server):
    url = server.give("/file.bin", Answer(DATA, headers={"ETag": 'W/"weak"'}, cut=HALF), DATA)
    fetch(entry(url, sha256=None, size=None, unverified=True), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert server.asked_for("/file.bin") == [None, None]


def test_a_mirror_resumes_the_download_of_another(tmp_path, server):
    first = server.give("/first", Answer(DATA, headers=TAGGED, cut=HALF), Answer(status=404))
    second = server.give("/second", DATA)
    fetch(entry(first, second), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert server.asked_for("/second") == [f"bytes={HALF}-"]
    assert server.asked_for("/second", "If-Range") == [None]


def test_a_resumed_download_with_wrong_bytes_is_restarted(tmp_path, server, caplog):
    url = server.give("/file.bin", DATA)
    (tmp_path / "file.bin.part").write_bytes(b"x" * HALF)
    fetch(entry(url), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert server.asked_for("/file.bin") == [f"bytes={HALF}-", None]
    assert "; discarding the earlier attempt and starting over." in caplog.text
    assert left_in(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("size", [len(DATA), None])
def test_a_partial_file_that_is_complete_or_too_long(tmp_path, server, size):
    url = server.give("/file.bin", DATA)
    (tmp_path / "file.bin.part").write_bytes(DATA)
    fetch(entry(url, size=size), tmp_path / "file.bin", patience=QUICK)
    assert server.asked_for("/file.bin") == ([] if size else [f"bytes={len(DATA)}-"])
    (tmp_path / "b.part").write_bytes(DATA + b"more")
    fetch(entry(url, size=size), tmp_path / "b", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == (tmp_path / "b").read_bytes() == DATA
    assert left_in(tmp_path) == ["b", "file.bin"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Answer(status=404), "the server answered 404 Not Found"),
        (Answer(status=403), "the server answered 403 Forbidden"),
        (Answer(DATA[::-1]), "expected sha256 .*, found "),
        (Answer(DATA[:-1]), f"expected {len(DATA)} bytes, but the server's file has {len(DATA) - 1}"),
        (Answer(DATA * 3, length=-1), f"expected {len(DATA)} bytes, but the server sent more"),
        (Answer(PAGE, headers={"Content-Type": "text/plain"}), r"server sent a web page instead .* \(“Page & moved”\)"),
        (Answer(b"<div>sorry</div>", headers={"Content-Type": "text/html"}), "server sent a web page instead of the f"),
        (Answer(b"\n <!-- x --><HTML>Google Drive - Quota exceeded"), "on Google Drive is exceeded: wait a day, or"),
        (Answer(b"<html>Google Drive - Virus scan warning"), "virus-scan notice instead of the file: use `gdrive"),
        (Answer(b"<html>Too many users have viewed or downloaded this file recently", status=403), "Drive is exceed"),
        (Answer(status=302, headers={"Location": "file:///etc/hostname"}), "Redirection to url .* is not allowed"),
        (Answer(status=302, headers={"Location": "ftp://127.0.0.1/x"}), "redirects to ftp://127.0.0.1/x, which is nei"),
    ],
)  # fmt: skip
def test_the_next_mirror_is_tried_at_once_and_the_error_names_all(tmp_path, server, bad, reason):
    url, gone = server.give("/bad", bad), server.url + "/gone"
    with pytest.raises(UserError, match=reason) as raised:
        fetch(entry(url, gone), tmp_path / "file.bin", drop=tmp_path / "drop", patience=Patience(waits=(60,)))
    assert str(raised.value).startswith(f"file.bin could not be downloaded (url {url}: ")
    assert f"; url {gone}: the server answered 404 Not Found). Run the same command again later, or" in str(
        raised.value
    )
    assert str(raised.value).endswith(f"download it in a browser and put it into {tmp_path}/drop.")
    assert left_in(tmp_path) == []
    fetch(entry(url, server.give("/good", DATA)), tmp_path / "file.bin", patience=Patience(waits=(60,)))
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_a_web_page_does_not_discard_received_bytes(tmp_path, server):
    url = server.give("/file.bin", Answer(DATA, cut=HALF), Answer(b"<html>Quota exceeded</html>", ranges=False))
    with pytest.raises(UserError, match="quota"):
        fetch(entry(url), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin.part").read_bytes() == DATA[:HALF]


def test_web_pages_are_told_from_files():
    assert http.is_page(b"\xef\xbb\xbf<!doctype HTML>", "", "a.zip")
    assert not http.is_page(b"<html>", "text/html", "a.html")
    assert not http.is_page(b"PK\3\4<\0\0", "text/html", "a.zip")
    assert not http.is_page(b"<?xml version='1.0'?><svg>", "image/svg+xml", "a.svg")
    assert not http.is_page(b"1 bicycle_final/1.JPG", "text/html", "list.txt")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_retried(tmp_path, server, caplog, status):
    url = server.give("/file.bin", Answer(status=status), Answer(status=status), DATA)
    fetch(entry(url), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert len(server.asked) == 3
    assert f"the server answered {status}" in caplog.text
    server.give("/file.bin", Answer(status=status))
    with pytest.raises(UserError, match=f"the server answered {status}"):
        fetch(entry(url), tmp_path / "other.bin", patience=QUICK)
    assert len(server.asked) == 3 + 1 + len(QUICK.waits)


@pytest.mark.parametrize("kind", ["seconds", "date"])
def test_retry_after_is_obeyed_up_to_a_limit(tmp_path, server, monkeypatch, kind):
    wish = "7" if kind == "seconds" else format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)
    url = server.give("/file.bin", Answer(status=503, headers={"Retry-After": wish}), DATA)
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    fetch(entry(url), tmp_path / "file.bin", patience=Patience(waits=(0,), longest=0.3))
    assert waits == [0.3]


def test_waits_restart_after_a_received_chunk(tmp_path, server):
    data = os.urandom(3 * http.CHUNK)
    url = server.give("/big", *[Answer(data, cut=http.CHUNK)] * 2, data)
    file = entry(url, size=len(data), sha256=hashlib.sha256(data).hexdigest())
    fetch(file, tmp_path / "big", patience=Patience(waits=(0.01,)))
    assert server.asked_for("/big") == [None, f"bytes={http.CHUNK}-", f"bytes={2 * http.CHUNK}-"]


def test_a_server_that_stalls(tmp_path, server):
    url = server.give("/file.bin", Answer(DATA, cut=HALF, hold=True), DATA)
    fetch(entry(url), tmp_path / "file.bin", patience=Patience(waits=(0.01,), timeout=2))
    assert server.asked_for("/file.bin") == [None, f"bytes={HALF}-"]
    server.give("/file.bin", Answer(DATA, cut=0, hold=True))
    with pytest.raises(UserError, match=r"no answer \(timed out\)"):
        fetch(entry(url), tmp_path / "other", patience=Patience(waits=(), timeout=2))


def test_an_unreachable_host_costs_no_time(tmp_path, server):
    dead = "http://127.0.0.1:9/file.bin"
    fetch(entry(dead, server.give("/file.bin", DATA)), tmp_path / "file.bin", patience=Patience(waits=(60,)))
    with pytest.raises(UserError, match=r"no answer \(.*refused"):
        fetch(entry(dead), tmp_path / "other.bin", patience=Patience(waits=(60,)))


def test_redirects_keep_the_range_and_drop_credentials_for_other_hosts(tmp_path, server):
    there = f"http://localhost:{server.server_port}/there"
    url = server.give("/here", Answer(status=302, headers={"Location": there}))
    server.give("/there", Answer(DATA, cut=HALF), DATA)
    part = tmp_path / "file.part"
    assert http.download(url, part, headers={"Authorization": "Bearer x"}, checked=True, patience=QUICK)
    assert part.read_bytes() == DATA
    assert server.asked_for("/there") == [None, f"bytes={HALF}-"]
    assert server.asked_for("/here", "Authorization") == ["Bearer x", "Bearer x"]
    assert server.asked_for("/there", "Authorization") == [None, None]


def test_only_http_and_https_urls(tmp_path):
    with pytest.raises(SourceFailed, match="only http and https URLs are supported"):
        http.download(f"file://{tmp_path}/secret", tmp_path / "x.part")
