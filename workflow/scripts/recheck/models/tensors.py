"""Read tensors from downloaded files without running code in them, and load them into a network by name."""

import pickle
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from recheck.errors import UserError
from recheck.files import sha256

# Names that libraries give to the classifier, which an embedding does not need.
CLASSIFIER = {
    f"{layer}.{tensor}"
    for layer in ("last_linear", "fc", "classifier", "classifier.1", "head", "head.fc")
    for tensor in ("weight", "bias")
}


def check_hash(path: Path, expected: str, remedy: str) -> None:
    """Refuse a file whose SHA-256 does not start with ``expected``."""
    actual = sha256(path)
    if not actual.startswith(expected):
        raise UserError(f"{path} has sha256 {actual}, expected {expected}: {remedy}.")


def read_tensors(path: Path, what: str) -> dict[str, torch.Tensor]:
    """Tensors of a file by name. Code inside a torch file is never run. ``what`` starts every error message."""
    if not path.is_file():
        raise UserError(f"{what} '{path}' do not exist: check the path.")
    if named := re.search(r"-([0-9a-f]{8,64})\.pth?$", path.name):
        check_hash(path, named[1], "download it again, or rename it if its name does not end in a hash")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors raise many types, some with messages of several lines
        if isinstance(error, pickle.UnpicklingError) and "GLOBAL" in str(error):
            raise UserError(
                f"{what} '{path}' contain Python objects besides tensors, and loading them would run code from the "
                "file. If you trust it, load it yourself and save only its state_dict() under the same name."
            ) from error
        raise UserError(
            f"{what} '{path}' cannot be read: the file is damaged or has another format. Delete it and download it "
            "again."
        ) from error
    if not isinstance(stored, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in stored.values()):
        raise UserError(f"{what} '{path}' must be a state_dict(), which maps names to tensors and holds nothing else.")
    return stored


def fit(
    network: nn.Module, tensors: Mapping[str, torch.Tensor], what: str, ignored: Collection[str] = CLASSIFIER
) -> None:
    """Load published weights into a network, ignoring a classifier and accepting old torch formats.

    Before version 0.4.1, torch's batch norm did not count batches, and its tensors may have a leading dimension of 1.
    """
    expected = network.state_dict()
    fitting = {}
    for name, tensor in tensors.items():
        if name not in expected:
            if name in ignored:
                continue
            raise UserError(f"{what} do not fit the network: it has no tensor '{name}'.")
        actual, shape = tuple(tensor.shape), tuple(expected[name].shape)
        if actual not in (shape, (1, *shape)):
            raise UserError(f"{what} do not fit the network: '{name}' must have shape {shape}, found {actual}.")
        fitting[name] = tensor.reshape(shape)
    for name in expected:
        if name not in fitting and not name.endswith("num_batches_tracked"):
            raise UserError(f"{what} do not fit the network: its tensor '{name}' is missing from the file.")
    network.load_state_dict(fitting, strict=False)
