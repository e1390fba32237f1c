"""Settings of the studies of today's backbones, compared with the facts that their papers and programs state."""

import json

import numpy as np
import pytest

from recheck.data.fold import FoldData
from recheck.errors import UserError
from recheck.methods.samplers import build_sampler
from recheck.models.backbones import build_backbone
from recheck.study.published import load_published
from support.project import ROOT
from support.project.runs import make_run, packed_glyphs
from support.project.studies import own_study, shipped

ROWS = [f"{kind}_{network}" for kind in ("sph", "hyp") for network in ("deit", "dino", "vit")]
# dataset → batch, images per class, epochs, shorter side in evaluation
PROTOCOL = {
    "cub200": (900, 9, 50, 256),
    "cars196": (882, 9, 300, 224),
    "sop": (900, 2, 200, 224),
    "inshop": (900, 2, 400, 224),
}
SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 1, "num_heads": 3}


@pytest.mark.parametrize("dataset", PROTOCOL)
@pytest.mark.parametrize("row", ROWS)
def test_settings_of_hyp_vit(row, dataset):
    batch, per_class, epochs, side = PROTOCOL[dataset]
    hyperbolic = row.startswith("hyp")
    run = shipped("hyperbolic").run(dataset, row)
    settings = run.training
    assert settings["sampler"] == {"class": "MPerClass", "batch": batch, "per_class": per_class, "length": batch}
    assert settings["schedule"]["epochs"] == epochs and not settings["selection"].get("role")
    assert settings["loss"]["per_class"] == per_class
    assert settings["loss"]["temperature"] == (0.2 if hyperbolic else 0.1)
    rate = 1e-5 if row.endswith("dino") else 3e-5
    adam = {"class": "AdamW", "lr": rate, "weight_decay": 0.01}
    assert settings["optimisers"] == {"backbone": adam, "head": adam} and "lr_schedule" not in settings
    assert settings["clip_gradient_norm"] == 3 and settings["precision"] == "float16"
    assert settings["model"]["backbone"]["frozen"] == ["patch_embed"]
    head = settings["model"]["head"]
    assert (head["dim"], head["init"]) == (128, "orthogonal 1")
    assert not hyperbolic or (head["curvature"], head["clip"]) == (0.1, 2.3)
    assert run.evaluation.get("curvature") == (0.1 if hyperbolic else None)
    crop, flip = settings["transforms"]["train"]
    assert crop["random_resized_crop"]["scale"] == [0.2, 1.0] and flip == {"horizontal_flip": {"p": 0.5}}
    assert crop["random_resized_crop"]["interpolation"] == "bicubic" and crop["random_resized_crop"]["size"] == 224
    resized = {"resize": {"shorter": side, "interpolation": "bicubic"}}
    assert settings["transforms"]["eval"] == [resized, {"center_crop": {"size": 224}}]


@pytest.mark.parametrize(
    ("row", "mean"),
    [("hyp_vit", 0.5 * 255), ("hyp_deit", 0.485 * 255), ("hyp_dino", 0.485 * 255)],
)
def test_normalisation_of_the_transformers(row, mean):
    spec = shipped("hyperbolic").run("cub200", row).training["model"]["backbone"]
    assert build_backbone({**spec, "weights": "none", "options": SMALL}).mean[0] == pytest.approx(mean)


@pytest.mark.parametrize(("dataset", "classes"), [("cub200", 100), ("cars196", 98), ("sop", 1000)])
def test_a_batch_has_each_class_once(dataset, classes):
    """An epoch has each class once, too; on CUB and Cars it is one batch."""
    batch, per_class, _, _ = PROTOCOL[dataset]
    labels = np.repeat(np.arange(classes), 12)
    sampler = build_sampler(shipped("hyperbolic").run(dataset, "hyp_vit").training["sampler"], labels)
    drawn = sampler.draw(np.random.RandomState(0))
    assert len(drawn) == classes * per_class // batch
    seen = labels[np.array(drawn).reshape(-1, per_class)]
    assert (seen == seen[:, :1]).all() and len(np.unique(seen[:, 0])) == len(seen)
    assert all(len(set(images)) == batch for images in drawn)


