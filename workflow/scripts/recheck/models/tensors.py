"""Tensors of files that others have written: read without running what a file may carry, and fitted by name."""

import pickle
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from recheck.errors import UserError
from recheck.files import sha256

# what libraries call the layer from features to classes, which an embedding has no use for
CLASSIFIER = {
    f"{layer}.{part}"
    for layer in ("last_linear", "fc", "classifier", "classifier.1", "head", "head.fc")
    for part in ("weight", "bias")
}


def check_hash(path: Path, expected: str, remedy: str) -> None:
    """``expected`` is the hash or its beginning."""
    found = sha256(path)
    if not found.startswith(expected):
        raise UserError(f"{path} has sha256 {found}, expected {expected}: {remedy}.")


def read_tensors(path: Path, what: str) -> dict[str, torch.Tensor]:
    """The tensors of a file by name; code that a torch file can carry is never run. ``what`` begins every error."""
    if not path.is_file():
        raise UserError(f"{what} '{path}': there is no such file.")
    if named := re.search(r"-([0-9a-f]{8,64})\.pth?$", path.name):
        check_hash(path, named[1], "fetch it again, or rename it if the end of its name is no hash")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors have many words for it, some of several lines
        if isinstance(error, pickle.UnpicklingError) and "GLOBAL" in str(error):
            raise UserError(
                f"{what} '{path}' hold Python objects besides tensors, and loading these would run code of the file: "
                "refused; if you trust it, load it yourself and save only its state_dict() under the same name."
            ) from error
        raise UserError(
            f"{what} '{path}' cannot be read: the file is damaged or of another format; delete it and fetch it again."
        ) from error
    if not isinstance(stored, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in stored.values()):
        raise UserError(f"{what} '{path}' are no state_dict(), which has names and tensors only.")
    return stored


def fit(
    network: nn.Module, tensors: Mapping[str, torch.Tensor], what: str, ignored: Collection[str] = CLASSIFIER
) -> None:
    """Load weights as they were published: with a classifier that the network does not have, or by an old torch.

    Before version 0.4.1 batch-norm did not count batches, and its tensors may have a leading dimension of 1.
    """
    expected = network.state_dict()
    fitting = {}
    for name, tensor in tensors.items():
        if name not in expected:
            if name in ignored:
                continue
            raise UserError(f"{what} do not fit the network, which has no tensor '{name}'.")
        found, shape = tuple(tensor.shape), tuple(expected[name].shape)
        if found not in (shape, (1, *shape)):
            raise UserError(f"{what} do not fit the network: '{name}' is {found}, not {shape}.")
        fitting[name] = tensor.reshape(shape)
    for name in expected:
        if name not in fitting and not name.endswith("num_batches_tracked"):
            raise UserError(f"{what} do not fit the network, whose tensor '{name}' is not in them.")
    network.load_state_dict(fitting, strict=False)
