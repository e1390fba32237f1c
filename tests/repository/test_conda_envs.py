"""Solve the conda environments on a synthetic channel whose packages are built like conda-forge's.

No real channel is used, so these tests do not show that conda-forge has these versions. They show that every
requirement parses, that the requirements do not conflict, and that the CUDA builds are chosen on a machine without a
GPU.
"""

import asyncio
import hashlib
import json
import re

import pytest
import yaml
from rattler import BuildString, Channel, Gateway, GenericVirtualPackage, MatchSpec, PackageName, Version, solve
from rattler.exceptions import SolverError

from support.project import ROOT

pytestmark = pytest.mark.slow

ENVIRONMENTS = sorted(path.stem for path in (ROOT / "envs").glob("*.yaml"))
WITH_CUDA = ("evaluate", "train")
OTHER_VERSIONS = ("0.1", "99.0")


def requirements(environment):
    """The conda requirements of an environment, without its pip requirements."""
    entries = yaml.safe_load((ROOT / "envs" / f"{environment}.yaml").read_text(encoding="utf-8"))["dependencies"]
    return [entry for entry in entries if isinstance(entry, str)]


def version_of(name, otherwise="1.0"):
    """Version of a package in the environments, or ``otherwise`` if none names one."""
    lines = [line for environment in ENVIRONMENTS for line in requirements(environment)]
    versions = {re.split(r"\s*=", line)[1] for line in lines if re.split(r"\s*=", line)[0] == name and "=" in line}
    return versions.pop() if versions else otherwise


def record(name, version, build="0", depends=(), constrains=(), number=0):
    return {
        "name": name,
        "version": version,
        "build": build,
        "build_number": number,
        "depends": list(depends),
        "constrains": list(constrains),
        "sha256": hashlib.sha256(f"{name}{version}{build}".encode()).hexdigest(),
        "subdir": "linux-64",
        "size": 1,
        "timestamp": 1_700_000_000_000,
    }


def pytorch(version):
    """PyTorch as in conda-forge's pytorch-cpu-feedstock: cpu and cuda builds, and two names that select one."""
    yield record(
        "pytorch", version, "cpu_mkl_py311_h1_100", ["python"], ["pytorch-cpu ==" + version, "pytorch-gpu <0.0a0"]
    )
    for cuda in ("12.9", "13.0"):
        build = f"cuda{cuda.replace('.', '')}_mkl_py311_h1_300"
        major = int(cuda.split(".")[0])
        depends = ["python", "__cuda", f"cuda-version >={cuda},<{major + 1}"]
        yield record("pytorch", version, build, depends, [f"pytorch-gpu =={version}", "pytorch-cpu <0.0a0"], 300)
        yield record("pytorch-gpu", version, build.replace("_py311", ""), [f"pytorch =={version} cuda*_mkl*300"])
    yield record("pytorch-cpu", version, "cpu_mkl_h1_100", [f"pytorch =={version} cpu_mkl*100"])


def torchvision(version):
    """A build of the same kind (cpu or cuda) as the PyTorch that it is built for."""
    for kind in ("cpu", "cuda129", "cuda130"):
        depends = ["python", f"pytorch * {kind}*"]
        yield record("torchvision", version, f"{kind}_py311_h1_0", depends)


def faiss(version):
    """faiss as in conda-forge's faiss-split-feedstock."""
    for kind, other in (("cpu", "gpu"), ("cuda", "cpu")):
        for cuda in ("12.9", "13.0") if kind == "cuda" else ("",):
            mark = f"cuda{cuda.replace('.', '')}" if cuda else ""
            runtime = [f"cuda-version >={cuda},<{int(cuda.split('.')[0]) + 1}"] if cuda else []
            number = 200 if cuda else 0
            constrains = [f"faiss-{other} <0.0a0"]
            yield record("libfaiss", version, f"{mark}h1_{number}_{kind}", runtime, constrains, number)
            depends = ["python", f"libfaiss =={version} *_{kind}", *runtime]
            yield record("faiss", version, f"py311{mark}h1_{number}_{kind}", depends, constrains, number)
        name = "faiss-gpu" if kind == "cuda" else "faiss-cpu"
        yield record(name, version, f"h1_{kind}", [f"faiss =={version} *_{kind}"])


