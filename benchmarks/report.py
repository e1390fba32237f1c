"""Run all performance measurements, each in its own process, and write them to one page: docs/performance.md.

If a measurement fails, its section says so, and the others continue.
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
SECTIONS = (
    "training",
    "loading",
    "packs",
    "retrieval",
    "search_sizes",
    "losses",
    "steps",
    "dag",
    "tuning",
    "startup",
    "quickstart",
    "gpu",
    "site_table",
)
ONLY_BY_NAME = ("before_after",)
PACKAGES = ("torch", "torchvision", "pytorch-metric-learning", "faiss-gpu", "faiss-cpu", "numpy", "snakemake")
GOAL = "- Goal: "
ABOUT = f"replace only these sections of the page (default: write all but {', '.join(ONLY_BY_NAME)})"


def machine() -> str:
    """Processor, system and package versions; nothing that identifies the machine."""
    try:
        models = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        models = []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    model = models[0] if models else platform.processor() or platform.machine()
    return f"{model}, {cores} cores; {platform.system()}, Python {platform.python_version()}, {', '.join(versions)}"


def run(name: str, quick: bool) -> str:
    """The Markdown of one measurement, or the reason for its failure."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *(["--quick"] if quick else [])]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=FOLDER.parent, env=environment, capture_output=True, text=True)
    start = done.stdout.find("## ")
    if done.returncode or start < 0:
        reason = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        return f"## {name}\n\n**This measurement failed**: {reason}\n"
    return done.stdout[start:].strip() + "\n"


def assembled(sections: list[str], about: str, date: datetime.date, busy: float, quick: bool) -> str:
    failed = sum("**This measurement failed**" in text for text in sections)
    warning = "**Made with `--quick`: these figures mean nothing.**\n\n" if quick else ""
    return f"""# Performance

{warning}Written by `make bench` on {date:%-d %B %Y}. Every claim is a ratio to a peer or to a limit.
Recheck and its peer ran in alternation; the value is the median over the turns (min–max). Times in seconds only show
the order of magnitude.

{about}. Load average before the start: {busy:.1f}.{f" {failed} measurement(s) failed, see below." if failed else ""}

{_goals(sections)}

{chr(10).join(sections)}"""


def updated(page: str, texts: list[str]) -> str:
    """The page with these sections in place of those with the same headings; new sections are added at the end."""
    head, *sections = (part.strip() + "\n" for part in re.split(r"^(?=## )", page, flags=re.M))
    for text in texts:
        title = text.splitlines()[0]
        place = next((n for n, old in enumerate(sections) if old.splitlines()[0] == title), len(sections))
        sections[place : place + 1] = [text]
    head = re.sub(r"^\| ratio or time .*(\n\|.*)*", lambda table: _goals(sections), head, flags=re.M)
    return "\n".join([head, *sections])


def _goals(sections: list[str]) -> str:
    goals = [line.removeprefix(GOAL) for text in sections for line in text.splitlines() if line.startswith(GOAL)]
    return "\n".join(["| ratio or time | goal | measured |", "|---|---|---|", *map(_row, goals)])


def _row(line: str) -> str:
    name, limit, result = re.fullmatch(r"(.*) ([≥≤] \S+); measured (.*)\.", line).groups()
    return f"| {name} | {limit} | {result} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS, *ONLY_BY_NAME], help=ABOUT)
    parser.add_argument("--quick", action="store_true", help="shortened runs, printed instead of written")
    parser.add_argument("--output", type=Path, help="file to write (default: docs/performance.md)")
    options = parser.parse_args()
    busy, texts = os.getloadavg()[0], []
    for name in options.sections or [name for name in SECTIONS if (FOLDER / f"{name}.py").exists()]:
        print(f"{name} …", file=sys.stderr, flush=True)
        texts.append(run(name, options.quick))
    output = options.output or (None if options.quick else PAGE)
    if options.sections and output and output.exists():
        page = updated(output.read_text(encoding="utf-8"), texts)
    else:
        page = assembled(texts, machine(), datetime.date.today(), busy, options.quick)
    if output is None:
        print(page)
    else:
        output.write_text(page, encoding="utf-8")
    if any("**This measurement failed**" in text for text in texts):
        sys.exit(1)


if __name__ == "__main__":
    main()
