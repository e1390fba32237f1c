"""Kill the workflow at random moments, and compare the results with an undisturbed run.

A moment is the n-th change to the disk by the jobs of a rule (events.py), so it does not depend on the machine's speed.

A round is one small study, from a loopback server to its page. It is killed and resumed until it is finished, then
compared with an undisturbed run in another directory: the names of all files below ``results/`` and
``resources/datasets/`` (so that incomplete, hidden and temporary files are detected), and their SHA-256
(:func:`content`). Times are left out:

- ``tensorboard/``, whose file names contain the time and the process;
- ``wall_seconds`` and ``cpu_seconds`` in ``run.json``, and the column ``images_per_second`` of ``history.csv``;
- the durations on the page, which come from these.

A moment (one kill) survives if its round ends without a difference and with nothing left to do. Otherwise all moments
of the round count as lost, because any of them may be the cause.
"""

import contextlib
import csv
import gzip
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.datasets.glyphs import make_glyphs
from support.faults import events
from support.project import Project, small_study
from support.services.servers import Answer, Handler, Server, serving
from support.suite.hang import HANG_SECONDS, STUCK_SECONDS, wait_until

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
# rules in the order of their jobs
PLACES = (
    "fetch",
    "verify",
    "extract",
    "index",
    "pack",
    "split",
    "train",
    "embed",
    "evaluate",
    "table",
    "figure",
    "page",
)
# the rules that write most, twice as often as the others
WEIGHTS = dict.fromkeys(("fetch", "extract", "pack", "train", "embed", "evaluate", "table"), 2)
SCOPES = ("group", "group", "job", "job", "snakemake")
TIMES = re.compile(r"\b(\d+\.\d s|\d+ min \d\d s|\d+ h \d\d min)(?=[ <])|\"wall_seconds\":[\d.]+")

DATASET = """
description: Letters in an archive.
parser: folder
files:
  - path: letters.tgz
    size: {size}
    sha256: {sha256}
    extract: .
    from: [{{url: "{url}"}}]
"""
# with a sweep, with enough epochs to be killed within one, and in float16, whose first steps overflow and are skipped
STUDY = small_study(
    protocol={
        "transforms": {
            "resize": {"exact": [96, 96]},
            "train": [{"random_resized_crop": {"size": 16, "scale": [0.6, 1.0], "ratio": [0.75, 1.333]}}],
            "eval": [{"resize": {"exact": [16, 16]}}],
        },
        "sampler": {"class": "MPerClass", "batch": 16, "per_class": 2, "length": 64},
        "schedule": {"epochs": 8, "steps_per_epoch": 5, "evaluate_every": 1},
        "evaluation": {"metrics": ["P@1", "RP", "MAP@R"], "table": ["P@1", "RP", "MAP@R"]},
        "precision": "float16",
    },
    sweep={"label": "Margin", "methods": ["proxy"], "values": {1: {}}},
    methods={"proxy": {"label": "Proxies", "members": 1, "loss": {"class": "ProxyAnchorLoss"}}},
)


@dataclass
class Moment:
    """A signal sent to the whole process group, to a job's process or to Snakemake only, while a rule runs."""

    signal: signal.Signals
    place: str
    scope: str
    fraction: float
    """Of the changes to the disk that the jobs of this rule make in an undisturbed run."""
    pause: float = 0.0
    """Seconds between the change and the signal. The signal comes too late for a job that ends sooner."""
    tried: bool = False
    lost: bool = False
    stuck: bool = False
    """Snakemake hung (its TERM handler takes a lock that it may already hold) and was killed."""

    def strike(self, usual: "Usual") -> events.Strike:
        change = 1 + int(self.fraction * usual.changes[self.place])
        return events.Strike(change, self.place, self.signal, self.scope, self.pause)


@dataclass
class Usual:
    """An undisturbed run: its results, and the number of changes to the disk that the jobs of each rule make."""

    folder: Path
    content: dict[str, str] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)


