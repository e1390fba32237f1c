"""The table of parts: matches the modules it names, checks studies and builds their parts."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning import distances, reducers, regularizers
from pytorch_metric_learning.samplers import MPerClassSampler
from pytorch_metric_learning.utils import common_functions
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from recheck import parts
from recheck.errors import UserError
from recheck.methods.samplers import build_sampler
from support.project import ROOT

# kind → our folders and modules in which every public class with this base is a part
OWN = {
    "loss": ("recheck.methods.losses",),
    "miner": ("recheck.methods.miners",),
    "distance": ("recheck.methods.losses",),
    "reducer": ("recheck.methods.losses",),
    "regulariser": ("recheck.methods.losses",),
    "sampler": ("recheck.methods.samplers",),
    "forward": ("recheck.methods.forward",),
    "relabel": ("recheck.methods.relabelling",),
    "pooling": ("recheck.models.pooling", "recheck.models.shifted_gem"),
    "head": ("recheck.models.heads",),
    "projector": ("recheck.models.projector",),
    "optimiser": ("recheck.methods",),
    "lr_schedule": ("recheck.methods",),
    "transform": ("recheck.data.transforms",),
}
BASE = {
    "loss": nn.Module,
    "miner": nn.Module,
    "distance": distances.BaseDistance,
    "reducer": reducers.BaseReducer,
    "regulariser": regularizers.BaseRegularizer,
    "optimiser": Optimizer,
    "lr_schedule": LRScheduler,
}
NOT_LOSSES = tuple(BASE[kind] for kind in ("distance", "reducer", "regulariser"))
# base classes that compute nothing themselves; the steps of a transform one after the other
NO_PARTS = ("Base", "Mixin", "GenericPairLoss", "LRScheduler", "Optimizer", "Foreach", "Compose")


def modules_of(name):
    module = importlib.import_module(name)
    below = pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}.")
    return [module, *(importlib.import_module(each.name) for each in below)]


def classes_of(kind, module):
    """Public classes of a module that are parts of a kind."""
    return {
        (module.__name__, name)
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, BASE.get(kind, object)) and not (kind == "loss" and issubclass(cls, NOT_LOSSES))
        if not name.startswith(("_", *NO_PARTS)) and not name.endswith(NO_PARTS) and not inspect.isabstract(cls)
    }


def listed(kind, ours):
    return {
        (module, cls)
        for module, classes in parts.KINDS[kind].items()
        for cls in (classes.values() if isinstance(classes, dict) else classes)
        if module.startswith("recheck.") == ours
    }


@pytest.mark.parametrize("kind", parts.KINDS)
def test_the_table_has_exactly_the_classes_of_our_own_modules(kind):
    defined = set()
    for module in (module for name in OWN[kind] for module in modules_of(name)):
        defined |= {
            (place, name) for place, name in classes_of(kind, module) if getattr(module, name).__module__ == place
        }
    assert listed(kind, ours=True) == defined


@pytest.mark.parametrize("kind", BASE)
def test_the_table_has_exactly_the_classes_of_the_libraries(kind):
    """Except classes that we replace by a faster or corrected one of the same name."""
    (name,) = {module for module, _ in listed(kind, ours=False)}
    replaced = {(name, cls) for _, cls in listed(kind, ours=True)}
    assert listed(kind, ours=False) == classes_of(kind, importlib.import_module(name)) - replaced


@pytest.mark.parametrize("kind", parts.KINDS)
def test_every_name_is_listed_once_and_can_be_imported(kind):
    names = parts.names(kind)
    assert len(names) == len(set(names))
    assert all(inspect.isclass(parts.find(name, kind)) for name in names)


def test_our_own_classes_come_before_the_libraries():
    for modules in parts.KINDS.values():
        ours = [module.startswith("recheck.") for module in modules]
        assert ours == sorted(ours, reverse=True)


def test_checking_imports_no_library():
    program = "import sys; from recheck import parts; parts.check({'class': 'HybridLoss'}, 'loss', 'x'); "
    program += "print(*({'torch', 'numpy', 'pytorch_metric_learning', 'recheck.methods'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "workflow/scripts", capture_output=True, text=True, check=True
    )
    assert not done.stdout.split()


TRIPLET = {"class": "TripletMarginLoss", "margin": 0.1}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A user's file that must be read but never imported."""
    (tmp_path / "mine.py").write_text("raise RuntimeError\n\n\nclass Loss:\n    pass\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (TRIPLET, "loss"),
        ({**TRIPLET, "distance": {"class": "LpDistance", "p": 2}, "embedding_regularizer": None}, "loss"),
        ({"class": "CrossBatchMemory", "loss": TRIPLET, "miner": {"class": "BatchHardMiner"}}, "loss"),
        ({"class": "mine:Loss", "distance": 3, "loss": {"p": 2}}, "loss"),
        ({"class": "mine:Loss", "inside": {"class": "GeM"}}, "loss"),
        ({"class": "Adam", "lr": 1, "lr_factors": {"Conv2d": 0.1}}, "optimiser"),
    ],
)
def test_parts_that_can_be_built_pass(spec, kind, mine):
    parts.check(spec, kind, "a.yaml")


