"""Check every GPU that runs would use, or the CPU, by a real training step and a search."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from recheck.doctor.finding import Finding, note, ok, problem
from recheck.training.gpus import VISIBLE, driver_version, visible_gpus
from recheck.training.usable import NO_GPU

SECONDS = 300
PACKAGE = Path(__file__).resolve().parents[2]
ON_CPU = "compute on the CPU: --config device=cpu"
# What is wrong, then advice behind the first colon outside quotes and brackets.
ADVISED = re.compile(r"((?:'[^']*'|\([^()]*\)|(?!: )[^()'])+): ([a-z`].*)", re.DOTALL)


def devices(wanted: str, trial: dict[str, Any], name: str) -> Iterator[Finding]:
    """Findings for the driver and for each device; ``trial`` has the settings of the row called ``name``."""
    if wanted == "mps":
        yield _finding("GPU", _tried({**trial, "device": "mps"}, {}), name)
        return
    gpus = [] if wanted == "cpu" else visible_gpus()
    if not gpus:
        if wanted == "cuda":
            yield problem("GPU", *NO_GPU.split(": ", 1))
            return
        yield ok("GPU", "not used (device: cpu)" if wanted == "cpu" else "none is visible, so runs use the CPU")
        yield _finding("CPU", _tried({**trial, "device": "cpu"}, {}), name)
        return
    driver = driver_version()
    if driver:
        yield ok("driver", driver)
    else:
        yield note("driver", "its version is unknown", "check `nvidia-smi`")
    with ThreadPoolExecutor(len(gpus)) as pool:
        results = pool.map(lambda gpu: _tried({**trial, "device": "cuda"}, {VISIBLE: gpu}), gpus)
        for number, (gpu, result) in enumerate(zip(gpus, results, strict=True)):
            finding = _finding(f"GPU {number}", result, name)
            yield Finding(finding.state, finding.name, f"{gpu}: {finding.text}", finding.remedy)


def _tried(trial: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    """The result of ``recheck.doctor.trial`` in a process of its own."""
    path = os.pathsep.join(filter(None, (str(PACKAGE), os.environ.get("PYTHONPATH"))))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "recheck.doctor.trial"],
            input=json.dumps(trial),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": path, **environment},
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no training step within {SECONDS} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"error": f"the training step exited with code {done.returncode} ({last})"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def _finding(title: str, result: dict[str, Any], name: str) -> Finding:
    if "error" in result:
        advised = ADVISED.fullmatch(result["error"])
        return problem(title, *advised.groups()) if advised else problem(title, result["error"], ON_CPU)
    text = f"one step and evaluation of '{name}' in {result['step']:.1f} s, one search in {result['search']:.2f} s"
    if result["device"] == "cuda":
        text = f"{result['name']} with CUDA {result['cuda']}: {text}"
    elif result["device"] == "mps":
        return ok(title, f"{result['name']}: {text} on the CPU")
    if not result["agrees"]:
        return problem(title, f"{text}, but the search results differ from the CPU's", ON_CPU)
    if result["device"] != result["searched_on"]:
        return note(title, f"{text} on the CPU", "faiss cannot use this GPU; results are the same")
    return ok(title, text)
