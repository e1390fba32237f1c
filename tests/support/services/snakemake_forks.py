"""Snakemake's command line in forks of a process that has imported it, because the import is slower than most commands.

A fork runs the same code as the program `snakemake`, in its own session and environment.
"""

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

_one_at_a_time = threading.Lock()


def run(arguments: tuple[str, ...], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a command in a folder."""
    from support.hang import HANG_SECONDS  # not in the server, which is started as a program

    with tempfile.TemporaryFile() as output, _one_at_a_time:
        server = _server()
        asked = {"arguments": arguments, "folder": str(folder), "environment": environment, "output": _path(output)}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        process = int(server.stdout.readline())
        if not select.select([server.stdout], [], [], HANG_SECONDS)[0]:
            os.killpg(process, signal.SIGKILL)
            server.stdout.readline()
            raise subprocess.TimeoutExpired(arguments, HANG_SECONDS)
        code = int(server.stdout.readline())
        output.seek(0)
        return code, output.read().decode()


def _path(file) -> str:
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


@functools.cache
def _server() -> subprocess.Popen:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    server = subprocess.Popen(
        [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    )
    atexit.register(server.communicate)  # closing its input ends it
    return server


def _serve() -> None:
    sys.path[0] = str(Path(sys.executable).parent)  # as for the program
    from snakemake.cli import main
    from snakemake.workflow import Workflow

    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            break
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    else:
        return
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir, Workflow._rundir = None, asked["folder"]  # caches filled when Snakemake was imported
    with Path(os.devnull).open() as nothing, Path(asked["output"]).open("ab") as output:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.argv = [str(Path(sys.executable).with_name("snakemake")), *asked["arguments"]]
    main()


if __name__ == "__main__":
    _serve()
