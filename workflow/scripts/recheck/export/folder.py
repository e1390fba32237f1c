"""Write an exported model: all of its files, or none."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from recheck.api.model import Model, Skipped
from recheck.data.images import reason
from recheck.errors import UserError
from recheck.export.huggingface import write_huggingface
from recheck.export.onnx import write_onnx
from recheck.export.timm import input_size, write_timm
from recheck.files import disk_errors

LAYOUTS: dict[str, Callable[..., str]] = {"timm": write_timm, "onnx": write_onnx, "huggingface": write_huggingface}


def export(
    model: Model,
    to: str,
    folder: str | Path,
    images: Sequence[str | Path] | None = None,
    skipped: Skipped = lambda image, why: None,
) -> str:
    """Write the model to a new folder in the layout ``to``; returns a sentence that says what was checked.

    ``images`` are files on which an ONNX file is compared with PyTorch; ``skipped`` is called with each unreadable one.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not an empty folder: choose another --output, or remove it.")
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            prepared = {"images": _prepared(model, images, skipped)} if images else {}
            checked = LAYOUTS[to](model, work, **prepared)
            work.chmod(0o755)
            if folder.exists():
                folder.rmdir()
            work.rename(folder)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
    return checked


def _prepared(model: Model, images: Sequence[str | Path], skipped: Skipped) -> np.ndarray:
    """The networks' inputs for all readable images, (images, 3, height, width)."""
    ready = []
    for image in images:
        try:
            ready.append(model.prepare(image).numpy())
        except UserError:
            raise
        except Exception as error:  # Pillow raises almost anything for damaged files
            skipped(image, reason(error))
    if not ready:
        raise UserError("None of the images from --images can be read: pass other images.")
    height, width = input_size(model)
    for array in ready:
        if array.shape[1:] != (height, width):
            raise UserError(
                f"This study's transforms give images of {height} x {width} and of {array.shape[1]} x {array.shape[2]} "
                "pixels, but an ONNX file has one size: use `--to huggingface`."
            )
    return np.stack(ready)
