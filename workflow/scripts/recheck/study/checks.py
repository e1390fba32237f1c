"""Checks of settings that depend on each other, made when a study is read."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recheck import parts
from recheck.blame import check_class
from recheck.errors import UserError
from recheck.names import (
    BEST_ON_TEST,
    CLUSTERING,
    LAST_EPOCH,
    LAYOUTS,
    MODULE_ATTRIBUTE,
    QUERY_VIEWS,
    SCHEMES,
    WEIGHTS_SUFFIXES,
    check_backbone,
    check_metrics,
    check_query_metrics,
    check_scheme,
)
from recheck.study.definition import changed
from recheck.study.model import Row, Run, Study
from recheck.study.search_checks import check_search
from recheck.study.verdict_rule import check_verdict_rule

# Modules with losses of pytorch-metric-learning.
OF_LIBRARY = ("pytorch_metric_learning.", "recheck.methods.losses.library.")
# Key of each part in the run settings → kind of part.
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

# Arguments of samplers that count images, classes or batches.
COUNTS = ("batch", "per_class", "length", "batches", "classes", "supports", "queries")
# timm transformers that take only one image size, which is part of their name.
FIXED_INPUT = re.compile(r"timm/(?:vit|deit|beit|cait|swin|eva|xcit|volo|mixer|resmlp)\w*?_(?P<side>\d{3})(?:$|[._])")


def check_study(study: Study) -> None:
    """Raise a UserError, with file and row, if a run of the study could not be trained or evaluated."""
    for runs in study.runs.values():
        for row, run in runs.items():
            source = f"{study.path}, row '{row}'"
            _check_run(run, study, row, source)
            check_search(run, source, lambda tried, row=row, source=source: _check_run(tried, study, row, source))
    shown = dict.fromkeys(metric for protocol in study.protocols.values() for metric in protocol["evaluation"]["table"])
    check_verdict_rule(study.verdicts, list(shown), study.path)
    if any(study.protocols[dataset].get("tuning") for dataset in study.datasets):
        _check_tuned(study)


def _check_tuned(study: Study) -> None:
    if not study.searches:
        raise UserError(f"{study.path}: 'tuning' needs a row with a 'space'. Add one, or remove 'tuning'.")


def _check_run(run: Run, study: Study, row: str, source: str) -> None:
    _check_released(run, study.rows[row].released, source)
    _check_method(run, study.rows[row], source)
    _check_metrics(run.settings, study.views, source)
    _check_split(run.settings, source)
    _check_parts(run.settings, source)
    _check_sizes(run.settings, source)
    _check_batches(run.settings, source)
    _check_views(study.views, run, source)
    if run.settings["schedule"]["epochs"] > 0 and not (run.settings.get("loss") or run.released):
        raise UserError(
            f"{source}: 'loss' is missing, but 'schedule.epochs' is {run.settings['schedule']['epochs']}. Add "
            "a loss, or set 'epochs: 0' for a row that is not trained."
        )


def _check_method(run: Run, row: Row, source: str) -> None:
    """A row with the label of a method must be that method."""
    if row.defined and (difference := changed(row.defined, run.settings)):
        key, expected, actual = difference
        raise UserError(
            f"{source}: '{key}' is {actual}, but it is {expected} in method '{row.method}'. A row that changes what "
            "defines its method must have its own 'label'."
        )


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
        for name in names:
            if MODULE_ATTRIBUTE.fullmatch(name):
                check_class(name, source, key)
    for name in evaluation["table"]:
        if name not in evaluation["metrics"]:
            raise UserError(
                f"{source}: 'evaluation.table' names '{name}', which is not in 'evaluation.metrics'. Add it there."
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
            f"{source}: 'selection.role' is '{role}', but the split scheme {name} only has the roles "
            f"{', '.join(roles)}. Leave 'role' out to use the last epoch."
        )
    for watched in selection.get("watch", {}):
        if watched not in roles:
            raise UserError(
                f"{source}: 'selection.watch' names '{watched}', but the split scheme {name} only has the roles "
                f"{', '.join(roles)}. Name one of these."
            )


def _check_parts(settings: Mapping[str, Any], source: str) -> None:
    resize = settings["transforms"].get("resize")
    sizes = [repr(key) for key in ("shorter", "exact", "fit") if key in (resize or {})]
    if resize and len(sizes) != 1:
        raise UserError(
            f"{source}: 'transforms.resize' must have exactly one of 'shorter', 'exact' and 'fit', found "
            f"{' and '.join(sizes) or 'none of them'}."
        )
    if "batch" not in settings["sampler"]:
        raise UserError(f"{source}: 'sampler.batch' is missing. Set it to the number of images per batch.")
    for key, value in settings["sampler"].items():
        whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
        if key in COUNTS and not whole and (key == "batch" or ":" not in str(settings["sampler"].get("class"))):
            raise UserError(f"{source}: 'sampler.{key}' must be a whole number of at least 1, found {value!r}.")
    for key, kind in PARTS.items():
        value = settings
        for word in key.split("."):
            value = (value or {}).get(word)
        if value is not None:
            parts.check(value, kind, source, key)
    for phase in ("train", "eval"):
        for step in settings["transforms"][phase]:
            if "custom" in step:
                parts.check(step["custom"], "transform", source, f"transforms.{phase}.custom")
    dim = settings["model"]["head"].get("dim", 1)
    if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
        raise UserError(f"{source}: 'model.head.dim' must be a whole number of at least 1, found {dim!r}.")
    _check_backbone(settings["model"]["backbone"], source)


def _check_backbone(backbone: Mapping[str, Any], source: str) -> None:
    name, weights = backbone["name"], Path(backbone.get("weights", "none"))
    if ":" in name:
        parts.check({"class": name}, None, source, "model.backbone.name")
    try:
        check_backbone(name)
    except UserError as error:
        raise UserError(f"{source}, 'model.backbone.name': {error}") from None
    # files with a hash are described in config/weights and fetched by a job
    if weights.suffix in WEIGHTS_SUFFIXES and "sha256" not in backbone and not weights.is_file():
        raise UserError(
            f"{source}: 'model.backbone.weights' is '{weights}', but there is no such file. Put it there, or choose "
            "'imagenet', 'none' or another file."
        )


def _check_sizes(settings: Mapping[str, Any], source: str) -> None:
    """Refuse crops that are larger than the images, and input sizes that a vision transformer does not take."""
    for phase in ("train", "eval"):
        side = input_side(settings["transforms"], phase, source)
        backbone = settings["model"]["backbone"]
        fixed = FIXED_INPUT.match(backbone["name"])
        chosen = any(str(option).endswith("img_size") for option in backbone.get("options") or {})
        if fixed and side and int(fixed["side"]) != side and not chosen:
            raise UserError(
                f"{source}: backbone '{backbone['name']}' takes images of {fixed['side']} pixels, but "
                f"'transforms.{phase}' makes {side} pixels. Add 'options: {{img_size: {side}}}' to 'model.backbone', "
                f"or crop to {fixed['side']} pixels."
            )


def input_side(transforms: Mapping[str, Any], phase: str, source: str) -> int | None:
    """Shorter side of the network's input; None if it depends on the image."""
    resize = transforms.get("resize") or {}
    side = resize.get("shorter") or min(resize.get("exact") or resize.get("fit") or [0]) or None
    for step in transforms[phase]:
        name, options = next(iter(step.items()))
        if name in ("center_crop", "random_crop") and side and options["size"] > side:
            raise UserError(
                f"{source}: '{name}' of 'transforms.{phase}' crops {options['size']} pixels from images with a shorter "
                f"side of {side} pixels. Crop at most {side} pixels, or enlarge 'transforms.resize'."
            )
        if name == "resize":
            side = options.get("shorter") or min(options["exact"])
        elif "crop" in name:
            side = options["size"]
        elif name == "custom":
            side = None
    return side


