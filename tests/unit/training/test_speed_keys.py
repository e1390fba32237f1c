"""Settings that only change speed and last digits: ``precision: tf32``, ``compile`` and ``model.channels_last``."""

import logging
import shutil

import numpy as np
import pytest
import torch

from recheck.data.fold import FoldData
from recheck.errors import UserError
from recheck.models.embedding import EmbeddingModel, load_model, save_model
from recheck.training.compiled import compiled
from recheck.training.device import autocast
from support.project.runs import CONFIGURATION, CPU, make_run, packed_glyphs, with_
from support.suite.unavailable import unavailable

PLAIN = {**CONFIGURATION["model"]["backbone"], "options": {}}
MODEL = {**CONFIGURATION["model"], "backbone": PLAIN}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    images, labels = packed_glyphs(tmp_path_factory.mktemp("glyphs"), classes=6)
    return FoldData(images, labels, {"train": np.arange(24), "val": np.arange(24, 36)})


def switches():
    return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32


def weights(run):
    return {name: tensor.detach().clone() for name, tensor in run.model.state_dict().items()}


def test_tf32_is_on_in_both_passes_of_the_network_only(data, tmp_path, caplog):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with caplog.at_level(logging.WARNING, "recheck"):
        run = make_run(data, tmp_path, with_(precision="tf32", model=MODEL))
    assert [record.getMessage() for record in caplog.records] == [
        "'precision: tf32' has no effect on a CPU: this run computes in float32."
    ]
    seen = {}
    run.model.register_forward_hook(lambda *_: seen.update(network=switches()))
    run.model.register_full_backward_hook(lambda *_: seen.update(backward=switches()))
    run.loss.register_forward_hook(lambda *_: seen.update(loss=switches()))
    *_, loss = run.take_step()
    assert seen == {"network": (True, True), "loss": (False, False), "backward": (True, True)}
    run.evaluate()
    assert switches() == (False, False)

    usual = make_run(data, tmp_path / "usual", with_(model=MODEL))
    *_, expected = usual.take_step()
    assert loss == expected
    assert all(torch.equal(tensor, weights(usual)[name]) for name, tensor in weights(run).items())


def test_tf32_on_a_gpu_without_it(data, tmp_path, monkeypatch, caplog):
    from recheck.training import tf32

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    with caplog.at_level(logging.WARNING, "recheck"):
        tf32.warn_if_unavailable(torch.device("cuda"), "tf32")
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
        tf32.warn_if_unavailable(torch.device("cuda"), "tf32")
        tf32.warn_if_unavailable(CPU, "float32")
    (record,) = caplog.records
    assert "no effect on Tesla T4" in record.getMessage()


def test_the_context_of_tf32_can_be_entered_again():
    context = autocast(CPU, "tf32")
    for _ in range(2):
        with context:
            assert switches() == (True, True)
        assert switches() == (False, False)


def test_channels_first_equals_channels_last_to_rounding(tmp_path):
    pixels = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    made = {}
    for last in (True, False):
        torch.manual_seed(0)
        model = EmbeddingModel({**MODEL, "channels_last": last})
        formats = []
        model.backbone.register_forward_pre_hook(lambda _, inputs, formats=formats: formats.append(inputs[0].stride()))
        embeddings = model(pixels)
        embeddings.square().sum().backward()
        made[last] = (embeddings.detach(), {name: weight.grad for name, weight in model.named_parameters()})
        assert formats[0][1] == (1 if last else 32 * 32)
        file = tmp_path / f"{last}.safetensors"
        save_model(file, model.state_dict(), {**MODEL, "channels_last": last}, {})
        again = load_model(file, {**MODEL, "channels_last": last}, {}, CPU)
        assert torch.equal(again(pixels), model.eval()(pixels))
    torch.testing.assert_close(made[False][0], made[True][0], rtol=1e-4, atol=1e-5)
    for name, gradient in made[True][1].items():
        torch.testing.assert_close(made[False][1][name], gradient, rtol=1e-3, atol=1e-4 * float(gradient.abs().max()))


@pytest.mark.slow
def test_compiled_steps(data, tmp_path, monkeypatch):
    """Compiled steps equal the usual ones to rounding; a resumed run has the same bits; names do not change."""
    if not shutil.which("g++"):
        unavailable("no g++: torch.compile needs a C++ compiler")
    import torch._inductor.config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    missing = torch._inductor.config.patch({"cpp.cxx": (None, str(tmp_path / "no_compiler"))})
    with missing, pytest.raises(UserError, match=r"'compile: true' needs a working C\+\+ compiler.*install g\+\+"):
        compiled(torch.nn.Linear(2, 2), CPU)
    torch._dynamo.reset()

    usual = make_run(data, tmp_path / "usual", with_(model=MODEL))
    expected = [usual.take_step()[2] for _ in range(2)]
    run = make_run(data, tmp_path, with_(model=MODEL, compile=True))
    losses = [run.take_step()[2]]
    run._save()
    losses.append(run.take_step()[2])
    assert losses == pytest.approx(expected, rel=1e-4)
    assert weights(run).keys() == weights(usual).keys()
    assert torch._dynamo.utils.counters["frames"]["ok"] > 1, "the backbone was not compiled"

    torch._dynamo.reset()
    resumed = make_run(data, tmp_path, with_(model=MODEL, compile=True))
    resumed._resume()
    assert resumed.take_step()[2] == losses[1]
    assert all(torch.equal(tensor, weights(run)[name]) for name, tensor in weights(resumed).items())
