"""The package can be built and installed without the clone, with its studies, schemas and published numbers."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import recheck
from support.project import ROOT

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SHIPPED = ("config", "workflow/schemas", "resources/published")


def tracked(folder):
    """Files of a folder that git knows; a test copy of the clone has no git."""
    done = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True)
    if done.returncode or not done.stdout:
        pytest.skip("not a git clone")
    return [Path(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the installed wheel, far from the clone: built by the backend that pip calls, without downloads."""
    folder = tmp_path_factory.mktemp("package")
    build = "import sys, hatchling.build; print(hatchling.build.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wheel = folder / done.stdout.split()[-1]
    assert wheel.name == f"recheck-{recheck.__version__}-py3-none-any.whl"
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--offline", "--no-deps"]
    target = folder / "site"
    subprocess.run([*uv, "--target", str(target), str(wheel)], check=True, capture_output=True)
    return target


def run(installed, program, *arguments):
    """Run a program that sees the installed package and not the clone."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=installed.parent,
        env={**environment, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_all_files_and_nothing_of_the_clone_besides(installed):
    package = installed / "recheck"
    for folder in SHIPPED:
        for path in tracked(folder):
            assert (package / "shipped" / path).read_bytes() == (ROOT / path).read_bytes(), path
    for path in tracked("workflow/scripts/recheck"):
        assert (package / path.relative_to("workflow/scripts/recheck")).is_file(), path
    assert (package / "py.typed").is_file() and (package / "report/page.html.j2").is_file()
    assert not list(installed.rglob("tests")) and not list(installed.rglob("*.smk"))
    assert sum(path.stat().st_size for path in package.rglob("*") if path.suffix != ".pyc") < 4e6


def test_the_installed_package_works_elsewhere(installed):
    program = """
import json, recheck
from recheck import shipped
from recheck.study.compose import Files
from recheck.study.model import load_study
from recheck.study.yaml import names_in

files = Files(
    studies=names_in([shipped.path("config/studies")]), methods=names_in([shipped.path("config/methods")])
)
run = load_study("quickstart", files).run("emoji", "triplet")
values = recheck.metrics([[0.0], [0.1], [1.0], [1.2]], [0, 0, 1, 1])
published = shipped.path("resources/published/mlrc.yaml").is_file()
print(json.dumps([recheck.__file__, recheck.__version__, run.training["loss"], values, published]))
"""
    place, version, loss, values, published = json.loads(run(installed, program))
    assert Path(place).is_relative_to(installed) and version == recheck.__version__ and published
    assert loss == {"class": "TripletMarginLoss", "margin": 0.1}
    assert values == {"P@1": 1.0, "RP": 1.0, "MAP@R": 1.0}


def test_the_installed_command(installed):
    done = subprocess.run(
        [sys.executable, installed / "bin" / "recheck", "--version"],
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"recheck {recheck.__version__}\n"), done.stderr


def test_the_version_has_one_place():
    assert "version" not in PROJECT and PROJECT["dynamic"] == ["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == recheck.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == recheck.__version__


def test_dependencies_are_those_that_requirements_pin():
    extras = PROJECT["optional-dependencies"]
    assert set(extras) == {"train", "export", "all"}
    listed = [*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)]
    names = {re.match(r"[\w-]+", line)[0].replace("_", "-").lower() for line in listed} - {"recheck"}
    pinned = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE))
    assert names <= pinned


def test_the_base_is_enough_for_metrics_studies_and_help():
    """The modules that they use import nothing else at their top; faiss and scikit-learn are optional."""
    base = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}
    assert base == {"numpy", "pyyaml", "jsonschema", "threadpoolctl"}
    program = (
        "import sys, recheck, recheck.cli.main, recheck.study.model\n"
        "recheck.metrics\n"
        "recheck.cli.main.parser()\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "workflow/scripts", capture_output=True, text=True, check=True
    )
    loaded = set(ast.literal_eval(done.stdout))
    assert {"numpy", "jsonschema"} <= loaded
    assert not loaded & {"PIL", "faiss", "pandas", "safetensors", "scipy", "sklearn", "snakemake", "torch", "tqdm"}
