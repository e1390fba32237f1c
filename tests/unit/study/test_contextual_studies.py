"""config/studies/contextual_*.yaml have the published settings: learning rates, batches, weights, epochs."""

import numpy as np
import pytest
import torch

from recheck.data import transforms
from recheck.methods.losses import build_loss, build_miner
from recheck.methods.samplers import build_sampler
from recheck.study.compose import compose
from recheck.study.published import load_published
from support.datasets.contextual_labels import training_labels
from support.golden.fidelity import compares
from support.project import ROOT
from support.project.studies import FILES, shipped

LINEAR, NONE = True, False
# learning rate, projector, weight of the regulariser, images per class (0: shuffled), warm-up; for CUB, Cars, SOP
TUNED = {
    "contrastive": [(2e-5, LINEAR, 0, 4, 0), (8e-5, LINEAR, 0.1, 4, 0), (4e-5, NONE, 0, 4, 0)],
    "roadmap": [(2e-5, LINEAR, 0.1, 4, 0), (2e-5, LINEAR, 0, 4, 0), (4e-5, NONE, 0.1, 4, 0)],
    "triplet": [(8e-5, NONE, 0.1, 4, 0), (8e-5, NONE, 0.1, 4, 0), (4e-5, NONE, 0.1, 4, 0)],
    "ms_miner": [(1.6e-4, LINEAR, 0, 4, 0), (8e-5, LINEAR, 0, 4, 0), (8e-5, NONE, 0, 4, 0)],
    "proxy_anchor": [(1.6e-4, LINEAR, 0, 0, 10), (8e-5, LINEAR, 0, 0, 10), (1.6e-4, NONE, 0, 0, 1)],
    "proxy_nca": [(1.6e-4, LINEAR, 0, 0, 10), (1.6e-4, LINEAR, 0, 0, 10), (1.6e-4, NONE, 0, 0, 1)],
    "hybrid": [(1.4e-4, LINEAR, 0.1, 4, 0), (8e-5, LINEAR, 0.1, 4, 0), (6e-5, NONE, 0.1, 4, 0)],
}
# batch size, epochs, step and factor of the learning rate, smallest crop, evaluation interval
BUDGETS = {
    "cub200": (128, 60, 10, 0.3, 0.16, 10),
    "cars196": (64, 160, 20, 0.5, 0.12, 10),
    "sop": (128, 80, 15, 0.3, 0.08, 5),
}
RATES_256 = {"cub200": 8e-5, "cars196": 1.6e-4, "sop": 4e-5, "inat_mini": 8e-5, "inshop": 4e-5}
PROXIES = ("proxy_anchor", "proxy_nca", "n_softmax", "cosface")


@pytest.fixture(scope="module")
def small():
    return shipped("contextual_224")


@pytest.fixture(scope="module")
def large():
    return shipped("contextual_256")


# the k of R@k in the tables
RECALLS = {"cub200": (1, 2, 4, 8), "cars196": (1, 2, 4, 8), "sop": (1, 10, 100), "inat_mini": (1, 4, 16, 32)}
RECALLS |= {"inshop": (1, 10, 20, 30, 40, 50)}


@pytest.mark.parametrize("name", ["contextual_224", "contextual_256", "contextual_ablations", "contextual_weight"])
def test_columns_of_every_dataset(name):
    study = shipped(name)
    for dataset in study.datasets:
        shown = study.run(dataset, next(iter(study.rows))).settings["evaluation"]
        assert shown["table"] == [*(f"R@{k}" for k in RECALLS[dataset]), "MAP@R"]
        also = {"sop": {"R@1000"}}.get(dataset, {"R@16", "R@32"}) if name == "contextual_224" else set()
        assert also <= set(shown["metrics"])


def test_transforms_of_256(large):
    crop = {"scale": [0.16, 1.0], "ratio": [0.75, 1.33]}
    for dataset in large.datasets:
        transforms = large.run(dataset, "hybrid").settings["transforms"]
        size, *first = {"sop": (256, 288), "inshop": (256, 288), "inat_mini": (224,)}.get(dataset, (256,))
        before = [{"resize": {"shorter": side}} for side in first]
        assert transforms["train"] == [
            *before,
            {"random_resized_crop": {"size": size, **crop}},
            {"horizontal_flip": {"p": 0.5}},
        ]
        resize = {"exact": [288, 288]} if first else {"shorter": size + 32}
        assert transforms["eval"] == [{"resize": resize}, {"center_crop": {"size": size}}]
        assert transforms.get("resize") == ({"shorter": 288, "jpeg": 75} if dataset == "inat_mini" else None)


