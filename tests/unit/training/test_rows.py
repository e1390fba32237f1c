"""Every row of the miniature studies trains in the engine, and any of them under another study's protocol.

They run in this process on a network of a few weights, and test samplers, forward passes, losses, heads,
optimisers and schedules together. Through the command line the same rows run in their own studies.
"""

import json
import math

import numpy as np
import pytest
import torch

from recheck.data.fold import FoldData
from recheck.study.compose import compose
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.loading import embed
from support.project.runs import packed_glyphs
from support.project.studies import FILES, own_study, shipped

pytestmark = pytest.mark.slow

TINY = [name for name in FILES.studies if name.endswith(("_tiny", "_faults")) or "_tiny_" in name]
UNBIASED = {
    row.name: compose("unbiased", FILES)["methods"][row.name]["method"] for row in shipped("unbiased").rows.values()
}
SMALL = {"name": "support.project.small_net:SmallNet", "weights": "none"}
# Pixels scaled twice are all almost 0, so random weights give every image the same embedding.
FAULTS = {"scaled_twice": ["constant_loss"]}
# evaluated before the first step and after the last one
STEPS = {"epochs": 2, "steps_per_epoch": 2, "evaluate_every": 2, "patience": None}


def rows(names):
    return [(name, method) for name in names for method in shipped(name).rows]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """20 classes to train, 4 for everything else."""
    folder = tmp_path_factory.mktemp("glyphs")
    images, labels = packed_glyphs(folder, classes=24)
    roles = {"train": np.flatnonzero(labels < 20)} | dict.fromkeys(("val", "test"), np.flatnonzero(labels >= 20))
    return FoldData(images, labels, roles, np.where(labels % 2, "odd", "even"))


def trained(study, method, data, folder, fold=0):
    """A run of a row on its first dataset, with fewer steps and a smaller network."""
    run = study.run(study.datasets[0], method)
    made = dict(run.training)
    if run.trained:
        made["schedule"] = {**made["schedule"], **STEPS}
    backbone = made["model"]["backbone"]
    # the small network has none of the parts that a row freezes by name
    kept = {
        key: backbone[key]
        for key in ("frozen", "input_scale")
        if key in backbone and not isinstance(backbone[key], list)
    }
    made = {**made, "model": {**made["model"], "backbone": {**SMALL, **kept}}}
    run = Run(made, data, 0, fold, torch.device("cpu"), StateFile(folder / "state", "f"), folder / "events")
    start = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    return run, start, run.train()


def check(run, start, outcome, data, faults=()):
    losses = [row["loss"] for row in outcome.history if row["loss"] is not None]
    assert all(map(math.isfinite, losses))
    if run.trains:
        # The small network starts from random weights, which is a fault only if its batch norm is frozen.
        frozen = bool(run.model.frozen or run.model.frozen_batch_norm)
        assert [warning["check"] for warning in outcome.warnings] == [*["frozen_batch_norm"] * frozen, *faults]
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
    assert embeddings.shape == (24, run.model.dim)
    assert np.isfinite(embeddings).all()


@pytest.mark.parametrize(("study", "method"), rows(TINY))
def test_a_row_trains_under_its_own_protocol(study, method, data, tmp_path):
    check(*trained(shipped(study), method, data, tmp_path), data, FAULTS.get(method, ()))


@pytest.mark.parametrize("row", UNBIASED)
def test_a_method_of_the_unbiased_evaluation_trains_under_the_reality_checks_protocol(row, data, tmp_path):
    """Naming the method is enough if it needs no special batches."""
    pairs, episodes = {"batches": 8}, {"classes": 6, "supports": 3, "queries": 3}
    needs = {
        "npair": {"sampler": pairs},
        "angular": {"sampler": pairs},
        "facility_location": {"sampler": {"class": "BalancedClasses", "batch": 40, "per_class": 5, "batches": 8}},
        "margin": {"sampler": {"batch": 40, "batches": 8}},
        "ranked_list": {"sampler": {"batch": 30, "batches": 8}},
        "prototypical": {"sampler": {"batch": 36, "batches": 8, **episodes}, "loss": {"loss": episodes}},
        "dreml": {"members": 3, "relabel": {"count": 6}, "model": {"head": {"dim": 6}}},
    }
    loss = {"optimisers": {"loss": {"class": "RMSprop", "lr": 1e-3}}}
    mine = {
        "base": "mlrc_tiny",
        "title": "Any method",
        "methods": {f"my_{row}": {"method": UNBIASED[row], **loss, **needs.get(row, {})}},
    }
    study = own_study(tmp_path, json.dumps(mine))
    settings = study.run("emoji", f"my_{row}").settings
    assert settings["selection"] == study.run("emoji", "triplet").settings["selection"]
    run, start, outcome = trained(study, f"my_{row}", data, tmp_path)
    check(run, start, outcome, data)
    assert outcome.best_on_test is None
    assert outcome.best_value is not None
