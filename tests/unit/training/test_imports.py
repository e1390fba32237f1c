"""A training job imports only the modules that its parts need, and none is replaced by another object."""

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
# whether a module that has a file was loaded from there; each file is looked for once per process
REPORT = """
    from importlib.machinery import PathFinder

    specs = globals().get("specs", {})
    for name, module in list(sys.modules.items()):
        if name not in specs:
            package, _, _ = name.rpartition(".")
            path = getattr(sys.modules.get(package), "__path__", [] if package else None)
            specs[name] = PathFinder.find_spec(name, path)
        spec = specs[name]
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        print(name, "real" if spec is None or origin in (spec.origin, "frozen", "built-in") else "replaced")
"""
NEXT = "NEXT"
NEVER = {"matplotlib", "pandas", "sklearn", "timm", "torchvision", "yaml", "jsonschema"}
LIBRARY = {"pytorch_metric_learning", "scipy"}
COMPILER = {"torch._dynamo", "torch._inductor", "sympy"}
TORCH_ONLY = "import sys, torch, torch._dynamo, torch.utils.data, pytorch_metric_learning.losses"
FAKE = """
    import types, importlib.machinery
    sys.modules["scipy.stats"] = types.ModuleType("scipy.stats")
    sys.modules["scipy.stats"].__spec__ = importlib.machinery.ModuleSpec("scipy.stats", None)
"""


def imported(*programs):
    """After each of the programs, which run one after the other in one process: module → real or replaced."""
    each = [textwrap.dedent(program) + textwrap.dedent(REPORT) + f"\nprint({NEXT!r})\n" for program in programs]
    done = subprocess.run(
        [sys.executable, "-c", "".join(each)],
        cwd=ROOT / "workflow/scripts",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [dict(line.split() for line in text.splitlines()) for text in done.stdout.split(f"{NEXT}\n")[:-1]]


def replaced(modules):
    assert len(modules) > 1000
    return {name for name, state in modules.items() if state == "replaced"}


def test_a_training_job_imports_what_its_parts_need_and_replaces_no_module():
    """The start of a job, a step with a loss of our own, and a step with a loss of the library.

    PyTorch's optimisers import its compiler in their first step. PyTorch replaces some of its modules, such as
    torch.backends, by objects.
    """
    start, ours, library = imported(
        START, TRAIN.format(loss="SemiHardTripletLoss"), TRAIN.format(loss="TripletMarginLoss")
    )
    assert not (NEVER | LIBRARY | COMPILER | {"faiss", "tensorboard"}) & set(start)
    assert not (NEVER | LIBRARY) & set(ours)
    assert set(ours) >= COMPILER
    assert not NEVER & set(library)
    torch_only, fake = imported(TORCH_ONLY, FAKE)
    assert all(name.startswith("torch.") for name in replaced(torch_only))
    assert replaced(library) <= replaced(torch_only)
    assert replaced(fake) == replaced(torch_only) | {"scipy.stats"}, "a replaced module is detected"
