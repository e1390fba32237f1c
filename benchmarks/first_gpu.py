"""Run the protocol of docs/gpu.md on a machine with a GPU, and collect what to send back in gpu_report.tar.gz.

If a command fails or exceeds its time limit, the others still run. Start the script in the project's folder, with the
project's environment active.
"""

import argparse
import hashlib
import json
import shlex
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any, NamedTuple

REPORT = Path("gpu_report")
RUNS = "emoji/*/seed*/fold*"


class Step(NamedTuple):
    """A command of the protocol with its time limit; ``interrupted`` if the command contains its own ``timeout``."""

    name: str
    command: str
    minutes: float
    interrupted: bool = False


def quickstart(results: str, options: str = "methods=[triplet,proxy_nca]") -> str:
    """Some rows of the quickstart, with their results in a folder of the report."""
    folder = f"'pathvars={{results: {REPORT}/{results}}}'"
    return f"snakemake --cores all quickstart --config reuse=false {options} {folder}"


STEPS = (
    Step("gpus", "nvidia-smi", 0.2),
    Step("doctor", "snakemake --cores 1 doctor", 0.8),
    Step("quickstart", quickstart("once"), 3),
    Step("interrupted", f"timeout --signal=INT 45 {quickstart('again')}", 1, interrupted=True),
    Step("continued", quickstart("again"), 3),
    Step("cpu", quickstart("cpu", "device=cpu methods=[triplet]"), 3),
    Step("speed", "python benchmarks/gpu_rows.py", 4),
    Step("try_mlrc", "snakemake --cores 1 try --config study=mlrc", 2),
    Step("try_unbiased", "snakemake --cores 1 try --config study=unbiased", 2),
    Step("try_contextual", "snakemake --cores 1 try --config study=contextual_224", 2),
    Step("cost", "snakemake --cores 1 mlrc_cost", 1),
)


def run(step: Step, folder: Path) -> dict[str, Any]:
    """Run a command, write its output to a file, stop it at its time limit, and return how it ended."""
    started = time.perf_counter()
    with (folder / f"{step.name}.txt").open("w", encoding="utf-8") as output:
        output.write(f"$ {step.command}\n")
        output.flush()
        limited = ["timeout", "--signal=INT", "--kill-after=60", f"{60 * step.minutes:g}", *shlex.split(step.command)]
        try:
            code = subprocess.run(limited, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
        except OSError as error:
            output.write(f"{error}\n")
            code = 127
    seconds = time.perf_counter() - started
    ok, stopped = ("finished too early", "ok") if step.interrupted else ("ok", "stopped: too slow")
    ended = {0: ok, 124: stopped}.get(code, f"failed ({code})")
    return {"step": step.name, "command": step.command, "ended": ended, "seconds": round(seconds, 1)}


def models(folder: Path) -> dict[str, str]:
    """SHA-256 of every model of a results folder."""
    paths = sorted(folder.glob(f"quickstart/{RUNS}/model.safetensors"))
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in paths}


def compared(folder: Path) -> list[str]:
    """Sentences about bits and values: the two runs on the GPU, and the GPU against the CPU."""
    once, again = models(folder / "once"), models(folder / "again")
    shared = once.keys() & again.keys()
    same = sum(once[name] == again[name] for name in shared)
    sentences = [f"{same} of {len(shared)} models have the same bits after an interruption ({len(once)} were trained)."]
    for name in sorted(shared):
        if once[name] != again[name]:
            sentences.append(f"Different: {name}")
    for path in sorted((folder / "cpu").glob("quickstart/emoji/triplet/seed*/*.json")):
        other = folder / "once" / path.relative_to(folder / "cpu")
        if other.is_file():
            cpu, gpu = (json.loads(file.read_text(encoding="utf-8")) for file in (path, other))
            sentences.append(f"triplet, {path.stem}: CPU {values(cpu)}; GPU {values(gpu)}.")
    return sentences


def values(evaluation: Any) -> str:
    """The numbers of an evaluation, by name."""
    metrics = evaluation.get("metrics", evaluation) if isinstance(evaluation, dict) else {}
    pairs = [(name, value) for name, value in metrics.items() if isinstance(value, int | float)]
    return ", ".join(f"{name} {value:.5g}" for name, value in pairs) or "no metrics"


def collected(folder: Path) -> list[Path]:
    """The files to send back: outputs, records, histories, tables and logs; no model and no image."""
    patterns = ("*.txt", "*.md", f"*/quickstart/{RUNS}/run.json", f"*/quickstart/{RUNS}/history.csv")
    patterns += ("*/quickstart/emoji/*/seed*/*.json", "*/quickstart*/emoji/table.*")
    paths = [path for pattern in patterns for path in folder.glob(pattern)]
    paths += Path("logs").glob(f"quickstart/{RUNS}/*.log")
    paths += Path("results").glob("mlrc_cost/cost.*")
    return sorted({path for path in paths if path.is_file()})


def summary(outcomes: list[dict[str, Any]], sentences: list[str]) -> str:
    rows = "\n".join(f"| {one['step']} | {one['ended']} | {one['seconds']} | `{one['command']}` |" for one in outcomes)
    return f"""# First run on a GPU

| step | ended | seconds | command |
|---|---|---:|---|
{rows}

{chr(10).join(f"- {sentence}" for sentence in sentences)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", help="names of steps (default: all)")
    chosen = parser.parse_args().steps
    if unknown := set(chosen) - {step.name for step in STEPS}:
        parser.error(f"unknown steps {sorted(unknown)}; choose from {', '.join(step.name for step in STEPS)}")
    REPORT.mkdir(exist_ok=True)
    outcomes = []
    for step in STEPS:
        if not chosen or step.name in chosen:
            print(f"$ {step.command}", flush=True)
            outcomes.append(run(step, REPORT))
            print(f"  {outcomes[-1]['ended']}, {outcomes[-1]['seconds']} s", flush=True)
    (REPORT / "summary.md").write_text(summary(outcomes, compared(REPORT)), encoding="utf-8")
    with tarfile.open("gpu_report.tar.gz", "w:gz") as archive:
        for path in collected(REPORT):
            archive.add(path)
    print((REPORT / "summary.md").read_text(encoding="utf-8"))
    print("Check gpu_report.tar.gz (its logs contain paths of this machine), then attach it to an issue.")


if __name__ == "__main__":
    main()
