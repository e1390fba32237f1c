"""The source files of a user's modules and of every other module of the user that they import.

Files are found by reading source text, never by importing it: Snakemake asks for them while it plans, and a module may
take seconds to import, or fail. Import statements count wherever they are, even inside functions.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent


def module_files(name: str) -> list[str]:
    """The files of a module beside the Snakefile and of all modules beside the Snakefile that it imports.

    Paths are relative to the working directory. The list is empty if there is no such file, as for an installed module.
    """
    files: dict[Path, None] = {}
    waiting = _locate(name, Path())
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files[path] = None
        about = path.stat()
        for imported in _imports(path, about.st_mtime_ns, about.st_size):
            # Python looks beside the Snakefile; a module that extends sys.path may also look in its own folder.
            waiting += _locate(imported, Path()) or _locate(imported, path.parent)
    return sorted(map(str, files))


def unlisted_modules(listed: Iterable[str], modules: Mapping[str, Any] = sys.modules) -> list[str]:
    """Files of the user that were imported, but that ``module_files`` could not find in any source text."""
    root, known = Path.cwd(), {Path(path).resolve() for path in listed}
    elsewhere = [PACKAGE.parent, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), root / ".snakemake"]
    paths = {Path(module.__file__).resolve() for module in list(modules.values()) if getattr(module, "__file__", None)}
    return sorted(
        str(path.relative_to(root))
        for path in paths - known
        # some of torch's modules name files that don't exist
        if path.suffix == ".py"
        and path.is_file()
        and path.is_relative_to(root)
        and not any(map(path.is_relative_to, elsewhere))
    )


def _locate(name: str, folder: Path) -> list[Path]:
    """The file of a module below a folder, and the `__init__.py` of every package that it is in."""
    parts = name.split(".")
    packages = [folder.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts) + 1)]
    module = folder.joinpath(*parts).with_suffix(".py") if name else folder
    if not (module.is_file() or packages[-1].is_file()):
        return []
    return [path for path in (*packages, module) if path.is_file()]


@cache
def _imports(path: Path, modified: int, size: int) -> tuple[str, ...]:
    """Full names of everything that a file imports; empty if it can't be parsed, which a job will report.

    Time and size only tell the versions of a file apart: many systems give two quick changes the same time.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return ()
    package = path.parent.parts
    return tuple(dict.fromkeys(name for node in ast.walk(tree) for name in _names(node, package) if name))


def _names(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """The modules that a statement may import. ``from a import b`` imports a, and a.b if that is a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = _absolute(node.module or "", node.level, package)
        yield module
        yield from (f"{module}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*")
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        name = node.args[0].value
        if function in ("import_module", "__import__") and isinstance(name, str):
            stripped = name.lstrip(".")
            yield _absolute(stripped, len(name) - len(stripped), package)


def _absolute(module: str, level: int, package: tuple[str, ...]) -> str:
    """The full name of a module that is imported relative to a package; ``level`` is the number of dots."""
    parents = package[: len(package) - level + 1] if level else ()
    return ".".join([*parents, *filter(None, [module])])