@pytest.mark.parametrize("method", TUNED)
@pytest.mark.parametrize("dataset", BUDGETS)
def test_tuned_values_of_224(small, method, dataset):
    rate, projector, regulariser, per_class, warm_up = TUNED[method][list(BUDGETS).index(dataset)]
    batch, epochs, step, factor, scale, every = BUDGETS[dataset]
    if dataset == "sop" and method in PROXIES:
        epochs, step = 115, 21
    run = small.run(dataset, method).settings
    lr = {module: optimiser["lr"] for module, optimiser in run["optimisers"].items()}
    assert lr["backbone"] == lr["head"] == rate
    assert all(
        optimiser["class"] == "AdamW" and optimiser["weight_decay"] == 1e-4 for optimiser in run["optimisers"].values()
    )
    assert bool(run["model"]["projector"]) == projector
    assert not projector or lr["projector"] == pytest.approx(2 * rate)
    assert method not in PROXIES or lr["loss"] == pytest.approx(100 * rate)
    assert run["loss"].get("w_reg", run["loss"].get("weight", 0)) == regulariser
    assert "target" not in run["loss"] or run["loss"]["target"] == 0.3
    assert run["sampler"].get("per_class", 0) == per_class and run["sampler"]["batch"] == batch
    assert (run["sampler"]["class"] == "Shuffled") == (per_class == 0)
    assert (run["schedule"].get("warm_up") or {}).get("epochs", 0) == warm_up
    assert (run["schedule"]["epochs"], run["schedule"]["evaluate_every"]) == (epochs, every)
    assert run["lr_schedule"] == {"class": "StepLR", "step_size": step, "gamma": factor}
    assert run["transforms"]["train"][0]["random_resized_crop"]["scale"] == [scale, 1.0]


def test_weights_of_the_hybrid_loss(small, large):
    keys = ("w_context", "w_contrastive", "w_reg", "target", "pos_margin", "neg_margin")
    expected = dict.fromkeys(("cars196", "sop"), (0.8, 0.2, 0.1, 0.3, 0.75, 0.6, 0.05))
    for dataset, values in {**expected, "cub200": (0.95, 0.05, 0.1, 0.3, 0.75, 0.6, 0.04)}.items():
        loss = small.run(dataset, "hybrid").settings["loss"]
        assert (*(loss[key] for key in keys), loss["eps"]) == values and loss["k"] == 4
    for dataset in large.datasets:
        loss = large.run(dataset, "hybrid").settings["loss"]
        assert [loss[key] for key in keys] == [0.4, 0.5, 0.1, 0.25, 0.75, 0.6]
        assert build_loss(loss, 100, 512).similarity.eps == 0.05


@pytest.mark.parametrize("dataset", RATES_256)
def test_settings_of_256(large, dataset):
    run = large.run(dataset, "proxy_nca").settings
    lr = {module: optimiser["lr"] for module, optimiser in run["optimisers"].items()}
    assert lr == {"backbone": RATES_256[dataset] / 2, "head": RATES_256[dataset], "loss": 1e-3}
    assert all(
        optimiser["class"] == "Adam" and optimiser["weight_decay"] == 1e-4 for optimiser in run["optimisers"].values()
    )
    fine = dataset in ("cub200", "cars196")
    assert (run["model"].get("pooling") == {"class": "Max"}) == fine
    assert run["model"]["head"]["class"] == ("LayerNormLinear" if fine else "Linear")
    assert run["sampler"]["batch"] == (256 if dataset == "inat_mini" else 128)
    image = np.zeros((300, 400, 3), np.uint8)
    size = 224 if dataset == "inat_mini" else 256
    for steps in (run["transforms"]["train"], run["transforms"]["eval"]):
        assert transforms.build(steps)(image, torch.Generator()).shape == (3, size, size)


@compares("sampler", studies=["contextual_224"], parts=["BalancedRounds"], tolerance="equal number of batches")
@compares("sampler", studies=["contextual_256"], parts=["RandomClassGroups"], tolerance="equal number of batches")
@pytest.mark.parametrize(
    ("protocol", "dataset", "batches"),
    [("small", "cub200", 45), ("small", "cars196", 126), ("large", "cub200", 15), ("large", "cars196", 30)],
)
def test_batches_of_an_epoch(request, protocol, dataset, batches):
    sampler = request.getfixturevalue(protocol).run(dataset, "hybrid").settings["sampler"]
    assert len(build_sampler(sampler, training_labels(dataset)).draw(np.random.RandomState(0))) == batches


