"""Title and description of a study, from its facts: for studies that give none, and for parts of a study."""

from collections.abc import Sequence
from dataclasses import replace

from recheck.study import facts
from recheck.study.model import Study

# A title lists up to this many rows; for more it gives their number.
LISTED_ROWS = 4


def described(study: Study) -> Study:
    """The study with a title and a description; both are generated where the study has none."""
    return replace(study, title=study.title or _title(study), description=study.description or _description(study))


def _title(study: Study) -> str:
    return f"Study {study.name} – {_rows(study)} on {_joined(study.datasets)}"


def _rows(study: Study) -> str:
    labels = [facts.label(study, row) for row in study.rows]
    return f"{len(labels)} rows" if len(labels) > LISTED_ROWS else _joined(labels)


def _description(study: Study) -> str:
    """What the study compares, under which rules and at which scale."""
    runs = [run for by_row in study.runs.values() for run in by_row.values()]
    seeds = max(len(row.seeds) for row in study.rows.values())
    sentences = [
        f"{_counted(len(study.rows), 'row')} on {_joined(study.datasets)}, {_counted(seeds, 'seed')}.",
        f"Backbone: {facts.backbone(runs)}.",
    ]
    for dataset in study.datasets:
        split = study.split(dataset)
        options = [f"{key.replace('_', ' ')} {value}" for key, value in split.items() if key != "scheme"]
        about = ["split " + ", ".join([split["scheme"], *options]), *filter(None, [facts.scale(study, dataset)])]
        sentences.append(f"{dataset}: {'; '.join(about)}.")
    return " ".join([*sentences, _selection(study)])


def _selection(study: Study) -> str:
    """How checkpoints are selected, if all datasets agree."""
    selections = [study.protocols[dataset]["selection"] for dataset in study.datasets]
    roles = {(selection.get("role"), selection.get("metric")) for selection in selections}
    if len(roles) > 1:
        return "Checkpoints are selected as the protocol of each dataset says."
    role, metric = roles.pop()
    if role is None:
        return "The checkpoint of the last epoch is used."
    where = {"val": "validation images", "test": "test images"}[role]
    return f"Checkpoints are selected by {metric} on {where}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _joined(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
