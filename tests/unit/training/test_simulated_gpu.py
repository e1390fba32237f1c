"""The simulated GPU of the tests refuses what CUDA refuses, and counts what slows CUDA down."""

import numpy as np
import pytest
import torch

from support.services.simulated_gpu import MixedDevices, SimulatedGPU

HERE = "tests/unit/training/test_simulated_gpu.py"


@pytest.fixture
def gpu():
    with SimulatedGPU() as gpu:
        yield gpu


def on_gpu(*values):
    return torch.tensor(values).to("cuda", non_blocking=True)


def test_tensors_say_where_they_are_and_have_the_values_of_the_cpu(gpu):
    tensor = on_gpu(1.0, 2.0)
    assert tensor.device == torch.device("cuda:0") and tensor.is_cuda and not tensor.is_cpu
    assert isinstance(tensor, torch.Tensor) and (tensor * 2).device.type == "cuda"
    assert torch.equal((tensor * 2).cpu(), torch.tensor([2.0, 4.0]))
    assert torch.zeros(3, device=tensor.device).is_cuda and tensor.new_ones(3).is_cuda
    assert torch.tensor([3], device="cuda").item() == 3 and torch.as_tensor([3]).cuda().tolist() == [3]
    assert torch.ones(2).device.type == "cpu"


MIXTURES = {
    "sum": lambda: on_gpu(1.0, 2.0) + torch.ones(2),
    "product": lambda: torch.eye(2) @ on_gpu(1.0, 2.0),
    "cat": lambda: torch.cat([on_gpu(1.0), torch.ones(1)]),
    "stack of numbers": lambda: torch.stack([on_gpu(1.0)[0], torch.ones(())]),
    "index on the GPU": lambda: torch.ones(2)[on_gpu(1)],
    "assigned values": lambda: on_gpu(1.0, 2.0).__setitem__(on_gpu(0, 1), torch.ones(2)),
    "number of the CPU changed in place": lambda: torch.ones(()).add_(on_gpu(1.0)[0]),
    "network": lambda: torch.nn.Linear(2, 1)(on_gpu(1.0, 2.0)),
    "weights": lambda: torch.nn.Linear(2, 1).to("cuda")(torch.ones(2)),
    "generator": lambda: torch.rand(2, device="cuda", generator=torch.Generator()),
}


@pytest.mark.parametrize("mixture", MIXTURES)
def test_devices_must_not_be_mixed(gpu, mixture):
    with pytest.raises(MixedDevices, match=HERE):
        MIXTURES[mixture]()


def test_some_mixtures_are_allowed_as_on_cuda(gpu):
    tensor = on_gpu(1.0, 2.0)
    assert (tensor * torch.tensor(2.0)).tolist() == [2.0, 4.0]
    assert tensor[torch.tensor([1])].tolist() == [2.0]
    assert tensor[:1].copy_(torch.ones(1)).is_cuda
    for refused in (tensor.numpy, lambda: np.asarray(tensor)):
        with pytest.raises(TypeError, match=r"Tensor\.cpu"):
            refused()


WAITS = {
    "item": (1, lambda t: t[0].item()),
    "if": (1, lambda t: 1 if t[0] > 0 else 0),
    "float": (1, lambda t: float(t[0])),
    "cpu": (1, lambda t: t.cpu()),
    "cpu, not waiting": (0, lambda t: t.to("cpu", non_blocking=True)),
    "tolist": (1, lambda t: t.tolist()),
    "nonzero": (1, lambda t: t.nonzero()),
    "where": (1, lambda t: torch.where(t > 1)),
    "unique": (1, lambda t: t.unique()),
    "mask": (1, lambda t: t[t > 1]),
    "masked_fill": (0, lambda t: t.masked_fill(t > 1, 0)),
    "assignment by mask": (1, lambda t: t.__setitem__(t > 1, t[:2].clone())),
    "equal": (1, lambda t: torch.equal(t, t)),
    "all": (1, lambda t: bool((t == t).all())),
    "multinomial": (2, lambda t: t.multinomial(1)),
    "repeat_interleave": (1, lambda t: t.repeat_interleave(torch.tensor([1, 1, 2]).to("cuda", non_blocking=True))),
    "to the device": (1, lambda t: torch.ones(3).to("cuda")),
    "to the device, not waiting": (0, lambda t: torch.ones(3).to("cuda", non_blocking=True)),
    "number to the device": (1, lambda t: torch.tensor(3, device="cuda")),
    "index on the CPU": (1, lambda t: t[torch.tensor([1])]),
    "sort, sum, softmax": (0, lambda t: t.sort().values.sum() + t.softmax(0)),
    "backward": (0, lambda t: t.clone().requires_grad_().square().sum().backward()),
    "backward of a mask": (2, lambda t: t.clone().requires_grad_()[t > 1].sum().backward()),
}


