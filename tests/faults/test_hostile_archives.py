"""Hostile archives: each is refused in one sentence, or unpacked without harm."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from recheck.data.archives import extract
from recheck.errors import UserError
from support.faults import hostile_archives
from support.faults.fuzz import MORE, SEED, Outcomes, only_below

DAILY = 150
MEMORY = 1 << 30


@pytest.fixture
def little_memory():
    """Limit the memory of this process, so that a bomb raises an error and does not fill the machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    sizes = Path("/proc/self/statm")
    if sizes.exists():  # on Linux
        used = int(sizes.read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.usefixtures("little_memory")
def test_archives_are_refused_or_unpacked_without_harm(tmp_path, monkeypatch, record_property):
    monkeypatch.setattr(os, "sync", lambda: None)  # a sync also waits for the writes of all other programs
    downloads, root = tmp_path / "downloads", tmp_path / "data" / "images"
    downloads.mkdir()
    entries = [{"path": "a.bin", "extract": ".", "unpacked_size": hostile_archives.LIMIT}]
    outcomes = Outcomes("archives")
    for number in range(SEED * 10**6, SEED * 10**6 + max(DAILY, MORE)):
        case = hostile_archives.case(number)
        (downloads / "a.bin").write_bytes(case.content)

        def right(result, case=case):
            if isinstance(result, UserError):
                clean = not root.parent.exists() or not list(root.parent.iterdir())
                return clean and not case.whole and "\n" not in str(result) and str(result).isprintable()
            files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if not path.is_dir()}
            contents = {name: path.read_bytes() for name, path in files.items() if name != ".extracted.json"}
            return (
                not any(path.is_symlink() for path in files.values())
                and 0 < len(contents) == result["a.bin"]["files"]
                and sum(map(len, contents.values())) <= hostile_archives.LIMIT
                and (not case.whole or contents == hostile_archives.FILES)
            )

        with only_below(root.parent):
            outcomes.add(case.name, lambda: extract(entries, downloads, {"a.bin": {"sha256": "x"}}, root), right)
        shutil.rmtree(root.parent, ignore_errors=True)
    assert outcomes.harmless
    outcomes.record(record_property)
