"""What failed for good, and the last lines of its logs: the end of a long run's output is what people read."""

import re
from collections.abc import Sequence
from pathlib import Path

LINES = 5
_ERROR = re.compile(r"^Error in (?:rule|group) (?P<name>\S+?):\n(?P<details>(?: +\S.*\n)*)", re.MULTILINE)
_JOB = re.compile(r"^ +jobid: (\d+)$", re.MULTILINE)
_LOG = re.compile(r"^ +log: (.+) \(check log file\(s\) for error details\)$", re.MULTILINE)
_FINISHED = re.compile(r"^Finished jobid: (\d+)", re.MULTILINE)
_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")


def of_logs(logs: str | Sequence[str]) -> str:
    """The report on Snakemake's own logs, or on one of them."""
    paths = [logs] if isinstance(logs, str) else logs
    return report("\n".join(Path(path).read_text(encoding="utf-8") for path in paths))


def report(text: str) -> str:
    """A paragraph for each job that failed and did not succeed when it was tried again.

    ``text`` is Snakemake's own log: nothing else says which jobs failed, on whatever kind of cluster.
    """
    failed: dict[str, tuple[str, list[str]]] = {}
    for error in _ERROR.finditer(text):
        logs = [path for found in _LOG.findall(error["details"]) for path in found.split(", ")]
        for job in _JOB.findall(error["details"]):
            failed[job] = (error["name"], logs)
    for job in _FINISHED.findall(text):
        failed.pop(job, None)
    if not failed:
        return ""
    jobs = "1 job" if len(failed) == 1 else f"{len(failed)} jobs"
    parts = [f"{jobs} failed for good; all that did not depend on them is done. The last lines of their logs:"]
    for name, logs in dict.fromkeys((name, tuple(logs)) for name, logs in failed.values()):
        parts.append("\n".join([f"{name}:", *(line for log in logs for line in _tail(Path(log)))]))
    return "\n\n".join(parts)


def _tail(path: Path) -> list[str]:
    """The last records of a log of ours (no tracebacks), or the last lines of another's."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        return [f"  {path}: not there"]
    records = [line for line in lines if _RECORD.match(line) and " DEBUG " not in line]
    return [f"  {path}", *(f"    {line}" for line in (records or lines)[-LINES:])]
