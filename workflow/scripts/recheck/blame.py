"""Errors in the user's own code: the file and line that failed, and the shapes of the tensors involved.

A user's code is any file that belongs to neither Recheck nor an installed package. A UserError from here says whose
code failed. An error that involves no such file is a bug in Recheck; its traceback is in the log.
"""

import ast
import contextlib
import importlib.util
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from recheck import circumstances
from recheck.errors import UserError, nearest

SCRIPTS = Path(__file__).resolve().parents[1]
METHODS = ("forward", "__call__", "draw_pass", "draw", "__init__")
"""Methods that Recheck calls; the first that a class defines is named in an error."""


@contextlib.contextmanager
def user_code(what: str, part: Any, **arguments: Any) -> Iterator[None]:
    """Within this context, turn an error of a part into a UserError unless the part belongs to Recheck.

    ``what`` is the part's kind (loss, sampler, …), ``part`` an object, class or function, and ``arguments`` the values
    that it was called with. Errors about a full disk or GPU pass through.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if circumstances.sentence(error) is None and (message := explain(error, what, part, arguments, skip=2)):
            raise UserError(message) from error
        raise


def explain(
    error: BaseException, what: str = "", part: Any = None, arguments: dict[str, Any] | None = None, skip: int = 0
) -> str:
    """Whose code raised the error, where and why; empty if it was Recheck's.

    ``skip`` is the number of frames at the beginning of the traceback that are Recheck's.
    """
    name = f" ({what} '{name_of(part)}')" if what else ""
    reason = f"{type(error).__name__}: {first_line(error)}"
    called = f" It was called with {described(arguments)}." if arguments else ""
    if place := _deepest(error, skip):
        return f"{place}{name}: {reason}.{called} Correct the file and run the same command again."
    if part is None or _module(part).split(".")[0] == "recheck":
        return ""
    if is_users(_file(part)):
        return f"{place_of(part)}{name}: {reason}.{called} Correct the file and run the same command again."
    library = _module(part).split(".")[0]
    return f"The {what} '{name_of(part)}' of {library} failed: {reason}.{called} Check its settings in the study."


def wrong_result(what: str, part: Any, result: Any, expected: str, name: str | None = None) -> UserError:
    """The error for a part that returned something other than expected."""
    where = f"{place_of(part)}: the" if is_users(_file(part)) else "The"
    name = name or name_of(part)
    return UserError(f"{where} {what} '{name}' returned {described_value(result)}. It must return {expected}.")


def check_class(name: str, source: str, key: str) -> None:
    """Refuse a ``module:Class`` that does not exist, without importing it.

    The module is a file beside the Snakefile or an installed package. What an installed package contains is only known
    when a job imports it.
    """
    module, _, attribute = name.partition(":")
    path = Path(*module.split("."))
    file = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
    if file is None:
        if not _installed(module.split(".")[0]):
            files = nearest(module, [*(script.stem for script in Path().glob("*.py"))])
            raise UserError(
                f"{source}: '{key}' is '{name}', but there is no file {path.with_suffix('.py')} beside the Snakefile; "
                f"{files}."
            )
        return
    try:
        defined = _defined(file)
    except (SyntaxError, ValueError) as error:
        line, reason = (
            (f", line {error.lineno}", error.msg) if isinstance(error, SyntaxError) else ("", first_line(error))
        )
        raise UserError(f"{source}: '{key}' is '{name}', but {file}{line} is not valid Python: {reason}.") from None
    if defined is not None and attribute not in defined:
        raise UserError(
            f"{source}: '{key}' is '{name}', but {file} does not define '{attribute}'; {nearest(attribute, defined)}."
        )


def is_users(file: str | None) -> bool:
    """Whether a source file is the user's: neither Recheck's nor installed."""
    if not file or not Path(file).is_file():
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in (SCRIPTS, *_installed_folders()))


def place_of(part: Any) -> str:
    """File and line of the method that Recheck calls, or of the class or function."""
    cls = part if inspect.isclass(part) or inspect.isfunction(part) else type(part)
    method = next((vars(cls)[name] for name in METHODS if name in vars(cls)), cls)
    for candidate in (method, cls):
        with contextlib.suppress(OSError, TypeError):
            return f"{_short(inspect.getsourcefile(candidate))}, line {inspect.getsourcelines(candidate)[1]}"
    return _module(part)


def name_of(part: Any) -> str:
    """``module:Class`` of a user's part; the bare name of any other part."""
    cls = part if hasattr(part, "__qualname__") else type(part)
    return f"{cls.__module__}:{cls.__qualname__}" if is_users(_file(part)) else cls.__qualname__


def described(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {described_value(value)}" for name, value in arguments.items())


def described_value(value: Any) -> str:
    """Type and shape of a tensor or array, or the type of another value."""
    if value is None:
        return "None"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    if isinstance(value, dict):
        return f"a dict with the keys {', '.join(map(str, value))}" if value else "an empty dict"
    if isinstance(value, (list, tuple)):
        if not value:
            return f"an empty {type(value).__name__}"
        inside = "; ".join(described_value(item) for item in value[:4])
        return f"a {type(value).__name__} of {len(value)} ({inside}{', …' if len(value) > 4 else ''})"
    return f"{type(value).__name__} {value!r:.40}" if isinstance(value, (int, float, str)) else type(value).__name__


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else "no message").rstrip(".")


def _deepest(error: BaseException, skip: int) -> str:
    """File and line of the deepest frame of the traceback in a user's file; empty if there is none."""
    if isinstance(error, SyntaxError) and is_users(error.filename):
        return f"{_short(error.filename)}, line {error.lineno}"
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))[skip:]):
        if is_users(frame.f_code.co_filename):
            return f"{_short(frame.f_code.co_filename)}, line {line}, in {frame.f_code.co_name}"
    return ""


def _short(file: str | Path) -> str:
    path = Path(file).resolve()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _module(part: Any) -> str:
    return (part if hasattr(part, "__qualname__") else type(part)).__module__


def _file(part: Any) -> str | None:
    return getattr(sys.modules.get(_module(part)), "__file__", None)


@cache
def _installed_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(Path(paths[key]).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _defined(file: Path) -> set[str] | None:
    """Names at the top level of a module; None if they are only known after importing it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes(), str(file))):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            if any(alias.name == "*" for alias in node.names):
                return None
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return None if "__getattr__" in names else names
