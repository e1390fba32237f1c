"""A training job does not load what it does not use, and whoever uses it gets it."""

import subprocess
import sys
import textwrap

from project import ROOT

SLOW = ("scipy.stats._stats_py", "sklearn", "pandas", "sympy", "torch._inductor", "torch._dynamo.config", "torchvision")


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT / "workflow" / "scripts",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_training_job_does_not_load_what_it_does_not_use_and_who_asks_gets_it():
    found = run(f"""
        import sys
        import torch
        from recheck.models.embedding import save_model
        from recheck.training import engine, history, interrupt, record
        from recheck.training.seeding import make_deterministic

        make_deterministic(True)
        assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
        net = torch.nn.Linear(2, 1)
        optimiser = torch.optim.Adam(net.parameters(), lr=0.1)

        def step():
            optimiser.zero_grad()
            net(torch.ones(1, 2)).sum().backward()
            optimiser.step()
            return net.weight.detach().clone()

        first = step()
        print(*(name for name in {SLOW} if name in sys.modules))

        import scipy.stats
        from scipy.special import binom
        from pytorch_metric_learning import samplers
        assert list(scipy.stats.rankdata([3, 1])) == [2, 1] and binom(4, 2) == 6
        assert samplers.MPerClassSampler([0, 0, 1, 1], 2)

        import torch._dynamo.config
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        assert compiled(torch.ones(1)).item() == 2
        assert torch._dynamo.disable(step)().sub(first).abs().min() > 0, "optimisers go on when the compiler is there"
    """)
    assert not found.split(), f"loaded for nothing: {found}"