class _Slow(Handler):
    """A connection so slow that a small file takes a second."""

    PIECES, PAUSE = 20, 0.05

    def do_GET(self):
        fast, self.wfile = self.wfile, self
        self._fast = fast
        try:
            super().do_GET()
        finally:
            self.wfile = fast

    def write(self, data: bytes) -> None:
        piece = max(1, len(data) // self.PIECES)
        for start in range(0, len(data), piece):
            self._fast.write(data[start : start + piece])
            if len(data) > 1000:
                time.sleep(self.PAUSE)

    def flush(self) -> None:
        self._fast.flush()


@contextlib.contextmanager
def slow_server() -> Iterator[Server]:
    with serving() as server:
        server.RequestHandlerClass = _Slow
        yield server


def make_project(folder: Path, server: Server) -> Project:
    """A project in which every rule has work, without other configuration for Snakemake to read."""
    project = Project.create(folder, classes=1, per_class=1)
    shutil.rmtree(project.path("glyphs"))
    for kind in ("studies", "datasets", "weights", "toys"):
        for path in project.path(f"config/{kind}").glob("*.yaml"):
            path.unlink()
    letters = make_glyphs(folder.parent / f"{folder.name}.letters", classes=16, per_class=10, size=48)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for path in sorted(letters.rglob("*.png")):
            member = tarfile.TarInfo(path.relative_to(letters).as_posix())
            member.size = path.stat().st_size
            made.addfile(member, io.BytesIO(path.read_bytes()))
    shutil.rmtree(letters)
    data = gzip.compress(buffer.getvalue(), mtime=0)  # the same bits each time
    url = server.give("/letters.tgz", Answer(data, headers={"ETag": '"1"'}))
    known = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "url": url}
    project.write("config/datasets/glyphs.yaml", DATASET.format(**known))
    project.write("config/studies/letters.yaml", STUDY)
    events.watch(project)
    return project


def content(project: Project) -> dict[str, str]:
    """Path → hash of every file that is compared (see the module docstring)."""
    result = {}
    for top in ("results", "resources/datasets"):
        for path in sorted(project.path(top).rglob("*")):
            name = path.relative_to(project.folder).as_posix()
            if path.is_file() and "/tensorboard/" not in name:
                result[name] = hashlib.sha256(_timeless(path)).hexdigest()
    return result


def _timeless(path: Path) -> bytes:
    if path.name == "run.json":
        record = json.loads(path.read_bytes())
        del record["wall_seconds"], record["cpu_seconds"]
        return json.dumps(record).encode()
    if path.name == "history.csv":
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        return json.dumps([{key: row[key] for key in row if key != "images_per_second"} for row in rows]).encode()
    if path.parent.name == "finished":
        return b""  # notes of finished runs: hashes of files with times
    if path.name == "index.html":
        return TIMES.sub("…", path.read_text(encoding="utf-8")).encode()
    return path.read_bytes()


def differences(actual: dict[str, str], expected: dict[str, str]) -> list[str]:
    return [
        f"{name}: {'missing' if name not in actual else 'left over' if name not in expected else 'other content'}"
        for name in sorted({*actual, *expected})
        if actual.get(name) != expected.get(name)
    ]


class Call:
    """A running `snakemake` and its output so far."""

    def __init__(self, project: Project, cores: int, strike: events.Strike | None = None):
        self.project = project
        events.arm(project, strike)
        self.process = project.start("--cores", str(cores), "--rerun-incomplete")
        self.output: list[str] = []
        self.reader = threading.Thread(target=lambda: self.output.extend(self.process.stdout), daemon=True)
        self.reader.start()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def printed(self) -> str:
        """All output, when all processes have closed it; orphans of a killed call keep it open."""
        self.reader.join(HANG_SECONDS)
        return "".join(self.output)

    def processes(self) -> list[int]:
        """All processes of this call, including orphans, which share its session."""
        return members(self.process.pid)


def members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    result = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                about = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(about[3]) == session and about[0] != "Z":
                    result.append(int(entry.name))
    return result


def undisturbed(project: Project, cores: int) -> Usual:
    """Run a project without kills, and record its results and the changes that it makes."""
    events.arm(project, None)
    project.succeed("--cores", str(cores))
    changes = events.changes(project)
    return Usual(project.folder, content(project), {place: changes[place] for place in PLACES})


