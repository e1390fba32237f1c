"""Snakemake and its jobs in forks of processes that have imported their libraries: imports take most of the time.

Two servers, one for `snakemake` and one for the scripts of jobs, import their libraries when they are first asked, and
fork once per command. A fork runs the same code as the program, in its own session, folder and environment. The package
`recheck` is never imported ahead: each project has its own. All test processes share the servers.

Only :meth:`Project.snakemake` uses forks. Commands that are killed from outside, and all jobs on SLURM, are ordinary
processes, and tests compare the bits that both give.
"""

import ast
import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from pathlib import Path

FOLDER = "RECHECK_FORKS"
LIBRARIES = {
    "snakemake": (
        "difflib",
        "graphlib",
        "jinja2",
        "jsonschema",
        "nbformat",
        "packaging.version",
        "requests",
        "smart_open",
        "snakemake.benchmark",
        "snakemake.cli",
        "snakemake.executors.local",
        "snakemake.profiles",
        "snakemake.report.html_reporter",
        "snakemake.storage",
        "snakemake.workflow",
        "statistics",
        "xml.sax.saxutils",
        "yte",
    ),
    "job": (
        "faiss",
        "jinja2",
        "jsonschema",
        "matplotlib.backends.backend_agg",
        "matplotlib.backends.backend_svg",
        "matplotlib.figure",
        "matplotlib.pyplot",
        "optuna",
        "pandas",
        "pandas.io.formats.csvs",
        "pytorch_metric_learning.losses",
        "safetensors.numpy",
        "scipy.stats",
        "sklearn.cluster",
        "sklearn.decomposition",
        "snakemake.iocontainers",
        "snakemake.script",
        "timm",
        "torch._dynamo",
        "torch.utils.tensorboard",
        "torchvision",
    ),
}
# Started by Snakemake as its Python: scripts of jobs run in a fork, anything else in a new Python.
PYTHON = """\
#!/bin/sh
case "$#$1" in
  1*/.snakemake/scripts/*.py) exec {python} -I -S {client} {address} "$1" ;;
  *) exec {python} "$@" ;;
esac
"""


def start() -> None:
    """Start the servers, which end with this process; the environment tells child processes where they are."""
    _servers()


def run(arguments: tuple[str, ...], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a Snakemake command in a folder."""
    from support.suite.hang import HANG_SECONDS  # not at the top: the servers cannot import it

    with tempfile.TemporaryFile() as output, Path(os.devnull).open() as nothing:
        files = [nothing.fileno(), output.fileno(), output.fileno()]
        with _asked(_servers() / "snakemake", list(arguments), str(folder), environment, files) as connection:
            connection.settimeout(HANG_SECONDS)
            try:
                code = int(connection.makefile().readline())
            except TimeoutError:
                raise subprocess.TimeoutExpired(arguments, HANG_SECONDS) from None
        output.seek(0)
        return code, output.read().decode()


@functools.cache
def _servers() -> Path:
    """Folder of the servers' sockets."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    folder = Path(tempfile.mkdtemp(prefix="recheck-forks-"))
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    for kind in LIBRARIES:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / kind))
            listener.listen(64)
            # its input is never written to: the end of this process closes it, which ends the server
            server = subprocess.Popen(
                [sys.executable, __file__, kind, str(listener.fileno()), str(folder)],
                env=environment | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # otherwise a reader of our output would wait for the servers
                pass_fds=[listener.fileno()],
                cwd="/",
            )
            _started.append(server)
    python = folder / "python_of_jobs"
    client = str(Path(__file__).with_name("job_client.py"))
    words = {"python": sys.executable, "client": client, "address": str(folder / "job")}
    python.write_text(PYTHON.format(**{name: shlex.quote(word) for name, word in words.items()}))
    python.chmod(0o755)
    os.environ[FOLDER] = str(folder)
    return folder


_started: list[subprocess.Popen] = []