@pytest.mark.slow
def test_batches_of_an_epoch_on_in_shop_and_inaturalist(large):
    inshop = build_sampler(large.run("inshop", "hybrid").settings["sampler"], training_labels("inshop"))
    assert len(inshop.draw(np.random.RandomState(0))) == 600
    kinds = "Amphibians Animalia Arachnids Birds Fungi Insects Mammals Mollusks Plants Ray-finned_Fishes Reptiles"
    classes = np.repeat(kinds.split(), [85, 71, 77, 743, 171, 1263, 123, 85, 2136, 92, 157])
    spec = large.run("inat_mini", "hybrid").settings["sampler"]
    sampler = build_sampler(spec, np.repeat(np.arange(5003), 50), np.repeat(classes, 50))
    assert len(sampler.draw(np.random.RandomState(0))) == 576


@pytest.mark.parametrize(
    "name", [name for name in FILES.studies if name.startswith("contextual_") and "released" not in name]
)
@pytest.mark.parametrize("variant", [None, "compat", "regularised"])
def test_every_row_can_be_built(name, variant):
    """The classes check their arguments themselves, including nested parts."""
    if variant and variant not in compose(name, FILES).get("variants", {}):
        return
    study = shipped(name, variant=variant)
    for dataset in study.datasets:
        for method in study.rows:
            run = study.run(dataset, method).settings
            loss = build_loss(run["loss"], num_classes=5, embedding_size=8)
            build_miner(run.get("miner"))
            assert bool(list(loss.parameters())) == (method in PROXIES)


def test_compat_has_one_proxy_per_image():
    study = shipped("contextual_224", variant="compat")
    for method in ("proxy_anchor", "proxy_nca"):
        for dataset, images, classes in (("cub200", 5864, 100), ("cars196", 8054, 98), ("sop", 59551, 11318)):
            spec = study.run(dataset, method).settings["loss"]
            assert len(build_loss(spec, classes, 2).proxies) == images


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("contextual_ablations", "contextual_256"),
        ("contextual_regulariser", "contextual_256"),
        ("contextual_weight", "contextual_224"),
        ("contextual_weight_cars", "contextual_224"),
    ],
)
def test_derived_studies_differ_only_in_the_loss(name, base):
    derived, original = shipped(name), shipped(base)
    for dataset in derived.datasets:
        wanted = original.run(dataset, "hybrid").settings
        for method in derived.rows:
            run = derived.run(dataset, method).settings
            assert {**run, "loss": wanted["loss"]} == wanted
            actual, known = ({**settings["loss"], "pos_margin": 0.75, "neg_margin": 0.6} for settings in (run, wanted))
            changed = {key for key in {*actual, *known} if actual.get(key) != known.get(key)}
            assert changed <= {"variant"} if "ablation" in name else changed <= {"w_context", "w_contrastive", "w_reg"}


def test_ablations_are_0_to_10():
    study = shipped("contextual_ablations")
    losses = [run.settings["loss"] for run in study.runs["cub200"].values()]
    assert [loss.get("variant", 0) for loss in losses] == list(range(11))
    assert [int(row.label.split(":")[0]) for row in study.rows.values()] == list(range(11))


def test_weights_of_the_sweeps_match_their_row_names():
    values = {"contextual_weight": [50, 60, 70, 80, 85, 90, 95, 100]}
    values |= {"contextual_weight_cars": [20, 40, 60, 70, 80, 90, 100], "contextual_regulariser": [0, 5, 10, 20, 40]}
    for name, expected in values.items():
        study = shipped(name)
        (rows,) = study.swept().values()
        assert [value for value, _ in rows] == expected
        for value, method in rows:
            loss = study.run(study.datasets[0], method).settings["loss"]
            weight = loss["w_reg"] if name == "contextual_regulariser" else loss["w_context"]
            assert weight == pytest.approx(value / 100)
            total = 1.0 if name == "contextual_regulariser" else 1.1
            assert loss["w_context"] + loss["w_contrastive"] + loss["w_reg"] == pytest.approx(total)


def test_published_rows_are_rows_of_the_studies():
    for name in ("contextual_224", "contextual_256", "contextual_weight", "contextual_weight_cars"):
        study = shipped(name)
        for document in load_published(ROOT / "resources/published" / study.published):
            for dataset, rows in document["values"].items():
                assert set(rows) <= set(study.rows) and dataset in study.datasets
                computed = study.run(dataset, next(iter(rows))).settings["evaluation"]["metrics"]
                for views in rows.values():
                    assert set(views) <= set(study.views)
                    assert all({*metrics} <= {*computed, "train_R@1"} for metrics in views.values())
