"""Weights and released checkpoints on the real command line."""

import csv
import hashlib
import json
import shutil
import zipfile

import pytest
import torch

from recheck.models.bn_inception import BNInception
from support.project import Project, small_study
from support.services.servers import serving
from support.small_net import SmallNet

MODEL = "results/letters/glyphs/pretrained/seed0/fold0/model.safetensors"


def weights_yaml(project, path, urls):
    project.write(
        "config/weights/letters.yaml",
        f"""
        description: A network that has seen letters.
        backbone: small_net:SmallNet
        weights: letters
        files:
          - path: small_net.pth
            sha256: {hashlib.sha256(path.read_bytes()).hexdigest()}
            from: [{", ".join(f"{{url: {url}}}" for url in urls)}, {{manual: "ask for small_net.pth on https://example.org"}}]
        """,
    )


def test_weights_are_fetched_and_runs_depend_on_their_content_only(fresh, tmp_path):
    torch.manual_seed(0)
    network = SmallNet()
    torch.save(network.state_dict(), tmp_path / "small_net.pth")
    weights_yaml(fresh, tmp_path / "small_net.pth", ["http://127.0.0.1:9/gone"])
    fresh.edit("config/studies/letters.yaml", 'SmallNet", weights: none', 'SmallNet", weights: letters')

    output = fresh.fail("--cores", "2", MODEL)
    assert "small_net.pth could not be downloaded (url http://127.0.0.1:9/gone: no answer" in output
    assert (
        ". Get it by hand: ask for small_net.pth on https://example.org. Put it into resources/drop/weights" in output
    )
    assert "Traceback" not in output and not fresh.path("resources/weights/small_net.pth").exists()

    with serving() as server:
        url = server.give("/small_net.pth", (tmp_path / "small_net.pth").read_bytes())
        weights_yaml(fresh, tmp_path / "small_net.pth", ["http://127.0.0.1:9/gone", url])
        fresh.succeed("--cores", "2", MODEL)
    record = json.loads(fresh.read(MODEL.replace("model.safetensors", "run.json")))
    digest = hashlib.sha256((tmp_path / "small_net.pth").read_bytes()).hexdigest()
    backbone = record["configuration"]["model"]["backbone"]
    assert backbone["weights"] == "resources/weights/small_net.pth" and backbone["sha256"] == digest

    weights_yaml(fresh, tmp_path / "small_net.pth", ["http://127.0.0.1:9/another"])
    assert fresh.planned(MODEL) == {}, "another mirror is not another run"
    torch.save(SmallNet().state_dict(), tmp_path / "small_net.pth")
    weights_yaml(fresh, tmp_path / "small_net.pth", ["http://127.0.0.1:9/gone"])
    assert fresh.planned(MODEL) == {"fetch_weights": 1, "train": 1}
    shutil.copy(tmp_path / "small_net.pth", fresh.path("resources/drop/weights/renamed.pth"))
    fresh.succeed("--cores", "2", "resources/weights/small_net.pth")
    result = fresh.path("resources/weights/small_net.pth").read_bytes()
    assert result == (tmp_path / "small_net.pth").read_bytes(), "recognised by its content"


STUDY = small_study(
    title="Letters by others",
    views=["concatenated"],
    published="letters.yaml",
    protocol={
        "transforms": {"resize": {"exact": [64, 64]}, "train": [], "eval": []},
        "model": {
            "backbone": {"name": "bn_inception", "weights": "none"},
            "head": {"class": "Linear", "dim": 128},
        },
        "sampler": {"class": "Shuffled", "batch": 16},
        "optimisers": {},
        "schedule": {"epochs": 3, "evaluate_every": 1},
        "selection": {},
        "evaluation": {"metrics": ["P@1", "MAP@R"], "table": ["P@1", "MAP@R"]},
    },
    methods={
        "untrained": {
            "label": "Untrained",
            "members": 1,
            "model": {"backbone": {"name": "small_net:SmallNet", "weights": "none"}, "head": {"class": "Identity"}},
            "schedule": {"epochs": 0},
        },
        "triplet_released": {"label": "Triplet", "compare_to": "triplet", "released": {"layout": "mlrc"}},
    },
)
PUBLISHED = """
documents:
  - source: The letters' own paper
    values:
      glyphs:
        triplet:
          concatenated: {P@1: 61.23, MAP@R: 41.5}
"""
DROP = "resources/drop/released/letters/glyphs/triplet_released"
RUN = "results/letters/glyphs/triplet_released/seed0/fold1"