def _asked(address: Path, arguments: list[str], folder: str, environment: dict[str, str], files: list[int]):
    """A connection that will deliver the exit code."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(address))
    socket.send_fds(connection, [b"\n"], files)
    request = {"arguments": arguments, "folder": folder, "environment": environment}
    connection.sendall(f"{request!a}\n".encode())
    return connection


def _serve(kind: str, listener: socket.socket, folder: Path) -> dict:
    """Fork for each request, and return the request in the fork. The end of the input ends the server and its forks.

    The server itself waits for its forks: every further process would copy the server's page tables again.
    """
    forks: dict[int, tuple[socket.socket, dict, int]] = {}  # pidfd → who waits for the fork, its request, its pid
    imported = False
    while True:
        clients = {client: pid for client, _, pid in forks.values() if client.fileno() >= 0}
        ready, _, _ = select.select([listener, sys.stdin, *forks, *clients], [], [])
        for pidfd in forks.keys() & set(ready):
            _report(*forks.pop(pidfd))
            os.close(pidfd)
        for client in clients.keys() & set(ready):
            if client.fileno() >= 0:  # nobody waits for the fork any more
                client.close()
                _terminate(clients[client])
        if sys.stdin in ready:
            for _, _, pid in forks.values():
                _terminate(pid)
            shutil.rmtree(folder, ignore_errors=True)
            sys.exit()
        if listener not in ready:
            continue
        client, _ = listener.accept()
        if not imported:
            _import(kind)
            imported = True
        _, files, _, _ = socket.recv_fds(client, 1, 3)
        line = client.makefile().readline()
        if not line.endswith("\n"):  # the client was killed
            client.close()
        else:
            request = ast.literal_eval(line)
            pid = os.fork()
            if not pid:
                os.setsid()
                listener.close()
                client.close()
                for pidfd, (other, _, _) in forks.items():
                    os.close(pidfd)
                    other.close()
                for number, file in enumerate(files):
                    os.dup2(file, number)
                    os.close(file)
                return request
            forks[os.pidfd_open(pid)] = client, request, pid
        for file in files:
            os.close(file)


def _import(kind: str) -> None:
    for name in LIBRARIES[kind]:
        importlib.import_module(name)
    if kind == "snakemake":
        sys.modules["snakemake.cli"].get_argument_parser()  # so that it looks for plugins only once, here
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a process with threads can't be forked safely"
    gc.freeze()


def _report(client: socket.socket, request: dict, pid: int) -> None:
    """Tell the client the exit code of a fork that has ended."""
    _, status, used = os.wait4(pid, 0)
    if "RECHECK_CPU_SECONDS" in os.environ:  # benchmarks/suite.py
        line = json.dumps([request["environment"].get("PYTEST_CURRENT_TEST", ""), used.ru_utime + used.ru_stime])
        with Path(os.environ["RECHECK_CPU_SECONDS"]).open("a") as file:
            file.write(line + "\n")
    with contextlib.suppress(OSError):  # nobody waits for it any more
        client.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    client.close()


def _terminate(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGTERM)
    except ProcessLookupError:  # it has not made its session yet
        os.kill(pid, signal.SIGTERM)


def _become(request: dict) -> None:
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None


def _snakemake(request: dict, folder: Path) -> None:
    from snakemake.cli import main
    from snakemake.workflow import Workflow

    _become(request)
    Workflow._rundir = request["folder"]  # a cache filled when Snakemake was imported
    program = str(Path(sys.executable).with_name("snakemake"))
    sys.argv, sys.executable = [program, *request["arguments"]], str(folder / "python_of_jobs")
    main()


def _job(request: dict) -> None:
    from threadpoolctl import threadpool_limits

    _become(request)
    threadpool_limits(int(os.environ["OMP_NUM_THREADS"]))  # set by Snakemake, but read only when a library is loaded
    (script,) = sys.argv = request["arguments"]
    sys.path[0] = str(Path(script).parent)
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = script
    code = 0
    try:
        exec(compile(Path(script).read_bytes(), script, "exec"), module.__dict__)  # noqa: S102
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    # Python would take all imported modules apart, which copies their memory and takes longer than most scripts
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _, kind, number, folder = sys.argv
    sys.path[0] = str(Path(sys.executable).parent)  # as for the program, and no module of this folder
    asked = _serve(kind, socket.socket(fileno=int(number)), Path(folder))
    if kind == "snakemake":
        _snakemake(asked, Path(folder))
    else:
        _job(asked)
