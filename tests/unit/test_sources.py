"""Fetching: over a real HTTP server on this machine, and with the real npm."""

import hashlib
import io
import os
import shutil
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from recheck.data import sources
from recheck.errors import UserError

DATA = bytes(range(256)) * 5000
ROOT = Path(__file__).parents[2]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/missing":
            return self.send_error(404)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/file.bin")
            return self.end_headers()
        body = {"/file.bin": DATA, "/other": DATA[::-1], "/short": DATA[:-1], "/cut": DATA, "/endless": DATA * 3}[
            self.path
        ]
        self.send_response(200)
        if self.path != "/endless":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body[: len(body) // 2] if self.path == "/cut" else body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.asked = []
        running.url = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def entry(server, *paths, **more):
    known = {"path": "a/file.bin", "size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
    return known | {"from": [{"url": server.url + path} for path in paths]} | more


def left_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", ["/file.bin", "/moved"])
def test_a_file_from_a_server(tmp_path, server, path):
    assert sources.fetch(entry(server, path), tmp_path / "a" / "file.bin") == tmp_path / "a" / "file.bin"
    assert (tmp_path / "a" / "file.bin").read_bytes() == DATA
    assert left_in(tmp_path) == ["a/file.bin"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("/missing", "the server answered 404 Not Found"),
        ("/other", "expected sha256 .*, found "),
        ("/short", f"expected {len(DATA)} bytes, found {len(DATA) - 1}"),
        ("/cut", f"of {len(DATA)} bytes|IncompleteRead"),
        ("/endless", f"more than the expected {len(DATA)} bytes"),
    ],
)
def test_the_next_source_is_tried_and_if_none_is_left_all_are_named(tmp_path, server, bad, reason):
    destination = tmp_path / "file.bin"
    with pytest.raises(UserError, match=reason) as raised:
        sources.fetch(entry(server, bad, "/missing"), destination)
    assert "No source gave a/file.bin" in str(raised.value)
    assert f"url {server.url}{bad}: " in str(raised.value)
    assert f"url {server.url}/missing: the server answered 404" in str(raised.value)
    assert f"put the file at {destination} by hand" in str(raised.value)
    assert left_in(tmp_path) == []
    sources.fetch(entry(server, bad, "/file.bin"), destination)
    assert destination.read_bytes() == DATA


def test_a_server_that_does_not_answer(tmp_path, server):
    gone = entry(server, "/file.bin")
    gone["from"].insert(0, {"url": "http://127.0.0.1:9/file.bin"})
    sources.fetch(gone, tmp_path / "file.bin")
    gone["from"] = gone["from"][:1]
    with pytest.raises(UserError, match=r"no answer \(.*refused"):
        sources.fetch(gone, tmp_path / "other.bin")


def test_other_addresses_are_refused(tmp_path, server):
    (tmp_path / "secret").write_bytes(DATA)
    with pytest.raises(UserError, match="only http and https"):
        sources.fetch(entry(server, **{"from": [{"url": f"file://{tmp_path}/secret"}]}), tmp_path / "file.bin")


def test_a_file_that_is_there_is_not_fetched_again(tmp_path, server):
    destination = tmp_path / "file.bin"
    destination.write_bytes(DATA)
    sources.fetch(entry(server, "/file.bin"), destination)
    assert server.asked == []
    destination.write_bytes(DATA[:-3])
    sources.fetch(entry(server, "/file.bin"), destination)
    assert server.asked == ["/file.bin"]
    assert destination.read_bytes() == DATA


def test_unknown_kinds_of_source(tmp_path, server):
    with pytest.raises(UserError, match="'ulr': did you mean 'url'"):
        sources.fetch(entry(server, **{"from": [{"ulr": "x"}]}), tmp_path / "file.bin")
    with pytest.raises(UserError, match="it names none"):
        sources.fetch(entry(server, **{"from": []}), tmp_path / "file.bin")


def test_verify(tmp_path, server):
    file = entry(server, "/file.bin")
    with pytest.raises(UserError, match=r"a/file.bin is missing: run again"):
        sources.verify([file], tmp_path)
    sources.fetch(file, tmp_path / file["path"])
    assert sources.verify([file], tmp_path) == {"a/file.bin": {"sha256": file["sha256"], "size": len(DATA)}}
    (tmp_path / "a" / "file.bin").write_bytes(DATA[::-1])
    with pytest.raises(UserError, match=rf"expected sha256 {file['sha256']}, found .*: delete it and run again"):
        sources.verify([file], tmp_path)
    (tmp_path / "a" / "file.bin").write_bytes(b"")
    with pytest.raises(UserError, match=f"expected {len(DATA)} bytes, found 0"):
        sources.verify([file], tmp_path)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", ""])
def test_paths_stay_inside(tmp_path, path):
    with pytest.raises(UserError, match="must stay inside"):
        sources.inside(tmp_path, path)


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


@pytest.mark.usefixtures("npm")
def test_what_npm_does_not_have(tmp_path):
    with pytest.raises(UserError, match=r"the package has no package/nothing.json"):
        sources.fetch(npm_entry("nothing.json"), tmp_path / "icons.json")
    missing = npm_entry(**{"from": [{"npm": str(tmp_path / "no-such-folder"), "member": "icons.json"}]})
    with pytest.raises(UserError, match="'npm pack' failed"):
        sources.fetch(missing, tmp_path / "icons.json")
    assert left_in(tmp_path) == []


def test_a_machine_without_npm(tmp_path, server, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    file = entry(server, **{"from": [{"npm": "a-package@1.0.0", "member": "file.bin"}]})
    with pytest.raises(UserError, match="the command 'npm' is not on this machine"):
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
    with pytest.raises(sources.SourceFailed, match="expected 4 bytes, the package has 8"):
        sources._take_member(made, "package/x", target, 4)
    whole = archive(tmp_path / "a.tgz", ("package/x", tarfile.REGTYPE, os.urandom(9000))).read_bytes()
    for cut in (0, 10, 4000):
        made.write_bytes(whole[:cut])
        with pytest.raises(sources.SourceFailed):
            sources._take_member(made, "package/x", target, 9000)
