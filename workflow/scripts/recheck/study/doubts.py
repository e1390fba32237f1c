"""Settings that work but cannot lead to a sound result, known when a study is read."""

from collections.abc import Iterator, Mapping
from typing import Any

from recheck.study.model import Run, Study


def doubtful_settings(study: Study) -> list[str]:
    """One sentence per doubtful setting, with the file and the rows that have it."""
    rows: dict[str, dict[str, None]] = {}
    for runs in study.runs.values():
        for row in study.rows:
            for sentence in _of_run(runs[row]):
                rows.setdefault(sentence, {})[row] = None
    return [
        f"{study.path}, {'row' if len(named) == 1 else 'rows'} {', '.join(map(repr, named))}: {sentence}"
        for sentence, named in rows.items()
    ]


def _of_run(run: Run) -> Iterator[str]:
    if not run.trained:
        return
    if one_class_per_batch(run.settings["sampler"]):
        sampler = run.settings["sampler"]
        yield (
            f"'sampler.per_class' ({sampler['per_class']}) fills whole batches of {sampler['batch']} images, so every "
            "batch has images of only one class and no negative pairs. Lower 'per_class', or raise 'batch'."
        )
    model = run.settings["model"]
    frozen = model.get("batch_norm") in ("frozen", "frozen_affine") or model["backbone"].get("frozen")
    # a user's own function may load weights itself; the run checks the network
    if frozen and run.weights == "none" and ":" not in model["backbone"]["name"]:
        key = "model.backbone.frozen" if model["backbone"].get("frozen") else "model.batch_norm"
        yield (
            f"'{key}' freezes batch norm, but the backbone has random weights ('weights: none'). Train it, or choose "
            "pretrained weights."
        )


def one_class_per_batch(sampler: Mapping[str, Any]) -> bool:
    """Whether the images of one class fill whole batches."""
    per_class, batch = sampler.get("per_class"), sampler.get("batch")
    return isinstance(per_class, int) and isinstance(batch, int) and batch > 1 and per_class % batch == 0
