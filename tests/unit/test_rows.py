"""Every row of the miniature studies trains in the engine, and any of them under another study's protocol.

In this process and on a network of a few weights: what is tested are samplers, forward passes, losses, heads,
optimisers and schedules together. Through the command line the same rows run in their own studies.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from glyphs import make_glyphs
from project import ROOT

from recheck import config
from recheck.data.fold import FoldData
from recheck.data.folder import parse_folder
from recheck.data.packed import PackedImages, pack
from recheck.study.yaml import names_in
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.loading import embed

STUDIES = names_in([ROOT / "config/studies"])
TINY = [name for name in STUDIES if name.endswith(("_tiny", "_faults")) or "_tiny_" in name]
UNBIASED = list(config.load_study("unbiased", STUDIES)["methods"])
SMALL = {"name": "small_net:SmallNet", "weights": "none"}
STEPS = {"epochs": 2, "steps_per_epoch": 2, "evaluate_every": 1, "patience": None}


def rows(names):
    return [(name, method) for name in names for method in config.load_study(name, STUDIES)["methods"]]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """20 classes to train, 6 for everything else."""
    folder = tmp_path_factory.mktemp("glyphs")
    root = make_glyphs(folder / "images", classes=26, per_class=6)
    index = parse_folder({"name": "glyphs"}, folder, root)
    pack(index, root, None, folder / "packed", index_sha256="0")
    labels = index["label"].to_numpy()
    roles = {"train": np.flatnonzero(labels < 20)} | dict.fromkeys(("val", "test"), np.flatnonzero(labels >= 20))
    return FoldData(PackedImages(folder / "packed"), labels, roles, np.where(labels % 2, "odd", "even"))


def trained(study, method, data, folder, fold=0):
    """A run of a row on its first dataset, with fewer steps and a smaller network."""
    settings = config.resolve(study, next(iter(study["datasets"])), method)
    made = config.training_part(config.merge(settings, {"schedule": STEPS if settings["schedule"]["epochs"] else {}}))
    kept = {key: value for key, value in made["model"]["backbone"].items() if key in ("frozen", "input_scale")}
    made = {**made, "model": {**made["model"], "backbone": {**SMALL, **kept}}}
    run = Run(made, data, 0, fold, torch.device("cpu"), StateFile(folder / "state", "f"), folder / "events")
    start = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    return run, start, run.train()


def check(run, start, outcome, data):
    losses = [row["loss"] for row in outcome.history if row["loss"] is not None]
    assert all(map(math.isfinite, losses))
    if run.trains:
        assert len(losses) == 2
        now = run.model.state_dict()
        assert any(not torch.equal(start[name], tensor) for name, tensor in now.items() if "num_batches" not in name)
    embeddings = embed(
        run.model,
        data.images,
        data.roles["test"],
        run.eval_transform,
        8,
        run.device,
        torch.autocast("cpu", enabled=False),
    )
    assert embeddings.shape == (36, run.model.dim)
    assert np.isfinite(embeddings).all()


@pytest.mark.parametrize(("study", "method"), rows(TINY))
def test_a_row_trains_under_its_own_protocol(study, method, data, tmp_path):
    check(*trained(config.load_study(study, STUDIES), method, data, tmp_path), data)


@pytest.mark.parametrize("method", UNBIASED)
def test_a_row_of_the_unbiased_evaluation_trains_under_the_reality_checks_protocol(method, data, tmp_path):
    smaller = {"npair": {"sampler": {"batch": 32}}, "angular": {"sampler": {"batch": 32}}}
    smaller |= {"facility_location": {"datasets": {"cub200": {"sampler": {"batch": 40}}}}}
    smaller |= {"margin": {"sampler": {"batch": 40}}, "ranked_list": {"sampler": {"batch": 30}}}
    smaller |= {"prototypical": config.load_study("unbiased_tiny", STUDIES)["methods"]["prototypical"]}
    own = {key: value for key, value in smaller.get(method, {}).items() if key in ("sampler", "loss", "datasets")}
    study = {"base": "mlrc_tiny", "title": "Any method", "methods": {method: {"from": "unbiased", **own}}}
    path = Path(tmp_path, "mine.yaml")
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    loaded = config.load_study("mine", {**STUDIES, "mine": path})
    settings = config.resolve(loaded, "emoji", method)
    assert settings["selection"] == config.resolve(loaded, "emoji", "triplet")["selection"]
    run, start, outcome = trained(loaded, method, data, tmp_path)
    check(run, start, outcome, data)
    assert outcome.best_on_test is None
    assert outcome.best_value is not None
