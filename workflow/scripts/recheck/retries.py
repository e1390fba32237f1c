"""Prevent retries of jobs whose errors only the user can correct.

Snakemake retries every failed job (``retries`` of a profile) and has no setting to exclude some of them
(https://github.com/snakemake/snakemake/issues/2441). On a cluster, each retry waits in the queue and asks for more
memory. So a job that fails for good says so in the file ``<rule>.failed`` beside its log, and the Snakemake that
submitted it reads this file before it decides.
"""

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

SUFFIX = ".failed"
FOR_GOOD = "Not retried: only you can correct this."


def record(log: str | Path, reason: str, for_good: bool) -> None:
    """Write the reason's first line to ``<rule>.failed``, and whether a retry is useless."""
    with contextlib.suppress(OSError):  # a full disk may be the reason
        lines = [reason.partition("\n")[0], *([FOR_GOOD] if for_good else [])]
        Path(log).with_suffix(SUFFIX).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def reason_in(path: str | Path) -> str:
    """The reason in a file ``<rule>.failed``."""
    return Path(path).read_text(encoding="utf-8").partition("\n")[0]


def failed_for_good(logs: Iterable[str], since: float) -> bool:
    """Whether a job with these logs has failed for good since ``since``; older files belong to earlier calls."""
    for log in logs:
        path = Path(log).with_suffix(SUFFIX)
        with contextlib.suppress(OSError):
            if path.stat().st_mtime >= since and path.read_text(encoding="utf-8").endswith(f"\n{FOR_GOOD}\n"):
                return True
    return False


def install(kinds: Iterable[type], since: float) -> None:
    """Make Snakemake's job and group classes refuse to retry jobs that have failed for good.

    Fails if a class has no property ``restart_times``, which Snakemake compares with the number of attempts.
    """
    for kind in kinds:
        kind.restart_times = property(partial(_retries, usual=kind.restart_times.fget, since=since))


def _retries(job: Any, usual: Callable[[Any], int], since: float) -> int:
    members = job.jobs if job.is_group() else [job]
    return 0 if any(failed_for_good(member.log, since) for member in members) else usual(job)
