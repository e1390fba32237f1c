"""Pickled modules of torch, as :mod:`recheck.models.torch_file` reads them: their submodules and tensors."""

from collections.abc import Iterator
from typing import Any

from recheck.models.pickled import Refused, Table, Thing, elements, shown
from recheck.models.torch_file import Stored

DEPTH, PARTS, LETTERS = 100, 100_000, 1000
"""Limits of a pickled module: nested modules, modules and tensors together, and letters in the name of a tensor.

A module or tensor counts as often as it is reached: a small file may hold the same module many times.
"""


def is_module(value: Any) -> bool:
    """Whether a ``Thing`` is a pickled ``torch.nn.Module``."""
    return type(value) is Thing and all(type(attribute(value, name)) is Table for name in ("_parameters", "_modules"))


def attribute(thing: Thing, name: str) -> Any:
    """An attribute of a pickled object, or None."""
    return thing.state.get(name) if type(thing.state) is Table else None


def children(module: Thing) -> dict[str, Any]:
    """The submodules of a module, by name."""
    return attribute(module, "_modules")


def unwrapped(module: Thing) -> Thing:
    """The module inside wrappers for several GPUs, which have only the submodule ``module``."""
    for _ in range(DEPTH):
        inside = children(module)
        if list(inside) != ["module"] or attribute(module, "_parameters") or not is_module(inside["module"]):
            break
        module = inside["module"]
    return module


def state_dict(module: Thing) -> dict[str, Stored]:
    """The parameters and buffers of a pickled module, under the names of its ``state_dict()``."""
    tensors: dict[str, Stored] = {}
    parts = 0
    waiting: list[tuple[str, int, Thing]] = [("", 0, module)]
    while waiting:
        prefix, depth, current = waiting.pop()
        parts += _count(current)
        if depth > DEPTH or len(prefix) > LETTERS or parts > PARTS:
            raise Refused("has too many modules, or modules that contain each other")
        for name, value in _direct_tensors(current):
            if len(name) > LETTERS:
                raise Refused(f"has a tensor with a name of {len(name):,} characters, '{shown(name)}'")
            if type(value) is not Stored:
                raise Refused(f"has no tensor at '{shown(prefix + name)}', where its module should have one")
            tensors[prefix + name] = value
        for name, child in reversed(children(current).items()):
            if is_module(child):
                waiting.append((f"{prefix}{name}.", depth + 1, child))
            elif child is not None:
                raise Refused(f"has no module at '{shown(prefix + name)}', where its module should have one")
    return tensors


def _count(module: Thing) -> int:
    """Number of tensors and modules directly in a module, plus the module itself."""
    tables = [attribute(module, name) for name in ("_parameters", "_buffers", "_modules")]
    non_persistent = elements(attribute(module, "_non_persistent_buffers_set"))
    return 1 + len(non_persistent) + sum(len(table) for table in tables if type(table) is Table)


def _direct_tensors(module: Thing) -> Iterator[tuple[str, Any]]:
    """The parameters and the persistent buffers of a module itself."""
    non_persistent = {name for name in elements(attribute(module, "_non_persistent_buffers_set")) if type(name) is str}
    buffers = attribute(module, "_buffers")
    for name, value in attribute(module, "_parameters").items():
        if value is not None:
            yield name, value
    for name, value in buffers.items() if type(buffers) is Table else ():
        if value is not None and name not in non_persistent:
            yield name, value