def made_up_packages():
    """Every package of the environments, in its pinned version, an older one and a newer one."""
    special = {
        "pytorch-gpu": pytorch,
        "pytorch-cpu": pytorch,
        "torchvision": torchvision,
        "faiss-gpu": faiss,
        "faiss-cpu": faiss,
    }
    names = {re.split(r"[\s=]", line)[0] for environment in ENVIRONMENTS for line in requirements(environment)}
    for make, name in ((pytorch, "pytorch-gpu"), (torchvision, "torchvision"), (faiss, "faiss-gpu")):
        for version in (version_of(name), *OTHER_VERSIONS):
            yield from make(version)
    for cuda in ("12.9", "13.0"):
        yield record("cuda-version", cuda, constrains=[f"__cuda >={cuda.split('.')[0]}"])
    for name in names - set(special) - {"cuda-version"}:
        depends = {"timm": ["python", "pytorch", "torchvision"], "pytorch-metric-learning": ["python", "pytorch"]}
        for version in (version_of(name), *OTHER_VERSIONS):
            yield record(name, version, depends=depends.get(name, ()))


@pytest.fixture(scope="module")
def channel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("channel")
    packages = {"linux-64": list(made_up_packages()), "noarch": []}
    for subdir, records in packages.items():
        files = {f"{each['name']}-{each['version']}-{each['build']}.conda": each for each in records}
        place = folder / subdir / "repodata.json"
        place.parent.mkdir()
        content = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": files, "repodata_version": 1}
        place.write_text(json.dumps(content), encoding="utf-8")
    return Channel(folder.as_uri()), folder / "cache"


def solved(channel, specs, cuda=None):
    """Name → (version, build) chosen by the solver on a machine with this CUDA driver, or without one."""
    source, cache = channel
    present = [("__unix", "0"), ("__linux", "6.1"), ("__glibc", "2.36"), *([("__cuda", cuda)] if cuda else [])]
    virtual = [
        GenericVirtualPackage(PackageName(name), Version(version), BuildString("0")) for name, version in present
    ]
    records = asyncio.run(
        solve(
            sources=[source],
            specs=[MatchSpec(spec) for spec in specs],
            gateway=Gateway(cache_dir=cache),
            platforms=["linux-64", "noarch"],
            virtual_packages=virtual,
        )
    )
    return {record.name.normalized: (str(record.version), str(record.build)) for record in records}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_requirement_can_be_read(environment):
    for line in requirements(environment):
        spec = MatchSpec(line, strict=True)
        assert spec.name.normalized == re.split(r"[\s=]", line)[0]
        assert (spec.version is not None) == ("=" in line)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_pinned_versions_are_chosen(channel, environment):
    result = solved(channel, requirements(environment), cuda="13.0")
    for line in requirements(environment):
        name, _, version = (piece.strip() for piece in line.partition("="))
        assert not version or result[name][0] == version or result[name][0].startswith(f"{version}.")


@pytest.mark.parametrize("environment", WITH_CUDA)
@pytest.mark.parametrize("cuda", ["13.0", "13.2"])
def test_cuda_builds_are_chosen(channel, environment, cuda):
    """``cuda`` is the version of a GPU's driver, or CONDA_OVERRIDE_CUDA on a machine without a GPU."""
    result = solved(channel, requirements(environment), cuda)
    assert result["faiss"][1].endswith("_cuda") and "cuda130" in result["faiss"][1]
    assert result["cuda-version"][0] == "13.0"
    if environment == "train":
        assert result["pytorch"][1].startswith("cuda130_")
        assert result["torchvision"][1].startswith("cuda130_")


def test_without_a_gpu_and_without_the_override_there_is_no_cpu_build_by_accident(channel):
    """The solver fails with an error about __cuda; it must not choose an environment that trains on the CPU."""
    with pytest.raises(SolverError, match="__cuda"):
        solved(channel, requirements("train"))
    assert solved(channel, requirements("evaluate"))["faiss"][1].endswith("_cuda")


def test_plain_package_names_would_give_the_cpu_build(channel):
    """The environments name the build, because conda's default choice depends on the machine."""
    plain = ["python", f"pytorch ={version_of('pytorch-gpu')}"]
    assert solved(channel, plain)["pytorch"][1].startswith("cpu_")
    assert solved(channel, plain, "13.0")["pytorch"][1].startswith("cuda")


def test_the_cpu_variant_of_the_documentation_solves(channel):
    """The CPU variant of docs/conda.md changes two names and removes one line."""
    (command,) = re.findall(r"^sed .*-e '(.+)' -e '(.+)' -e '(.+)' envs", (ROOT / "docs/conda.md").read_text(), re.M)
    assert command == ("s/pytorch-gpu/pytorch-cpu/", "s/faiss-gpu/faiss-cpu/", "/cuda-version/d")
    for environment in WITH_CUDA:
        lines = [line.replace("-gpu", "-cpu") for line in requirements(environment) if "cuda-version" not in line]
        result = solved(channel, lines)
        assert result["faiss"][1].endswith("_cpu")
        assert environment != "train" or result["pytorch"][1].startswith("cpu_")


def test_environments_without_gpus_need_no_driver(channel):
    for environment in set(ENVIRONMENTS) - set(WITH_CUDA):
        assert "cuda-version" not in solved(channel, requirements(environment))
