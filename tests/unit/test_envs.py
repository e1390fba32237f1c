"""The conda environments name the same versions as the pip requirements: one set of packages, two installers."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
# names that differ between conda-forge and PyPI
ON_PYPI = {"pytorch": "torch", "matplotlib-base": "matplotlib", "faiss": "faiss-gpu"}
# what conda brings itself, or what has no counterpart in the requirements
ONLY_CONDA = {"python", "pip", "nodejs"}


def pinned():
    """Versions for Python 3.11, which the environments have: some packages have another for newer ones."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    found = [re.match(r"([a-z0-9-]+)==([^ ;]+)", line) for line in lines if "full_version >= '3.12'" not in line]
    return {match[1]: match[2] for match in found if match}


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "envs").glob("*.yaml")))
def test_versions_agree(name):
    environment = yaml.safe_load((ROOT / "envs" / name).read_text(encoding="utf-8"))
    versions = pinned()
    specs = []
    for entry in environment["dependencies"]:
        specs += [line.replace("==", " =") for line in entry["pip"]] if isinstance(entry, dict) else [entry]
    for spec in specs:
        package, _, version = spec.partition(" =")
        if package in ONLY_CONDA:
            continue
        expected = versions[ON_PYPI.get(package, package).replace("_", "-")]
        assert version == expected, f"envs/{name}: {package} {version}, but requirements.txt has {expected}"


def test_every_rule_names_an_environment_that_exists():
    for rules in (ROOT / "workflow/rules").glob("*.smk"):
        for path in re.findall(r'conda:\s+"([^"]+)"', rules.read_text(encoding="utf-8")):
            assert (rules.parent / path).is_file(), f"{rules.name}: {path}"


def test_requirements_name_no_host():
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=[a-z])", text)[1:])