@pytest.fixture
def released(tmp_path):
    """A project with a released row, and the checkpoints of its two folds as their authors would release them."""
    project = Project.create(tmp_path / "project", classes=8, per_class=3)
    project.write("config/studies/letters.yaml", STUDY)
    project.write("resources/published/letters.yaml", PUBLISHED)
    for fold in range(2):
        torch.manual_seed(fold)
        folder = tmp_path / f"experiment/Test50_50_Partitions2_{fold}/saved_models"
        folder.mkdir(parents=True)
        layer = torch.nn.Linear(1024, 128)
        embedder = {"net.0.weight": layer.weight.data, "net.0.bias": layer.bias.data}
        embedder |= {name.replace("net.0", "last_linear"): tensor for name, tensor in embedder.items()}
        torch.save(BNInception().state_dict(), folder / f"trunk_best{20 + fold}.pth")
        torch.save(embedder, folder / f"embedder_best{20 + fold}.pth")
    return project


def test_released_checkpoints_are_marked_in_the_table(released, tmp_path):
    table = "results/letters/glyphs/table.md"
    planned = released.planned(table)
    assert (planned["fetch_released"], planned["convert"], planned["train"], planned["embed"]) == (1, 2, 1, 3)
    output = released.fail("--cores", "1", f"{RUN}/model.safetensors")
    assert "method 'triplet_released': Missing trunk_best<epoch>.pth and embedder_best<epoch>.pth of" in output
    assert "Test50_50_Partitions2_0, Test50_50_Partitions2_1 (found: nothing): put these folders, or zip" in output
    assert f"into {DROP} and run the same command again." in output
    assert "Traceback" not in output

    shutil.copytree(tmp_path / "experiment/Test50_50_Partitions2_0", released.path(f"{DROP}/Test50_50_Partitions2_0"))
    with zipfile.ZipFile(released.path(f"{DROP}/drive-download.zip"), "w") as archive:
        for path in sorted((tmp_path / "experiment/Test50_50_Partitions2_1").rglob("*.pth")):
            archive.write(path, path.relative_to(tmp_path))
    released.succeed("--cores", "2", table)

    text = released.read(table)
    row = next(line for line in text.splitlines() if "Triplet (released)" in line)
    assert "61.23" in row and "41.50" in row
    assert "bn_inception (released weights)" in text
    assert (
        "Rows marked “released” are checkpoints published by others; they were evaluated here but not trained here."
        in text
    )
    rows = list(csv.DictReader(released.read(table.replace(".md", ".csv")).splitlines()))
    assert [row["label"] for row in rows] == ["Untrained", "Triplet (released)"]
    assert rows[1]["concatenated_P@1_dim"] == "256" and 0 < float(rows[1]["concatenated_MAP@R_mean"]) < 100

    record = json.loads(released.read(f"{RUN}/run.json"))
    for module in ("trunk", "embedder"):
        source = tmp_path / f"experiment/Test50_50_Partitions2_1/saved_models/{module}_best21.pth"
        assert record["released"][module]["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert record["best_epoch"] == record["released"]["epoch"] == 21
    assert "schedule" not in record["configuration"] and "loss" not in record["configuration"]
    history = list(csv.DictReader(released.read(f"{RUN}/history.csv").splitlines()))
    assert [(row["epoch"], row["source"]) for row in history] == [("21", "released")]
    assert not released.path("results/state").exists() or not any(released.path("results/state").rglob("*.bin"))

    more = released.planned("--config", "seeds=[0,1,2]", "--", table.replace("letters", "letters_selected_seeds_0_1_2"))
    assert "convert" not in more and more["train"] == 2, "released checkpoints have no seeds"
    released.succeed("--cores", "2", "results/letters/figures/glyphs_curves.png")
