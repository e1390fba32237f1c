"""Hostile servers: every download ends with the right file, with the next mirror's, or with one sentence."""

import hashlib
import shutil

import pytest

from recheck.data import download, patience
from recheck.data.sources import fetch
from recheck.errors import UserError
from support.faults import hostile_downloads
from support.faults.fuzz import MORE, SEED, Outcomes, only_below
from support.faults.hostile_downloads import DATA, WHOLE
from support.services.servers import Answer, patient, serving

DAILY = 60
QUICK = patient(waits=(0, 0), longest=0)


def entry(known, *urls):
    checksum = {"sha256": hashlib.sha256(DATA).hexdigest()} if "sha256" in known else {}
    return {"path": "file.bin", **known, **checksum, "from": [{"url": url} for url in urls]}


@pytest.mark.parametrize("mirror", [True, False])
def test_downloads_end_with_the_right_file_or_a_sentence(tmp_path, monkeypatch, mirror, record_property):
    monkeypatch.setattr(download, "LARGEST_UNKNOWN", 1 << 20)
    monkeypatch.setattr(patience, "NOISE", 1 << 20)
    outcomes, folder = Outcomes("downloads"), tmp_path / "to"
    with serving() as server:
        good = server.give("/good", DATA)
        for number in range(SEED * 10**6, SEED * 10**6 + max(DAILY, MORE) // 2):
            case = hostile_downloads.case(number)
            bad = server.give("/bad", *[Answer(script=script) for script in case.answers])
            file = entry(case.known, bad, *([good] if mirror else []))

            def right(result, case=case):
                names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
                if isinstance(result, UserError):
                    kept = set(names) <= {"file.bin.part", "file.bin.part.json"}
                    small = sum(path.stat().st_size for path in folder.iterdir()) <= 2 * len(DATA) if names else True
                    return not mirror and kept and small and str(result).isprintable()
                content = result.read_bytes()
                if "sha256" in case.known or not case.other:
                    return names == ["file.bin"] and content == DATA
                fits = len(content) == case.known.get("size", len(content))
                return names == ["file.bin"] and fits and content in WHOLE

            with only_below(folder):
                outcomes.add(case.name, lambda file=file: fetch(file, folder / "file.bin", patience=QUICK), right)
            shutil.rmtree(folder, ignore_errors=True)
    outcomes.record(record_property)
