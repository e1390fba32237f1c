"""Read tensors from downloaded files without running code in them, and load them into a network by name."""

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from recheck.errors import UserError
from recheck.files import sha256
from recheck.models import pickled_module, torch_file
from recheck.models.pickled import AGAIN, Refused, Table, Thing, shown
from recheck.models.torch_file import Stored

PREFIX = "module."
MODULES = 100
"""Maximum number of modules of a collection that are searched for tensors."""

# Names that libraries give to the classifier, which an embedding does not need.
CLASSIFIER = {
    f"{layer}.{tensor}"
    for layer in ("last_linear", "fc", "_fc", "classifier", "classifier.1", "head", "head.fc", "head_dist")
    for tensor in ("weight", "bias")
}


def check_hash(path: Path, expected: str, remedy: str) -> None:
    """Refuse a file whose SHA-256 does not start with ``expected``."""
    actual = sha256(path)
    if not actual.startswith(expected):
        raise UserError(f"{path} has sha256 {actual}, expected {expected}: {remedy}.")


def read_tensors(path: Path, what: str) -> dict[str, torch.Tensor]:
    """Tensors of a file by name. Code inside a torch file is never run. ``what`` starts every error message.

    A torch file holds a ``state_dict()``, a whole module, or a collection with one module.
    """
    if path.suffix != ".safetensors":
        with refusing(path, what):
            return _values(_weights(read_torch(path, what), path, what), path, what)
    _check_name(path, what)
    try:
        return load_file(path)
    except Exception as error:  # safetensors raises many types, some with messages of several lines
        raise UserError(
            f"{what} '{path}' cannot be read: the file is damaged or has another format. Delete it and download it "
            "again."
        ) from error


def read_torch(path: Path, what: str) -> Any:
    """The content of a file written by ``torch.save``, as inert data."""
    _check_name(path, what)
    with refusing(path, what):
        return torch_file.read(path)


@contextlib.contextmanager
def refusing(path: Path, what: str) -> Iterator[None]:
    """Turn a ``Refused`` into a UserError about the file."""
    try:
        yield
    except Refused as error:
        raise UserError(f"{what} '{path}' cannot be read: the file {error}. {error.advice}.") from error


def module_tensors(module: Thing, path: Path, what: str) -> dict[str, torch.Tensor]:
    """Tensors of a pickled module by name, without the prefix of wrappers for several GPUs."""
    with refusing(path, what):
        return _values(pickled_module.state_dict(pickled_module.unwrapped(module)), path, what)


def without_prefix(tensors: Mapping[str, torch.Tensor], what: str) -> dict[str, torch.Tensor]:
    """Tensors with the prefix ``module.`` (from training on several GPUs) removed from their names."""
    plain: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        short = name.removeprefix(PREFIX)
        if short in plain:
            raise _both(what, short)
        plain[short] = tensor
    return plain


def fit(
    network: nn.Module,
    tensors: Mapping[str, torch.Tensor],
    what: str,
    ignored: Collection[str] = CLASSIFIER,
    remedy: str = "use a file for this network",
) -> None:
    """Load weights into a network, ignoring a classifier and accepting old torch formats.

    Before version 0.4.1, torch's batch norm did not count batches, and its tensors may have a leading dimension of 1.
    A prefix ``module.`` is removed. ``remedy`` ends every error message.
    """
    expected = network.state_dict()
    fitting: dict[str, torch.Tensor] = {}
    for given, tensor in tensors.items():
        name = given if given in expected else given.removeprefix(PREFIX)
        if name not in expected:
            if name in ignored:
                continue
            raise UserError(f"{what} do not fit the network: it has no tensor '{shown(given)}'; {remedy}.")
        if name in fitting:
            raise _both(what, name)
        fitting[name] = _suitable(name, tensor, expected[name], what, remedy)
    for name in expected:
        if name not in fitting and not name.endswith("num_batches_tracked"):
            raise UserError(f"{what} do not fit the network: its tensor '{name}' is missing from the file; {remedy}.")
    network.load_state_dict(fitting, strict=False)


