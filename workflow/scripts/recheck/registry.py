"""From a YAML part such as ``{class: TripletMarginLoss, margin: 0.1}`` to the object it names, a user's own too."""

import importlib
import inspect
from types import ModuleType
from typing import Any

from recheck.errors import UserError, nearest


def load(name: str, what: str) -> Any:
    """What ``module:attribute`` names; the module is a file beside the Snakefile, or installed."""
    module_name, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name != module_name and not module_name.startswith(f"{error.name}."):
            raise
        raise UserError(
            f"{what} '{name}': no module '{error.name}' can be imported; put {error.name}.py beside the Snakefile."
        ) from None
    except AttributeError:
        raise UserError(f"{what} '{name}': module '{module_name}' has no '{attribute}'.") from None


def find(name: str, modules: list[ModuleType], what: str) -> Any:
    """The class called ``name`` in one of the modules, or anywhere as ``module:Class``."""
    if ":" in name:
        return load(name, what)
    for module in modules:
        found = getattr(module, name, None)
        if inspect.isclass(found):
            return found
    known = {key for module in modules for key, value in vars(module).items() if inspect.isclass(value)} - {"Any"}
    raise UserError(f"Unknown {what} '{name}'; {nearest(name, known)}, or 'module:Class'.")


def build(spec: dict[str, Any], modules: list[ModuleType], what: str, **context: Any) -> Any:
    """Make the object a part describes.

    Arguments that only the run knows (``num_classes``, ``embedding_size``, …) are passed where the class asks for
    them and the part does not set them. A nested part (a distance, a reducer, a regulariser) is built first.
    """
    cls = find(spec["class"], modules, what)
    arguments = {key: _nested(value, modules, what, context) for key, value in spec.items() if key != "class"}
    accepted = _accepted(cls)
    for key in arguments:
        if key not in accepted:
            raise UserError(f"{what} '{spec['class']}' has no argument '{key}'; {nearest(key, accepted)}.")
    filled = {key: value for key, value in context.items() if key in accepted and key not in arguments}
    try:
        return cls(**arguments, **filled)
    except (TypeError, ValueError, AssertionError) as error:
        raise UserError(f"{what} '{spec['class']}' refuses its arguments {arguments}: {error}.") from error


def takes(spec: dict[str, Any], argument: str, modules: list[ModuleType], what: str) -> bool:
    """Whether the class that a part names has an argument of that name."""
    return argument in _accepted(find(spec["class"], modules, what))


def _accepted(cls: Any) -> set[str]:
    """Names of a class's arguments, those it hands on to its parents (``**kwargs``) included."""
    names: set[str] = set()
    for parent in inspect.getmro(cls) if inspect.isclass(cls) else (cls,):
        parameters = inspect.signature(parent).parameters.values()
        names.update(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
    return names


def _nested(value: Any, modules: list[ModuleType], what: str, context: dict[str, Any]) -> Any:
    return build(value, modules, what, **context) if isinstance(value, dict) and "class" in value else value
