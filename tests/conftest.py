"""Fixtures for all tests."""

import compileall
import gc
import logging
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

from support.project import ROOT, SCRIPTS, Project
from support.project.tuned import write_study
from support.services import forks
from support.services.servers import serving
from support.suite import memory
from support.suite.order import ordered
from support.suite.unavailable import unavailable


def pytest_configure(config):
    # a shell starts background commands with this signal ignored, and every program started here would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(100_000, 50, 100)  # imports and collection keep nearly every object that they make
    # for all test processes, before they import NumPy: a second BLAS thread waits by spinning, which slows the others
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if "PYTEST_XDIST_WORKER" not in os.environ:
        # jobs compute on the CPU and reach the servers of the tests, also on a machine with a GPU or behind a proxy
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        direct = [os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), "127.0.0.1", "localhost"]
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, direct))
        compileall.compile_dir(SCRIPTS / "recheck", quiet=1)  # projects copy it, and would each compile their copy
    if "TMPDIR" not in os.environ and memory.has_room(config.getoption("numprocesses", None) or 1):
        os.environ["TMPDIR"], tempfile.tempdir = memory.make_folder(), None
    forks.start()  # in the first process, so that all test processes share them

    if not config.getoption("numprocesses", None):  # a process that runs tests, not the one that hands them out
        import torch

        torch.set_num_threads(1)
        # The first backward pass of a process counts the GPUs. If a compiler ran before, it counts the compiler's fake
        # GPU and starts a thread for it, and then forks of the process can't train.
        torch.ones(1, requires_grad=True).backward()
    # no test may depend on how busy the machine is, or on chance
    settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("same")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Give each test the same random numbers, whatever ran before it in its process."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)  # not those of GPUs: their seed is stored with a traceback


def pytest_sessionfinish(exitstatus):
    if exitstatus == pytest.ExitCode.OK and "PYTEST_XDIST_WORKER" not in os.environ:
        memory.remove_folders()  # after a failure, the folders of the failed tests stay


def pytest_xdist_auto_num_workers(config):
    """One worker more than there are cores if SLURM tests may be among the tests: they wait more than they compute.

    Fewer if there is too little memory.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    waits = "not slow" not in config.option.markexpr
    return max(1, int(min(len(os.sched_getaffinity(0)) + waits, memory.processes())))


def pytest_make_parametrize_id(val, argname):
    """Name bytes after their argument: compressed bytes contain a time, and all processes must agree on names."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(config, items):
    items[:] = ordered(items, getattr(config, "workerinput", {}).get("workercount", 1))


def pytest_collection_finish():
    """Leave libraries and collected tests out of every later garbage collection: they live until the end anyway."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def logs_of_jobs():
    """Restore the loggers after each test: a job replaces the handlers of its process."""
    loggers = [logging.getLogger(name) for name in ("recheck", "py.warnings")]
    before = [(logger.level, logger.propagate, logger.handlers[:]) for logger in loggers]
    yield
    logging.captureWarnings(False)
    for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
        for handler in set(logger.handlers) - set(handlers):
            handler.close()
        logger.setLevel(level)
        logger.propagate, logger.handlers[:] = propagate, handlers


@pytest.fixture(scope="session")
def golden() -> Path:
    """Folder of inputs and outputs of the original implementations; the environment may name another folder."""
    return Path(os.environ.get("RECHECK_GOLDEN", ROOT / "tests" / "golden"))


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Callable[[str, Callable[[Path], Project]], Project]:
    """A function that makes a project once for all test processes: the first makes it, the others wait.

    Tests read a shared project, or change a copy of it.
    """
    single = "PYTEST_XDIST_WORKER" not in os.environ
    base = tmp_path_factory.getbasetemp() if single else tmp_path_factory.getbasetemp().parent

    def make_once(name: str, make: Callable[[Path], Project]) -> Project:
        project, unfinished = Project(base / name), base / f"{name}_unfinished"
        with FileLock(base / f"{name}.lock"):
            if not project.folder.exists():
                shutil.rmtree(unfinished, ignore_errors=True)
                make(unfinished).folder.rename(project.folder)
        return project

    return make_once


@pytest.fixture(scope="session")
def finished(shared) -> Project:
    """One finished study. Tests copy it, so that each test computes only what it changes."""

    def make(folder: Path) -> Project:
        project = Project.create(folder)
        project.succeed("--cores", "2")
        return project

    return shared("finished", make)


@pytest.fixture(scope="session")
def tuned(shared, finished) -> Project:
    """A finished study with two searches, and what Snakemake printed."""

    def make(folder: Path) -> Project:
        project = finished.copy(folder)
        write_study(project)
        project.write("printed.txt", project.succeed("--cores", "2", "my_study"))
        return project

    return shared("tuned", make)


@pytest.fixture
def project(finished, tmp_path) -> Project:
    """A copy of the finished study that a test may change."""
    return finished.copy(tmp_path / "project")


@pytest.fixture
def fresh(tmp_path) -> Project:
    """A project in which nothing has been made yet."""
    return Project.create(tmp_path / "project")


@pytest.fixture(scope="session")
def unstarted(tmp_path_factory) -> Project:
    """A project, one per test process, in which no job ever runs; tests restore the files that they change."""
    return Project.create(tmp_path_factory.mktemp("unstarted") / "project")


@pytest.fixture
def server():
    """A web server on this machine."""
    with serving() as running:
        yield running


@pytest.fixture
def closed():
    """An address of this machine at which nothing listens. Its port stays taken, so that no other program listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A new certificate for Google's host names, trusted only by these tests."""
    if not shutil.which("openssl"):
        unavailable("no openssl: a certificate for a loopback Google Drive can't be made here")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=loopback"
    names = "subjectAltName=DNS:drive.google.com,DNS:drive.usercontent.google.com"
    command = [*command.split(), "-addext", names, "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "certificate.pem"


@pytest.fixture
def drive(server, certificate, monkeypatch):
    """Makes the real gdown talk to a local server: a proxy that answers for all hosts."""
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.tls.load_cert_chain(certificate, certificate.with_name("key.pem"))
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, server.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    return server
