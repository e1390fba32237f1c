"""One ONNX file, compared with PyTorch on images before it is kept."""

import logging
from pathlib import Path

import numpy as np
import torch

from recheck.api.model import Model
from recheck.errors import UserError
from recheck.export.card import card
from recheck.export.network import Network
from recheck.export.timm import input_size
from recheck.files import write_json, write_text

TOLERANCE = 1e-4
"""Largest accepted difference between ONNX Runtime and PyTorch in any coordinate of an embedding."""


def write_onnx(model: Model, folder: Path, images: np.ndarray | None = None) -> str:
    """``model.onnx``: uint8 images (batch, 3, height, width) in RGB → embeddings of length 1, for any batch size.

    ``images`` are prepared images to compare on; without them, images of smooth noise are used.
    """
    network = Network(model).cpu().eval()
    height, width = input_size(model)
    if images is None:
        images = smooth_noise(8, height, width)
    path = folder / "model.onnx"
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.inference_mode():
        torch.onnx.export(
            network,
            (torch.from_numpy(images[:2].copy()),),
            str(path),
            input_names=["images"],
            output_names=["embeddings"],
            dynamic_shapes={"images": {0: torch.export.Dim("batch", min=1)}},
            external_data=False,
            verbose=False,
        )
    worst = difference(network, path, images)
    if not worst <= TOLERANCE:
        raise UserError(
            f"The embeddings of ONNX Runtime and PyTorch differ by {worst:.1e}, more than {TOLERANCE:g}, so the ONNX "
            "file was not kept: use `--to huggingface` instead."
        )
    reading = dict(model.description.preparation.reading)
    about = {"input": [3, height, width], "output": model.dim, "images": reading, **model.description.transforms}
    write_json(folder / "preparation.json", about)
    write_text(folder / "README.md", card(model, "onnx", size=f"{height} x {width}"))
    return f"ONNX Runtime agrees with PyTorch on {len(images)} images: the largest difference is {worst:.1e}."


@torch.inference_mode()
def difference(network: torch.nn.Module, path: Path, images: np.ndarray) -> float:
    """Largest difference between the embeddings of ONNX Runtime and PyTorch, for all images and for a single one."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for batch in (images, images[:1]):
        theirs = session.run(None, {"images": batch})[0]
        worst = max(worst, float(np.abs(network(torch.from_numpy(batch.copy())).numpy() - theirs).max()))
    return worst


def smooth_noise(count: int, height: int, width: int) -> np.ndarray:
    """Images (count, 3, height, width) uint8 with structure at several scales, like photographs."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(count, 3, height, width)
    for side in (2, 5, 13):
        coarse = torch.rand(count, 3, side, side, generator=generator)
        total += torch.nn.functional.interpolate(coarse, size=(height, width), mode="bilinear", align_corners=False)
    return (total / 3 * 255).round().to(torch.uint8).numpy()
