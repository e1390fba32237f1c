"""All benchmarks, each in a process of its own, as one page: docs/performance.md.

A benchmark that fails says so in its place, and the others go on.
"""

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parent / "docs" / "performance.md"
SECTIONS = ("training", "loading", "retrieval", "losses", "dag", "startup", "quickstart")
PACKAGES = ("torch", "torchvision", "pytorch-metric-learning", "faiss-gpu", "faiss-cpu", "numpy", "snakemake")
GOAL = "- Goal: "


def machine() -> str:
    """What the figures depend on; nothing that tells whose machine it is."""
    try:
        models = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        models = []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    model = models[0] if models else platform.processor() or platform.machine()
    return f"{model}, {cores} cores; {platform.system()}, Python {platform.python_version()}, {', '.join(found)}"


def run(name: str, quick: bool) -> str:
    """The Markdown of one benchmark, or why there is none."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *(["--quick"] if quick else [])]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=FOLDER.parent, env=environment, capture_output=True, text=True)
    start = done.stdout.find("## ")
    if done.returncode or start < 0:
        last = (done.stderr.strip() or done.stdout.strip() or "it says nothing").splitlines()[-1]
        return f"## {name}\n\n**This benchmark failed**: {last}\n"
    return done.stdout[start:].strip() + "\n"


def assembled(sections: list[str], about: str, date: datetime.date, busy: float, quick: bool) -> str:
    goals = [line.removeprefix(GOAL) for text in sections for line in text.splitlines() if line.startswith(GOAL)]
    failed = sum("**This benchmark failed**" in text for text in sections)
    warning = "**A try with `--quick`: these figures mean nothing.**\n\n" if quick else ""
    return f"""# Performance

{warning}Written by `make bench` on {date:%-d %B %Y}. Everything is a ratio to a peer or a limit that was measured in
turn with it, as the median of its turns and (least–most); a time in seconds is no claim, only a size.

{about}. Load before it began: {busy:.1f}.{f" {failed} benchmark(s) failed, see below." if failed else ""}

| goal | |
|---|---|
{chr(10).join(_row(line) for line in goals)}

{chr(10).join(sections)}"""


def _row(line: str) -> str:
    what, _, found = line.partition(". ")
    return f"| {what} | {found} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], help=f"default: all of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="shortened: shows that they work; printed, not written")
    parser.add_argument("--output", type=Path, help="where the page goes (default: docs/performance.md)")
    options = parser.parse_args()
    busy, texts = os.getloadavg()[0], []
    for name in options.sections or [name for name in SECTIONS if (FOLDER / f"{name}.py").exists()]:
        print(f"{name} …", file=sys.stderr, flush=True)
        texts.append(run(name, options.quick))
    page = assembled(texts, machine(), datetime.date.today(), busy, options.quick)
    output = options.output or (None if options.quick else PAGE)
    if output is None:
        print(page)
    else:
        output.write_text(page, encoding="utf-8")
    if any("**This benchmark failed**" in text for text in texts):
        sys.exit(1)


if __name__ == "__main__":
    main()
