"""Import statements of Python files, cached by their text: parsing the whole package takes seconds."""

import ast
from functools import cache
from pathlib import Path


def imports_in(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """All import statements of a file, wherever they are."""
    return _imports(path.read_text(encoding="utf-8"))


@cache
def _imports(text: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom)))
