"""Planning: how long Snakemake takes for a dry run of all studies, compared with two trivial Snakefiles.

Both trivial Snakefiles have the same number of jobs as the studies. In the first, a job has no input and one output:
this is the least that Snakemake needs per job. In the second, jobs also have the same number of input and output files,
logs and benchmark files, but no functions: the difference is the cost of our configuration.
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

from timing import goal, ratios, spread

ROOT = Path(__file__).resolve().parents[1]
SNAKEMAKE = Path(sys.executable).with_name("snakemake")

BARE = """
rule all:
    input: [f"out/{{n}}" for n in range({jobs} - 1)]
rule job:
    output: "out/{{n}}"
    shell: "touch {{output}}"
"""

# Chains of jobs, as in a study. Each job has the average number of files of our jobs.
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
    output: [f"out/{{{{n}}}}/{name}{{suffix}}" for suffix in ["", *range({outputs} - 1)]]
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
    """(jobs, seconds, CPU seconds) of a dry run. Other programs disturb CPU time less than wall time."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    printed = snakemake(folder, "--dry-run", *arguments)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _jobs(printed), seconds, processor


def sizes_of(*arguments: str) -> tuple[int, int, int]:
    """(jobs, input files, output files) of our studies.

    Snakemake prints the files of a rule only if it has no message, so the messages are removed from a copy.
    """
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("Snakefile", "config", "envs", "profiles", "workflow", "resources/published"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            Path(temporary, name).parent.mkdir(exist_ok=True)
            copy(ROOT / name, Path(temporary, name))
        for rules in Path(temporary, "workflow/rules").glob("*.smk"):
            text = re.sub(r'^    message:\n        ".*"\n', "", rules.read_text(encoding="utf-8"), flags=re.M)
            rules.write_text(text, encoding="utf-8")
        printed = snakemake(Path(temporary), "--dry-run", *arguments)
    lists = [re.findall(rf"^    {kind}: (.+)$", printed, re.M) for kind in ("input", "output")]
    inputs, outputs = (sum(len(line.split(", ")) for line in lines) for lines in lists)
    return _jobs(printed), inputs, outputs


def _jobs(printed: str) -> int:
    return int(re.search(r"^total\s+(\d+)", printed, re.M)[1])


def write_bare(folder: Path, jobs: int) -> None:
    folder.mkdir()
    (folder / "Snakefile").write_text(BARE.format(jobs=jobs), encoding="utf-8")


def write_filled(folder: Path, jobs: int, inputs: float, outputs: float) -> None:
    folder.mkdir()
    (folder / "job.py").write_text("pass\n", encoding="utf-8")
    inputs, outputs = max(2, round(inputs)), max(1, round(outputs))
    rules = [FILLED.format(inputs=inputs, chains=max(1, round((jobs - 2) / 3)))]
    for name, needs in (("first", "source0"), ("second", "out/{n}/first"), ("third", "out/{n}/second")):
        rules.append(FILLED_RULE.format(name=name, needs=needs, outputs=outputs))
    (folder / "Snakefile").write_text("".join(rules), encoding="utf-8")


def studies() -> list[str]:
    """All studies but the searches, which have as many jobs as all others together."""
    return sorted(path.stem for path in (ROOT / "config" / "studies").glob("*.yaml") if "tuning" not in path.stem)


def of_searches(repeats: int) -> list[str]:
    """How long it takes to plan the largest study, with all trials of its searches."""
    turns = [plan(ROOT, "mlrc_tuning") for _ in range(repeats)]
    return [goal(f"seconds to plan mlrc_tuning, {turns[0][0]} jobs", [turn[1] for turn in turns], 45, False, 1), ""]


def measured(seeds: list[int], repeats: int, chosen_studies: list[str]) -> tuple[list[str], list[tuple]]:
    """Rows of the table, and for each number of seeds: jobs, seconds, CPU seconds and the two ratios."""
    rows, sizes = [], []
    for count in seeds:
        chosen = ["--config", f"seeds=[{','.join(map(str, range(count)))}]", "--", *chosen_studies]
        jobs, inputs, outputs = sizes_of(*chosen)
        with tempfile.TemporaryDirectory() as temporary:
            bare, filled = Path(temporary, "bare"), Path(temporary, "filled")
            write_bare(bare, jobs)
            write_filled(filled, jobs, inputs / jobs, outputs / jobs)
            ours, same_files, same_jobs = [], [], []
            for _ in range(repeats):
                ours.append(plan(ROOT, *chosen))
                same_files.append(plan(filled))
                same_jobs.append(plan(bare))
        wall, busy = [run[1] for run in ours], [run[2] for run in ours]
        to_files = ratios(busy, [run[2] for run in same_files])
        to_jobs = ratios(busy, [run[2] for run in same_jobs])
        sizes.append((jobs, wall, busy, to_files, to_jobs))
        columns = [
            count,
            jobs,
            inputs + outputs,
            spread(wall, 1),
            spread(busy, 1),
            f"{1000 * statistics.median(busy) / jobs:.2f}",
            spread(to_files),
            spread(to_jobs),
        ]
        rows.append(f"| {' | '.join(map(str, columns))} |")
    return rows, sizes


def described(seeds: list[int], repeats: int, chosen_studies: list[str]) -> str:
    rows, sizes = measured(seeds, repeats, chosen_studies)
    lines = [
        "## Planning",
        "",
        f"A dry run (`snakemake -n`) of {len(chosen_studies)} studies together, {repeats} turns. It is compared with",
        "two trivial Snakefiles, planned in alternation with it; ratios are of CPU time.",
        "",
        "- *Same files*: the same number of jobs, input files, output files, logs and benchmark files.",
        "- *Same jobs*: the same number of jobs, each with no input and one output.",
        "",
        "| seeds | jobs | files | seconds | CPU seconds | ms per job | ÷ same files | ÷ same jobs |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
    ]
    if len(sizes) > 1:
        jobs, busy = [size[0] for size in sizes], [statistics.median(size[2]) for size in sizes]
        fit = statistics.linear_regression(jobs, busy)
        off = max(abs(fit.intercept + fit.slope * j - s) for j, s in zip(jobs, busy, strict=True))
        lines += [
            f"Linear fit: {fit.intercept:.1f} s + {1000 * fit.slope:.2f} ms per job, at most {off:.1f} s off.",
            "",
        ]
    jobs, wall, _, to_files, to_jobs = sizes[-1]
    lines += [
        goal(
            f"time to plan {jobs} jobs ÷ time for a trivial Snakefile with the same files", to_files, 2, at_least=False
        ),
        goal(f"time to plan {jobs} jobs ÷ time for a trivial Snakefile with the same jobs", to_jobs, 2, at_least=False),
        goal(f"seconds to plan {jobs} jobs", wall, 60, at_least=False, digits=1),
        "",
        "Nearly all of this is Snakemake's own work per file and per job. For every job it also looks up the message,",
        "the script and the environment, which a trivial Snakefile does not have.",
        "",
    ]
    return "\n".join(lines)


def section(quick: bool) -> str:
    if quick:
        return described([1], 1, ["quickstart"])
    return "\n".join([described([1, 10], 2, studies()), *of_searches(2)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 10], help="numbers of seeds (default: 1 10)")
    parser.add_argument("--repeats", type=int, default=2, help="turns (default: 2)")
    parser.add_argument(
        "--studies", nargs="+", default=studies(), help="studies to plan (default: all except the searches)"
    )
    parser.add_argument("--quick", action="store_true", help="one study, one seed, one turn; its figures mean nothing")
    options = parser.parse_args()
    if options.quick or sys.argv[1:] == []:
        print(section(options.quick))
    else:
        print(described(options.seeds, options.repeats, options.studies))


if __name__ == "__main__":
    main()
