"""Weights and released checkpoints on the real command line."""

import csv
import hashlib
import json
import re
import shutil
import zipfile

import pytest
import torch
import yaml
from safetensors import safe_open

from recheck.models.bn_inception import BNInception
from support.datasets import miniatures, original_layouts
from support.project import Project, small_study
from support.project.small_net import SmallNet
from support.services.servers import serving

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


def test_weights_are_fetched_and_runs_depend_on_their_content_only(fresh, closed, tmp_path):
    torch.manual_seed(0)
    network = SmallNet()
    torch.save(network.state_dict(), tmp_path / "small_net.pth")
    weights_yaml(fresh, tmp_path / "small_net.pth", [f"{closed}/gone"])
    fresh.edit("config/studies/letters.yaml", 'SmallNet", weights: none', 'SmallNet", weights: letters')

    output = fresh.fail("--cores", "2", MODEL)
    assert f"small_net.pth could not be downloaded (url {closed}/gone: no answer" in output
    assert (
        ". Get it by hand: ask for small_net.pth on https://example.org. Put it into resources/drop/weights" in output
    )
    assert "Traceback" not in output and not fresh.path("resources/weights/small_net.pth").exists()

    with serving() as server:
        url = server.give("/small_net.pth", (tmp_path / "small_net.pth").read_bytes())
        weights_yaml(fresh, tmp_path / "small_net.pth", [f"{closed}/gone", url])
        fresh.succeed("--cores", "2", MODEL)
    record = json.loads(fresh.read(MODEL.replace("model.safetensors", "run.json")))
    digest = hashlib.sha256((tmp_path / "small_net.pth").read_bytes()).hexdigest()
    backbone = record["configuration"]["model"]["backbone"]
    assert backbone["weights"] == "resources/weights/small_net.pth" and backbone["sha256"] == digest
    assert record["weights"] == {"file": "small_net.pth", "sha256": digest}

    weights_yaml(fresh, tmp_path / "small_net.pth", [f"{closed}/another"])
    assert fresh.planned(MODEL) == {}, "another mirror is not another run"
    torch.save(SmallNet().state_dict(), tmp_path / "small_net.pth")
    weights_yaml(fresh, tmp_path / "small_net.pth", [f"{closed}/gone"])
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
        "Rows marked “released” are checkpoints published by others, which were evaluated but not trained here." in text
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


def give_by_hand(project, name, tree, expected, lists=None, closed=None):
    """A miniature of a benchmark in the drop folder, and its real YAML with the checksums of the miniature."""
    dataset = yaml.safe_load(project.read(f"config/datasets/{name}.yaml"))
    dataset["expected"] = expected
    archives = miniatures.make_archives(name, tree, project.path(f"resources/drop/{name}"))
    for entry, archive in zip(dataset["files"], archives, strict=True):
        for key in ("size", "md5", "sha256"):
            entry.pop(key, None)
        entry |= {"sha256": hashlib.sha256(archive.read_bytes()).hexdigest(), "from": [{"manual": "ask"}]}
    for role, content in (lists or {}).items():
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        dataset["split_lists"][role] |= {"git_blob": blob, "from": [{"url": f"{closed}/gone"}]}
    project.write(f"config/datasets/{name}.yaml", yaml.safe_dump(dataset, sort_keys=False))


def test_the_authors_contextual_checkpoints_and_their_split(tmp_path, closed):
    """Pickled networks in the original layout, on miniatures: with a generated split, then with the authors' lists."""
    project = Project.create(tmp_path / "project", classes=2, per_class=1).add_shipped_studies()
    # a fourth of the side is a sixteenth of the work for a ResNet-50
    study = project.read("config/studies/contextual_released.yaml")
    smaller = re.sub(r"(?<=size: |rter: )\d+", lambda side: str(int(side[0]) // 4), study)
    assert smaller.count("size: 64") == 2 and smaller.count("shorter: 72") == 2
    project.write("config/studies/contextual_released.yaml", smaller)
    planned = project.planned("contextual_released")
    jobs = {"fetch_released": 5, "convert": 5, "embed": 5, "evaluate_epochs": 5, "table": 5, "fetch_lists": 1}
    assert {job: planned.get(job) for job in (*jobs, "train")} == {**jobs, "train": None}

    trees = {name: getattr(miniatures, f"make_{name}")(tmp_path / name) for name in ("cub200", "inat_mini")}
    chosen = {"train": (0, 1, 4), "test": (2, 3)}  # species; the generated split has others
    folders = {int(path.name[:5]): path for path in (trees["inat_mini"] / "train_mini").iterdir()}
    lists = {
        role: "".join(
            f"{path.parent.name}/{path.name},{int(species > 2)},{species}\n"
            for species in members
            for path in sorted(folders[species].iterdir())
        ).encode()
        for role, members in chosen.items()
    }
    give_by_hand(project, "cub200", trees["cub200"], {"images": 12})
    give_by_hand(project, "inat_mini", trees["inat_mini"], {"images": 15}, lists, closed)
    drop = "resources/drop/released/contextual_released/{}/hybrid_released/{}.pt"
    networks = {
        "cub200": original_layouts.contextual_network(True),
        "inat_mini": original_layouts.contextual_network(False),
    }
    original_layouts.save_contextual(project.path(drop.format("cub200", "CUB_hybrid_lam_0.4")), networks["cub200"])
    original_layouts.save_contextual(
        project.path(drop.format("inat_mini", "iNat_hybrid")), torch.nn.DataParallel(networks["inat_mini"])
    )
    tables = {name: f"results/contextual_released/{name}/table.md" for name in networks}
    project.succeed("--cores", "2", *tables.values())
    text = project.read(tables["cub200"])
    row = next(line for line in text.splitlines() if "(released, best on test)" in line)
    assert "68.97" in row and "resnet50 (released weights)" in text
    run = "results/contextual_released/cub200/hybrid_released/seed0/fold0"
    record = json.loads(project.read(f"{run}/run.json"))
    assert record["released"]["layout"] == "contextual" and record["best_epoch"] is None
    with safe_open(project.path(f"{run}/model.safetensors"), framework="pt") as model:
        assert torch.equal(model.get_tensor("head.weight"), networks["cub200"].remap.weight)
    assert "Split: generated here, because the authors' lists could not be fetched." in project.read(
        tables["inat_mini"]
    )

    split = json.loads(project.read("results/contextual_released/inat_mini/split.json"))
    assert split["lists"] is False
    for role, content in lists.items():
        project.path(f"resources/drop/inat_mini/{role}.txt").write_bytes(content)
    planned = project.planned(tables["inat_mini"])
    assert planned["fetch_lists"] == planned["split"] == planned["embed"] == 1 and "pack" not in planned
    project.succeed("--cores", "2", tables["inat_mini"])
    assert "Split: the authors' published lists." in project.read(tables["inat_mini"])
    images = list(csv.DictReader(project.read("resources/datasets/inat_mini/images.csv").splitlines()))
    fold = json.loads(project.read("results/contextual_released/inat_mini/split.json"))["folds"][0]
    assert {role: {int(images[image]["label"]) for image in members} for role, members in fold.items()} == {
        role: set(species) for role, species in chosen.items()
    }
    assert project.planned(tables["inat_mini"]) == {}
