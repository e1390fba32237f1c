"""Folders of finished runs with small untrained models, as the workflow writes them."""

import json

import torch

from recheck.api.model import load
from recheck.files import sha256, write_json
from recheck.models.embedding import EmbeddingModel, save_model

SPEC = {
    "backbone": {"name": "support.project.small_net:SmallNet", "weights": "none"},
    "head": {"class": "Linear", "dim": 16},
}
DATA = {"split": "a", "pixels": "b"}
RESIZE = {"shorter": 30}
EVAL = [{"resize": {"exact": [28, 32]}}, {"center_crop": {"size": 26}}]
MEASURED = {"precision": 0.91, "recall": 0.8, "f1": 0.85, "binary_accuracy": 0.6, "accuracy": 0.7, "value": 0.85}


def write_run(folder, spec=SPEC, resize=RESIZE, steps=EVAL, images=None, seed=0, **distances):
    """Files of a study for one method and seed, with an untrained model."""
    torch.manual_seed(seed)
    file = folder / "fold0" / "model.safetensors"
    save_model(file, EmbeddingModel(spec).state_dict(), spec, DATA)
    distances = {"seen_queries": 0.4, "unseen_queries": 0.2, **distances}
    about = {
        "study": "calibration",
        "dataset": "glyphs",
        "method": "circle",
        "seed": seed,
        "model": "fold0/model.safetensors",
        "model_sha256": sha256(file),
        "transforms": {"resize": resize, "eval": steps},
        "images": images or {},
        "thresholds": {
            name: {"distance": distance, **MEASURED, "queries": 980} for name, distance in distances.items()
        },
    }
    write_json(folder / "calibration.json", about)
    return folder


def write_fold(folder, spec=SPEC, resize=RESIZE, steps=EVAL, images=None, seed=0, batch=10, **changes):
    """A fold's files without thresholds: model.safetensors and run.json; ``changes`` are settings."""
    torch.manual_seed(seed)
    save_model(folder / "model.safetensors", EmbeddingModel(spec).state_dict(), spec, DATA)
    configuration = {
        "model": spec,
        "sampler": {"class": "MPerClass", "batch": batch},
        "transforms": {"resize": resize, "eval": steps, "train": []},
        **changes,
    }
    record = {"study": "letters", "dataset": "glyphs", "method": "triplet", "seed": 0, "fold": seed}
    write_json(folder / "run.json", {**record, "configuration": configuration, "data": DATA, "images": images or {}})
    return folder


def with_distances(run, **distances):
    """The same run with other thresholds."""
    change(run, lambda about: [about["thresholds"][name].update(distance=d) for name, d in distances.items()])
    return load(run, own_code=True)


def change(run, edit, name="calibration.json"):
    about = json.loads((run / name).read_text(encoding="utf-8"))
    edit(about)
    write_json(run / name, about)


def paths_of(glyphs):
    return sorted(glyphs.rglob("*.png"))