@pytest.mark.parametrize(
    ("spec", "kind", "sentence"),
    [
        ({"class": "UserError"}, "sampler", "a.yaml: unknown class 'UserError' in 'sampler'; known: BalancedClasses, "),
        ({"class": "build"}, "head", "unknown class 'build' in 'head'"),
        ({"class": "ShiftedLpDistance"}, "loss", "unknown class 'ShiftedLpDistance' in 'loss'"),
        ({"class": "BaseMetricLossFunction"}, "loss", "unknown class 'BaseMetricLossFunction'"),
        ({"class": "GM"}, "pooling", "unknown class 'GM' in 'pooling'; did you mean 'GeM'?"),
        ({"class": "LinearProjecter"}, "projector", "in 'projector'; did you mean 'LinearProjector'?"),
        ({"class": "Multiview"}, "forward", "in 'forward'; did you mean 'MultiView'?"),
        ({"class": "MetaClass"}, "relabel", "in 'relabel'; did you mean 'MetaClasses'?"),
        ({**TRIPLET, "distance": {"class": "LpDistanc"}}, "loss", "in 'loss.distance'; did you mean 'LpDistance'?"),
        ({**TRIPLET, "distance": {"class": "MeanReducer"}}, "loss", "'MeanReducer' in 'loss.distance'"),
        ({**TRIPLET, "reducer": {"class": "MeanReduce"}}, "loss", "in 'loss.reducer'; did you mean 'MeanReducer'?"),
        (
            {"class": "ScaledLoss", "loss": {**TRIPLET, "embedding_regularizer": {"class": "LpRegulariser"}}},
            "loss",
            "in 'loss.loss.embedding_regularizer'; did you mean 'LpRegularizer'?",
        ),
        ({"class": "CrossBatchMemory", "loss": TRIPLET, "miner": {"class": "X"}}, "loss", "'X' in 'loss.miner'"),
        ({"class": "mine:Loss", "inside": {"class": "GM"}}, "loss", "unknown class 'GM' in 'loss.inside'"),
        ({"class": "a:b:c"}, "loss", "unknown class 'a:b:c' in 'loss'"),
        ({"class": "mine:"}, "loss", "unknown class 'mine:' in 'loss'"),
        (
            {"class": "mine:Los"},
            "loss",
            "a.yaml: 'loss' is 'mine:Los', but mine.py does not define 'Los'; did you mean",
        ),
        ({"class": "min:Loss"}, "loss", "but there is no file min.py beside the Snakefile; did you mean 'mine'?"),
        ({"margin": 1}, "loss", r"'loss' must have the form {class: …}, found {'margin': 1}\."),
        ({"class": 3}, "loss", r"'loss' must have the form {class: …}, found {'class': 3}\."),
        (3, "loss", r"'loss' must have the form {class: …}, found 3\."),
        ({"class": "ScaledLoss", "loss": 3}, "loss", r"'loss.loss' must have the form {class: …}, found 3\."),
        ({**TRIPLET, "distance": {"p": 2}}, "loss", r"'loss.distance' must have the form .* found {'p': 2}\."),
        ({**TRIPLET, "distance": {"class": None}}, "loss", "'loss.distance' must have the form"),
    ],
)
def test_mistakes_are_named_before_anything_is_imported(spec, kind, sentence, mine):
    with pytest.raises(UserError, match=sentence):
        parts.check(spec, kind, "a.yaml")


def test_errors_name_the_key_of_a_part():
    with pytest.raises(UserError, match=r"^a.yaml: unknown class 'Adm' in 'optimisers.head'; did you mean 'Adam'\?"):
        parts.check({"class": "Adm"}, "optimiser", "a.yaml", "optimisers.head")


def test_a_nested_part_is_built_by_the_kind_of_its_argument():
    spec = {**TRIPLET, "distance": {"class": "ShiftedLpDistance", "shift": 1e-6}}
    assert parts.build(spec, "loss").distance.shift == 1e-6
    with pytest.raises(UserError, match="Unknown distance 'MeanReducer'"):
        parts.build({**TRIPLET, "distance": {"class": "MeanReducer"}}, "loss")
    with pytest.raises(UserError, match="Unknown argument 'q' of distance 'LpDistance'"):
        parts.build({**TRIPLET, "distance": {"class": "LpDistance", "q": 1}}, "loss")


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=12),
    st.integers(1, 4),
    st.integers(6, 90),
    st.integers(0, 99),
)
def test_m_per_class_draws_what_pytorch_metric_learning_draws(counts, per_class, length, seed):
    labels = np.random.RandomState(seed).permutation(np.repeat(np.arange(len(counts)) * 3, counts))
    spec = {"class": "MPerClass", "batch": 2, "per_class": per_class, "length": length}
    ours = build_sampler(spec, labels).draw(np.random.RandomState(seed))
    theirs = MPerClassSampler(labels, per_class, batch_size=None, length_before_new_iter=length)
    theirs.labels.sort()
    before = common_functions.NUMPY_RANDOM
    common_functions.NUMPY_RANDOM = np.random.RandomState(seed)
    try:
        stream = [int(position) for position in theirs]
    finally:
        common_functions.NUMPY_RANDOM = before
    assert ours == [stream[start : start + 2] for start in range(0, len(stream) - 1, 2)]
