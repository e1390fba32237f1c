"""Every row of every study on the simulated GPU, and the table of what one training step does there.

``make gpu`` writes the table, tests/golden/gpu_counts.csv. A test fails if a row needs more than its line says.
"""

import contextlib
import csv
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image
from torch.utils._python_dispatch import _disable_current_modes

from recheck.data.fold import FoldData
from recheck.data.folder import parse_folder
from recheck.data.packed import PackedImages, pack
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.interrupt import Interrupted
from recheck.training.loading import Loading
from support.project import ROOT
from support.project.runs import StopAfter
from support.project.studies import FILES, shipped
from support.services.simulated_gpu import Counts, SimulatedGPU

TABLE = ROOT / "tests" / "golden" / "gpu_counts.csv"
COLUMNS = ("row", "loss", "miner", "syncs", "launches")
SMALL = {"name": "support.project.small_net:SmallNet", "weights": "none"}
SHORT = {"steps_per_epoch": 2, "evaluate_every": 1, "patience": None}
SIZE = 12
CLASSES, PER_CLASS = 90, 6
EVALUATED = 4
"""Classes that are evaluated; no count depends on them."""
SMALLEST = 32
"""Images in the smallest batch that is counted, if a row of that kind has larger ones."""
LARGEST = 360
"""Images in the largest batch that is counted; the training classes fill it without repeating a class."""
ALLOWED = {
    "DynamicSoftMarginLoss": {"cumsum"},
    "FastAPLoss": {"cumsum"},
    "HistogramLoss": {"cumsum"},
    "SoftBinAPLoss": {"cumsum"},
}
"""Operations without a deterministic kernel on a GPU that a loss may use; docs/determinism.md says why."""


def family_of(study: str) -> str:
    return study.split("_")[0]


FAMILIES = sorted({family_of(study) for study in FILES.studies})


def noise(folder: Path, size: int = SIZE, per_class: int = PER_CLASS, evaluated: int = 10) -> FoldData:
    """Images of noise, with as many classes as the largest batch needs.

    The first ``evaluated`` classes, at most ten, are for evaluation, and those after the tenth for training.
    """
    generator = np.random.RandomState(0)
    for number in range(CLASSES):
        (folder / "images" / f"{number:03}").mkdir(parents=True)
        for image in range(per_class):
            pixels = generator.randint(0, 256, (size, size, 3), np.uint8)
            Image.fromarray(pixels).save(folder / "images" / f"{number:03}" / f"{image}.bmp")
    index = parse_folder({"name": "noise"}, folder, folder / "images")
    pack(index, folder / "images", None, folder / "packed", index_sha256="0")
    labels = index["label"].to_numpy()
    others = np.flatnonzero(labels < evaluated)
    roles = {"train": np.flatnonzero(labels >= 10), **dict.fromkeys(("val", "test"), others)}
    return FoldData(PackedImages(folder / "packed"), labels, roles, np.where(labels % 2, "odd", "even"))


BACKBONES = ("bn_inception", "efficientnet_b0", "efficientnet_lite0", "efficientnet_lite2", "mobilenet_v2", "resnet50")
TRANSFORMERS = (
    "timm/deit_small_distilled_patch16_224.fb_in1k",
    "timm/vit_small_patch16_224.augreg_in21k",
    "timm/vit_small_patch16_224.dino",
    "timm/vit_base_patch14_dinov2.lvd142m",
)
"""All backbones that the studies train, which are tested by themselves; transformers with two small layers."""


def kinds(family: str) -> dict[str, dict[str, Any]]:
    """One entry per kind of row in a family: "study/dataset/row" of its first row → settings of one of its rows.

    Rows are of one kind if they have the same parts with the same arguments, apart from initial weights and numbers (a
    ``variant`` counts even if it is a number). Samplers, transforms and learning-rate schedules are not compared,
    because they are the host's work, nor are backbones, because all are replaced.
    """
    by_kind: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, settings in trained_rows(family):
        assert settings["model"]["backbone"]["name"] in (*BACKBONES, *TRANSFORMERS)
        model = {key: value for key, value in settings["model"].items() if key != "backbone"}
        parts = {
            **{key: settings.get(key) for key in ("loss", "miner", "forward", "optimisers", "relabel")},
            **{key: settings["schedule"].get(key) for key in ("warm_up", "train_affine_after_warm_up")},
            "precision": settings.get("precision"),
            "model": model,
            "frozen": settings["model"]["backbone"].get("frozen") is True,
        }
        key = json.dumps(_without_numbers(parts), sort_keys=True)
        first, chosen = by_kind.get(key, (name, settings))
        by_kind[key] = first, min(chosen, settings, key=_size)
    return dict(by_kind.values())


