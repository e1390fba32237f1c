"""How long Snakemake needs to plan all studies: dry runs with more and more seeds, beside workflows without content.

Two of these are written and planned in the same run, each with as many jobs: one of nothing but jobs (no input, one
output), and one whose jobs also have as many input and output files, logs and benchmarks as ours, but no functions. The
first shows what Snakemake needs for a job at least, the second what our configuration adds to what the files cost.
"""

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SNAKEMAKE = Path(sys.executable).with_name("snakemake")

BARE = """
rule all:
    input: [f"out/{{n}}" for n in range({jobs} - 1)]
rule job:
    output: "out/{{n}}"
    shell: "touch {{output}}"
"""

# The shape of a study: sources → run → embedding → evaluation → report, with our average number of files.
FILLED = """
SOURCES = [f"source{{n}}" for n in range({inputs} - 1)]
rule all:
    input: [f"out/{{n}}/third" for n in range({chains})]
rule sources:
    output: SOURCES
    shell: "touch {{output}}"
"""
FILLED_RULE = """
rule {name}:
    input: SOURCES, "{needs}"
    output: [f"out/{{{{n}}}}/{name}{{part}}" for part in ["", *range({outputs} - 1)]]
    log: "log/{{n}}/{name}.log"
    benchmark: "log/{{n}}/{name}.tsv"
    script: "job.py"
"""


def snakemake(folder: Path, *arguments: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [str(SNAKEMAKE), "--cores", "2", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def plan(folder: Path, *arguments: str) -> tuple[int, float, float]:
    """Jobs of a dry run, seconds, and seconds of the processor, which other people's work disturbs less."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    printed = snakemake(folder, "--dry-run", *arguments)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return int(re.search(r"^total\s+(\d+)", printed, re.M)[1]), seconds, processor


def files(*arguments: str) -> tuple[int, int]:
    """How many input and output files all our jobs have together: printed for rules that have no message."""
    with tempfile.TemporaryDirectory() as temporary:
        for part in ("Snakefile", "config", "envs", "profiles", "workflow", "resources/published"):
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            Path(temporary, part).parent.mkdir(exist_ok=True)
            copy(ROOT / part, Path(temporary, part))
        for rules in Path(temporary, "workflow/rules").glob("*.smk"):
            text = re.sub(r'^    message:\n        ".*"\n', "", rules.read_text(encoding="utf-8"), flags=re.M)
            rules.write_text(text, encoding="utf-8")
        printed = snakemake(Path(temporary), "--dry-run", *arguments)
    lists = [re.findall(rf"^    {kind}: (.+)$", printed, re.M) for kind in ("input", "output")]
    inputs, outputs = (sum(len(line.split(", ")) for line in lines) for lines in lists)
    return inputs, outputs


def write_bare(folder: Path, jobs: int) -> None:
    folder.mkdir()
    (folder / "Snakefile").write_text(BARE.format(jobs=jobs), encoding="utf-8")


def write_filled(folder: Path, jobs: int, inputs: float, outputs: float) -> None:
    folder.mkdir()
    (folder / "job.py").write_text("pass\n", encoding="utf-8")
    inputs, outputs = max(2, round(inputs)), max(1, round(outputs))
    parts = [FILLED.format(inputs=inputs, chains=max(1, round((jobs - 2) / 3)))]
    for name, needs in (("first", "source0"), ("second", "out/{n}/first"), ("third", "out/{n}/second")):
        parts.append(FILLED_RULE.format(name=name, needs=needs, outputs=outputs))
    (folder / "Snakefile").write_text("".join(parts), encoding="utf-8")


def studies() -> list[str]:
    return sorted(path.stem for path in (ROOT / "config" / "studies").glob("*.yaml"))


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f}–{max(values):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 5, 10], help="numbers of seeds (default: 1 2 5 10)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="times that each is measured, in turn (default: 3)")
    parser.add_argument("--studies", nargs="+", default=studies(), help="default: all of config/studies")
    options = parser.parse_args()

    print(f"Studies: {', '.join(options.studies)}. Median (least–most) of {options.repeats}.\n")
    print("| seeds | jobs | files | s | processor s | ms a job | × as many files | × as many jobs |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    sizes = []
    for count in options.seeds:
        chosen = ["--config", f"seeds=[{','.join(map(str, range(count)))}]", "--", *options.studies]
        jobs = plan(ROOT, *chosen)[0]
        inputs, outputs = files(*chosen)
        with tempfile.TemporaryDirectory() as temporary:
            bare, filled = Path(temporary, "bare"), Path(temporary, "filled")
            write_bare(bare, jobs)
            write_filled(filled, jobs, inputs / jobs, outputs / jobs)
            ours, same_files, same_jobs = [], [], []
            for _ in range(options.repeats):
                ours.append(plan(ROOT, *chosen))
                same_files.append(plan(filled))
                same_jobs.append(plan(bare))
        processor = statistics.median(run[2] for run in ours)
        ratios = [processor / statistics.median(run[2] for run in other) for other in (same_files, same_jobs)]
        sizes.append((jobs, processor))
        columns = [
            count,
            jobs,
            inputs + outputs,
            spread([run[1] for run in ours]),
            spread([run[2] for run in ours]),
            f"{1000 * processor / jobs:.2f}",
            *(f"{ratio:.2f}" for ratio in ratios),
        ]
        print(f"| {' | '.join(map(str, columns))} |", flush=True)
    if len(sizes) > 1:
        jobs, seconds = zip(*sizes, strict=True)
        fit = statistics.linear_regression(jobs, seconds)
        off = max(abs(fit.intercept + fit.slope * j - s) for j, s in sizes)
        print(f"\nA line: {fit.intercept:.1f} s + {1000 * fit.slope:.2f} ms a job; at most {off:.1f} s off it.")


if __name__ == "__main__":
    main()
