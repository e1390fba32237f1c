"""CPU seconds per test, including all processes that a test starts except jobs on SLURM.

``python benchmarks/suite.py tests/golden`` passes its arguments on to pytest and prints the costliest tests and files.
CPU time depends little on what else the machine does, and it shows what forks cost, which ``--durations`` does not.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

FILE = "RECHECK_CPU_SECONDS"
"""Environment variable with the file that gets one line per test and per fork (tests/support/services/forks.py)."""


def spent() -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    before = spent()
    try:
        return (yield)
    finally:
        with Path(os.environ[FILE]).open("a") as file:
            file.write(json.dumps([item.nodeid, spent() - before]) + "\n")


def summary(lines: list[str], most: int = 10) -> str:
    """Markdown of the costliest tests and files."""
    tests, files = Counter(), Counter()
    for line in lines:
        name, seconds = json.loads(line)
        tests[name.rsplit(" (", 1)[0]] += seconds  # without the phase that PYTEST_CURRENT_TEST adds
        files[name.split("::")[0]] += seconds
    parts = [f"{sum(files.values()):.0f} CPU seconds"]
    for kind, costs in (("test", tests), ("file", files)):
        rows = [f"| `{name}` | {seconds:.1f} |" for name, seconds in costs.most_common(most)]
        parts.append("\n".join([f"| {kind} | CPU seconds |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder, "costs")
        costs.touch()
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, FILE: str(costs), "PYTHONPATH": path}
        # As in `make test`: without bytecode files, every project would compile the package again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-m", "pytest", "-p", "suite", *sys.argv[1:]]
        done = subprocess.run(command, env=environment)
        print(summary(costs.read_text().splitlines()))
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
