"""A training job imports only the modules that its parts need, and none is replaced by another object."""

import functools
import subprocess
import sys
import textwrap

import pytest

from support.project import ROOT

pytestmark = pytest.mark.slow

START = """
    import sys
    import recheck.training.record
    from recheck.models.embedding import save_model
    from recheck.training import engine, history, interrupt
"""
TRAIN = """
    import numpy as np
    import torch
    from recheck.methods.losses import build_loss
    from recheck.methods.optimisers import build_optimisers
    from recheck.methods.samplers import build_sampler

    sampler = build_sampler(
        {{"class": "MPerClass", "batch": 4, "per_class": 2, "length": 8}}, np.arange(8) // 2
    )
    net, labels = torch.nn.Linear(2, 2), torch.arange(4) // 2
    loss = build_loss({{"class": "{loss}"}}, num_classes=4, embedding_size=2)
    optimisers = build_optimisers({{"head": {{"class": "Adam", "lr": 0.1}}}}, {{"head": net}})
    before = net.weight.detach().clone()
    loss(net(torch.arange(8.0).view(4, 2) / 100), labels).backward()
    optimisers["head"].step()
    assert not torch.equal(net.weight, before)
"""
# whether a module that has a file was loaded from there
REPORT = """
    from importlib.machinery import PathFinder

    for name, module in list(sys.modules.items()):
        package, _, _ = name.rpartition(".")
        path = getattr(sys.modules.get(package), "__path__", [] if package else None)
        spec = PathFinder.find_spec(name, path)
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        print(name, "real" if spec is None or origin in (spec.origin, "frozen", "built-in") else "replaced")
"""
NEVER = {"matplotlib", "pandas", "sklearn", "timm", "torchvision", "yaml", "jsonschema"}
LIBRARY = {"pytorch_metric_learning", "scipy"}
COMPILER = {"torch._dynamo", "torch._inductor", "sympy"}


@functools.cache
def imported(*programs):
    program = "".join(textwrap.dedent(program) for program in programs)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "workflow/scripts", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def test_the_start_of_a_training_job():
    assert not (NEVER | LIBRARY | COMPILER | {"faiss", "tensorboard"}) & set(imported(START, REPORT))


@pytest.mark.parametrize(("loss", "unused"), [("SemiHardTripletLoss", LIBRARY), ("TripletMarginLoss", set())])
def test_a_training_step_imports_the_library_of_its_loss(loss, unused):
    """PyTorch's optimisers import its compiler in their first step."""
    result = set(imported(START, TRAIN.format(loss=loss), REPORT))
    assert not (NEVER | unused) & result
    assert result >= COMPILER


def replaced(*programs):
    result = imported(*programs, REPORT)
    assert len(result) > 1000
    return {name for name, state in result.items() if state == "replaced"}


def test_modules_are_replaced_only_by_their_own_library():
    """PyTorch replaces some of its modules, such as torch.backends, by objects."""
    torch_only = replaced("import sys, torch, torch._dynamo, torch.utils.data, pytorch_metric_learning.losses")
    assert all(name.startswith("torch.") for name in torch_only)
    assert replaced(START, TRAIN.format(loss="TripletMarginLoss")) <= torch_only


def test_a_replaced_module_is_detected():
    fake = """
        import types, importlib.machinery
        sys.modules["scipy.stats"] = types.ModuleType("scipy.stats")
        sys.modules["scipy.stats"].__spec__ = importlib.machinery.ModuleSpec("scipy.stats", None)
        import scipy
    """
    assert "scipy.stats" in replaced(START, fake)
