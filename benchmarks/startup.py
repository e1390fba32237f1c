"""Start-up: what a job costs before and beside its work, by the jobs of a study that is too small to have any.

The study of the tests is run once, Snakemake keeps the scripts that it starts, and each kind of script is started
again, in turn with an interpreter that does nothing but import the libraries without which that job can't be done.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from timing import in_turn, main, processor, ratios, spread

ROOT = Path(__file__).resolve().parents[1]
# kind of job: what it can't be done without
LEAST = {
    "index": "pandas",
    "pack": "pandas, PIL.Image",
    "split": "pandas",
    "train": "torch, faiss",
    "embed": "torch",
    "evaluate": "faiss, sklearn.metrics",
    "table": "pandas, scipy.special",
    "figure": "pandas, scipy.special, matplotlib.pyplot",
    "page": "jinja2",
}
RUN = "results/letters/glyphs/triplet/seed0/fold0"
MODULE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")


def environment() -> dict[str, str]:
    """As Snakemake starts a job with one thread."""
    unwanted = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {key: value for key, value in os.environ.items() if key not in unwanted} | threads


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return done


def scripts(folder: Path) -> dict[str, Path]:
    """One kept script of each kind; of the runs, the same one."""
    found: dict[str, Path] = {}
    for path in sorted(folder.glob(".snakemake/scripts/*.py")):
        kind = path.name.split(".")[-2]
        text = path.read_text(encoding="utf-8")
        if kind == "figure" and "_metrics.png" not in text:
            continue
        if kind in ("train", "embed") and f"{RUN}/model" not in text:
            continue
        found.setdefault(kind, path)
    return {kind: found[kind] for kind in LEAST if kind in found}


def imported(folder: Path, script: Path) -> tuple[Counter, int]:
    """Seconds of a job's imports by package, and the number of modules."""
    lines = MODULE.findall(python(folder, "-X", "importtime", str(script)).stderr)
    seconds: Counter = Counter()
    for microseconds, module in lines:
        seconds[module.split(".")[0]] += int(microseconds) / 1e6
    return seconds, len(lines)


def section(quick: bool) -> str:
    sys.path.insert(0, str(ROOT / "tests"))
    from project import Project

    repeats = 1 if quick else 5
    with tempfile.TemporaryDirectory() as temporary:
        project = Project.create(Path(temporary) / "project")
        targets = [f"{RUN}/embeddings.safetensors"] if quick else []
        project.succeed("--cores", "2", "--skip-script-cleanup", *targets)
        folder, rows = project.folder, []
        for kind, script in scripts(folder).items():
            functions = {
                "job": lambda script=script: python(folder, str(script)),
                "least": lambda kind=kind: python(folder, "-c", f"import {LEAST[kind]}"),
            }
            seconds = in_turn(functions, repeats, clock=processor)
            to_least = ratios(seconds["job"], seconds["least"])
            rows.append(f"| {kind} | {spread(seconds['job'])} | {LEAST[kind]} | {spread(to_least)} |")
        script = scripts(folder)["train"]
        packages, modules = imported(folder, script)
        body = json.loads((folder / RUN / "run.json").read_text(encoding="utf-8"))["wall_seconds"]
    total = sum(packages.values())
    shares = ", ".join(f"{name} {share / total:.0%}" for name, share in packages.most_common(6))
    return f"""## Start-up

Jobs of a study of letters with six training steps a run: almost nothing but their start. Seconds of the processor,
beside those of a Python that only imports the libraries without which the job can't be done; {repeats} turns.

| job | processor s | least | ÷ least |
|---|---:|---|---:|
{chr(10).join(rows)}

A training job imports {modules} modules. Of the time that takes: {shares}.
What comes after its imports (reading data, building the network, training, evaluating and saving) took {body} s.
"""


if __name__ == "__main__":
    main(section, __doc__)
