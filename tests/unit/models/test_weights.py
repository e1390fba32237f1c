"""The registry of weights: the file of each backbone, its verification, and the normalisation of images."""

import hashlib
from functools import partial
from pathlib import Path

import pytest
import timm
import torch
import yaml
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

from recheck.data import description
from recheck.errors import UserError
from recheck.models import backbones
from recheck.models.backbones import NAMED, build_backbone
from recheck.models.embedding import EmbeddingModel
from recheck.models.tensors import fit, read_tensors
from recheck.models.unicom import UNICOM, Unicom
from recheck.study.yaml import names_in
from support.golden.fidelity import compares
from support.project import ROOT

pytestmark = pytest.mark.slow

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# mean and standard deviation of red, green and blue on the 0–1 scale, and the network's channel order
NORMALISED = {
    "bn_inception": ((128 / 255, 117 / 255, 104 / 255), (1 / 255,) * 3, "bgr"),
    "efficientnet_lite0": ((127 / 255,) * 3, (128 / 255,) * 3, "rgb"),
    "efficientnet_lite2": ((127 / 255,) * 3, (128 / 255,) * 3, "rgb"),
    "mobilenet_v2": (*IMAGENET, "rgb"),
    "resnet50": (*IMAGENET, "rgb"),
    "efficientnet_b0": (*IMAGENET, "rgb"),
    "timm/test_vit": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), "rgb"),
    "timm/vit_small_patch14_dinov2": (*IMAGENET, "rgb"),
}


@pytest.fixture(scope="module")
def registry():
    return description.load_weights(names_in([ROOT / "config/weights"]))


def test_every_named_backbone_is_tested():
    assert set(NAMED) - set(UNICOM) == {name for name in NORMALISED if not name.startswith("timm/")}


