"""The quickstart on two cores: time per rule, and whether a run should use one core or both.

Each arrangement runs the whole study again, from images that are already packed: two runs at a time with one thread
each, which is the default on a CPU, and one run at a time with two threads.
"""

import argparse
import csv
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from timing import spread

ROOT = Path(__file__).resolve().parents[1]
SNAKEMAKE = Path(sys.executable).with_name("snakemake")
CHART = ROOT / "docs" / "images" / "quickstart_time.png"
DEFAULT, WIDE = "2 runs × 1 thread", "1 run × 2 threads"
ARRANGEMENTS = {
    DEFAULT: ["--config", "device=cpu"],
    WIDE: ["--set-threads", "train=2", "embed=2", "--config", "device=cpu", "cpu_threads=2", "workers=0"],
}
ORDER = ("split", "train", "embed", "evaluate", "table", "figure", "page")


def snakemake(folder: Path, *arguments: str) -> float:
    """Run Snakemake and return the seconds it took."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    command = [str(SNAKEMAKE), "--cores", "2", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return time.perf_counter() - started


def by_rule(logs: Path) -> Counter:
    """Seconds per rule, summed over its jobs, from the benchmark files that Snakemake writes beside the logs."""
    seconds: Counter = Counter()
    for path in logs.rglob("*.tsv"):
        rule = "figure" if path.parent.name == "figures" else path.stem.removesuffix("_epochs")
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                seconds[rule] += float(row["s"])
    return seconds


def draw(seconds: dict[str, Counter], path: Path) -> None:
    """Bar chart: seconds per rule, summed over its jobs, with one colour per arrangement."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rules = [rule for rule in ORDER if any(times[rule] for times in seconds.values())]
    figure, axes = plt.subplots(figsize=(7, 0.55 * len(rules) + 1.2), layout="constrained")
    height = 0.8 / len(seconds)
    for position, (name, times) in enumerate(seconds.items()):
        y = [number + (position - (len(seconds) - 1) / 2) * height for number in range(len(rules))]
        bars = axes.barh(
            y, [times[rule] for rule in rules], height, label=name, color=("#0072B2", "#E69F00")[position % 2]
        )
        axes.bar_label(bars, fmt="%.0f", padding=3, fontsize=8)
    axes.set_yticks(range(len(rules)), rules)
    axes.invert_yaxis()
    axes.set_xlabel("seconds per rule, summed over its jobs (up to two jobs run at the same time)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})
    plt.close(figure)


def measured(folder: Path, study: str, repeats: int) -> tuple[dict[str, list[float]], dict[str, Counter]]:
    snakemake(folder, "--until", "pack", "--", study)
    wall: dict[str, list[float]] = {name: [] for name in ARRANGEMENTS}
    rules: dict[str, Counter] = {}
    for _ in range(repeats):
        for name, arguments in ARRANGEMENTS.items():
            for outputs in ("results", f"logs/{study}"):
                shutil.rmtree(folder / outputs, ignore_errors=True)
            wall[name].append(snakemake(folder, *arguments, "--", study))
            rules.setdefault(name, by_rule(folder / "logs" / study))
    return wall, rules


def described(study: str, repeats: int, chart: Path, project: Path | None = None) -> str:
    with tempfile.TemporaryDirectory() as temporary:
        folder = project or copy_of_project(Path(temporary) / "project")
        wall, rules = measured(folder, study, repeats)
    draw(rules, chart)
    ratio = [wide / default for wide, default in zip(wall[WIDE], wall[DEFAULT], strict=True)]
    verdict = "the faster choice." if statistics.median(ratio) >= 1 else "**the slower choice here**."
    rows = [
        f"| {rule} | " + " | ".join(f"{times[rule]:.0f}" for times in rules.values()) + " |"
        for rule in ORDER
        if any(times[rule] for times in rules.values())
    ]
    return f"""## A whole study

`{study}` on two cores, from packed images; measured {"once" if repeats == 1 else f"{repeats} times"}.
Time of one run at a time with two threads ÷ time of two runs at a time with one thread each: {spread(ratio)}.
The default on a CPU is one thread per run: {verdict}
`cpu_threads` is a separate key, so that a result does not depend on the number of cores; another number of threads
may change the last digits.

![Seconds per rule](images/{chart.name})

| seconds per rule, summed over its jobs | {" | ".join(rules)} |
|---|{"---:|" * len(rules)}
{chr(10).join(rows)}
"""


def copy_of_project(folder: Path) -> Path:
    """A copy of the project without its results. Existing images and weights are hard-linked."""
    folder.mkdir()
    for name in ("Snakefile", "config", "envs", "profiles", "workflow"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "resources" / "published", folder / "resources" / "published")
    for name in ("datasets", "weights", "drop"):
        if (ROOT / "resources" / name).is_dir():
            shutil.copytree(ROOT / "resources" / name, folder / "resources" / name, copy_function=link)
    return folder


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def section(quick: bool) -> str:
    if not quick:
        return described("quickstart", 1, CHART)
    sys.path.insert(0, str(ROOT / "tests"))
    from support.project import Project

    with tempfile.TemporaryDirectory() as temporary:
        project = Project.create(Path(temporary) / "project", classes=8, per_class=4)
        return described("letters", 1, Path(temporary) / "chart.png", project.folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--study", default="quickstart", help="a study of config/studies, e.g. mlrc_tiny (default: quickstart)"
    )
    parser.add_argument("--repeats", type=int, default=1, help="turns (default: 1)")
    parser.add_argument("--chart", type=Path, default=CHART, help="where to save the bar chart")
    parser.add_argument("--quick", action="store_true", help="the small study of the tests; its figures mean nothing")
    options = parser.parse_args()
    print(section(quick=True) if options.quick else described(options.study, options.repeats, options.chart))


if __name__ == "__main__":
    main()
