"""Plain facts about a study for the report, so that tables and figures never read a study themselves."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recheck.files import canonical
from recheck.names import BACKBONE, FOLD_VIEWS, LAYOUTS, RECALL, VALIDATION, watched_metrics
from recheck.study import sweep as sweeps
from recheck.study.model import PUBLISHED, Run, Study
from recheck.study.needs import needs
from recheck.study.published import Document, quoted, searched
from recheck.study.verdict_rule import verdict_rule

# A caption lists up to this many training budgets; for more it gives their range.
LISTED_BUDGETS = 3
CONCATENATED = FOLD_VIEWS[0]


def facts(
    study: Study, dataset: str, documents: list[Document], measured: Collection[str], title: str | None = None
) -> dict[str, Any]:
    """Everything that the tables and figures of a dataset show, except numbers.

    ``measured`` are rows with results, ``title`` is the dataset's name for readers.
    """
    protocol, runs = study.protocols[dataset], study.runs[dataset]
    evaluation = protocol["evaluation"]
    costed = evaluation.get("show_cost", False)
    return canonical(
        {
            **_about(study),
            "dataset": dataset,
            "dataset_title": title or dataset,
            "views": list(study.views),
            "metrics": evaluation["table"],
            "recalls": sum(bool(RECALL.fullmatch(metric)) for metric in evaluation["metrics"]),
            "lead_metric": lead_metric(study, dataset),
            "rows": [
                {
                    "name": row.name,
                    "label": label(study, row.name),
                    "seeds": len(row.seeds),
                    "released": row.released and study.scope != PUBLISHED,
                    "trained": runs[row.name].trained,
                    "compare_to": row.compare_to,
                    "family": row.family,
                    "paper": row.paper,
                    "reduction": runs[row.name].evaluation["reduction"],
                    "normalise": runs[row.name].settings["evaluation"].get("normalise", True),
                    "calibration": runs[row.name].settings["evaluation"].get("calibration", "fixed"),
                    **curved(runs[row.name]),
                    **search(runs[row.name]),
                    **({"needs": needs(runs[row.name], protocol)} if costed else {}),
                }
                for row in study.rows.values()
            ],
            "reference": reference(study, dataset),
            "baseline": study.baseline,
            "backbone": backbone([runs[row] for row in study.rows]),
            "scale": scale(study, dataset),
            "show_cost": costed,
            "show_size": evaluation.get("show_size", False),
            "normalise": evaluation.get("normalise", True),
            "selection_column": selection_column(protocol["selection"]),
            "generalisation_columns": generalisation_columns(protocol["selection"]),
            "distances": evaluation.get("distances", "test"),
            "sweep": _sweep(study),
            "published": quoted(study, dataset, documents),
            "verdicts": verdict_rule(study.verdicts, evaluation["table"]),
            "validation": validation(study, dataset, documents),
            "quoted_searches": searched(study, dataset, documents),
            "measured": [row for row in study.rows if row in measured],
        }
    )


def page_facts(
    study: Study, documents: Sequence[Document] = (), titles: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Everything that a study's page shows, except tables, figures and runs; ``titles`` has the datasets' titles."""
    rows = [
        {
            "name": row.name,
            "label": label(study, row.name),
            "family": row.family,
            "paper": row.paper,
            **_model(next(runs[row.name] for runs in study.runs.values()), study.views),
        }
        for row in study.rows.values()
    ]
    sources = {
        document["source"]: document.get("paper")
        for dataset in study.datasets
        for document in quoted(study, dataset, documents)
        if document["values"]
    }
    quoted_papers = [{"source": source, "paper": paper} for source, paper in sources.items()]
    shown = {
        "datasets": list(study.datasets),
        "titles": titles or {name: name for name in study.datasets},
        "rows": rows,
        "quoted": quoted_papers,
    }
    return canonical({**_about(study), **shown})


def _about(study: Study) -> dict[str, Any]:
    about = {"study": study.name, "title": study.title, "description": study.description}
    return {**about, "command": study.command, "scope": study.scope}


def label(study: Study, row: str) -> str:
    """A row's name for readers; released checkpoints are marked, except among published values."""
    if not study.rows[row].released or study.scope == PUBLISHED:
        return study.rows[row].label
    released = next(runs[row].released for runs in study.runs.values())
    return f"{study.rows[row].label} ({LAYOUTS[released['layout']]})"


def search(run: Run) -> dict[str, Any]:
    """The free settings of a tuned run and the number of its trials; empty for other runs."""
    return {"search": {**run.search.settings, "trials": run.search.total}} if run.search else {}


def curved(run: Run) -> dict[str, Any]:
    """The curvature of a run whose embeddings are compared by hyperbolic distance; empty for other runs."""
    curvature = run.settings["evaluation"].get("curvature")
    return {"curvature": curvature, "normalise": False} if curvature else {}


