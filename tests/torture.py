"""`make torture`: the whole fault campaign, as a Markdown table of faults tried, survived and lost.

Kills at random moments through the real command line (support/faults/kills.py), then tests/faults with many more
examples than in `make test`. `make torture TORTURE="--minutes 10 --seed 3"` passes options. The exit code is 0 if
nothing was lost.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from support.faults import kills
from support.project import ROOT, Project

PER_ROUND = 38
# Part of the second table → its tests.
PARTS = {
    "archives": "test_hostile_archives.py",
    "checkpoints": "test_fuzz_checkpoints.py",
    "downloads": "test_hostile_downloads.py",
    "tables": "test_fuzz_tables.py",
}
NOT_COPIED = (".git", ".venv", ".snakemake", "results", "logs")
ROW = "| {:<10} | {:<44} | {:>6} | {:>8} | {:>5} |"


class Table:
    """A table whose rows are printed as soon as they are known."""

    def __init__(self):
        self.lost = 0
        print(ROW.format("fault", "place", "tried", "survived", "lost"))
        print("|---|---|--:|--:|--:|", flush=True)

    def row(self, fault: str, place: str, tried: int, lost: int, total: bool = False) -> None:
        """Print a row; a ``total`` sums up other rows and is not counted again."""
        self.lost += 0 if total else lost
        print(ROW.format(fault, place, tried, tried - lost, lost), flush=True)


def kill_campaign(table: Table, folder: Path, options: argparse.Namespace) -> None:
    """Try ``moments`` kills per signal; kills that a round does not reach are tried in another round."""
    random_, deadline = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    with kills.slow_server() as server:
        template = kills.make_project(folder / "template", server)
        usual = kills.undisturbed(template.copy(folder / "undisturbed"), options.cores)
        rounds = max(1, -(-3 * options.moments // PER_ROUND))
        waiting, done, number = kills.plan(options.moments, rounds, random_), [], 0
        lock = threading.Lock()

        def work() -> None:
            nonlocal number
            while time.monotonic() < deadline:
                with lock:
                    if not waiting:
                        return
                    moments, number = waiting.pop(0), number + 1
                    project = template.copy(folder / f"round{number}")
                wrong = kills.torture(project, moments, usual, options.cores, deadline, _tell)
                with lock:
                    done.extend(moment for moment in moments if moment.tried)
                    if left := [moment for moment in moments if not moment.tried]:
                        waiting.append(left)
                if wrong:
                    print(f"{project.folder}:", *wrong, sep="\n  ", file=sys.stderr, flush=True)
                else:
                    shutil.rmtree(project.folder)

        workers = [threading.Thread(target=work) for _ in range(options.projects)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    tried = Counter((moment.signal.name, moment.place) for moment in done)
    lost = Counter((moment.signal.name, moment.place) for moment in done if moment.lost)
    for signal in kills.SIGNALS:
        for place in kills.PLACES:
            if tried[signal.name, place]:
                table.row(signal.name, place, tried[signal.name, place], lost[signal.name, place])
    for signal in kills.SIGNALS:
        mine = [moment for moment in done if moment.signal == signal]
        scopes = Counter(moment.scope for moment in mine)
        counted = ", ".join(f"{scope} {count}" for scope, count in sorted(scopes.items()))
        table.row(signal.name, f"all ({counted})", len(mine), sum(moment.lost for moment in mine), total=True)
    if stuck := [moment for moment in done if moment.stuck]:
        print(f"Snakemake itself hung after {len(stuck)} of the TERMs, and was killed.", file=sys.stderr)


def _tell(moment: kills.Moment) -> None:
    when = f"{moment.fraction:.0%} of its changes" + (f" and {moment.pause:.2f} s" if moment.pause else "")
    print(f"  {moment.signal.name} to {moment.scope} in {moment.place}, {when}", file=sys.stderr, flush=True)


class Tally:
    """Counts the tests of a file; a test of many examples records their number (`record_property("tried", …)`)."""

    def __init__(self):
        self.tried, self.lost = Counter(), Counter()
        self.parts: dict[str, Counter] = {}  # hostile files by part: refused, harmless, wrong

    def pytest_runtest_logreport(self, report) -> None:
        place = report.nodeid.split("[")[0].removeprefix("tests/faults/")
        if report.failed:
            self.lost[place] += 1
        if report.when == "call" and not report.skipped:
            counts = dict(report.user_properties)
            self.tried[place] += counts.get("tried", 1)
            if "part" in counts:
                name = counts["part"].pop("name")
                self.parts.setdefault(name, Counter()).update(counts["part"])


def test_campaign(table: Table, options: argparse.Namespace) -> Tally:
    os.environ["RECHECK_EXAMPLES"] = str(options.examples)
    os.environ["RECHECK_SEED"] = str(options.seed)
    tally = Tally()
    faults = ROOT / "tests" / "faults"
    files = [str(faults / PARTS[options.only]) if options.only in PARTS else str(faults)]
    arguments = [*files, "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
    sys.stdout, terminal = sys.stderr, sys.stdout  # standard output has only the table
    try:
        code = pytest.main(arguments, plugins=[tally])
    finally:
        sys.stdout = terminal
    for place in sorted({*tally.tried, *tally.lost}):
        table.row("tests", place, max(tally.tried[place], tally.lost[place]), tally.lost[place])
    if code and not tally.lost:
        table.row("tests", f"pytest ended with {int(code)}", 1, 1)
    return tally


def show_parts(tally: Tally) -> None:
    """Print the second table: how many hostile inputs were refused, harmless or wrong.

    The first table counts wrong ones as lost.
    """
    if tally.parts:
        print("\n| hostile input | tried | refused | accepted harmlessly | wrong |\n|---|--:|--:|--:|--:|")
    for kind, counts in sorted(tally.parts.items()):
        numbers = [sum(counts.values()), counts["refused"], counts["harmless"], counts["wrong"]]
        print(f"| {kind} | {' | '.join(f'{number:,}' for number in numbers)} |", flush=True)


def quickstart_twice(table: Table, folder: Path, options: argparse.Namespace) -> None:
    """Run the real quickstart in two directories and compare the hashes of all files below results/."""
    contents = []
    for name in ("one", "two"):
        project = Project(folder / f"quickstart_{name}")
        shutil.copytree(ROOT, project.folder, ignore=shutil.ignore_patterns(*NOT_COPIED))
        process = project.start("--cores", str(options.cores))
        output, _ = process.communicate()
        assert process.returncode == 0, output
        contents.append(kills.content(project))
    wrong = kills.differences(*contents)
    print(*wrong, sep="\n", file=sys.stderr)
    table.row("twice", f"quickstart ({len(contents[0])} files)", 1, int(bool(wrong)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=50, help="kills per signal (default 50)")
    parser.add_argument("--minutes", type=float, default=60, help="start no kill after this many minutes (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the kills and of the examples (default 0)")
    parser.add_argument("--examples", type=int, default=2000, help="examples per fuzzing test (default 2000)")
    parser.add_argument("--projects", type=int, default=1, help="projects killed side by side (default 1)")
    parser.add_argument("--cores", type=int, default=2, help="cores per Snakemake (default 2)")
    parser.add_argument("--only", choices=("kills", "tests", "quickstart", *PARTS), help="run only this part")
    parser.add_argument("--quickstart", action="store_true", help="also run the quickstart twice (it downloads files)")
    options = parser.parse_args()
    table = Table()
    folder = tempfile.mkdtemp(prefix="torture.")
    if options.only in (None, "kills"):
        kill_campaign(table, Path(folder), options)
    if options.only in (None, "tests", *PARTS):
        show_parts(test_campaign(table, options))
    if options.quickstart or options.only == "quickstart":
        quickstart_twice(table, Path(folder), options)
    print(f"\n{'Nothing was lost.' if not table.lost else f'{table.lost} lost; see {folder}'}")
    if not table.lost:
        shutil.rmtree(folder)
    return int(table.lost > 0)


if __name__ == "__main__":
    sys.exit(main())
