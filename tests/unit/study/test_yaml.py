"""Strict YAML: scientific notation, and errors with line numbers."""

import textwrap

import pytest

from recheck.errors import UserError
from recheck.study.yaml import names_in, read_yaml


def test_scientific_notation_without_a_dot_is_a_number(tmp_path):
    path = tmp_path / "numbers.yaml"
    path.write_text("{a: 1e-4, b: -2E+3, c: 1.5e-6, d: e4, e: 10}", encoding="utf-8")
    assert read_yaml(path) == {"a": 1e-4, "b": -2000.0, "c": 1.5e-6, "d": "e4", "e": 10}


def test_keys_are_the_text_of_the_file(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text("{0.05: a, 1e-4: b, 8: c, on: d, word: e, 1.50: f}")
    assert read_yaml(path) == {"0.05": "a", "1e-4": "b", "8": "c", "on": "d", "word": "e", "1.50": "f"}
    path.write_text("{8: a, '8': b}", encoding="utf-8")
    with pytest.raises(UserError, match="key '8' appears twice"):
        read_yaml(path)


def test_errors_name_the_line(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(
        textwrap.dedent("""\
        title: x
        seeds: [0
        other: 1
    """)
    )
    with pytest.raises(UserError, match=r"broken.yaml, line \d"):
        read_yaml(path)


def test_files_are_found_by_name_and_an_earlier_folder_wins(tmp_path):
    for name in ("one/a.yaml", "one/b.yaml", "two/b.yaml", "two/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    result = names_in([tmp_path / "one", tmp_path / "two"])
    assert {name: path.parent.name for name, path in result.items()} == {"a": "one", "b": "one"}