def validation(study: Study, dataset: str, documents: Sequence[Document]) -> str | None:
    """The metric on validation classes that the table compares with published values; None without such values.

    A study with searches shows it in other columns, next to the selected trials.
    """
    selection, runs = study.protocols[dataset]["selection"], study.runs[dataset]
    if selection.get("role") != "val" or (study.scope != PUBLISHED and any(run.search for run in runs.values())):
        return None
    values = [views for document in quoted(study, dataset, documents) for views in document["values"].values()]
    return selection["metric"] if any(selection["metric"] in views.get(VALIDATION, {}) for views in values) else None


def reference(study: Study, dataset: str) -> str | None:
    """The untrained row to compare all others with: the first row with 0 epochs."""
    runs = study.runs[dataset]
    return next((row for row in study.rows if not (runs[row].trained or runs[row].released)), None)


def lead_metric(study: Study, dataset: str) -> str:
    """The metric for the headline: the one that selects checkpoints, else MAP@R, else the table's first."""
    protocol = study.protocols[dataset]
    columns, chosen = protocol["evaluation"]["table"], protocol["selection"].get("metric")
    return next((metric for metric in (chosen, "MAP@R") if metric in columns), columns[0])


def selection_column(selection: dict[str, Any]) -> str | None:
    """The history column of the metric that selects checkpoints, else of a watched metric (on test images if any)."""
    watched = watched_metrics(selection)
    role = selection.get("role") or ("test" if "test" in watched else next(iter(watched), None))
    return f"{role}_{watched[role][0]}" if role else None


def generalisation_columns(selection: dict[str, Any]) -> list[str] | None:
    """The two history columns of one metric on training images and on other images; None unless both are watched."""
    watched = watched_metrics(selection)
    other = next((role for role in ("test", *watched) if role in watched and role != "train"), None)
    shared = [metric for metric in watched.get("train", []) if metric in watched.get(other, [])]
    return [f"train_{shared[0]}", f"{other}_{shared[0]}"] if shared else None


def backbone(runs: Iterable[Run]) -> str:
    """The backbones of the runs (usually one) with their initial weights."""
    names = (run.settings["model"]["backbone"]["name"] + _start(run) for run in runs)
    return ", ".join(dict.fromkeys(names))


def _model(run: Run, views: Iterable[str]) -> dict[str, Any]:
    """The backbone of a row, and the size of its embeddings in each view, as far as its settings determine them."""
    size = run.settings["model"].get("head", {}).get("dim")
    reduced = (run.evaluation["reduction"] or {}).get("dims") or {}
    dims = {view: size * run.members if size and view == CONCATENATED else size for view in views if view != BACKBONE}
    dims |= {view: dim for view, dim in reduced.items() if view in dims}
    return {"backbone": backbone([run]), "dims": {view: dim for view, dim in dims.items() if dim}}


def _start(run: Run) -> str:
    """A run's initial weights in brackets; a file without its folder, which differs between machines."""
    if run.released:
        return " (released weights)"
    if run.weights == "none":
        # a user-defined function may load weights itself
        return "" if ":" in run.settings["model"]["backbone"]["name"] else " (random weights)"
    return f" (weights {Path(run.weights).name})" if Path(run.weights).suffix else f" ({run.weights} weights)"


def scale(study: Study, dataset: str) -> str:
    """The classes used and the training budget, for the caption."""
    subset = study.classes[dataset] or {}
    sentences = [f"one of every {subset['every']} classes"] if subset.get("every", 1) > 1 else []
    sentences += [f"the first {subset['first']} classes"] if "first" in subset else []
    trained = [study.runs[dataset][row] for row in study.rows if study.runs[dataset][row].trained]
    budgets = list(dict.fromkeys(map(_budget, trained)))
    if len(budgets) > LISTED_BUDGETS:
        budgets = [_range_of_budgets(trained)]
    return "; ".join([*sentences, *([f"trained for {' or '.join(budgets)}"] if budgets else [])])


def _budget(run: Run) -> str:
    schedule, batch = run.settings["schedule"], run.settings["sampler"]["batch"]
    steps = schedule.get("steps_per_epoch")
    most = "up to " if schedule.get("patience") is not None else ""
    epochs = f"{most}{schedule['epochs']} epoch{'s' if schedule['epochs'] > 1 else ''}"
    return epochs + (f" of {steps} steps" if steps else "") + f", {batch} images per step"


def _range_of_budgets(runs: Iterable[Run]) -> str:
    """The range of budgets, for studies with too many to list."""
    epochs = [run.settings["schedule"]["epochs"] for run in runs]
    batches = [run.settings["sampler"]["batch"] for run in runs]
    return (
        f"{min(epochs)} to {max(epochs)} epochs, {min(batches)} to {max(batches)} images per step, depending on the row"
    )


def _sweep(study: Study) -> dict[str, Any] | None:
    if not study.sweep:
        return None
    lines = [{"label": name, "points": [list(point) for point in points]} for name, points in study.swept().items()]
    names = [[place, value] for value, place in sweeps.places(study.sweep["values"]).items()]
    return {"label": study.sweep["label"], "lines": lines, "names": names}