def trained_rows(family: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in [name for name in FILES.studies if family_of(name) == family]:
        study = shipped(name)
        for dataset in study.datasets:
            for row in study.rows:
                run = study.run(dataset, row)
                if run.trained:
                    yield f"{name}/{dataset}/{row}", run.training


def _size(settings: dict[str, Any]) -> tuple[bool, int]:
    batch = settings["sampler"]["batch"]
    return (False, batch) if batch >= SMALLEST else (True, -batch)


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key == "variant" or not _is_number(item)}
        return {key: _without_numbers(item) for key, item in kept.items() if key not in ("init", "lr_schedule")}
    return [_without_numbers(item) for item in value] if isinstance(value, (list, tuple)) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def shortened(settings: dict[str, Any], size: int = SIZE, network: dict[str, Any] = SMALL) -> dict[str, Any]:
    """The row with a small network, small images, few steps and less evaluation.

    Loss, miner, forward pass, head, projector, batches, precision and optimisers are the row's.
    """
    spec = settings["model"]["backbone"]
    # the small network has none of the parts that a row freezes by name
    backbone = {key: spec[key] for key in ("frozen", "input_scale") if key in spec and not isinstance(spec[key], list)}
    sampler = {**settings["sampler"], "batch": min(settings["sampler"]["batch"], LARGEST)}
    for key, most in (("length", 8 * sampler["batch"]), ("batches", 8), ("cap", 8)):
        if key in sampler:
            sampler[key] = min(sampler[key], most)
    schedule = {**settings["schedule"], **SHORT, "epochs": 1}
    if schedule.get("warm_up"):
        schedule |= {"epochs": 2, "warm_up": {**schedule["warm_up"], "epochs": 1}}
    watched = {role: names for role, names in settings["selection"].get("watch", {}).items() if role != "train"}
    return {
        **settings,
        "selection": {**settings["selection"], "watch": watched},
        "model": {**settings["model"], "backbone": {**network, **backbone}},
        "transforms": {phase: [{"center_crop": {"size": size}}] for phase in ("train", "eval")},
        "sampler": sampler,
        "schedule": schedule,
    }


def make_run(settings: dict[str, Any], data: FoldData, folder: Path, **more: Any) -> Run:
    return Run(settings, data, 0, 0, torch.device("cuda"), StateFile(folder, "f"), folder / "events", **more)


def counted(settings: dict[str, Any], data: FoldData, folder: Path, gpu: SimulatedGPU) -> tuple[Counts, Counts]:
    """Train, stop, resume and finish a run on the simulated GPU; the counts of all of it, and of one more step."""
    with loading_on_the_host():
        with gpu.counting() as all_counts:
            try:
                make_run(settings, data, folder, stop=StopAfter(1)).train()
                raise AssertionError("The run did not stop.")
            except Interrupted:
                run = make_run(settings, data, folder)
                run.train()
        never_skipping(run)
        with gpu.counting() as step:
            run.take_step()
    return all_counts, step


@contextlib.contextmanager
def loading_on_the_host() -> Iterator[None]:
    """Context in which images are loaded outside of the simulated GPU, as in a loader process, which has none."""
    inside = Loading.__getitem__

    def outside(*arguments: Any) -> Any:
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return inside(*arguments)

    with mock.patch.object(Loading, "__getitem__", outside):
        yield


def never_skipping(run: Run) -> None:
    """Replace the gradient scaler by one whose scale is 1: a step that overflows in float16 would launch less."""
    run.scaler = torch.amp.GradScaler("cuda", init_scale=1.0, enabled=run.scaler.is_enabled())


def line(name: str, settings: dict[str, Any], step: Counts) -> dict[str, str]:
    miner = settings.get("miner") or {}
    values = (name, _class(settings["loss"]), miner.get("class", ""), step.syncs.total(), step.launches)
    return dict(zip(COLUMNS, map(str, values), strict=True))


def classes_in(spec: Any) -> set[str]:
    """All classes that a part and the parts inside it name."""
    if isinstance(spec, dict):
        spec = [spec.get("class", ""), *spec.values()]
    return set().union(*map(classes_in, spec)) if isinstance(spec, list) else {spec} if isinstance(spec, str) else set()


def _class(loss: dict[str, Any]) -> str:
    """Class of a loss, with the class of the loss inside it."""
    inner = loss.get("loss")
    return f"{loss['class']}({_class(inner)})" if isinstance(inner, dict) else loss["class"]


def read_table() -> dict[str, dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["row"]: row for row in csv.DictReader(file)}


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, SimulatedGPU() as gpu:
        data = noise(Path(folder), evaluated=EVALUATED)
        lines = [
            line(name, settings, counted(shortened(settings), data, Path(folder, name), gpu)[1])
            for family in FAMILIES
            for name, settings in kinds(family).items()
        ]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
