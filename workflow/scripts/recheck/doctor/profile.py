"""The resources with which a SLURM profile submits the jobs of each rule, as Snakemake resolves them."""

import contextlib
import importlib.util
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from configargparse import ConfigFileParserException
from snakemake.cli import parse_args
from snakemake.exceptions import WorkflowError
from snakemake.resources import Resource
from snakemake.workflow import Workflow

SHIPPED = "slurm"
EXECUTOR = "snakemake_executor_plugin_slurm"
PARTITION = "slurm_partition"
KEYS = ("gpu", "gres", "runtime")


def submitted(workflow: Workflow, arguments: Sequence[str]) -> dict[str, Any]:
    """The profile's name, and rule → resources of its jobs; or the ``error`` that keeps jobs from being submitted.

    The profile is the one that the command line names, else the shipped one. Resources on the command line replace
    those of the profile. ``partitions`` of a rule are those of all attempts; None stands for the cluster's default.
    Values that depend on a job's wildcards are left out; ``unknown`` lists the rules whose partition is such a value.
    """
    if importlib.util.find_spec(EXECUTOR) is None:
        return {"error": f"the package {EXECUTOR.replace('_', '-')} is not installed"}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):  # Snakemake prints which profiles it uses
            options = _options(list(arguments))
    except (SystemExit, ConfigFileParserException, WorkflowError) as error:
        reason = printed.getvalue().strip().splitlines()[-1] if isinstance(error, SystemExit) else str(error)
        return {"error": f"the profile cannot be read ({reason})"}
    rules, unknown = {}, []
    for rule in workflow.rules:
        if rule.norun or rule.name in workflow._localrules:
            continue
        resources = {**(options.default_resources or {}), **rule.resources}
        resources |= options.set_resources.get(rule.name, {})
        try:
            partitions = list(_partitions(resources.get(PARTITION), rule.name, options.retries))
        except Exception:  # raised by an expression in the profile
            unknown.append(rule.name)
            continue
        rules[rule.name] = {"partitions": partitions, **_known(resources, rule.name)}
    file = getattr(options, "slurm_partition_config", None)
    file = str(file) if isinstance(file, (str, Path)) else os.environ.get("SNAKEMAKE_SLURM_PARTITIONS", "")
    return {"profile": " and ".join(options.profile or []), "rules": rules, "unknown": unknown, "file": file}


def _options(arguments: list[str]) -> Any:
    """The options of a command line and of its profiles."""
    options = parse_args(arguments)[1]
    if options.profile or not Path(SHIPPED, "config.yaml").is_file():
        return options
    return parse_args(["--profile", SHIPPED, *arguments])[1]


def _partitions(resource: Resource | None, rule: str, retries: int) -> Iterator[str | None]:
    """The partitions of all attempts, each once."""
    values = [None] if resource is None else [_value(resource, rule, attempt) for attempt in range(1, retries + 2)]
    for names in dict.fromkeys(values):
        yield from str(names).split(",") if names else [None]


def _known(resources: Mapping[str, Resource], rule: str) -> dict[str, Any]:
    """The values of the first attempt, without those that depend on wildcards."""
    known = {}
    for key in KEYS:
        with contextlib.suppress(Exception):
            known[key] = _value(resources[key], rule)
    return known


def _value(resource: Resource, rule: str, attempt: int = 1) -> str | int | None:
    return resource.evaluate(None, input=(), attempt=attempt, threads=1, rulename=rule, async_run=None).value
