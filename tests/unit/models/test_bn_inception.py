"""BN-Inception matches the published weights file tensor by tensor."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from recheck.models import embedding
from recheck.models.bn_inception import BNInception
from recheck.models.embedding import EmbeddingModel
from support.golden.fidelity import compares

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def peer():
    """The network of `pretrainedmodels`, loaded from its file; the package imports modules that no longer exist."""
    package = Path(importlib.util.find_spec("pretrainedmodels").origin).parent
    spec = importlib.util.spec_from_file_location("peer_bninception", package / "models/bninception.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.BNInception(num_classes=1000).eval()


def random_tensors(shapes):
    """Random weights, scales, shifts and statistics under which activations stay near 1 through all layers."""
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        if name.endswith("num_batches_tracked"):
            tensors[name] = torch.tensor(0)
        elif name.endswith("running_var") or "_bn.weight" in name:
            tensors[name] = noise.abs() + 0.5
        elif name.endswith(".weight"):
            tensors[name] = noise * noise[0].numel() ** -0.5
        else:
            tensors[name] = noise / 2
    return tensors


def test_it_has_the_trunk_parameters_and_batch_norms_of_the_published_network():
    network = BNInception()
    layers = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert sum(parameter.numel() for parameter in network.parameters()) == 10_270_240
    assert len(layers) == 69
    assert {layer.eps for layer in layers} == {1e-5}


def test_names_and_shapes_are_those_of_the_weights_file(peer):
    expected = {name: tensor.shape for name, tensor in peer.state_dict().items() if not name.startswith("last_linear.")}
    assert {name: tensor.shape for name, tensor in BNInception().state_dict().items()} == expected


@compares("network", studies=["mlrc", "mlrc_released"], parts=["bn_inception"], tolerance="1e-12 in float64")
@pytest.mark.parametrize("size", [224, 227])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_features_equal_the_published_network(peer, size, dtype, tolerance):
    """Includes sizes where rounding up matters, with statistics and biases that affect every layer."""
    network = BNInception().eval().to(dtype)
    peer.to(dtype)
    tensors = random_tensors({name: tensor.shape for name, tensor in peer.state_dict().items()})
    peer.load_state_dict(tensors)
    network.load_state_dict({name: tensors[name] for name in network.state_dict()})
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1), dtype=dtype)
    with torch.inference_mode():
        expected = peer.features(images)
        result = network.features(images)
        pooled = network(images)
    assert result.shape == (2, 1024, 7, 7)
    assert 0.1 < expected.std() < 10
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(pooled, peer.global_pool(expected).flatten(1), rtol=tolerance, atol=tolerance)


def test_its_input_is_bgr_minus_the_caffe_mean():
    spec = {"backbone": {"name": "bn_inception", "weights": "none"}, "head": {"class": "Linear", "dim": 8}}
    model = EmbeddingModel(spec).eval()
    seen = []
    model.backbone.register_forward_pre_hook(lambda module, args: seen.append(args[0].clone()))
    images = torch.randint(0, 256, (2, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert model(images).shape == (2, 8)
    red, green, blue = images.float().unbind(1)
    assert len(seen) == 1
    assert torch.equal(seen[0], torch.stack([blue - 104, green - 117, red - 128], 1))


def test_it_does_not_import_timm():
    program = (
        "import sys; from recheck.models.embedding import EmbeddingModel;"
        "EmbeddingModel({'backbone': {'name': 'bn_inception'}, 'head': {'class': 'Identity'}});"
        "sys.exit('timm' in sys.modules)"
    )
    folder = Path(embedding.__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", program], cwd=folder).returncode == 0
