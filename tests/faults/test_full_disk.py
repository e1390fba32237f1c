"""Errors on a full disk, tested on a real disk of one megabyte."""

import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from support.faults.disks import private_mounts
from support.project import SCRIPTS
from support.services.servers import Answer
from support.suite.hang import HANG_SECONDS

DOWNLOAD = """
import json, sys
from recheck.data.sources import fetch
fetch(json.loads(sys.argv[1]), "disk/file.bin")
"""
EXTRACT = """
from recheck.data.archives import extract
extract([{"path": "a.tgz", "extract": "."}], ".", {"a.tgz": {"sha256": "x"}}, "disk/images")
"""

NO_SPACE = r"^No space left while writing disk/.*: free some space|needs .* MB in disk/.*, but only 0.2 MB are free: "
READ_ONLY = "cannot be written (Read-only file system): make its folder writable"


def on_a_megabyte(folder, code, *arguments):
    """Run Python with ./disk on a separate disk; return its messages and the files left there."""
    command = 'mkdir disk && mount -t tmpfs -o size=1m tmpfs disk && ("$@"; find disk -type f -printf "LEFT %p %s\\n")'
    done = subprocess.run(
        [*private_mounts(), "sh", "-c", command, "sh", sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return done.stderr, [line.split()[1] for line in done.stdout.splitlines() if line.startswith("LEFT")]


def test_the_disk_is_full_while_downloading(tmp_path, server):
    url = server.give("/file.bin", Answer(random.Random(0).randbytes(3_000_000), length=-1))
    file = {"path": "file.bin", "unverified": True, "from": [{"url": url}]}
    said, left = on_a_megabyte(tmp_path, DOWNLOAD, json.dumps(file))
    assert "the server sent more than the 1,038,090 bytes that are free on the disk: free some space" in said
    assert left == []
    assert len(server.asked) == 1, "a full disk must not lead to another request"


def test_a_download_that_will_not_fit_is_not_begun(tmp_path, server):
    url = server.give("/file.bin", random.Random(0).randbytes(3_000_000))
    said, left = on_a_megabyte(
        tmp_path, DOWNLOAD, json.dumps({"path": "file.bin", "unverified": True, "from": [{"url": url}]})
    )
    assert "the server announces 3,000,000 bytes, but only 1,048,576 are free on the disk: if the size is right" in said
    assert left == []
    file = {"path": "file.bin", "size": 3_000_000, "from": [{"url": url}]}
    (tmp_path / "known").mkdir()
    said, left = on_a_megabyte(tmp_path / "known", DOWNLOAD, json.dumps(file))
    assert "Downloading file.bin needs 3.0 MB in disk, but only 1.0 MB are free: free some space, or" in said
    assert left == []


def test_the_disk_is_full_while_unpacking(tmp_path):
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as made:
        for number in range(30):
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = 100_000
            made.addfile(member, io.BytesIO(bytes(member.size)))
    said, left = on_a_megabyte(tmp_path, EXTRACT)
    assert "No space left while writing disk/images: free some space there and run the same command again" in said
    assert left == []


def test_every_kind_of_write(tmp_path, record_property):
    """On a full and on a read-only disk: a UserError, no incomplete file, the old file kept, and a retry that works."""
    command = 'mkdir disk && mount -t tmpfs -o size=1m tmpfs disk && "$@"'
    done = subprocess.run(
        [*private_mounts(), "sh", "-c", command, "sh", sys.executable, str(Path(__file__).with_name("every_write.py"))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPTS), str(SCRIPTS.parents[1] / "tests")])},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report) == 14
    full = {kind: result["full"] for kind, result in report.items()}
    refused = {kind: result["read_only"] for kind, result in report.items()}
    assert refused.pop("copy") == "written", "the file exists with the right content, so nothing is written"
    assert "MB are free: free some space" in refused.pop("pack"), "the new pack needs space beside the old one"
    assert {kind: said for kind, said in full.items() if not re.search(NO_SPACE, said)} == {}
    assert {kind: said for kind, said in refused.items() if READ_ONLY not in said} == {}
    assert {kind: result["wrong"] for kind, result in report.items() if result["wrong"]} == {}
    record_property("tried", 3 * len(report))
