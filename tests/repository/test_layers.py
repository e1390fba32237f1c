"""Dependencies within the package go one way: a layer imports only layers below it."""

import ast
import re

import pytest

from support.project import ROOT, SCRIPTS
from support.suite.source import imports_in

PACKAGE = SCRIPTS / "recheck"
LAYERS = (
    "cli",
    "export",
    "api",
    "doctor",
    "report",
    "cost",
    "training",
    "evaluation",
    "tuning",
    "methods",
    "models",
    "data",
    "study",
    "statistics",
)
OPTUNA = {"recheck.tuning.propose", "recheck.tuning.importance"}
SHARED = {
    "blame",
    "circumstances",
    "errors",
    "failures",
    "files",
    "job",
    "names",
    "parts",
    "progress",
    "quoted_searches",
    "reevaluation",
    "resize",
    "retries",
    "sanity",
    "seal",
    "shipped",
    "space",
    "terminal",
    "user_code",
}


NAMES_A_TEST = re.compile(r"\b(?:from|import)\b.*(?:test_|conftest)")
PUBLIC = {"__main__", "losses", "miners", "samplers"}  # for users; nothing in the package imports them


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_layers_below_it(layer):
    allowed = {*LAYERS[LAYERS.index(layer) :], *SHARED, "__version__"}
    if layer == "report":
        allowed.remove("study")  # it gets facts from the rules instead
    for path in (PACKAGE / layer).rglob("*.py"):
        for node in imports_in(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "recheck":
                words = node.module.split(".")[1:2] or [alias.name for alias in node.names]
                assert set(words) <= allowed, f"{path.relative_to(PACKAGE)} imports {node.module}"


def test_every_module_is_in_a_layer_or_shared():
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert modules == SHARED | PUBLIC
    assert folders == set(LAYERS)


def test_the_report_uses_facts_and_never_imports_a_study():
    studies = {f"recheck.{name}" for name in ("study", "config", "targets", "shorthand")}
    for path in (PACKAGE / "report").rglob("*.py"):
        for node in imports_in(path):
            if isinstance(node, ast.ImportFrom):
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                assert not any(f"{name}.".startswith(f"{study}.") for name in names for study in studies), path


def test_only_proposals_and_importances_import_optuna():
    importing = set()
    for path in (*PACKAGE.rglob("*.py"), *SCRIPTS.glob("*.py")):
        for node in imports_in(path):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if {name.split(".")[0] for name in named} & {"optuna"} or set(named) & OPTUNA:
                importing.add(path.relative_to(SCRIPTS).as_posix())
    scripts = {"propose.py", "importance.py"}
    assert importing == {*(f"recheck/tuning/{name}" for name in scripts), *scripts}


def test_unit_tests_mirror_the_package():
    """Their folders are the package's, and a file outside of these folders tests the module of its name."""
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    assert len(folders) > 10 and all((PACKAGE / folder / "__init__.py").exists() for folder in folders)
    modules = {path.name.removeprefix("test_") for path in unit.glob("test_*.py")}
    assert modules and modules <= {path.name for path in PACKAGE.glob("*.py")}


def test_no_test_imports_another_test():
    """What tests share is below tests/support."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    tests = {path.stem for path in files if path.stem.startswith("test_")}
    assert "test_layers" in tests
    # parsing all tests takes seconds, and few of them name a test beside the word "import"
    suspects = [path for path in files if NAMES_A_TEST.search(path.read_text(encoding="utf-8"))]
    for path in suspects:
        for node in imports_in(path):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            words = {word for module in modules for word in module.split(".")}
            assert not words & {*tests, "conftest"}, f"{path.relative_to(ROOT)} imports {', '.join(modules)}"


@pytest.mark.parametrize(
    "line", ["import test_layers", "from repository.test_layers import LAYERS", "    from conftest import golden"]
)
def test_lines_that_import_a_test_are_suspected(line):
    assert NAMES_A_TEST.search(f"x = 1\n{line}\n")