@pytest.mark.parametrize("name", NORMALISED)
def test_images_are_normalised_exactly_once(name):
    """The input of the backbone equals a computation by hand from the publisher's numbers."""
    spec = {"backbone": {"name": name, "weights": "none"}, "head": {"class": "Identity"}}
    if "dinov2" in name:
        spec["backbone"]["options"] = {"img_size": 28, "depth": 1}
    model = EmbeddingModel(spec).eval()
    seen = []

    def stop(module, args):
        seen.append(args[0].clone())

    model.backbone.register_forward_pre_hook(stop)
    size = {"timm/vit_small_patch14_dinov2": 28, "timm/test_vit": 160}.get(name, 64)
    images = torch.randint(0, 256, (2, 3, size, size), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    with torch.inference_mode():
        features = model(images)
    mean, std, order = NORMALISED[name]
    wanted = [(images[:, c].double() / 255 - mean[c]) / std[c] for c in range(3)]
    wanted = torch.stack(wanted[::-1] if order == "bgr" else wanted, 1)
    assert len(seen) == 1
    torch.testing.assert_close(seen[0].double(), wanted, rtol=1e-4, atol=1e-4)
    assert features.dim() == 2


@pytest.mark.parametrize("name", ["resnet50", "efficientnet_b0"])
def test_the_registry_has_torchvisions_files_and_the_networks_are_torchvisions(registry, tmp_path, name):
    """Names, sizes and normalisation are compared with the installed package's description of its weights."""
    from torchvision import models

    weights = models.get_model_weights(name).IMAGENET1K_V1
    file = registry[name, "imagenet"].entry
    assert file["from"][0]["url"] == weights.url
    assert file["path"] == Path(weights.url).name
    assert file["size"] / 2**20 == pytest.approx(weights.meta["_file_size"], abs=6e-4)
    assert file["sha256"].startswith(file["path"].split("-")[1].split(".")[0])
    preset = weights.transforms()
    assert (tuple(preset.mean), tuple(preset.std)) == NORMALISED[name][:2]

    torch.manual_seed(0)
    peer = models.get_model(name, weights=None).eval()
    torch.save(peer.state_dict(), tmp_path / "mine.pth")  # with its classifier
    backbone = build_backbone({"name": name, "weights": str(tmp_path / "mine.pth")})
    images = torch.randn(2, 3, 64, 64)
    classes = peer.fc if name == "resnet50" else peer.classifier
    with torch.inference_mode():
        features = backbone.network.eval()(images)
        torch.testing.assert_close(classes(features), peer(images))
    assert features.shape == (2, backbone.features)


def test_bn_inceptions_file_is_the_one_used_in_papers(registry):
    file = registry["bn_inception", "imagenet"].entry
    assert file["path"] == "bn_inception-52deb4733.pth"
    assert file["sha256"] == "52deb473314542a5c2f87e9e6f26f4ca42fe863d15f986414dbae8c2dfdd2353"
    assert "manual" in file["from"][-1]


def run_with(**backbone):
    return {"model": {"backbone": backbone, "head": {"class": "Identity"}}, "seeds": [0]}


def resolve(registry, **backbone):
    result = description.with_weights(run_with(**backbone), registry, "data/weights", "my.yaml")
    assert result["seeds"] == [0] and result["model"]["head"] == {"class": "Identity"}
    return result["model"]["backbone"]


def test_a_name_becomes_a_file_and_its_hash(registry):
    assert resolve(registry, name="resnet50", weights="imagenet") == {
        "name": "resnet50",
        "weights": "data/weights/resnet50-0676ba61.pth",
        "sha256": "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
    }


@pytest.mark.parametrize(
    "backbone",
    [
        {"name": "resnet50", "weights": "none"},
        {"name": "resnet50", "weights": "my/own.pth"},
        {"name": "efficientnet_lite0", "weights": "imagenet"},
        {"name": "timm/vit_small_patch14_dinov2", "weights": "imagenet"},
        {"name": "mine:net", "weights": "whatever"},
    ],
)
def test_other_weights_are_kept(registry, backbone):
    assert resolve(registry, **backbone) == backbone


def test_misspelt_weights_are_named(registry):
    with pytest.raises(
        UserError, match=r"my\.yaml: backbone 'resnet50' has no weights 'imagnet'; did you mean 'imagenet'"
    ):
        resolve(registry, name="resnet50", weights="imagnet")


def entry(tmp_path, name="mine", **changes):
    file = {"path": f"{name}.pth", "sha256": "0" * 64, "from": [{"url": "https://example.org/mine.pth"}]}
    defaults = {
        "description": "Mine.",
        "backbone": "mine:net",
        "weights": name,
        "files": [file | changes.pop("file", {})],
    }
    path = tmp_path / f"{name}.yaml"
    made = {key: value for key, value in {**defaults, **changes}.items() if value is not None}
    made["files"] = [
        {key: value for key, value in described.items() if value is not None} for described in made["files"]
    ]
    path.write_text(yaml.safe_dump(made))
    return path


def test_a_users_entry(tmp_path):
    registry = description.load_weights({"mine": entry(tmp_path)})
    assert resolve(registry, name="mine:net", weights="mine")["weights"] == "data/weights/mine.pth"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"backbone": None}, "key 'backbone' is missing"),
        ({"weigths": "x"}, "unknown key 'weigths'; did you mean 'weights'"),
        ({"files": []}, "'files'"),
        ({"file": {"urls": "x"}}, "unknown key 'urls' in 'files.0'"),
        ({"file": {"sha256": None, "size": 3}}, "file 'mine.pth' must have 'sha256' and must not have 'extract'"),
        ({"file": {"sha256": None}}, "has no 'sha256', 'md5', 'git_blob' or 'size' to verify it"),
        ({"file": {"extract": "."}}, "must have 'sha256' and must not have 'extract'"),
        (
            {"file": {"path": "mine.tar"}},
            "the weights file 'mine.tar' must have one of the suffixes .safetensors, .pth, .pt",
        ),
        (
            {"weights": "other"},
            "already describes these weights of this backbone, or this file. Remove one of the two descriptions",
        ),
    ],
)
def test_a_mistake_in_an_entry_is_one_sentence(tmp_path, changes, sentence):
    with pytest.raises(UserError) as caught:
        description.load_weights({"other": entry(tmp_path, "other"), "mine": entry(tmp_path, **changes)})
    assert sentence in str(caught.value) and "mine.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_with_other_content_is_refused(tmp_path):
    """Even if its name has no hash, because users may replace files by hand."""
    torch.manual_seed(0)
    network = build_backbone({"name": "timm/test_resnet"}).network
    path = tmp_path / "mine.pth"
    torch.save(network.state_dict(), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    spec = {"name": "timm/test_resnet", "weights": str(path), "sha256": digest}
    result = build_backbone(spec).network.state_dict()
    assert all(torch.equal(result[name], tensor) for name, tensor in network.state_dict().items())
    with pytest.raises(
        UserError, match=rf"mine\.pth has sha256 {digest}, expected {'0' * 64}: .*delete it and run again"
    ):
        build_backbone({**spec, "sha256": "0" * 64})


@pytest.mark.parametrize("name", ["timm/test_vit", "resnet50"])
def test_a_whole_module_serves_as_weights(tmp_path, name):
    """Networks of timm have enumerations as attributes, which are pickled as calls."""
    torch.manual_seed(0)
    network = build_backbone({"name": name}).network
    torch.save({"model": network, "epoch": 3}, tmp_path / "mine.pt")
    tensors = build_backbone({"name": name, "weights": str(tmp_path / "mine.pt")}).network.state_dict()
    assert all(torch.equal(tensors[key], tensor) for key, tensor in network.state_dict().items())


def test_timm_without_a_hub_says_what_to_do(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError) as caught:
        build_backbone({"name": "timm/vit_small_patch14_dinov2", "weights": "imagenet"})
    assert "(https://huggingface.co/timm/vit_small_patch14_dinov2.lvd142m)" in str(caught.value)
    assert "download model.safetensors and name that file in 'weights'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub with one file: weights of timm's small transformer for images of 160 pixels, with a classifier."""
    torch.manual_seed(3)
    network = timm.create_model("test_vit", pretrained=False)
    asked = []

    def file(repository, name):
        asked.append((repository, name))
        save_file(network.state_dict(), tmp_path / name)
        return str(tmp_path / name)

    monkeypatch.setattr(backbones, "hub_file", file)
    return network, asked, tmp_path / "model.safetensors"


@pytest.mark.parametrize("side", [160, 96])
def test_timms_weights_by_name_are_loaded_and_their_hash_is_recorded(hub, side):
    """timm interpolates position embeddings made for another image size; the classifier is left out."""
    network, asked, path = hub
    spec = {"name": "timm/test_vit", "weights": "pretrained", "options": {"img_size": side}}
    built = build_backbone(spec)
    assert asked == [("timm/test_vit.r160_in1k", "model.safetensors")]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert built.weights == {"file": "timm/test_vit.r160_in1k/model.safetensors", "sha256": digest}
    model = EmbeddingModel({"backbone": spec, "head": {"class": "Identity"}})
    assert model.weights_file == built.weights
    expected = dict(network.state_dict())
    if side != 160:
        tokens = (side // 16,) * 2
        expected["pos_embed"] = timm.layers.resample_abs_pos_embed(expected["pos_embed"], tokens, verbose=False)
    for name, tensor in built.network.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_a_users_file_for_another_image_size_is_converted_by_timm(hub):
    network, _, path = hub
    save_file(network.state_dict(), path)
    spec = {"name": "timm/test_vit", "weights": str(path), "options": {"img_size": 96}}
    by_name, by_file = build_backbone({**spec, "weights": "pretrained"}), build_backbone(spec)
    assert by_file.weights == {"file": path.name, "sha256": by_name.weights["sha256"]}
    for name, tensor in by_name.network.state_dict().items():
        assert torch.equal(by_file.network.state_dict()[name], tensor), name
    wrong = {key: value for key, value in network.state_dict().items() if key != "norm.weight"}
    save_file(wrong, path)
    with pytest.raises(UserError, match=r"do not fit the network: its tensor 'norm\.weight' is missing"):
        build_backbone(spec)


@compares(
    "network",
    studies=["frozen"],
    parts=["unicom_b32", "unicom_b16", "unicom_l14", "unicom_l14_336"],
    tolerance="1e-10 to timm's layers",
)
def test_unicom_is_timms_transformer_with_its_own_last_layers(tmp_path):
    """Compared in evaluation mode, from one file in half precision, as the authors' release is."""
    torch.manual_seed(0)
    sizes = {"side": 32, "patch": 8, "width": 24, "depth": 2, "heads": 3, "dim": 10}
    network = Unicom(**sizes).double().eval()
    with torch.no_grad():
        for tensor in network.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand_like(tensor) + 0.1 if tensor.ndim == 1 else torch.randn_like(tensor) / 4)
    peer = VisionTransformer(
        img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=3, qkv_bias=False, class_token=False,
        global_pool="", num_classes=0, act_layer=torch.nn.ReLU6, norm_layer=partial(torch.nn.LayerNorm, eps=1e-5),
    ).double().eval()  # fmt: skip
    shared = {name: tensor for name, tensor in network.state_dict().items() if not name.startswith("feature.")}
    peer.load_state_dict(shared)
    images = torch.randn(3, 3, 32, 32, dtype=torch.float64)
    expected = network.feature(peer(images).reshape(3, -1))
    torch.testing.assert_close(network(images), expected, rtol=1e-10, atol=1e-10)
    half = network.half().state_dict()
    torch.save({f"module.{name}": tensor for name, tensor in half.items()}, tmp_path / "u.pt")
    loaded = Unicom(**sizes)
    fit(loaded, read_tensors(tmp_path / "u.pt", "Weights"), "Weights")
    torch.testing.assert_close(loaded.eval()(images.float()), expected.float(), rtol=0.05, atol=0.05)


def test_unicom_weights_are_files_that_the_user_brings():
    weights = description.load_weights(names_in([ROOT / "config/weights"]))
    clip = timm.get_pretrained_cfg("vit_base_patch16_clip_224.openai")  # the same normalisation
    for name, sizes in UNICOM.items():
        backbone = {"name": name, "weights": "unicom"}
        completed = description.with_weights({"model": {"backbone": backbone}}, weights, "resources/weights", "here")
        assert completed["model"]["backbone"]["weights"].startswith("resources/weights/unicom/FP16-ViT-")
        assert len(completed["model"]["backbone"]["sha256"]) == 64
        assert [*weights[name, "unicom"].entry["from"][0]] == ["manual"]
        with torch.device("meta"):
            built = NAMED[name]({}, False)
            assert built.features == sizes["dim"]
            scaled = [[value / 255 for value in triple] for triple in (built.mean, built.std)]
            assert scaled == [pytest.approx(triple) for triple in (clip.mean, clip.std)]
            assert built.network(torch.empty(2, 3, sizes["side"], sizes["side"])).shape == (2, sizes["dim"])
