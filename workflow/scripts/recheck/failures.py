"""A summary of failed jobs with the last lines of their logs, for the end of Snakemake's output."""

import re
from collections.abc import Sequence
from pathlib import Path

LINES = 5
_ERROR = re.compile(r"^Error in (?:rule|group) (?P<name>\S+?):\n(?P<details>(?: +\S.*\n)*)", re.MULTILINE)
_JOB = re.compile(r"^ +jobid: (\d+)$", re.MULTILINE)
_LOG = re.compile(r"^ +log: (.+) \(check log file\(s\) for error details\)$", re.MULTILINE)
_FINISHED = re.compile(r"^Finished jobid: (\d+)", re.MULTILINE)
_ON_REQUEST = "Terminating processes on user request"  # Snakemake's words after Ctrl-C
_STOPPED = " Stopped by SIG"  # how a job's log ends after a signal
_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")


def of_logs(logs: str | Sequence[str]) -> str:
    """The report on one or several of Snakemake's logs."""
    paths = [logs] if isinstance(logs, str) else logs
    return report("\n".join(Path(path).read_text(encoding="utf-8") for path in paths))


def report(text: str) -> str:
    """One paragraph per job that failed and did not succeed in a retry, and one sentence if jobs were stopped.

    A deliberate stop is not a failure. The report is empty if nothing failed or was stopped.

    ``text`` is Snakemake's log, the only place that lists failed jobs on every kind of cluster.
    """
    failed: dict[str, tuple[str, list[str]]] = {}
    for error in _ERROR.finditer(text):
        logs = [path for paths in _LOG.findall(error["details"]) for path in paths.split(", ")]
        for job in _JOB.findall(error["details"]):
            failed[job] = (error["name"], logs)
    for job in _FINISHED.findall(text):
        failed.pop(job, None)
    on_request = _ON_REQUEST in text
    stopped = {job for job, (_, logs) in failed.items() if _was_stopped(logs, on_request)}
    paragraphs = []
    if stopped or on_request:
        request = "Stopped on request. " if on_request else ""
        interrupted = f"{_jobs(len(stopped))} stopped by a signal. " if stopped else ""
        paragraphs.append(f"{request}{interrupted}Run the same command again to resume.")
    failed = {job: about for job, about in failed.items() if job not in stopped}
    if failed:
        kept = "" if on_request else "; all work that does not depend on failed jobs is done"
        paragraphs.append(f"{_jobs(len(failed), '')} failed for good{kept}. Last lines of the logs:")
    for name, logs in dict.fromkeys((name, tuple(logs)) for name, logs in failed.values()):
        paragraphs.append("\n".join([f"{name}:", *(line for log in logs for line in _tail(Path(log)))]))
    return "\n\n".join(paragraphs)


def _jobs(count: int, verb: str = " was") -> str:
    if count == 1:
        return f"1 job{verb}"
    return f"{count} jobs{verb.replace('was', 'were')}"


def _was_stopped(logs: Sequence[str], on_request: bool) -> bool:
    """Whether a job ended because it was asked to, and not because of a fault.

    A job that is stopped while Python starts writes nothing to its log.
    """
    last = [lines[-1] for log in logs if (lines := _tail(Path(log))[1:])]
    return any(_STOPPED in line for line in last) or (on_request and not any(" ERROR " in line for line in last))


def _tail(path: Path) -> list[str]:
    """The last records of one of Recheck's logs (without tracebacks), or the last lines of any other log."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        return [f"  {path}: missing"]
    records = [line for line in lines if _RECORD.match(line) and " DEBUG " not in line]
    return [f"  {path}", *(f"    {line}" for line in (records or lines)[-LINES:])]
