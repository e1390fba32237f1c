"""Check that the partitions of the SLURM profile exist, are up, and fit the jobs that are sent there."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from recheck.doctor.finding import Finding, note, ok, problem
from recheck.study.yaml import read_yaml

SECONDS = 20
FORMAT = "%P|%a|%l|%G"


class Partition(NamedTuple):
    up: bool
    minutes: float
    has_gpus: bool


def partitions(profile: Path, minutes: Mapping[str, float]) -> Iterator[Finding]:
    """Findings for each partition that the profile names; one line where there is no SLURM.

    ``minutes`` are the longest limits of rules, for rules whose limit the profile does not set.
    """
    if not shutil.which("sinfo"):
        yield ok("SLURM", "not on this machine (no command 'sinfo')")
        return
    try:
        asked = ["sinfo", "--noheader", "-o", FORMAT]
        listed = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        yield note("SLURM", f"sinfo failed ({reason})", "ask your site, or run without --profile slurm")
        return
    existing = _read(listed)
    for name, rules in _wanted(read_yaml(profile), minutes).items():
        yield from _check(name, rules, existing, profile)


def _check(name: str, rules: dict[str, dict], existing: dict[str, Partition], profile: Path) -> Iterator[Finding]:
    title, jobs = f"SLURM: {name}", ", ".join(rules)
    partition = existing.get(name)
    if partition is None:
        known = ", ".join(existing) or "none"
        yield problem(title, f"no such partition for {jobs}; there are: {known}", f"set 'slurm_partition' in {profile}")
        return
    if not partition.up:
        yield problem(title, f"the partition is down, and {jobs} would wait", "wait, or choose another partition")
        return
    wrong = False
    for rule, resources in rules.items():
        if _asks_for_gpu(resources) and not partition.has_gpus:
            wrong = True
            yield problem(
                title, f"{rule} asks for a GPU, but the partition has none", f"set 'slurm_partition' in {profile}"
            )
        runtime = resources.get("runtime")
        if isinstance(runtime, (int, float)) and runtime > partition.minutes:
            wrong = True
            yield problem(
                title,
                f"{rule} asks for up to {runtime:g} minutes, but the partition allows {partition.minutes:g}",
                f"set 'runtime' of {rule} in {profile}; a run that is stopped there is sent again and resumes",
            )
    if not wrong:
        yield ok(title, f"up; takes {jobs}")


def _wanted(profile: dict[str, Any], minutes: Mapping[str, float]) -> dict[str, dict[str, dict[str, Any]]]:
    """Partition → the rules that are sent there, each with its resources."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    defaults = profile.get("default-resources") or {}
    for rule, resources in {"other jobs": defaults, **(profile.get("set-resources") or {})}.items():
        if partition := (defaults | resources).get("slurm_partition"):
            for name in str(partition).split(","):
                limit = {"runtime": minutes[rule]} if rule in minutes else {}
                found.setdefault(name, {})[rule] = limit | resources
    return found


def _asks_for_gpu(resources: dict[str, Any]) -> bool:
    return bool(resources.get("gpu")) or "gpu" in str(resources.get("gres", ""))


def _read(listed: str) -> dict[str, Partition]:
    """Partitions by name. sinfo has one line per kind of node, and marks the default partition with a star."""
    found: dict[str, Partition] = {}
    for line in listed.splitlines():
        name, state, limit, gres = (*line.split("|"), "", "", "")[:4]
        name = name.rstrip("*")
        before = found.get(name, Partition(False, 0, False))
        found[name] = Partition(state == "up", _minutes(limit), before.has_gpus or "gpu" in gres or "shard" in gres)
    return found


def _minutes(limit: str) -> float:
    """``1-12:00:00``, ``30:00`` (minutes and seconds) or ``infinite``."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if not match:
        return float("inf")
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60
