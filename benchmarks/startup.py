"""Start-up: the cost of a job besides its work, measured on the jobs of a study with almost no work.

The study of the tests runs once, and Snakemake keeps the scripts that it starts. Then one script per kind of job is
started again, in alternation with a Python process that only imports the libraries that the job needs.
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
# kind of job → libraries that it needs
REQUIRED = {
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
    """The environment of a job that Snakemake starts with one thread."""
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
    """One kept script per kind of job; `train` and `embed` belong to the same run."""
    kept: dict[str, Path] = {}
    for path in sorted(folder.glob(".snakemake/scripts/*.py")):
        kind = path.name.split(".")[-2]
        text = path.read_text(encoding="utf-8")
        if kind == "figure" and "_metrics.png" not in text:
            continue
        if kind in ("train", "embed") and f"{RUN}/model" not in text:
            continue
        kept.setdefault(kind, path)
    return {kind: kept[kind] for kind in REQUIRED if kind in kept}


def imported(folder: Path, script: Path) -> tuple[Counter, int]:
    """Seconds of a job's imports per package, and the number of imported modules."""
    lines = MODULE.findall(python(folder, "-X", "importtime", str(script)).stderr)
    seconds: Counter = Counter()
    for microseconds, module in lines:
        seconds[module.split(".")[0]] += int(microseconds) / 1e6
    return seconds, len(lines)


def section(quick: bool) -> str:
    sys.path.insert(0, str(ROOT / "tests"))
    from support.project import Project

    repeats = 1 if quick else 5
    with tempfile.TemporaryDirectory() as temporary:
        project = Project.create(Path(temporary) / "project")
        targets = [f"{RUN}/embeddings.safetensors"] if quick else []
        project.succeed("--cores", "2", "--skip-script-cleanup", *targets)
        folder, rows = project.folder, []
        for kind, script in scripts(folder).items():
            functions = {
                "job": lambda script=script: python(folder, str(script)),
                "imports": lambda kind=kind: python(folder, "-c", f"import {REQUIRED[kind]}"),
            }
            seconds = in_turn(functions, repeats, clock=processor)
            to_imports = ratios(seconds["job"], seconds["imports"])
            rows.append(f"| {kind} | {spread(seconds['job'])} | {REQUIRED[kind]} | {spread(to_imports)} |")
        script = scripts(folder)["train"]
        packages, modules = imported(folder, script)
        body = json.loads((folder / RUN / "run.json").read_text(encoding="utf-8"))["wall_seconds"]
    total = sum(packages.values())
    shares = ", ".join(f"{name} {share / total:.0%}" for name, share in packages.most_common(6))
    return f"""## Start-up

Jobs of a small study of letters, with six training steps per run: almost all of their time is start-up. The CPU time is
compared with a Python process that only imports the libraries that the job needs; {repeats} turns.

| job | CPU seconds | imports compared with | ÷ imports |
|---|---:|---|---:|
{chr(10).join(rows)}

A training job imports {modules} modules. Share of the import time: {shares}.
After the imports, everything else (reading data, building the network, training, evaluating, saving) took {body} s.
"""


if __name__ == "__main__":
    main(section, __doc__)
