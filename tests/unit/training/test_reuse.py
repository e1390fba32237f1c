"""The same run under another name is copied, and only if every byte is as noted."""

import json
from pathlib import Path

import pytest

from recheck.training.reuse import FinishedRuns, reuse_key

MACHINE = {
    **{"device": "cpu", "device_name": "x86_64", "processor": "A, AVX2", "cpu_threads": 1, "threads": 2},
    "versions": {"recheck": "abc", "torch": "2"},
}


@pytest.fixture
def outputs(tmp_path):
    """The outputs of a run of a study, which `make` writes."""

    def of(study, make=False):
        folder = tmp_path / f"results/{study}/emoji/triplet/seed0/fold0"
        files = {"model": "model.safetensors", "history": "history.csv", "record": "run.json"}
        paths = {name: str(folder / file) for name, file in files.items()}
        if make:
            (folder / "tensorboard").mkdir(parents=True)
            (folder / "tensorboard/events").write_text("events")
            (folder / "model.safetensors").write_bytes(b"weights")
            (folder / "history.csv").write_text("epoch\n0\n")
            (folder / "run.json").write_text(json.dumps({"study": study, "epochs": 1}))
        return paths

    return of


@pytest.fixture
def runs(tmp_path):
    return FinishedRuns(tmp_path / "results/state/one/emoji/triplet/seed0/fold0")


def test_a_finished_run_is_copied_with_its_events(runs, outputs, tmp_path):
    assert runs.copy("key", outputs("two")) is None, "nothing is finished"
    runs.note("key", outputs("one", make=True))
    record = runs.copy("key", outputs("two"))
    source = tmp_path / "results/one/emoji/triplet/seed0/fold0"
    assert record == {"study": "one", "epochs": 1, "reused_from": str(source)}
    copied = tmp_path / "results/two/emoji/triplet/seed0/fold0"
    for name in ("model.safetensors", "history.csv", "tensorboard/events"):
        assert (copied / name).read_bytes() == (source / name).read_bytes()
        assert (copied / name).stat().st_ino != (source / name).stat().st_ino, "a link would share its time"
    assert runs.copy("other", outputs("three")) is None


@pytest.mark.parametrize("name", ["model.safetensors", "history.csv", "run.json"])
@pytest.mark.parametrize("damage", ["deleted", "changed"])
def test_a_run_that_is_gone_or_has_changed_is_not_used(runs, outputs, tmp_path, name, damage):
    runs.note("key", outputs("one", make=True))
    path = tmp_path / "results/one/emoji/triplet/seed0/fold0" / name
    path.unlink() if damage == "deleted" else path.write_text("{}")
    assert runs.copy("key", outputs("two")) is None
    left = tmp_path / "results/two/emoji/triplet/seed0/fold0"
    assert not list(left.glob(".*")), "no half-written file"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"folder": "one"}', '{"folder": 1, "files": {}}'])
def test_a_damaged_note_is_ignored(runs, outputs, text):
    runs.note("key", outputs("one", make=True))
    (runs.notes / "key.json").write_text(text)
    assert runs.copy("key", outputs("two")) is None
    runs.note("key", outputs("one"))
    assert runs.copy("key", outputs("two")), "a new note replaces it"


def test_a_run_is_never_copied_from_itself_and_the_first_note_stays(runs, outputs):
    runs.note("key", outputs("one", make=True))
    assert runs.copy("key", outputs("one")) is None
    runs.note("key", outputs("two", make=True))
    assert json.loads((runs.notes / "key.json").read_text())["folder"].startswith("one/")


@pytest.mark.parametrize(
    "change",
    [{"device": "cuda"}, {"device_name": "A100"}, {"processor": "B, AVX2"}, {"cpu_threads": 2}, {"versions": {}}],
)
def test_other_hardware_or_versions_are_another_run(change):
    assert reuse_key("f", MACHINE, True) != reuse_key("f", {**MACHINE, **change}, True)
    assert reuse_key("f", MACHINE, True) == reuse_key("f", {**MACHINE, "threads": 8}, True), "never changes a result"
    assert len({reuse_key("f", MACHINE, True), reuse_key("g", MACHINE, True), reuse_key("f", MACHINE, False)}) == 3


def test_a_tuned_run_that_is_planned_again_is_copied_from_its_kept_files(runs, outputs, tmp_path):
    """Snakemake deletes its outputs first."""
    made = outputs("one", make=True)
    runs.keep("key", made)
    weights = (tmp_path / "results/one/emoji/triplet/seed0/fold0/model.safetensors").read_bytes()
    for path in made.values():
        Path(path).unlink()
    assert "kept" in runs.copy("key", made)["reused_from"]
    assert Path(made["model"]).read_bytes() == weights
    assert Path(made["record"]).with_name("tensorboard").is_dir(), "the events of the run stay"
    runs.keep("other", made)
    assert runs.copy("key", outputs("two")) is not None, "the same files under another key"
    Path(made["model"]).unlink()
    Path(made["model"]).write_bytes(b"other weights")
    runs.keep("other", made)
    assert runs.copy("key", outputs("three")) is None, "only the last run of a place is kept"
