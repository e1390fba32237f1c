"""Dependencies of the package go one way: a layer uses those below it, never those above."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "workflow" / "scripts" / "recheck"
LAYERS = ("report", "training", "evaluation", "methods", "models", "data", "study")
# `config` is read by everyone and checks the names of metrics
SHARED = {"config", "errors", "failures", "files", "imports", "job"}
SHARED |= {"names", "progress", "registry", "resize", "seal", "shorthand", "targets"}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_uses_only_what_is_below_it(layer):
    allowed = {*LAYERS[LAYERS.index(layer) :], *SHARED}
    for path in (PACKAGE / layer).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "recheck":
                parts = node.module.split(".")[1:2] or [alias.name for alias in node.names]
                assert set(parts) <= allowed, f"{path.relative_to(PACKAGE)} imports {node.module}"


def test_every_module_is_in_a_layer_or_shared():
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert modules == SHARED
    assert folders == set(LAYERS)
