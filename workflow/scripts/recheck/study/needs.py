"""What a method needs beyond the protocol: batches, a head, views, members, parameters that its loss learns."""

from collections.abc import Iterator, Mapping
from typing import Any

from recheck.study.model import Run


def needs(run: Run, protocol: Mapping[str, Any]) -> list[str]:
    """What a row needs beyond the protocol, its loss and its miner, in words; empty for a row that is not trained."""
    if not run.trained:
        return []
    return [*_batches(run, protocol), *_model(run, protocol), *_passes(run), *_members(run, protocol), *_learned(run)]


def _batches(run: Run, protocol: Mapping[str, Any]) -> Iterator[str]:
    sampler, shared = run.settings["sampler"], protocol["sampler"]
    if sampler["class"] != shared["class"]:
        yield f"sampler {sampler['class']}"
    for key, text in (("per_class", "{} per class"), ("batch", "batches of {}")):
        if key in sampler and key in shared and sampler[key] != shared[key]:
            yield text.format(sampler[key])


def _model(run: Run, protocol: Mapping[str, Any]) -> Iterator[str]:
    head, shared = run.settings["model"]["head"], protocol["model"]["head"]
    if head["class"] != shared["class"]:
        yield f"head {head['class']}"
    if head.get("dim", shared.get("dim")) != shared.get("dim"):
        yield f"{head['dim']}-d{' binary' if head.get('binarise') else ''}"
    if dropout := run.settings["model"].get("channel_dropout"):
        yield f"channel dropout {dropout}"


def _passes(run: Run) -> Iterator[str]:
    forward = run.settings.get("forward") or {}
    if "passes" in forward:
        yield f"{forward['passes'] * forward.get('masks', 1)} views in {forward['passes']} passes"
    elif "parts" in forward:
        yield f"batch in {forward['parts']} parts"


def _members(run: Run, protocol: Mapping[str, Any]) -> Iterator[str]:
    if relabel := run.settings.get("relabel"):
        yield f"{relabel['count']} meta-classes" if "count" in relabel else f"labels {relabel['class']}"
    if run.members != protocol["split"].get("folds", 1):
        yield f"{run.members} members"


def _learned(run: Run) -> Iterator[str]:
    optimisers, shared = run.settings["optimisers"], run.settings["optimisers"].get("head", {})
    if loss := optimisers.get("loss"):
        family = "" if loss["class"] == shared.get("class") else f" by {loss['class']}"
        yield f"loss parameters learned{family} at rate {loss['lr']:g}"
