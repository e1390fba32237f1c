"""What only makes sense together: checked when a study is read, before anything is built on it."""

from collections.abc import Mapping, Sequence
from typing import Any

from recheck import parts
from recheck.errors import UserError
from recheck.names import (
    BEST_ON_TEST,
    LAST_EPOCH,
    QUERY_VIEWS,
    SCHEMES,
    check_metrics,
    check_query_metrics,
    check_scheme,
)
from recheck.study.model import Run, Study

# Where a run's settings hold a part, and of which kind it is.
PARTS = {
    "loss": "loss",
    "miner": "miner",
    "sampler": "sampler",
    "forward": "forward",
    "relabel": "relabel",
    "lr_schedule": "lr_schedule",
    "model.pooling": "pooling",
    "model.head": "head",
    "model.projector": "projector",
    "optimisers.backbone": "optimiser",
    "optimisers.head": "optimiser",
    "optimisers.projector": "optimiser",
    "optimisers.loss": "optimiser",
}


def check_study(study: Study) -> None:
    """Refuse a study whose runs could not be trained or evaluated, in one sentence that names file and row."""
    for runs in study.runs.values():
        for row, run in runs.items():
            source = f"{study.path}, row '{row}'"
            _check_released(run, study.rows[row].released, source)
            _check_metrics(run.settings, study.views, source)
            _check_split(run.settings, source)
            _check_parts(run.settings, source)
            _check_batches(run.settings, source)
            _check_views(study.views, run, source)
            if run.settings["schedule"]["epochs"] > 0 and not (run.settings.get("loss") or run.released):
                raise UserError(f"{source}: trains for {run.settings['schedule']['epochs']} epochs but has no 'loss'.")


def _check_metrics(settings: Mapping[str, Any], views: Sequence[str], source: str) -> None:
    evaluation, selection = settings["evaluation"], settings["selection"]
    named = {
        "evaluation.metrics": evaluation["metrics"],
        "evaluation.table": evaluation["table"],
        "selection.metric": [selection["metric"]] if "metric" in selection else [],
        "selection.also": selection.get("also", []),
        **{f"selection.watch.{role}": names for role, names in selection.get("watch", {}).items()},
    }
    of_queries = set(QUERY_VIEWS) & set(views)
    for key, names in named.items():
        try:
            (check_query_metrics if of_queries and key.startswith("evaluation") else check_metrics)(names)
        except UserError as error:
            raise UserError(f"{source}, '{key}': {error}") from None
    for name in evaluation["table"]:
        if name not in evaluation["metrics"]:
            raise UserError(
                f"{source}: 'evaluation.table' names '{name}', which 'evaluation.metrics' does not compute."
            )


def _check_split(settings: Mapping[str, Any], source: str) -> None:
    try:
        check_scheme(settings["split"])
    except UserError as error:
        raise UserError(f"{source}, 'split': {error}") from None
    name, selection = settings["split"]["scheme"], settings["selection"]
    roles = SCHEMES[name].roles
    if roles is None:
        return
    if (role := selection.get("role")) is not None and role not in roles:
        raise UserError(
            f"{source}: 'selection.role' is '{role}', but the split scheme {name} has only {', '.join(roles)}; leave "
            "'role' out to take the last epoch."
        )
    for watched in selection.get("watch", {}):
        if watched not in roles:
            raise UserError(
                f"{source}: 'selection.watch' names '{watched}', but the split scheme {name} has only "
                f"{', '.join(roles)}."
            )


def _check_parts(settings: Mapping[str, Any], source: str) -> None:
    resize = settings["transforms"].get("resize")
    if resize and len({"shorter", "exact", "fit"} & set(resize)) != 1:
        raise UserError(f"{source}: 'transforms.resize' needs either 'shorter', 'exact' or 'fit'.")
    if "batch" not in settings["sampler"]:
        raise UserError(f"{source}: 'sampler' has no 'batch', the number of images in a batch.")
    for key, kind in PARTS.items():
        place = settings
        for word in key.split("."):
            place = (place or {}).get(word)
        if place is not None:
            parts.check(place, kind, source, key)


def _check_batches(settings: Mapping[str, Any], source: str) -> None:
    sampler, forward = settings["sampler"], settings.get("forward") or {}
    loss, miner = ((settings.get(part) or {}).get("class") for part in ("loss", "miner"))
    no_pairs = sampler["class"] == "Shuffled" or (sampler["class"] == "MPerClass" and sampler.get("per_class") == 1)
    if miner and no_pairs:
        raise UserError(
            f"{source}: the miner '{miner}' looks for images of the same class, but the sampler '{sampler['class']}' "
            "does not put them into a batch; use {class: MPerClass, per_class: 2} or more."
        )
    if loss == "WithinPairLoss" and not forward:
        raise UserError(
            f"{source}: the loss 'WithinPairLoss' needs several views: add 'forward: {{class: MultiView, …}}'."
        )
    if forward.get("class") == "InTurns" and sampler["batch"] % forward.get("parts", 1):
        raise UserError(
            f"{source}: 'forward.parts' ({forward['parts']}) must divide 'sampler.batch' ({sampler['batch']})."
        )
    if forward.get("class") != "MultiView":
        return
    if miner:
        raise UserError(f"{source}: a miner can't look at several views of an image: remove 'miner' or 'forward'.")
    if loss in parts.KINDS["loss"]["pytorch_metric_learning.losses"]:
        raise UserError(
            f"{source}: the loss '{loss}' takes one view of an image: put it inside "
            "'{class: WithinPairLoss, loss: …}', or remove 'forward'."
        )


def _check_released(run: Run, named: bool, source: str) -> None:
    """Rows of released checkpoints are known by their names, so that Snakemake can tell who makes them."""
    released = run.released
    if (released is not None) != named:
        raise UserError(
            f"{source}: the name of a row ends in '_released' if it has 'released' checkpoints, and only then; "
            "rename it, or give it 'released' on every dataset."
        )
    if released is None:
        return
    if "layout" not in released:
        raise UserError(f"{source}: 'released' has no 'layout', how its files are named; known: mlrc.")
    for part in ("loss", "miner", "forward"):
        if run.settings.get(part):
            raise UserError(f"{source}: 'released' checkpoints are not trained: remove '{part}'.")
    if run.settings["model"]["head"]["class"] != "Linear":
        raise UserError(f"{source}: 'released' checkpoints of layout mlrc need 'head: {{class: Linear, dim: …}}'.")


def _check_views(views: Sequence[str], run: Run, source: str) -> None:
    """A view that is named after an epoch must show that epoch; one of queries needs a split that has queries."""
    asked = [view for view in views if view in QUERY_VIEWS]
    if asked and (len(asked) < len(views) or run.settings["split"]["scheme"] != "seen_unseen"):
        raise UserError(
            f"{source}: the view '{asked[0]}' needs 'split: {{scheme: seen_unseen, …}}', and no other views than "
            f"{' and '.join(QUERY_VIEWS)} beside it."
        )
    if asked and run.members > 1:
        raise UserError(f"{source}: the view '{asked[0]}' calibrates one model, so 'members' can't be above 1.")
    role = run.settings["selection"].get("role")
    if not run.trained:
        return
    if BEST_ON_TEST in views and role != "test":
        raise UserError(f"{source}: the view '{BEST_ON_TEST}' needs 'selection: {{role: test, metric: …}}'.")
    if LAST_EPOCH in views and role not in (None, "test"):
        raise UserError(
            f"{source}: the view '{LAST_EPOCH}' shows no last epoch if 'selection.role' is '{role}'; use 'test', leave "
            "'role' out, or show 'concatenated'."
        )
