"""Downloads from a local HTTP server that drops connections, stalls and sends wrong answers."""

import hashlib
import json
import os
import random
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from recheck.data import download as http
from recheck.data.download import Patience, SourceFailed
from recheck.data.sources import fetch
from recheck.errors import UserError
from support.project import SCRIPTS
from support.services.servers import Answer, patient
from support.suite.files import left_in
from support.suite.hang import HANG_SECONDS, wait_until

DATA = bytes(range(256)) * 5000
HALF = len(DATA) // 2
QUICK = patient(waits=(0.01, 0.02), longest=0.05)
AT_ONCE = patient(waits=(0,) * 6)
PAGE = b"<!DOCTYPE html><html><title>Page &amp;\n moved</title></html>"
TAGGED = {"ETag": '"v1"'}


@pytest.fixture
def never_wait(monkeypatch):
    """Let no download wait before another attempt."""
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"it would wait {seconds} s"))


def entry(*urls, **more):
    known = {"path": "file.bin", "size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
    made = known | {"from": [{"url": url} for url in urls]} | more
    return {key: value for key, value in made.items() if value is not None}


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
    process, partial = child(entry(url), tmp_path / "file.bin"), tmp_path / "file.bin.part"

    def half_arrived():
        return partial.exists() and partial.stat().st_size == HALF

    assert wait_until(lambda: half_arrived() or process.poll() is not None)
    assert process.poll() is None, process.communicate()[1]
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
    error = process.communicate(timeout=HANG_SECONDS)[1]
    assert process.returncode
    assert f"No space left while writing {tmp_path}/file.bin.part: free some space there and run the same" in error
    assert not (tmp_path / "file.bin").exists()
    fetch(entry(url), tmp_path / "file.bin", patience=QUICK)  # with enough space, it resumes
    assert server.asked_for("/file.bin") == [None, f"bytes={HALF}-"]
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_too_little_space_is_reported_before_writing(tmp_path, server):
    size = 10**18
    url = server.give("/file.bin", Answer(DATA, length=size))
    with pytest.raises(UserError, match=r"Downloading file.bin needs 1,000,000,000,000.0 MB in .* MB are free"):
        fetch(entry(url, size=size), tmp_path / "file.bin", patience=QUICK)
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
def test_the_next_mirror_is_tried_at_once_and_the_error_names_all(tmp_path, server, never_wait, bad, reason):
    url, gone = server.give("/bad", bad), server.url + "/gone"
    with pytest.raises(UserError, match=reason) as raised:
        fetch(entry(url, gone), tmp_path / "file.bin", drop=tmp_path / "drop", patience=patient(waits=(60,)))
    assert str(raised.value).startswith(f"file.bin could not be downloaded (url {url}: ")
    assert f"; url {gone}: the server answered 404 Not Found). Run the same command again later, or" in str(
        raised.value
    )
    assert str(raised.value).endswith(f"download it in a browser and put it into {tmp_path}/drop.")
    assert left_in(tmp_path) == []
    fetch(entry(url, server.give("/good", DATA)), tmp_path / "file.bin", patience=patient(waits=(60,)))
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_a_web_page_does_not_discard_received_bytes(tmp_path, server):
    url = server.give("/file.bin", Answer(DATA, cut=HALF), Answer(b"<html>Quota exceeded</html>", ranges=False))
    with pytest.raises(UserError, match="quota"):
        fetch(entry(url), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin.part").read_bytes() == DATA[:HALF]


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
    fetch(entry(url), tmp_path / "file.bin", patience=patient(waits=(0,), longest=0.3))
    assert waits == [0.3]


def test_waits_restart_after_a_received_chunk(tmp_path, server):
    data = random.Random(0).randbytes(3 * http.CHUNK)
    url = server.give("/big", *[Answer(data, cut=http.CHUNK)] * 2, data)
    file = entry(url, size=len(data), sha256=hashlib.sha256(data).hexdigest())
    fetch(file, tmp_path / "big", patience=patient(waits=(0.01,)))
    assert server.asked_for("/big") == [None, f"bytes={http.CHUNK}-", f"bytes={2 * http.CHUNK}-"]


@pytest.fixture
def stalls(server, monkeypatch):
    """Connections time out when the server hangs and nothing is left to read, not after a number of seconds."""
    receive = socket.socket.recv_into

    def receive_or_time_out(self, *arguments):
        if self.gettimeout() == HANG_SECONDS:  # the client's end
            while not select.select([self], [], [], 0.01)[0]:
                if server.holding.is_set() and not select.select([self], [], [], 0)[0]:
                    server.holding.clear()
                    raise TimeoutError("timed out")
        return receive(self, *arguments)

    monkeypatch.setattr(socket.socket, "recv_into", receive_or_time_out, raising=False)
    return HANG_SECONDS


def test_a_server_that_stalls(tmp_path, server, stalls):
    url = server.give("/file.bin", Answer(DATA, cut=HALF, hold=True), DATA)
    fetch(entry(url), tmp_path / "file.bin", patience=Patience(waits=(0.01,), timeout=stalls))
    assert server.asked_for("/file.bin") == [None, f"bytes={HALF}-"]
    server.give("/file.bin", Answer(DATA, cut=0, hold=True))
    with pytest.raises(UserError, match=r"no answer \(timed out\)"):
        fetch(entry(url), tmp_path / "other", patience=Patience(waits=(), timeout=stalls))


def test_an_unreachable_host_costs_no_time(tmp_path, server, never_wait, closed):
    dead = f"{closed}/file.bin"
    fetch(entry(dead, server.give("/file.bin", DATA)), tmp_path / "file.bin", patience=patient(waits=(60,)))
    with pytest.raises(UserError, match=r"no answer \(.*refused"):
        fetch(entry(dead), tmp_path / "other.bin", patience=patient(waits=(60,)))


def test_redirects_keep_the_range_and_drop_credentials_for_other_hosts(tmp_path, server):
    target = f"http://localhost:{server.server_port}/there"
    url = server.give("/here", Answer(status=302, headers={"Location": target}))
    server.give("/there", Answer(DATA, cut=HALF), DATA)
    partial = tmp_path / "file.part"
    assert http.download(url, partial, headers={"Authorization": "Bearer x"}, checked=True, patience=QUICK)
    assert partial.read_bytes() == DATA
    assert server.asked_for("/there") == [None, f"bytes={HALF}-"]
    assert server.asked_for("/here", "Authorization") == ["Bearer x", "Bearer x"]
    assert server.asked_for("/there", "Authorization") == [None, None]


def test_only_http_and_https_urls(tmp_path):
    with pytest.raises(SourceFailed, match="not a valid URL"):
        http.download("http://[", tmp_path / "x.part")
    with pytest.raises(SourceFailed, match="only http and https URLs are supported"):
        http.download(f"file://{tmp_path}/secret", tmp_path / "x.part")


UNVERIFIED = {"size": None, "sha256": None, "unverified": True}
UNKNOWN_SIZE = {"size": None}


def from_the_next_mirror(tmp_path, server, bad, patience=AT_ONCE, **known):
    """The good mirror delivers the file, and nothing of the bad one is left; returns why the bad one failed."""
    answers = bad if isinstance(bad, list) else [bad]
    bad = server.give("/bad", *answers)
    fetch(entry(bad, server.give("/good", DATA), **known), tmp_path / "file.bin", patience=patience)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert left_in(tmp_path) == ["file.bin"]
    server.give("/bad", *answers)
    with pytest.raises(UserError) as raised:
        fetch(entry(bad, **known), tmp_path / "other.bin", patience=patience)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def endlessly(*pieces):
    """A server that sends the first piece once, and the others until the client has gone."""

    def script(handler):
        handler.wfile.write(pieces[0])
        while pieces[1:]:
            for piece in pieces[1:]:
                handler.wfile.write(piece)

    return Answer(script=script)


def test_wrong_content_is_given_one_second_chance(tmp_path, server):
    """Every download of this mirror is cut once, so that each one resumes."""
    wrong = DATA[::-1]
    reason = from_the_next_mirror(tmp_path, server, [Answer(wrong, cut=HALF), Answer(wrong)] * 50)
    assert "expected sha256" in reason
    assert server.asked_for("/bad")[:5] == [None, f"bytes={HALF}-", None, f"bytes={HALF}-", None]
    assert server.asked_for("/good") == [None]


@pytest.mark.parametrize("piece", [1, 1000])
def test_ranges_in_short_pieces_end(tmp_path, server, piece):
    pieces = [Answer(DATA, cut=HALF), Answer(DATA, piece=piece)]
    reason = from_the_next_mirror(tmp_path, server, pieces, **UNKNOWN_SIZE)
    assert f"the connection ended after {HALF + piece * len(AT_ONCE.waits)} of {len(DATA)} bytes" in reason


def test_ranges_in_large_pieces_are_put_together(tmp_path, server):
    data = random.Random(0).randbytes(4 * http.CHUNK)
    url = server.give("/big", Answer(data, cut=http.CHUNK), Answer(data, piece=http.CHUNK))
    file = entry(url, size=None, sha256=hashlib.sha256(data).hexdigest())
    fetch(file, tmp_path / "big", patience=patient(waits=(0,)))
    assert server.asked_for("/big") == [None, *[f"bytes={number * http.CHUNK}-" for number in (1, 2, 3)]]


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ZEROS = bytes(1 << 16)


@pytest.mark.parametrize("known", [UNVERIFIED, UNKNOWN_SIZE, {}])
@pytest.mark.parametrize("body", [(HEAD, ZEROS), (CHUNKED, b"10000\r\n" + ZEROS + b"\r\n")])
def test_an_endless_body(tmp_path, server, monkeypatch, body, known):
    monkeypatch.setattr(http, "LARGEST_UNKNOWN", 2 * len(DATA))
    reason = from_the_next_mirror(tmp_path, server, endlessly(*body), **known)
    if known:
        assert f"does not say how long the file is and sent more than {2 * len(DATA):,} bytes" in reason
    else:
        assert f"expected {len(DATA)} bytes, but the server sent more" in reason


def test_an_announced_size_beyond_the_disk(tmp_path, server):
    reason = from_the_next_mirror(tmp_path, server, Answer(DATA[::-1], length=10**18), **UNKNOWN_SIZE)
    assert "the server announces 1,000,000,000,000,000,000 bytes, but only" in reason


@pytest.mark.parametrize(
    "noise",
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        (b"", b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" * 1000),
        (b"HTTP/1.1 302 Found\r\nLocation: /bad\r\n\r\n", ZEROS),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", ZEROS),
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n" * 1000),
        (CHUNKED, b"1;" + b"x" * 60_000 + b"\r\ny\r\n"),
    ],
)
def test_an_answer_that_never_gets_to_the_file(tmp_path, server, noise):
    from_the_next_mirror(tmp_path, server, endlessly(*noise), **UNKNOWN_SIZE)


class Clock:
    """Each call moves the time forward by ten seconds."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 10
        return self.now


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: ", HEAD])
def test_a_byte_now_and_then_is_no_progress(tmp_path, server, head):
    def script(handler):
        handler.wfile.write(head)
        while True:
            handler.wfile.write(b"x")
            handler.wfile.flush()

    bounds = patient(waits=(0,), clock=Clock(), slowest=1e12, grace=1e12)
    reason = from_the_next_mirror(tmp_path, server, Answer(script=script), bounds, **UNKNOWN_SIZE)
    assert "bytes of the file came in" in reason or "not part of the file" in reason or "no answer" in reason


def test_a_download_may_take_as_long_as_its_size_needs(tmp_path, server):
    """It progresses all the time, but would take days."""
    slow = endlessly(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(DATA), DATA[:100])
    bounds = patient(waits=(0,), clock=Clock(), slowest=0, grace=0, average=1e12)
    url = server.give("/slow", slow)
    with pytest.raises(UserError, match=r"it is too slow: only [\d,]+ bytes came in 0\.\d hours"):
        fetch(entry(url), tmp_path / "file.bin", patience=bounds)


def test_a_changed_file_is_not_continued(tmp_path, server):
    """Servers that ignore If-Range still send the new ETag, or the new size, with the rest."""
    new = DATA[::-1]

    def rest(tag, total):
        headers = b"HTTP/1.1 206 Partial\r\nETag: %s\r\nContent-Range: bytes %d-%d/%d\r\n\r\n"
        return endlessly(headers % (tag, HALF, total - 1, total) + new[HALF:total])

    for number, answer in enumerate([rest(b'"v2"', len(DATA)), rest(b'"v1"', len(DATA) - 1)]):
        url = server.give("/file.bin", Answer(DATA, headers=TAGGED, cut=HALF), answer, Answer(new))
        fetch(entry(url, **UNVERIFIED), tmp_path / f"{number}", patience=QUICK)
        assert (tmp_path / f"{number}").read_bytes() == new
        assert server.asked_for("/file.bin")[-3:] == [None, f"bytes={HALF}-", None]


def test_a_short_partial_answer_is_continued(tmp_path, server):
    def short(handler):
        said = f"bytes {HALF}-{len(DATA) - 1}/{len(DATA)}"
        handler.wfile.write(
            f'HTTP/1.1 206 P\r\nETag: "v1"\r\nContent-Length: 9\r\nContent-Range: {said}\r\n\r\n'.encode()
        )
        handler.wfile.write(DATA[HALF : HALF + 9])

    url = server.give(
        "/file.bin", Answer(DATA, headers=TAGGED, cut=HALF), Answer(script=short), Answer(DATA, headers=TAGGED)
    )
    fetch(entry(url, **UNVERIFIED), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert server.asked_for("/file.bin") == [None, f"bytes={HALF}-", f"bytes={HALF + 9}-"]


@pytest.mark.parametrize("start", [0, 9])
def test_a_part_of_a_file_of_unknown_size_is_not_the_file(tmp_path, server, start):
    """`bytes 0-8/*` may be the whole file or only its beginning; only an answer with the whole file shows which."""

    def cut(handler):
        head = b'HTTP/1.1 200 OK\r\nETag: "v1"\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n'
        handler.wfile.write(head + DATA[:9] + b"\r\n")

    def some(handler):
        head = b'HTTP/1.1 206 P\r\nETag: "v1"\r\nContent-Range: bytes %d-%d/*\r\n\r\n'
        handler.wfile.write(head % (start, start + 8) + DATA[start : start + 9])

    answers = [*([Answer(script=cut)] if start else []), Answer(script=some), Answer(DATA)]
    fetch(entry(server.give("/file.bin", *answers), **UNVERIFIED), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA


@pytest.mark.parametrize("note", [{"validator": 5}, {"validator": {}, "total": "x"}, [], "[" * 100_000])
def test_a_strange_note_about_the_part_is_ignored(tmp_path, server, note):
    url = server.give("/file.bin", DATA)
    (tmp_path / "file.bin.part").write_bytes(b"?")
    text = note if isinstance(note, str) else json.dumps({"url": url, **note} if note else note)
    (tmp_path / "file.bin.part.json").write_text(text, encoding="utf-8")
    fetch(entry(url, **UNVERIFIED), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert left_in(tmp_path) == ["file.bin"]


def test_a_part_is_complete_only_at_the_announced_size(tmp_path, server):
    gone = Answer(status=416, headers={"Content-Range": f"bytes */{HALF}"})
    url = server.give("/file.bin", Answer(DATA, headers=TAGGED, cut=HALF), gone, DATA)
    fetch(entry(url, **UNVERIFIED), tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Answer(DATA, headers={"Content-Encoding": "gzip"}), r"sent the file encoded \(Content-Encoding: gzip\)"),
        (
            Answer(script=lambda handler: handler.wfile.write(
                b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n\r\nx"
            )),
            r"encoded \(Content-Encoding: identity, gzip\)",
        ),
        (Answer(DATA, headers={"Transfer-Encoding": "gzip, chunked"}), r"encoded \(Transfer-Encoding: gzip, chunked\)"),
        (Answer(b""), "the server sent an empty file"),
        (Answer(b"", length=-1), "the server sent an empty file"),
        (Answer(status=204), "the server answered 204 No Content"),
        (Answer(b'{"error": "no such file"}'), r"an error message in JSON instead of the file \(“no such file”\)"),
        (Answer(b"<?xml version='1.0'?><Error><Message>Gone</Message></Error>"), r"an XML document .*\(“Gone”\)"),
        (Answer("<html><title>Ärger</title>".encode("utf-16")), r"a web page instead of the file \(“Ärger”\)"),
        (Answer(b"x", headers={"Content-Type": "application/problem+json"}), "instead of the file"),
    ],
)  # fmt: skip
def test_answers_that_show_that_they_are_not_the_file(tmp_path, server, bad, reason):
    assert re.search(reason, from_the_next_mirror(tmp_path, server, bad, **UNVERIFIED))


def test_with_a_checksum_the_encoding_does_not_matter(tmp_path, server):
    """Some servers send every .tgz with a Content-Encoding."""
    url = server.give("/file.bin", Answer(DATA, headers={"Content-Encoding": "x-gzip"}))
    fetch(entry(url), tmp_path / "file.bin", patience=QUICK)


ESCAPE = "\x1b[2J\x1b]0;title\x07\x9b31mred\r\x08"


def test_escape_sequences_of_servers_do_not_reach_the_terminal(tmp_path, server, caplog):
    answers = [
        Answer(status=404, reason=f"Gone{ESCAPE}"),
        Answer(status=403, headers={"X-Error-Message": f"no{ESCAPE}"}),
        Answer(f"<html><title>a{ESCAPE}b</title>".encode()),
        Answer(status=302, headers={"Location": f"ftp://x/{ESCAPE}"}),
        Answer(DATA, headers={"Content-Encoding": f"gz{ESCAPE}"}),
        Answer(status=503, reason=f"Busy{ESCAPE}"),
        endlessly(f"HTTP/1.1 {ESCAPE}\r\n\r\n".encode("latin-1")),
    ]
    urls = [server.give(f"/{number}", answer) for number, answer in enumerate(answers)]
    with pytest.raises(UserError) as raised:
        fetch(entry(*urls, **UNVERIFIED), tmp_path / "file.bin", patience=patient(waits=(0,)))
    for said in (str(raised.value), caplog.text):
        assert not [character for character in said if not character.isprintable() and character != "\n"]
        assert "red" in said


@pytest.mark.parametrize(
    ("start", "to", "kept"),
    [
        ("https://a.org/x", "https://a.org/y", True),
        ("http://a.org/x", "https://a.org/y", True),
        ("https://a.org/x", "http://a.org/y", False),
        ("https://a.org/x", "https://b.org/y", False),
        ("https://a.org/x", "https://a.org:8443/y", False),
    ],
)
def test_credentials_stay_with_their_host_and_encrypted(start, to, kept):
    request = urllib.request.Request(start, headers={"Authorization": "Bearer x", "Cookie": "y", "Range": "bytes=1-"})
    following = http._Redirects().redirect_request(request, None, 302, "Found", {}, to)
    assert following.has_header("Authorization") == following.has_header("Cookie") == kept
    assert following.has_header("Range")
