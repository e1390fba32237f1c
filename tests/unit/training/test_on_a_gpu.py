"""Every row of every study trains, stops, resumes and is evaluated on a simulated GPU (support.services.simulated_gpu).

Nothing may mix devices, need an operation without a deterministic kernel that is not listed, or make the host wait for
the GPU more often than tests/golden/gpu_counts.csv says. ``make gpu`` writes that table.
"""

import pytest
import torch
from torch import nn

from recheck.models.embedding import EmbeddingModel
from recheck.training.interrupt import Interrupted
from recheck.training.tryout import try_row
from support.golden.gpu_counts import (
    ALLOWED,
    BACKBONES,
    EVALUATED,
    FAMILIES,
    TABLE,
    TRANSFORMERS,
    classes_in,
    counted,
    family_of,
    kinds,
    line,
    make_run,
    noise,
    read_table,
    shortened,
)
from support.project.runs import CONFIGURATION, StopAfter
from support.services.simulated_gpu import SimulatedGPU

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return noise(tmp_path_factory.mktemp("noise"), evaluated=EVALUATED)


@pytest.fixture
def gpu():
    with SimulatedGPU() as gpu:
        yield gpu


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_run_on_a_gpu_and_wait_no_more_often_than_the_table_says(family, gpu, data, tmp_path):
    table, names, problems = read_table(), set(), []
    for name, settings in kinds(family).items():
        names.add(name)
        run, step = counted(shortened(settings), data, tmp_path / name, gpu)
        allowed = set().union(*(ALLOWED.get(loss, set()) for loss in classes_in(settings["loss"])))
        unordered = {place for place in run.not_deterministic if place.split()[0] not in allowed}
        if unordered:
            problems.append(f"{name} uses operations without a deterministic kernel on a GPU: {sorted(unordered)}")
        now, most = line(name, settings, step), table.get(name)
        for column in ("syncs", "launches") if most else ():
            if int(now[column]) > int(most[column]):
                places = "".join(f"\n  {count} × {place}" for place, count in step.syncs.most_common())
                problems.append(f"{name}: {column} {now[column]}, at most {most[column]} in {TABLE.name}.{places}")
    assert not problems, "\n".join([*problems, "If this is intended, run `make gpu` and commit the table."])
    listed = {name for name in table if family_of(name.split("/")[0]) == family}
    assert names == listed, f"{TABLE.name} has other rows of '{family}': run `make gpu`."


@pytest.mark.parametrize("name", [*BACKBONES, *TRANSFORMERS])
def test_backbones_are_deterministic_and_never_wait(name, gpu):
    small = {"img_size": 64, "patch_size": 16, "embed_dim": 48, "depth": 2, "num_heads": 3}
    options = {"options": small} if name in TRANSFORMERS else {}
    spec = {"backbone": {"name": name, "weights": "none", **options}, "head": {"class": "Linear", "dim": 8}}
    model = EmbeddingModel(spec).to("cuda").train()
    images = torch.zeros(2, 3, 64, 64, dtype=torch.uint8, device="cuda")
    with gpu.counting() as counts:
        model(images).sum().backward()
    assert not counts.syncs and not counts.not_deterministic
    assert all(weight.grad.is_cuda for weight in model.parameters())


def test_an_untrained_row_and_a_tried_one(gpu, data, tmp_path):
    settings = shortened({**CONFIGURATION, "lr_schedule": None})
    untrained = {**settings, "schedule": {**settings["schedule"], "epochs": 0}}
    outcome = make_run(untrained, data, tmp_path).train()
    assert not any(weight.is_cuda for weight in outcome.weights.values())
    lines = try_row(settings, data, torch.device("cuda")).lines()
    assert any(line.startswith("gradients") for line in lines)


class Remembering(nn.Module):
    """A loss that keeps the mean embedding of the last batch as a plain attribute."""

    def forward(self, embeddings, labels):
        last = getattr(self, "last", torch.zeros_like(embeddings[0]))
        self.last = embeddings.detach().mean(0)
        return (embeddings - last).square().sum()


def test_tensors_that_a_new_loss_lacks_come_back_on_the_gpu(gpu, data, tmp_path):
    settings = shortened({**CONFIGURATION, "loss": {"class": f"{__name__}:Remembering"}, "lr_schedule": None})
    with pytest.raises(Interrupted):
        make_run(settings, data, tmp_path, stop=StopAfter(1)).train()
    run = make_run(settings, data, tmp_path)
    run.train()
    assert run.loss.last.is_cuda
