"""What ``import recheck`` offers, as its documentation says."""

import doctest
import inspect
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from torch.utils.data import DataLoader, TensorDataset

import recheck
from recheck import parts
from recheck.api import metrics as metrics_module
from recheck.errors import UserError
from recheck.evaluation import candidates
from recheck.training.seeding import derive
from support.project import ROOT, SCRIPTS

LIBRARY = {"P@1": "precision_at_1", "RP": "r_precision", "MAP@R": "mean_average_precision_at_r"}


def problem(seed=0, n=300, d=8, classes=20):
    """Overlapping classes, some with a single item."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([rng.integers(0, classes, n - 2), [100, 101]])
    x = rng.normal(size=(102, d))[labels] + 0.9 * rng.normal(size=(n, d))
    return x.astype(np.float32), labels


def slowly(x, labels, gallery, gallery_labels, skip_self):
    """P@1, RP, MAP@R and R@4 by their definitions, one query at a time."""
    values = {"P@1": [], "RP": [], "MAP@R": [], "R@4": []}
    for query, (row, label) in enumerate(zip(x, labels, strict=True)):
        distances = ((gallery.astype(np.float64) - row.astype(np.float64)) ** 2).sum(axis=1)
        order = [
            place for place in np.lexsort((np.arange(len(gallery)), distances)) if not (skip_self and place == query)
        ]
        right = gallery_labels[order] == label
        if total := right.sum():
            values["P@1"].append(right[0])
            values["RP"].append(right[:total].mean())
            values["MAP@R"].append(sum(right[: i + 1].mean() for i in range(total) if right[i]) / total)
            values["R@4"].append(right[:4].any())
    return {name: float(np.mean(of_queries)) for name, of_queries in values.items()}


def test_the_api_imports_nothing_until_it_is_used():
    program = (
        "import sys, recheck\n"
        "assert not {'numpy', 'torch', 'yaml', 'faiss'} & set(sys.modules)\n"
        "recheck.metrics\n"
        "assert not {'torch', 'faiss', 'sklearn', 'pandas', 'yaml', 'safetensors', 'PIL'} & set(sys.modules)\n"
        "assert {'load', 'losses', 'metrics', 'miners', 'samplers'} <= set(dir(recheck))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=SCRIPTS, check=True)
    with pytest.raises(AttributeError, match="module 'recheck' has no attribute 'nothing'"):
        recheck.nothing  # noqa: B018


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(ImportError, match="NMI or AMI needs the package 'sklearn', which is not installed"):
        recheck.metrics(*problem(), metrics=["NMI"])
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import recheck\n"
        "try:\n    recheck.load\n"
        "except recheck.UserError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("'recheck.load' needs the package 'torch', which is not installed: run `pip install")


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(metrics_module).attempted == 3
    assert doctest.testmod(metrics_module).failed == 0


def test_every_public_function_has_types_and_a_docstring():
    public = [recheck.metrics, recheck.load, recheck.samplers.Batches.draw]
    public += [member for name, member in inspect.getmembers(recheck.Model, inspect.isfunction) if name[0] != "_"]
    assert len(public) > 8
    for function in public:
        assert inspect.getdoc(function), function
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, function
        for name, parameter in signature.parameters.items():
            assert name == "self" or parameter.annotation is not inspect.Parameter.empty, (function, name)


@pytest.mark.parametrize("module", ["losses", "miners", "samplers"])
def test_classes_of_recheck_have_types_and_a_docstring(module):
    of_module = getattr(recheck, module)
    ours = [cls for cls in map(of_module.__dict__.get, of_module.__all__) if cls.__module__.startswith("recheck.")]
    assert ours
    for cls in ours:
        assert cls.__dict__.get("__doc__"), cls
        for name in ("__init__", "forward", "draw", "draw_pass"):
            if name in cls.__dict__:
                signature = inspect.signature(cls.__dict__[name])
                for parameter in list(signature.parameters.values())[1:]:
                    typed = parameter.annotation is not parameter.empty
                    assert typed or parameter.kind is parameter.VAR_KEYWORD, (cls, name, parameter)
                assert name == "__init__" or signature.return_annotation is not signature.empty, (cls, name)


# Metrics


@pytest.mark.parametrize("kind", ["alone", "gallery", "included"])
@pytest.mark.parametrize("form", ["numpy", "torch", "half"])
def test_metrics_agree_with_accuracy_calculator_and_their_definition(kind, form):
    x, labels = problem(1)
    other, other_labels = problem(2)
    if form == "half":  # numbers that both precisions represent exactly
        x, other = x.astype(np.float16).astype(np.float32), other.astype(np.float16).astype(np.float32)
    gallery, gallery_labels = {
        "alone": (x, labels),
        "gallery": (other, other_labels),
        "included": (np.concatenate((x, other)), np.concatenate((labels, other_labels))),
    }[kind]
    options = {} if kind == "alone" else {"gallery": gallery, "gallery_labels": gallery_labels}
    arrays = {"embeddings": x, "labels": labels, **options}
    if form != "numpy":
        arrays = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if form == "half":
        arrays = {name: array.half() if "labels" not in name else array for name, array in arrays.items()}
    included = {"gallery_includes_queries": True} if kind == "included" else {}
    ours = recheck.metrics(**arrays, metrics=[*LIBRARY, "R@4"], **included)
    assert ours == pytest.approx(slowly(x, labels, gallery, gallery_labels, kind != "gallery"), abs=1e-12)
    calculator = AccuracyCalculator(include=tuple(LIBRARY.values()), k="max_bin_count", device=torch.device("cpu"))
    theirs = calculator.get_accuracy(
        *map(torch.from_numpy, (x, labels)),
        *([] if kind == "alone" else map(torch.from_numpy, (gallery, gallery_labels))),
        **({"ref_includes_query": True} if kind == "included" else {}),
    )
    assert recheck.metrics(**arrays, metrics=list(LIBRARY.values()), **included) == pytest.approx(theirs, abs=1e-6)


def test_map_equals_that_of_accuracy_calculator_with_the_whole_ranking():
    x, labels = problem(5)
    calculator = AccuracyCalculator(include=("mean_average_precision",), k=None, device=torch.device("cpu"))
    theirs = calculator.get_accuracy(*map(torch.from_numpy, (x, labels)))
    assert recheck.metrics(x, labels, metrics=["mean_average_precision"]) == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda", 1)])
def test_the_search_is_asked_for_the_given_gpu(monkeypatch, device):
    asked = []
    monkeypatch.setattr(metrics_module, "search_device", lambda wanted, *sizes: wanted)
    monkeypatch.setattr(metrics_module, "evaluate", lambda *_, device, **options: asked.append(device) or {})
    recheck.metrics(*problem(), metrics=[], device=device)
    assert asked == [str(device)]


def test_columns_of_a_table_are_labels():
    x, labels = problem(3)
    words = np.array([f"class {label}" for label in labels], dtype=object)
    assert recheck.metrics(x, words) == recheck.metrics(x, labels)


def test_clusters_lists_strings_and_lengths():
    x, labels = problem(3)
    words = [f"class {label}" for label in labels]
    assert recheck.metrics(x.tolist(), words) == recheck.metrics(x, labels)
    assert recheck.metrics(x, labels, normalise=True) == recheck.metrics(
        x * np.arange(1, 301)[:, None], labels, normalise=True
    )
    assert recheck.metrics(x, labels, normalise=True) != recheck.metrics(x, labels)
    values = recheck.metrics(x, labels, metrics=["NMI", "P@1", "AMI"], seed=1)
    assert list(values) == ["NMI", "P@1", "AMI"] and 0 < values["AMI"] < values["NMI"] < 1


@pytest.mark.parametrize("n", [60, 1500])
def test_the_same_without_faiss(monkeypatch, n):
    """The base of the package does not install faiss."""
    x, labels = problem(4, n=n)
    x[5] = x[6] = x[40]
    wanted = recheck.metrics(x, labels, metrics=["P@1", "RP", "MAP@R", "R@10"])
    candidates.library.cache_clear()
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert candidates.library() is None
    assert recheck.metrics(x, labels, metrics=["P@1", "RP", "MAP@R", "R@10"]) == wanted
    monkeypatch.undo()
    candidates.library.cache_clear()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metrics": "P@1"}, "'metrics' must be a list of names"),
        ({"metrics": ["P@2"]}, "Unknown metric 'P@2'"),
        ({"gallery": np.zeros((3, 2))}, "'gallery' is given without 'gallery_labels'"),
        ({"gallery_labels": [1]}, "'gallery_labels' is given without 'gallery'"),
        ({"gallery_includes_queries": True}, "needs a 'gallery'"),
        ({"gallery": np.zeros((4, 3)), "gallery_labels": [0, 0, 1, 1]}, "'gallery' has 3 dimensions"),
        (
            {"gallery": np.zeros((4, 2)), "gallery_labels": [0, 0, 1, 1], "gallery_includes_queries": True},
            "as the first rows of 'gallery', but these rows differ",
        ),
        ({"embeddings": np.zeros(4)}, r"'embeddings' must be numbers of shape \(rows, dimensions\), found float64"),
        ({"embeddings": [["a", "b"]] * 4}, "'embeddings' must be numbers"),
        ({"labels": [0, 1]}, "Each of the 4 embeddings needs one label"),
        ({"labels": [0, 1, 2, 3]}, "None of the 4 images has another image of its class"),
        ({"embeddings": np.full((4, 2), np.nan)}, "'embeddings' contains NaN or infinity in float32 in 4 of 4 rows"),
        ({"embeddings": np.full((4, 2), 1e200), "normalise": True}, "contains NaN or infinity in float32"),
        (
            {"gallery": np.full((2, 2), np.inf), "gallery_labels": [0, 1]},
            "'gallery' contains NaN or infinity in float32 in 2 of 2 rows",
        ),
        ({"embeddings": np.empty((0, 2)), "labels": []}, "'embeddings' has no rows"),
        ({"embeddings": [], "labels": [], "metrics": ["NMI"]}, "'embeddings' has no rows"),
        ({"gallery": np.empty((0, 2)), "gallery_labels": []}, "'gallery' has no rows"),
        ({"embeddings": [[1, 2], [3]]}, "'embeddings' cannot be read as one array"),
        ({"labels": [[0], [0, 1], [1], [1]]}, "'labels' cannot be read as one array"),
        ({"labels": [0, None, 0, None]}, "'labels' must be numbers or strings, found object"),
        ({"labels": [np.nan] * 4}, "'labels' contains NaN"),
        (
            {"gallery": np.zeros((2, 2)), "gallery_labels": ["0", "1"]},
            "'gallery_labels' are strings, but 'labels' are numbers",
        ),
        (
            {"gallery": np.zeros((2, 2)), "gallery_labels": [5, 6]},
            "None of the 4 queries has an image of its class in the gallery of 2 images",
        ),
        ({"device": "tpu"}, "Unknown device 'tpu'; .*Known: cpu, cuda, mps"),
        ({"metrics": None}, "'metrics' must be a list of names, such as .*, found None"),
        ({"metrics": [1]}, "'metrics' must be a list of names, such as .*, found the entry 1"),
    ],
)
def test_wrong_arguments_of_metrics(change, sentence):
    arguments = {"embeddings": np.arange(8.0).reshape(4, 2), "labels": [0, 0, 1, 1], **change}
    with pytest.raises(UserError, match=sentence):
        recheck.metrics(**arguments)


# Losses, miners, samplers


def used(kind):
    """Classes of a kind that method files name."""
    for path in (ROOT / "config/methods").glob("*.yaml"):
        spec = yaml.safe_load(path.read_text(encoding="utf-8")).get(kind)
        while isinstance(spec, dict):
            yield spec["class"]
            spec = spec.get(kind)


@pytest.mark.parametrize("kind", ["loss", "miner", "sampler"])
def test_all_parts_of_the_papers_are_public_and_documented(kind):
    module = getattr(recheck, {"loss": "losses", "miner": "miners", "sampler": "samplers"}[kind])
    ours = {name for place, names in parts.KINDS[kind].items() if place.startswith("recheck.") for name in names}
    extra = {"Batches"} if kind == "sampler" else set()
    assert set(module.__all__) == ours | set(used(kind)) | extra
    for name in module.__all__:
        assert f"``{name}``" in module.__doc__, name
        cls = getattr(module, name)
        assert name in extra or cls is parts.find(name, kind)
        assert kind == "sampler" or issubclass(cls, torch.nn.Module)


@pytest.mark.parametrize("name", ["SupAPLoss", "SemiHardTripletLoss", "TwoSidedCircleLoss", "TripletMarginLoss"])
def test_losses_train_in_a_plain_training_loop(name):
    torch.manual_seed(0)
    data, labels = torch.randn(40, 6), torch.arange(40) // 4
    net = torch.nn.Linear(6, 4)
    loss = getattr(recheck.losses, name)()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
    sampler = recheck.samplers.MPerClass(labels.numpy(), batch=20, per_class=4, length=40)
    loader = DataLoader(TensorDataset(data, labels), batch_sampler=recheck.samplers.Batches(sampler, seed=0))
    values = []
    for _ in range(15):
        for images, targets in loader:
            value = loss(net(images), targets)
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            values.append(value.item())
    assert np.mean(values[-4:]) < np.mean(values[:4])


def test_a_miner_with_its_loss():
    torch.manual_seed(0)
    embeddings, labels = torch.randn(16, 8, requires_grad=True), torch.arange(16) // 4
    value = recheck.losses.MultiSimilarityLoss()(
        embeddings, labels, recheck.miners.MultiSimilarityMiner(epsilon=0.1)(embeddings, labels)
    )
    value.backward()
    assert embeddings.grad.abs().sum() > 0


def test_batches_are_those_of_a_run_and_can_be_resumed():
    labels = np.arange(60) // 6
    sampler = recheck.samplers.MPerClass(labels, batch=12, per_class=3, length=60)
    batches = recheck.samplers.Batches(sampler, seed=3, fold=1)
    passes = [list(batches) for _ in range(3)]
    assert len(batches) == len(passes[0]) == 5 and passes[0] != passes[1]
    for number, drawn in enumerate(passes):
        generator = np.random.RandomState(derive(3, 1, "sampler", number) % 2**32)  # as in the engine
        assert drawn == sampler.draw(generator)
    again = recheck.samplers.Batches(sampler, seed=3, fold=1)
    again.next_pass = 2
    assert list(again) == passes[2]
    rolling = recheck.samplers.Batches(recheck.samplers.Shuffled(labels, batch=25, last="rollover"))
    assert [len(list(rolling)) for _ in range(5)] == [2, 2, 3, 2, 3]
    with pytest.raises(UserError, match="'sampler' must be a sampler such as"):
        recheck.samplers.Batches([1, 2])
