"""A study key needs one line in the schema and code that reads it; these tests fail if either is missing."""

import ast
import re
import shutil
from functools import cache

import pytest

from recheck.study.yaml import read_yaml
from support.project import ROOT

PACKAGE, SCHEMAS = "workflow/scripts/recheck", "workflow/schemas"
# Names of variables that hold a study or the settings of a run.
HOLDERS = {"composed", "configuration", "evaluation", "schedule", "selection", "settings"}
# Keys that code adds and users never write.
MADE = {"name", "variant", "reduction", "select", "distances", "experiment", "seed", "steps", "points"}


def keys_of(schema):
    """Every key in a schema, including its definitions."""
    if isinstance(schema, dict):
        for name, child in schema.get("properties", {}).items():
            yield name
            yield from keys_of(child)
        for key, child in schema.items():
            if key != "properties":
                yield from keys_of(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from keys_of(child)


def schema_keys(root):
    return {key for name in ("study", "method") for key in keys_of(read_yaml(root / SCHEMAS / f"{name}.schema.yaml"))}


def files(root):
    """Texts of the package's modules."""
    return [path.read_text(encoding="utf-8") for path in (root / PACKAGE).rglob("*.py")]


@cache
def found_in(text):
    """Words and arguments of a module, and the keys that it reads from a study or from settings."""
    named, read = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named.add(node.value)
        elif isinstance(node, ast.arg):
            named.add(node.arg)
        read.update(read_keys(node))
    return named, read


def unread(root):
    """Keys of the schema that no code uses as key or argument and no template as attribute."""
    named = set().union(*(found_in(text)[0] for text in files(root)))
    for template in (root / PACKAGE).rglob("*.j2"):
        named.update(re.findall(r"\.(\w+)", template.read_text(encoding="utf-8")))
    return schema_keys(root) - named


def unknown(root):
    """Keys that code reads from a study or the settings of a run, but no schema has."""
    return set().union(*(found_in(text)[1] for text in files(root))) - schema_keys(root) - MADE


def read_keys(node):
    """The key in ``settings["key"]`` and ``settings.get("key")``."""
    if isinstance(node, ast.Subscript):
        holder, keys = node.value, [node.slice]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        holder, keys = node.func.value, node.args[:1]
    else:
        return
    name = holder.id if isinstance(holder, ast.Name) else getattr(holder, "attr", None)
    if name in HOLDERS:
        yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


@pytest.mark.slow
def test_every_key_of_the_schema_has_a_reader():
    assert unread(ROOT) == set()


def test_every_key_that_is_read_is_in_the_schema():
    assert unknown(ROOT) == set()


@pytest.fixture
def copy(tmp_path):
    for folder in (PACKAGE, SCHEMAS):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def add_line(copy):
    path = copy / SCHEMAS / "study.schema.yaml"
    text = path.read_text(encoding="utf-8")
    first = next(line for line in text.splitlines() if line.lstrip().startswith("precision:"))
    room = first[: len(first) - len(first.lstrip())]
    line = f'{room}frobnication: {{description: "How much.", type: number, used_by: [training]}}'
    path.write_text(text.replace(first, f"{line}\n{first}", 1), encoding="utf-8")


def add_reader(copy):
    path = copy / PACKAGE / "training/engine.py"
    text = path.read_text(encoding="utf-8")
    line = '        self.selection = configuration["selection"]\n'
    assert line in text
    path.write_text(
        text.replace(line, f'{line}        self.much = configuration.get("frobnication", 0)\n'), encoding="utf-8"
    )


def test_a_schema_line_without_a_reader_is_detected(copy):
    add_line(copy)
    assert unread(copy) == {"frobnication"}


def test_a_reader_without_a_schema_line_is_detected(copy):
    add_reader(copy)
    assert unknown(copy) == {"frobnication"}


def test_a_new_key_needs_only_a_schema_line_and_a_reader(copy):
    add_line(copy)
    add_reader(copy)
    assert unread(copy) == unknown(copy) == set()
