"""Finished runs, found by everything that their results depend on, so that the same run is not trained twice.

Studies often share runs: the same settings, data, seed and fold under another study's name. A finished run leaves a
note with its folder and the hashes of its files, under a key made of the run's fingerprint, the hardware, the versions
of all packages and the source of Recheck. A run with the same key copies these files and verifies the copies, so a run
that was deleted or damaged, or is being trained again, is never used.

Snakemake's caching between workflows (`cache:`) does not fit: its key leaves out wildcards such as the seed and the
fold, contains the paths of the study, and needs the hash of all packed images of every run.
"""

import contextlib
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recheck.errors import UserError
from recheck.files import atomic, fingerprint, read_json, sha256, write_json

log = logging.getLogger("recheck")
RECORD = "run.json"


class FinishedRuns:
    """The notes of finished runs in ``<results>/state/finished``; paths in them are relative to the results."""

    def __init__(self, state: str | Path):
        """``state`` is the folder of a run's state: <results>/state/<study>/<dataset>/<method>/seed<n>/fold<n>."""
        folder = Path(state).parents[4]
        self.results, self.notes = folder.parent, folder / "finished"

    def note(self, key: str, outputs: Mapping[str, str]) -> None:
        """Leave a note of a finished run with these outputs, unless another finished run has this key already."""
        folder = str(Path(outputs["record"]).parent.relative_to(self.results))
        noted = self._read(key)
        if noted is None or noted["folder"] == folder:
            files = {name: sha256(path) for name, path in outputs.items()}
            write_json(self.notes / f"{key}.json", {"folder": folder, "files": files})

    def keep(self, key: str, outputs: Mapping[str, str]) -> None:
        """Leave a note of a finished run, and keep hard links to its files.

        Snakemake deletes the outputs of a run that it plans again. A tuned run is planned again whenever its search
        has another round, but usually the same values are chosen.
        """
        kept = self.notes / "kept" / Path(outputs["record"]).parent.relative_to(self.results)
        shutil.rmtree(kept, ignore_errors=True)
        try:
            kept.mkdir(parents=True)
            for path in outputs.values():
                (kept / Path(path).name).hardlink_to(path)
        except OSError:  # a file system without links: the run is trained again
            self.note(key, outputs)
        else:
            self.note(key, {name: str(kept / Path(path).name) for name, path in outputs.items()})

    def copy(self, key: str, outputs: Mapping[str, str]) -> dict[str, Any] | None:
        """Copy the files of the finished run with this key; return its record, or None if there is no such run."""
        note = self._read(key)
        source = self.results / note["folder"] if note else None
        if source is None or source == Path(outputs["record"]).parent:
            return None
        try:
            for name, path in outputs.items():
                with atomic(path) as temporary:
                    shutil.copyfile(source / Path(path).name, temporary)
                    if sha256(temporary) != note["files"][name]:
                        raise _Changed
        except (_Changed, FileNotFoundError, KeyError):
            log.info("%s is the same run, but its files have changed. Training instead.", source)
            return None
        events = Path(outputs["record"]).with_name("tensorboard")
        if (source / events.name).is_dir():
            shutil.rmtree(events, ignore_errors=True)
            with contextlib.suppress(OSError):  # curves for people, which no job reads
                shutil.copytree(source / events.name, events)
        return {**read_json(outputs["record"]), "reused_from": str(source)}

    def _read(self, key: str) -> dict[str, Any] | None:
        """The note of a finished run; None if there is none, it can't be read, or the run's record is gone."""
        try:
            note = read_json(self.notes / f"{key}.json")
            exists = (self.results / note["folder"] / RECORD).is_file() and isinstance(note["files"], dict)
        except (FileNotFoundError, KeyError, TypeError, UserError):
            return None
        return note if exists else None


class _Changed(Exception):
    """A copied file differs from the file that was noted."""


def reuse_key(run: str, machine: Mapping[str, Any], deterministic: bool) -> str:
    """Key of a run: equal keys mean results that are equal to the bit. ``run`` is its fingerprint."""
    hardware = {key: machine[key] for key in ("device", "device_name", "processor", "cpu_threads", "versions")}
    return fingerprint({"run": run, "deterministic": deterministic, **hardware})