def plan(count: int, rounds: int, random_: random.Random, signals=SIGNALS) -> list[list[Moment]]:
    """``count`` moments of each signal, spread over the places, in rounds. Half of them come between two changes."""
    places = [place for place in PLACES for _ in range(WEIGHTS.get(place, 1))]
    made: list[list[Moment]] = [[] for _ in range(rounds)]
    number = 0
    for each in signals:
        order: list[str] = []
        for _ in range(count):
            order = order or random_.sample(places, len(places))
            pause = random_.choice([0, random_.random()])
            moment = Moment(each, order.pop(), random_.choice(SCOPES), random_.random(), pause)
            made[number % rounds].append(moment)
            number += 1
    for each in made:
        random_.shuffle(each)
        each.sort(key=lambda moment: PLACES.index(moment.place))
    return made


def torture(
    project: Project,
    moments: list[Moment],
    usual: Usual,
    cores: int,
    deadline: float,
    tell: Callable[[Moment], None] = lambda moment: None,
    with_orphans: bool = True,
) -> list[str]:
    """Run one round and mark its moments as tried or lost; return the differences at the end.

    A moment is not tried if its rule has too little work left when its turn comes. Without ``with_orphans``, each call
    waits for the jobs that a killed Snakemake has left, so that the round is the same on every machine.
    """
    calls: list[Call] = []
    wrong: list[str] = []
    for moment in moments:
        if time.monotonic() > deadline:
            break
        if calls:
            _settle(calls[-1], wrong)
            if not with_orphans and not wait_until(lambda: not calls[-1].processes()):
                wrong.append("jobs of a killed Snakemake do not end")
        calls.append(Call(project, cores, moment.strike(usual)))
        _wait_for_the_end(calls[-1], moment, wrong)
        moment.tried = events.was_struck(project)
        if moment.tried:
            tell(moment)
        if calls[-1].process.returncode == 0:
            break  # the study is finished, so no rule runs again in this round
    _finish(project, calls, usual, cores, wrong)
    for moment in moments:
        moment.lost = moment.tried and bool(wrong)
    return wrong


def _wait_for_the_end(call: Call, moment: Moment, wrong: list[str]) -> None:
    """Wait for Snakemake. After TERM it sometimes hangs although its jobs have ended; then it is killed."""
    struck: list[float] = []

    def is_stuck() -> bool:
        if not struck and events.was_struck(call.project):
            struck.append(time.monotonic())
        late = bool(struck) and time.monotonic() > struck[0] + STUCK_SECONDS
        return late and moment.signal == signal.SIGTERM and call.processes() == [call.process.pid]

    ended = wait_until(lambda: not call.running or is_stuck())
    if call.running:
        moment.stuck = ended
        if not ended:
            wrong.append(f"Snakemake did not end after {moment.signal.name}:\n{''.join(call.output)[-2000:]}")
        os.killpg(call.process.pid, signal.SIGKILL)
        call.process.wait()


def _settle(call: Call, wrong: list[str]) -> None:
    """Prepare the next call as a user would. Jobs of a killed Snakemake may still be running."""
    # the same as `--unlock`, which takes seconds
    shutil.rmtree(call.project.path(".snakemake/locks"), ignore_errors=True)
    if call.process.returncode not in (0, 1, 2, 130, 143, -9, -15, -2):
        wrong.append(f"Snakemake ended with {call.process.returncode}")


def _finish(project: Project, calls: list[Call], usual: Usual, cores: int, wrong: list[str]) -> None:
    """Finish without further signals; when all processes of all calls have ended, compare."""
    for _ in range(3):
        if calls and calls[-1].process.returncode == 0:
            break
        if calls:
            _settle(calls[-1], wrong)
        calls.append(Call(project, cores))
        calls[-1].process.wait(HANG_SECONDS)
    if calls[-1].process.returncode:
        wrong.append(f"the study does not end:\n{calls[-1].printed()[-3000:]}")
    if not wait_until(lambda: not any(each.processes() for each in calls), pause=0.2):
        wrong.append("processes are left")
        for each in calls:
            for number in each.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
    for each in calls:
        if "this is a bug in Recheck" in (printed := each.printed()):
            wrong += re.findall(r"Unexpected .*", printed) or ["an unexpected error"]
    wrong += differences(content(project), usual.content)
    if not wrong and (left := project.planned()):
        wrong.append(f"there is something left to do: {left}")
