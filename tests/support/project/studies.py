"""A study whose rows bring all they need, for tests that change it and read it again."""

from functools import cache
from pathlib import Path

from recheck.data.description import Dataset, load_dataset, load_weights, with_weights
from recheck.study.checks import check_study
from recheck.study.compose import Files
from recheck.study.model import Study, load_study
from recheck.study.yaml import names_in
from support.project import ROOT, small_study

FILES = Files(names_in([ROOT / "config/studies"]), names_in([ROOT / "config/methods"]))
WEIGHTS = load_weights(names_in([ROOT / "config/weights"]))

# small_study() with pretrained weights, part of a shipped dataset, and one row of each kind
TEXT = small_study(
    description="A few emoji.",
    views=["concatenated", "separated"],
    datasets={"emoji": {"classes": {"every": 4}}},
    protocol={
        "model": {
            "backbone": {"name": "efficientnet_lite0", "weights": "imagenet"},
            "head": {"class": "Linear", "dim": 16},
            "batch_norm": "frozen",
        },
    },
    methods={
        "untrained": {
            "label": "Untrained",
            "members": 1,
            "model": {"head": {"class": "Identity"}},
            "schedule": {"epochs": 0},
            "reduction": {"kind": "standardise_pca", "dims": {"separated": 128, "concatenated": 512}},
        },
        "triplet": {"label": "Triplet", "loss": {"class": "TripletMarginLoss", "margin": 0.1}},
        "mined": {
            "label": "MS + miner",
            "loss": {"class": "MultiSimilarityLoss", "alpha": 2.0, "beta": 50.0, "base": 0.5},
            "miner": {"class": "MultiSimilarityMiner", "epsilon": 0.1},
        },
        "arcface": {
            "label": "ArcFace",
            "loss": {"class": "ArcFaceLoss", "margin": 20.0, "scale": 32.0},
            "sampler": {"per_class": 1},
        },
    },
)


@cache
def dataset_of(name: str) -> Dataset:
    """A shipped dataset's description."""
    return load_dataset(name, names_in([ROOT / "config/datasets"]), "tests")


def shipped(name: str, variant: str | None = None, **chosen) -> Study:
    """A study of config/studies, checked; tests share it, so none may change it."""
    if chosen:
        return _checked(load_study(name, FILES, with_weights=weights_of, variant=variant, **chosen))
    return _shipped(name, variant)


@cache
def _shipped(name: str, variant: str | None) -> Study:
    return _checked(load_study(name, FILES, with_weights=weights_of, variant=variant))


def _checked(study: Study) -> Study:
    check_study(study)
    return study


def own_study(folder: Path, text: str = TEXT, name: str = "mine", **chosen) -> Study:
    """A study of this text, beside those of config/studies, checked."""
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    files = Files({**FILES.studies, name: path}, FILES.methods)
    return _checked(load_study(name, files, with_weights=weights_of, **chosen))


def changed(folder: Path, *changes: tuple[str, str]) -> Study:
    """``TEXT`` with some words replaced."""
    text = TEXT
    for old, new in changes:
        assert old in text, f"'{old}' is not in the study"
        text = text.replace(old, new, 1)
    return own_study(folder, text)


def weights_of(settings, source):
    return with_weights(settings, WEIGHTS, "resources/weights", source)
