"""The quickstart on two cores: where its time goes, and whether a run should have one core or both.

Each arrangement makes the whole study anew from images that are packed already: two runs at a time with a thread each,
which is the default on a CPU, and one at a time with two.
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
    """Seconds."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    command = [str(SNAKEMAKE), "--cores", "2", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return time.perf_counter() - started


def by_rule(logs: Path) -> Counter:
    """Seconds of all jobs of each rule, from the benchmark files that Snakemake leaves beside the logs."""
    seconds: Counter = Counter()
    for path in logs.rglob("*.tsv"):
        rule = "figure" if path.parent.name == "figures" else path.stem.removesuffix("_epochs")
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                seconds[rule] += float(row["s"])
    return seconds


def draw(seconds: dict[str, Counter], path: Path) -> None:
    """Bars: of each rule the time of all its jobs together, one colour an arrangement."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rules = [rule for rule in ORDER if any(found[rule] for found in seconds.values())]
    figure, axes = plt.subplots(figsize=(7, 0.55 * len(rules) + 1.2), layout="constrained")
    height = 0.8 / len(seconds)
    for place, (name, found) in enumerate(seconds.items()):
        at = [number + (place - (len(seconds) - 1) / 2) * height for number in range(len(rules))]
        bars = axes.barh(
            at, [found[rule] for rule in rules], height, label=name, color=("#0072B2", "#E69F00")[place % 2]
        )
        axes.bar_label(bars, fmt="%.0f", padding=3, fontsize=8)
    axes.set_yticks(range(len(rules)), rules)
    axes.invert_yaxis()
    axes.set_xlabel("seconds of all jobs of a rule together, two at a time where there are two cores for them")
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
            for part in ("results", f"logs/{study}"):
                shutil.rmtree(folder / part, ignore_errors=True)
            wall[name].append(snakemake(folder, *arguments, "--", study))
            rules.setdefault(name, by_rule(folder / "logs" / study))
    return wall, rules


def described(study: str, repeats: int, chart: Path, project: Path | None = None) -> str:
    with tempfile.TemporaryDirectory() as temporary:
        folder = project or _copy(Path(temporary) / "project")
        wall, rules = measured(folder, study, repeats)
    draw(rules, chart)
    ratio = [wide / default for wide, default in zip(wall[WIDE], wall[DEFAULT], strict=True)]
    better = "the better one." if statistics.median(ratio) >= 1 else "**not the better one here**."
    rows = [
        f"| {rule} | " + " | ".join(f"{found[rule]:.0f}" for found in rules.values()) + " |"
        for rule in ORDER
        if any(found[rule] for found in rules.values())
    ]
    return f"""## A whole study

`{study}` on two cores, images packed before; turns: {repeats}. One run at a time with two threads takes
{spread(ratio)} ×
the time of two runs at a time with one thread each. The default on a CPU is one thread a run: {better}
`cpu_threads` is a setting of its own, so that a result does not depend on how many cores there are; another number may
give other last digits.

![Time by rule](images/{chart.name})

| seconds of all jobs of a rule | {" | ".join(rules)} |
|---|{"---:|" * len(rules)}
{chr(10).join(rows)}
"""


def _copy(folder: Path) -> Path:
    """The project without its results; images that are here already are linked."""
    folder.mkdir()
    for part in ("Snakefile", "config", "envs", "profiles", "workflow"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    shutil.copytree(ROOT / "resources" / "published", folder / "resources" / "published")
    for part in ("datasets", "weights", "drop"):
        if (ROOT / "resources" / part).is_dir():
            shutil.copytree(ROOT / "resources" / part, folder / "resources" / part, copy_function=_link)
    return folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def section(quick: bool) -> str:
    if not quick:
        return described("quickstart", 1, CHART)
    sys.path.insert(0, str(ROOT / "tests"))
    from project import Project

    with tempfile.TemporaryDirectory() as temporary:
        project = Project.create(Path(temporary) / "project", classes=8, per_class=4)
        return described("letters", 1, Path(temporary) / "chart.png", project.folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="quickstart", help="another study of config/studies, e.g. mlrc_tiny")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--chart", type=Path, default=CHART)
    parser.add_argument("--quick", action="store_true", help="the study of the tests")
    options = parser.parse_args()
    print(section(quick=True) if options.quick else described(options.study, options.repeats, options.chart))


if __name__ == "__main__":
    main()