def _suitable(name: str, tensor: torch.Tensor, expected: torch.Tensor, what: str, remedy: str) -> torch.Tensor:
    """The tensor in the shape and type that the network expects; refuses other shapes, types and NaN."""
    actual, shape = tuple(tensor.shape), tuple(expected.shape)
    if actual not in (shape, (1, *shape)):
        raise UserError(f"{what} do not fit the network: '{name}' must have shape {shape}, found {actual}; {remedy}.")
    try:
        values = tensor.reshape(shape).to(expected.dtype) if _kind(tensor) == _kind(expected) else None
    except RuntimeError:  # torch cannot convert types of fewer than 8 bits
        values = None
    if values is None:
        kind = "floating-point" if expected.is_floating_point() else "whole"
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise UserError(f"{what} do not fit the network: '{name}' must have {kind} numbers, found {dtype}; {remedy}.")
    # a network's own buffer may contain infinities, such as a mask for attention
    finite = torch.isfinite(values)
    if not finite.all() and (~finite & torch.isfinite(expected.cpu())).any():
        raise UserError(f"{what} cannot be used: '{name}' contains NaN or infinite values; {remedy}.")
    return values


def _kind(tensor: torch.Tensor) -> str:
    if tensor.dtype == torch.bool or tensor.is_complex():
        return str(tensor.dtype)
    return "floating" if tensor.is_floating_point() else "whole"


def _both(what: str, name: str) -> UserError:
    return UserError(
        f"{what} contain both '{PREFIX}{shown(name)}' and '{shown(name)}', so it is unclear which tensor to use: "
        "remove one of them."
    )


def _check_name(path: Path, what: str) -> None:
    """Refuse a file that does not exist, or whose content does not have the hash in its name."""
    if not path.is_file():
        raise UserError(f"{what} '{path}' do not exist: check the path.")
    if named := re.search(r"-([0-9a-f]{8,64})\.pth?$", path.name):
        check_hash(path, named[1], "download it again, or rename it if its name does not end in a hash")


def _weights(content: Any, path: Path, what: str) -> dict[str, Stored]:
    """The state_dict() in a file, or that of the only module with tensors in it."""
    if pickled_module.is_module(content):
        return pickled_module.state_dict(pickled_module.unwrapped(content))
    if type(content) is Table and content.others:
        key = type(content.others[0][0]).__name__
        raise UserError(f"{what} '{path}' must map names to tensors, found a key of type {shown(key)}. {AGAIN}.")
    if type(content) is Table and all(type(value) is Stored for value in content.values()):
        return content
    pairs = content.items() if type(content) is Table else enumerate(content if type(content) in (tuple, list) else [])
    modules = {str(key): pickled_module.unwrapped(value) for key, value in pairs if pickled_module.is_module(value)}
    if len(modules) > MODULES:
        raise UserError(f"{what} '{path}' contain {len(modules):,} modules, expected one. {AGAIN}.")
    tensors = {key: pickled_module.state_dict(module) for key, module in modules.items()}
    filled = {key: named for key, named in tensors.items() if named}
    if len(filled) > 1:
        names = ", ".join(f"'{shown(key)}'" for key in list(filled)[:10])
        raise UserError(f"{what} '{path}' contain {len(filled)} modules ({names}), expected one. {AGAIN}.")
    if not filled:
        raise UserError(
            f"{what} '{path}' must be a state_dict(), which maps names to tensors and holds nothing else, or a module, "
            f"found {_described(content)}. {AGAIN}."
        )
    return next(iter(filled.values()))


def _described(content: Any) -> str:
    """What a file contains, in a few words."""
    if type(content) is Thing:
        return f"an object of class '{content.kind}'"
    if type(content) is Table:
        wrong = next((key for key, value in content.items() if type(value) is not Stored), "")
        return f"something else at '{shown(wrong)}'"
    return "a single tensor" if type(content) is Stored else f"a value of type {type(content).__name__}"


def _values(tensors: Mapping[str, Stored], path: Path, what: str) -> dict[str, torch.Tensor]:
    for name, stored in tensors.items():
        if stored.kind:
            raise UserError(
                f"{what} '{path}' contain the tensor '{shown(name)}' ({stored.kind}), expected a tensor of ordinary "
                f"numbers. {AGAIN}."
            )
    return {name: stored.tensor() for name, stored in tensors.items()}