def test_the_patch_embedding_never_changes(tmp_path):
    images, labels = packed_glyphs(tmp_path, classes=14)
    data = FoldData(images, labels, {"train": np.arange(len(labels))}, np.full(len(labels), ""))
    settings = shipped("modern_tiny").run("emoji", "hyp_vit").training
    run = make_run(data, tmp_path / "run", settings, fold=0)
    before = {name: weight.detach().clone() for name, weight in run.model.backbone.named_parameters()}
    run.take_step()
    changed = {name for name, weight in run.model.backbone.named_parameters() if (weight != before[name]).any()}
    assert changed == {name for name in before if not name.startswith("patch_embed.")} < before.keys()
    stepped = {
        id(weight) for each in run.optimisers.values() for group in each.param_groups for weight in group["params"]
    }
    assert not stepped & {id(weight) for weight in run.model.backbone.patch_embed.parameters()}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": {"head": {"curvature": 1}}}, "'evaluation.curvature' is 0.1, but 'model.head.curvature' is 1"),
        ({"loss": {"distance": {"curvature": 0.2}}}, "but 'loss.distance.curvature' is 0.2. Set both to the same"),
    ],
)
def test_one_curvature_for_head_loss_and_evaluation(tmp_path, changes, sentence):
    mine = {"base": "modern_tiny", "title": "Two curvatures", "methods": {"hyp_vit": changes}}
    with pytest.raises(UserError, match=sentence):
        own_study(tmp_path, json.dumps(mine))


def test_the_recipe_of_2025_stops_after_three_evaluations_without_improvement(tmp_path):
    """'patience' is the number of epochs without improvement that are allowed; the run ends with the next one."""
    settings = shipped("recipe_2025").run("cub200", "ms_miner").training
    assert settings["schedule"] == {"epochs": 100, "evaluate_every": 1, "patience": 2}
    assert (settings["selection"]["role"], settings["selection"]["metric"]) == ("val", "P@1")
    images, labels = packed_glyphs(tmp_path, classes=8)
    roles = {"train": np.flatnonzero(labels < 5), "val": np.flatnonzero(labels >= 5)}
    data = FoldData(images, labels, roles, np.full(len(labels), ""))
    small = {
        **settings,
        "model": {**settings["model"], "backbone": {"name": "support.project.small_net:SmallNet", "weights": "none"}},
        "transforms": {"train": [], "eval": []},
        "sampler": {**settings["sampler"], "batch": 8, "batches": 1},
        "optimisers": {"backbone": {"class": "SGD", "lr": 0.0}},
        "precision": "float32",
    }
    outcome = make_run(data, tmp_path / "run", small, fold=0).train()
    assert [row["epoch"] for row in outcome.history] == [0, 1, 2, 3] and outcome.best_epoch == 0


PUBLISHED = {
    "hyperbolic": {
        ("sph_deit", "backbone"): (76.2, 81.7, 82.5, 89.6),
        ("sph_dino", "backbone"): (78.7, 86.6, 82.2, 90.1),
        ("sph_vit", "backbone"): (85.1, 81.7, 82.1, 90.4),
        ("hyp_deit", "backbone"): (77.8, 86.4, 83.3, 90.5),
        ("hyp_dino", "backbone"): (80.9, 89.2, 85.1, 92.4),
        ("hyp_vit", "backbone"): (85.6, 86.5, 85.9, 92.5),
        ("hyp_deit", "head"): (74.7, 82.1, 83.0, 90.9),
        ("hyp_dino", "head"): (78.3, 86.0, 84.6, 92.6),
        ("hyp_vit", "head"): (84.0, 82.7, 85.5, 92.7),
    },
    "frozen": {
        ("deit_s", "backbone"): (70.6, 52.8, 58.3, 37.9),
        ("dino_s", "backbone"): (70.8, 42.9, 63.4, 46.1),
        ("vit_s", "backbone"): (83.1, 47.8, 62.1, 43.2),
        ("unicom_b32", "backbone"): (83.7, 95.9, 70.0, 72.8, 64.6),
        ("unicom_b16", "backbone"): (86.5, 96.8, 70.4, 74.6, 73.6),
        ("unicom_l14", "backbone"): (88.5, 96.9, 72.7, 83.6, 77.1),
        ("unicom_l14_336", "backbone"): (89.2, 97.3, 74.5, 86.7, 81.0),
    },
}
DATASETS = ("cub200", "cars196", "sop", "inshop", "inat2018")


@pytest.mark.parametrize("study", PUBLISHED)
def test_published_values(study):
    """R@1 on CUB, Cars, SOP and In-Shop, and UNICOM's on iNaturalist."""
    published = {}
    for document in load_published(ROOT / f"resources/published/{study}.yaml"):
        for dataset, rows in document["values"].items():
            for row, views in rows.items():
                for view, values in views.items():
                    assert values.keys() == {"R@1"}
                    published.setdefault((row, view), {})[dataset] = values["R@1"]
    assert published == {
        key: dict(zip(DATASETS[: len(values)], values, strict=True)) for key, values in PUBLISHED[study].items()
    }
