"""Dependencies of the package go one way: a layer uses those below it, never those above."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "workflow" / "scripts" / "recheck"
LAYERS = ("report", "training", "evaluation", "methods", "models", "data", "study")
SHARED = {"errors", "failures", "files", "job", "names", "parts", "progress", "resize", "seal"}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_uses_only_what_is_below_it(layer):
    allowed = {*LAYERS[LAYERS.index(layer) :], *SHARED}
    if layer == "report":
        allowed.remove("study")  # rules hand it facts
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


def test_the_report_gets_facts_and_never_looks_into_a_study():
    studies = {f"recheck.{name}" for name in ("study", "config", "targets", "shorthand")}
    for path in (PACKAGE / "report").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                assert not any(f"{name}.".startswith(f"{study}.") for name in names for study in studies), path