def _check_batches(settings: Mapping[str, Any], source: str) -> None:
    sampler, forward = settings["sampler"], settings.get("forward") or {}
    loss, miner = ((settings.get(key) or {}).get("class") for key in ("loss", "miner"))
    no_pairs = sampler["class"] == "Shuffled" or (sampler["class"] == "MPerClass" and sampler.get("per_class") == 1)
    if miner and no_pairs:
        raise UserError(
            f"{source}: the miner '{miner}' needs several images per class in a batch, but the sampler "
            f"'{sampler['class']}' does not provide them. Use 'sampler: {{class: MPerClass, per_class: 2}}', or a "
            "larger 'per_class'."
        )
    if loss == "WithinPairLoss" and not forward:
        raise UserError(
            f"{source}: the loss 'WithinPairLoss' needs several views of each image. Add 'forward: {{class: "
            "MultiView, …}'."
        )
    if forward.get("class") in ("InTurns", "Recomputed") and sampler["batch"] % forward.get("parts", 1):
        raise UserError(
            f"{source}: 'forward.parts' ({forward['parts']}) must divide 'sampler.batch' ({sampler['batch']})."
        )
    if forward.get("class") != "MultiView":
        return
    if miner:
        raise UserError(f"{source}: 'miner' does not work with several views of an image. Remove 'miner' or 'forward'.")
    if any(loss in names for module, names in parts.KINDS["loss"].items() if module.startswith(OF_LIBRARY)):
        raise UserError(
            f"{source}: the loss '{loss}' takes one view of each image. Wrap it in "
            "'{class: WithinPairLoss, loss: …}', or remove 'forward'."
        )


