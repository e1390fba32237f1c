"""A summary of failed jobs with the last lines of their logs, for the end of Snakemake's output."""

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
    """The report on one or several of Snakemake's logs."""
    paths = [logs] if isinstance(logs, str) else logs
    return report("\n".join(Path(path).read_text(encoding="utf-8") for path in paths))


def report(text: str) -> str:
    """One paragraph per job that failed and did not succeed in a retry; empty if there is none.

    ``text`` is Snakemake's log, the only place that lists failed jobs on every kind of cluster.
    """
    failed: dict[str, tuple[str, list[str]]] = {}
    for error in _ERROR.finditer(text):
        logs = [path for paths in _LOG.findall(error["details"]) for path in paths.split(", ")]
        for job in _JOB.findall(error["details"]):
            failed[job] = (error["name"], logs)
    for job in _FINISHED.findall(text):
        failed.pop(job, None)
    if not failed:
        return ""
    jobs = "1 job" if len(failed) == 1 else f"{len(failed)} jobs"
    paragraphs = [
        f"{jobs} failed for good; all work that does not depend on failed jobs is done. Last lines of the logs:"
    ]
    for name, logs in dict.fromkeys((name, tuple(logs)) for name, logs in failed.values()):
        paragraphs.append("\n".join([f"{name}:", *(line for log in logs for line in _tail(Path(log)))]))
    return "\n\n".join(paragraphs)


def _tail(path: Path) -> list[str]:
    """The last records of one of Recheck's logs (without tracebacks), or the last lines of any other log."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        return [f"  {path}: missing"]
    records = [line for line in lines if _RECORD.match(line) and " DEBUG " not in line]
    return [f"  {path}", *(f"    {line}" for line in (records or lines)[-LINES:])]
