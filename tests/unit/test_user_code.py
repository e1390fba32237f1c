"""Every module of the user that a module imports is found, without importing anything."""

from types import SimpleNamespace

import pytest

from recheck import user_code
from recheck.parts import own_files
from recheck.user_code import module_files, unlisted_modules

FILES = {
    "my_loss.py": "import torch\nimport my_helper\nfrom my_package import scale\n",
    "my_helper.py": "def f():\n    from my_package.deep import inner\n    import numpy\n    return inner\n",
    "my_package/__init__.py": "",
    "my_package/scale.py": "from . import shift\nfrom .deep.inner import depth\n",
    "my_package/shift.py": "import importlib\nother = importlib.import_module('my_lazy')\n",
    "my_package/deep/__init__.py": "from ..top import *\n",
    "my_package/deep/inner.py": "depth = __import__('my_builtin')\n",
    "my_package/top.py": "import my_loss  # a circle\n",
    "my_lazy.py": "from __future__ import annotations\n",
    "my_builtin.py": "'''not a module: import unused'''\n",
    "unused.py": "",
    "my_package/unused.py": "",
    "broken.py": "import my_lazy\ndef (:\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_modules_are_followed_through_functions_packages_and_circles(folder):
    unused = {"unused.py", "my_package/unused.py", "broken.py"}
    assert module_files("my_loss") == sorted(set(FILES) - unused)


def test_a_package_is_its_init_file(folder):
    (folder / "bundle").mkdir()
    (folder / "bundle/__init__.py").write_text("from .part import Loss\n", encoding="utf-8")
    (folder / "bundle/part.py").write_text("", encoding="utf-8")
    assert module_files("bundle") == ["bundle/__init__.py", "bundle/part.py"]
    assert own_files({"loss": {"class": "bundle.part:Loss"}}) == ["bundle/__init__.py", "bundle/part.py"]


def test_a_folder_without_init_file_and_a_sibling_in_the_same_folder(folder):
    (folder / "losses").mkdir()
    (folder / "losses/first.py").write_text("import sys\nimport second\n", encoding="utf-8")
    (folder / "losses/second.py").write_text("", encoding="utf-8")
    assert module_files("losses.first") == ["losses/first.py", "losses/second.py"]


def test_an_edited_file_is_read_again(folder):
    assert "unused.py" not in module_files("my_lazy")
    (folder / "my_lazy.py").write_text("import unused\n# longer than before\n", encoding="utf-8")
    assert "unused.py" in module_files("my_lazy")


def test_installed_missing_and_broken_modules(folder):
    assert module_files("torch") == module_files("absent") == module_files("my_package.absent") == []
    assert module_files("broken") == ["broken.py"], "its error is reported by the job that imports it"


def test_a_module_that_no_statement_names_is_reported(folder):
    files = {"hidden": folder / "unused.py", "known": folder / "my_lazy.py", "recheck": user_code.__file__}
    files["torch._classes"] = "_classes.py"  # there is no such file
    modules = {name: SimpleNamespace(__file__=str(path)) for name, path in files.items()}
    assert unlisted_modules(["my_lazy.py"], {**modules, "builtin": SimpleNamespace()}) == ["unused.py"]
