"""Check that the partitions of a SLURM profile exist, are up, and fit the jobs that are sent there."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from recheck.doctor.finding import Finding, note, ok, problem

SECONDS = 20
FORMAT = "%P|%a|%l|%G"
RESUMING = {"train", "trial"}
RESUMES = "; a training job that is stopped at its limit is submitted again and resumes"


class Partition(NamedTuple):
    up: bool
    minutes: float
    has_gpus: bool


def partitions(submitted: Mapping[str, Any], minutes: Mapping[str, float]) -> Iterator[Finding]:
    """Findings for each partition to which a profile sends jobs (``profile.submitted``); one line without SLURM.

    ``minutes`` are the longest limits of rules, for rules whose limit the profile does not set.
    """
    if not shutil.which("sinfo"):
        yield ok("SLURM", "not on this machine (no command 'sinfo')")
        return
    if "error" in submitted:
        yield problem(
            "SLURM", submitted["error"], "run `make setup`, then check what `snakemake --profile slurm -n` reports"
        )
        return
    if not submitted["profile"]:
        yield note("SLURM", "no profile to check", "name yours: snakemake --profile <profile> doctor")
        return
    try:
        command = ["sinfo", "--noheader", "-o", FORMAT]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        yield note(
            "SLURM",
            f"sinfo failed ({reason})",
            "ask the administrators of your cluster, or run without --profile slurm",
        )
        return
    existing, default = _read(listed)
    wanted: dict[str | None, dict[str, dict]] = {}
    for rule, resources in submitted["rules"].items():
        for name in resources["partitions"]:
            limit = {"runtime": minutes[rule]} if rule in minutes else {}
            wanted.setdefault(name or (None if submitted["file"] else default), {})[rule] = limit | resources
    nowhere = wanted.pop(None, {})
    for name, rules in wanted.items():
        yield from _check(name, rules, existing, f"the profile '{submitted['profile']}'")
    yield from _unchecked(nowhere, submitted)


def _unchecked(nowhere: Mapping[str, Any], submitted: Mapping[str, Any]) -> Iterator[Finding]:
    """Rules without a partition, and rules whose partition is only known when a job is submitted."""
    profile, jobs = f"the profile '{submitted['profile']}'", ", ".join(nowhere)
    if submitted["unknown"]:
        unknown = ", ".join(submitted["unknown"])
        yield note("SLURM", f"the partition of {unknown} depends on the job, so it was not checked", f"see {profile}")
    if nowhere and submitted["file"]:
        yield note("SLURM", f"the partition of {jobs} was not checked", f"see {submitted['file']}, which chooses it")
    elif nowhere:
        text = f"no partition for {jobs}, and the cluster has no default partition"
        yield problem("SLURM", text, f"set 'slurm_partition' in 'default-resources' of {profile}")


def _check(name: str, rules: dict[str, dict], existing: dict[str, Partition], profile: str) -> Iterator[Finding]:
    title, jobs = f"SLURM: {name}", ", ".join(rules)
    partition = existing.get(name)
    if partition is None:
        known = ", ".join(existing) or "none"
        yield problem(title, f"no such partition for {jobs}; known: {known}", f"set 'slurm_partition' in {profile}")
        return
    if not partition.up:
        yield problem(title, f"the partition is down, and {jobs} would wait", "wait, or choose another partition")
        return
    without = [rule for rule, resources in rules.items() if _asks_for_gpu(resources) and not partition.has_gpus]
    if without:
        text = f"the partition has no GPU, but these jobs ask for one: {', '.join(without)}"
        yield problem(title, text, f"set 'slurm_partition' in {profile}")
    requested = {rule: resources.get("runtime") for rule, resources in rules.items()}
    longer = {rule: limit for rule, limit in requested.items() if isinstance(limit, int) and limit > partition.minutes}
    if longer:
        limits = ", ".join(f"{rule} {limit:,}" for rule, limit in longer.items())
        text = f"the partition allows {partition.minutes:,g} minutes, but these jobs ask for more: {limits}"
        yield problem(title, text, f"set 'runtime' in {profile}{RESUMES if {*longer} & RESUMING else ''}")
    if not without and not longer:
        yield ok(title, f"up; used by {jobs}")


def _asks_for_gpu(resources: dict[str, Any]) -> bool:
    return bool(resources.get("gpu")) or any(kind in str(resources.get("gres", "")) for kind in ("gpu", "shard"))


def _read(listed: str) -> tuple[dict[str, Partition], str | None]:
    """Partitions by name, and the default one. sinfo has one line per kind of node, and a star after the default."""
    known: dict[str, Partition] = {}
    default = None
    for line in listed.splitlines():
        name, state, limit, gres = (*line.split("|"), "", "", "")[:4]
        default = name[:-1] if name.endswith("*") else default
        name = name.rstrip("*")
        before = known.get(name, Partition(False, 0, False))
        known[name] = Partition(state == "up", _minutes(limit), before.has_gpus or "gpu" in gres or "shard" in gres)
    return known, default


def _minutes(limit: str) -> float:
    """The minutes of a limit such as ``1-12:00:00``, ``30:00`` (minutes and seconds) or ``infinite``."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if not match:
        return float("inf")
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60
