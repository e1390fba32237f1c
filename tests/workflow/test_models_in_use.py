"""Models of the workflow in use: the bits of its own embeddings, the metrics of its tables, and a card with its row."""

import json
import sys

import numpy as np
import pytest

import recheck
from recheck.cli.main import main
from recheck.data.index import read_labels
from recheck.data.splits import read_split
from recheck.evaluation.embeddings import read_embeddings

SEED = "results/letters/glyphs/triplet/seed0"


@pytest.fixture
def here(finished, monkeypatch):
    """The finished study as working directory, where its module small_net is."""
    monkeypatch.chdir(finished.folder)
    monkeypatch.setattr(sys, "path", [*sys.path, str(finished.folder)])
    return finished


def images_of(here):
    index = here.path("resources/datasets/glyphs/images.csv")
    test = read_split("results/letters/glyphs/split.json", 0)["test"]
    names = [line.split(",")[0] for line in index.read_text(encoding="utf-8").splitlines()[1:]]
    return [here.path("glyphs") / names[number] for number in test], read_labels(index)[0][test]


def test_embeddings_equal_those_of_the_workflow_to_the_bit(here):
    paths, labels = images_of(here)
    assert len(paths) % 8  # the last batch is not full
    for fold in range(2):
        ours = recheck.load(f"{SEED}/fold{fold}", own_code=True).embed(paths, normalise=False)
        assert np.array_equal(ours, read_embeddings(f"{SEED}/fold{fold}/embeddings.safetensors")["test"])
    model = recheck.load(SEED, own_code=True)
    stored = json.loads(here.read(f"{SEED}/concatenated.json"))["metrics"]
    assert recheck.metrics(model.embed(paths), labels, metrics=list(stored)) == stored


def test_the_card_has_the_row_of_the_table_and_runs_are_compared(here, tmp_path, capsys):
    assert main(["export", SEED, "--to", "huggingface", "-o", str(tmp_path / "made"), "--own-code"]) == 0
    card = (tmp_path / "made" / "README.md").read_text(encoding="utf-8")
    record = json.loads(here.read(f"{SEED}/fold0/run.json"))
    assert record["data"]["pixels"] in card and record["fingerprint"] in card
    rows = json.loads(here.read("results/letters/glyphs/table.json"))["rows"]
    mean = next(row["mean"] for row in rows if row["method"] == "triplet" and row["metric"] == "RP")
    assert f"| concatenated | RP | {mean:.2f}" in card
    other = SEED.replace("triplet", "proxy_nca")
    assert main(["compare", SEED, other, "--own-code", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.partition("recheck.load reads this folder.\n")[2])
    assert shown["same_data"] is True and shown["settings"]["method"] == ["triplet", "proxy_nca"]
    assert (
        shown["metrics"]["concatenated P@1"]["first"]
        == json.loads(here.read(f"{SEED}/concatenated.json"))["metrics"]["P@1"]
    )