@pytest.mark.parametrize("wait", WAITS)
def test_the_host_waits(gpu, wait):
    expected, function = WAITS[wait]
    tensor = on_gpu(1.0, 2.0, 3.0)
    with gpu.counting() as counts:
        function(tensor)
    assert counts.syncs.total() == expected, counts.syncs
    assert all(HERE in place for place in counts.syncs)


UNORDERED = {
    "cumsum of floats": (1, lambda t: t.cumsum(0)),
    "cumsum of integers": (0, lambda t: t.long().cumsum(0)),
    "backward of cumsum": (2, lambda t: t.clone().requires_grad_().cumsum(0).sum().backward()),
    "weighted bincount": (1, lambda t: t.long().bincount(t)),
    "bincount": (0, lambda t: t.long().bincount(minlength=5)),
    "kthvalue": (1, lambda t: t.kthvalue(1)),
    "index_add": (0, lambda t: t.index_add(0, torch.zeros(3, dtype=torch.long, device="cuda"), t)),
}


@pytest.mark.parametrize("operation", UNORDERED)
def test_operations_without_a_deterministic_kernel_are_found(gpu, operation):
    expected, function = UNORDERED[operation]
    tensor = on_gpu(1.0, 2.0, 3.0)
    with gpu.counting() as counts:
        function(tensor)
    assert counts.not_deterministic.total() == expected
    assert all(HERE in place for place in counts.not_deterministic)


def test_launches_and_bytes_are_counted(gpu):
    pixels = torch.zeros(2, 3, dtype=torch.uint8)
    with gpu.counting() as counts:
        tensor = pixels.to("cuda", non_blocking=True)
        tensor.view(3, 2).t()[0].detach()  # views
        tensor.float().add_(1).sum()
    assert counts.bytes_to_device == 6
    assert counts.launches == 4


def training(device):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)).to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.1, foreach=True)
    for _ in range(3):
        optimiser.zero_grad()
        network(torch.linspace(-1, 1, 24).view(6, 4).to(device)).square().sum().backward()
        optimiser.step()
    return {name: tensor.cpu() for name, tensor in network.state_dict().items()}


def test_training_gives_the_bits_of_the_cpu():
    expected = training("cpu")
    with SimulatedGPU() as gpu:
        actual = training("cuda")
    assert gpu.counts.launches > 100
    assert all(torch.equal(actual[name], expected[name]) for name in expected)


def test_optimisers_update_all_tensors_at_once_as_on_cuda(gpu):
    weights = [torch.nn.Parameter(torch.ones(3, device="cuda")) for _ in range(20)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimiser = torch.optim.Adam(weights)
    optimiser.step()
    with gpu.counting() as counts:
        optimiser.step()
    assert counts.launches < len(weights)


def test_automatic_precision_works_as_on_cuda(gpu):
    network = torch.nn.Linear(4, 2).to("cuda")
    optimiser, scaler = torch.optim.SGD(network.parameters()), torch.amp.GradScaler("cuda", init_scale=4.0)
    with torch.autocast("cuda", torch.float16):
        output = network(torch.ones(3, 4, device="cuda"))
    assert output.dtype is torch.float16
    scaler.scale(output.float().sum() * torch.inf).backward()
    with gpu.counting() as counts:
        scaler.step(optimiser)
        scaler.update()
    assert scaler.get_scale() == 2.0
    assert counts.syncs.total() == 1, "the scaler waits to know whether to step"


def test_a_stored_tensor_is_loaded_to_the_cpu(gpu, tmp_path):
    torch.save({"weights": torch.ones(2, device="cuda")}, tmp_path / "file")
    loaded = torch.load(tmp_path / "file", map_location="cpu", weights_only=True)["weights"]
    assert not loaded.is_cuda and torch.equal(loaded, torch.ones(2))