def _check_released(run: Run, named: bool, source: str) -> None:
    """Rows of released checkpoints end in `_released`, because Snakemake chooses the rule by the row's name."""
    released = run.released
    if (released is not None) != named:
        raise UserError(
            f"{source}: a row's name must end in '_released' if and only if the row has 'released' checkpoints. Rename "
            "the row, or set 'released' on every dataset."
        )
    if released is None:
        return
    if "layout" not in released:
        raise UserError(f"{source}: 'released.layout' is missing. Known: {', '.join(LAYOUTS)}.")
    for key in ("loss", "miner", "forward"):
        if run.settings.get(key):
            raise UserError(
                f"{source}: '{key}' has no effect on 'released' checkpoints, which are not trained. Remove it."
            )
    model = run.settings["model"]
    if released["layout"] == "mlrc" and model["head"]["class"] != "Linear":
        raise UserError(
            f"{source}: 'model.head' must be '{{class: Linear, dim: …}}' for 'released' checkpoints of layout mlrc, "
            f"found the class '{model['head']['class']}'."
        )
    if released["layout"] != "contextual":
        return
    pooling = (model.get("pooling") or {"class": "Average"})["class"]
    if (
        model["backbone"]["name"] != "resnet50"
        or model["head"]["class"] not in ("Linear", "LayerNormLinear")
        or pooling not in ("Average", "Max")
    ):
        raise UserError(
            f"{source}: 'released' checkpoints of layout contextual need the backbone resnet50, the head Linear or "
            "LayerNormLinear, and the pooling Average or Max, found "
            f"{model['backbone']['name']}, {model['head']['class']} and {pooling}."
        )
    if run.members > 1:
        raise UserError(
            f"{source}: 'released' checkpoints of layout contextual are single models, but the split has "
            f"{run.members} folds. Set 'members: 1' or choose a split without folds."
        )


def _check_views(views: Sequence[str], run: Run, source: str) -> None:
    """A view named after an epoch must show that epoch; a query view needs a split with queries."""
    query_views = [view for view in views if view in QUERY_VIEWS]
    others, scheme = [view for view in views if view not in QUERY_VIEWS], run.settings["split"]["scheme"]
    if query_views and others:
        raise UserError(
            f"{source}: the view '{query_views[0]}' cannot be combined with '{others[0]}'. Use only "
            f"{' and '.join(QUERY_VIEWS)}, or neither of them."
        )
    if query_views and scheme != "seen_unseen":
        raise UserError(
            f"{source}: the view '{query_views[0]}' needs 'split: {{scheme: seen_unseen, …}}', found '{scheme}'."
        )
    if query_views and run.members > 1:
        raise UserError(
            f"{source}: the view '{query_views[0]}' calibrates one model, so 'members' must be 1, found {run.members}."
        )
    _check_curvature(views, run, source)
    role = run.settings["selection"].get("role")
    if not run.trained:
        return
    if BEST_ON_TEST in views and role != "test":
        raise UserError(
            f"{source}: the view '{BEST_ON_TEST}' needs 'selection: {{role: test, metric: …}}', found "
            f"{f'the role {role!r}' if role else 'no role'}."
        )
    if LAST_EPOCH in views and role not in (None, "test"):
        raise UserError(
            f"{source}: the view '{LAST_EPOCH}' needs the last epoch, but 'selection.role' is '{role}'. Set it to "
            "'test', leave it out, or use the view 'concatenated'."
        )


def _check_curvature(views: Sequence[str], run: Run, source: str) -> None:
    """Refuse a head or loss with another curvature, and settings that do not work with hyperbolic distance."""
    curvature = run.settings["evaluation"].get("curvature")
    if not curvature:
        return
    others = {
        "model.head": run.settings["model"]["head"],
        "loss.distance": (run.settings.get("loss") or {}).get("distance"),
    }
    for place, part in others.items():
        other = part.get("curvature", curvature) if isinstance(part, dict) else curvature
        if other != curvature:
            raise UserError(
                f"{source}: 'evaluation.curvature' is {curvature:g}, but '{place}.curvature' is {other}. Set both to "
                "the same number."
            )
    clustered = [name for name in run.settings["evaluation"]["metrics"] if name in CLUSTERING]
    obstacles = {
        f"the view '{views[0]}'": views[0] in QUERY_VIEWS,
        f"{run.members} members": run.members > 1,
        "'reduction'": bool(run.settings.get("reduction")),
        f"the metric '{', '.join(clustered)}', which clusters by Euclidean distance": bool(clustered),
    }
    for obstacle, present in obstacles.items():
        if present:
            raise UserError(
                f"{source}: 'evaluation.curvature' cannot be combined with {obstacle}. Use one or the other."
            )
