"""The tables of published searches and ours: the selected values, and how many trials the searches needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recheck.quoted_searches import CLOSE, SAME, QuotedSearch, median_needed, needed
from recheck.report.numbers import MINUS, number
from recheck.report.quoted import of_dataset, study_batch
from recheck.report.tables.columns import MISSING
from recheck.report.tables.plain import PlainTable
from recheck.space import Parameter, is_number

if TYPE_CHECKING:
    import pandas as pd

    from recheck.report.inputs import Inputs

# Places of the columns that describe a whole search, not one of its settings.
WHOLE_SEARCH = (0, 1, 2, 7, 8, 11)


def selected_values(study: str, datasets: Sequence[Inputs]) -> PlainTable:
    """One line per free setting of every published search, with our search in the same space beside it."""
    ours = any(inputs.chosen for inputs in datasets)
    rows, records, searches = [], [], []
    for inputs in datasets:
        for row, quoted in of_dataset(inputs).items():
            for search in quoted:
                searches.append(search)
                chosen = inputs.chosen.get(row) if search.batch == study_batch(inputs.facts) else None
                records += [_record(inputs, row, search, parameter, chosen) for parameter in search.space]
                lines = [_texts(inputs, row, search, parameter, chosen, ours) for parameter in search.space]
                rows += [lines[0], *(_continued(line) for line in lines[1:])]
    head = ["Dataset", "Method", "Batch", "Setting", "Space", "On a bound", "Selected", "Trial", "Validation MAP@R"]
    head += ["Our value on a bound", "Our selected value", "Our validation MAP@R"] if ours else []
    return PlainTable(f"{study}-searches", "Selected values", _about(searches, ours), head, rows, records, words=6)


def _about(searches: Sequence[QuotedSearch], ours: bool) -> str:
    bounds = [bound for search in searches for bound in search.on_bound.values()]
    widened = sum("widened" in bound for bound in bounds)
    sentences = [
        f"The selected values of {len(searches)} published searches with {sum(len(s.trials) for s in searches):,} "
        "trials. Validation MAP@R is the mean over four folds, in percent, of the best trial.",
        f"{len(bounds)} selected values lie on a bound of their space, {widened} of them on a bound that was widened "
        "later in the same search: a wider space may have better values.",
    ]
    if ours:
        sentences.append("“Our”: the search of this study, in the space defined in its file.")
    return " ".join(sentences)


def _texts(
    inputs: Inputs,
    row: str,
    search: QuotedSearch,
    parameter: Parameter,
    chosen: Mapping[str, Any] | None,
    ours: bool,
) -> list[str]:
    """The cells of a setting."""
    name = parameter.name
    scale = " (log)" if parameter.log else ""
    texts = [
        _short(inputs.facts["dataset_title"]),
        inputs.labels[row],
        str(search.batch),
        name,
        f"{_value(parameter.low)} to {_value(parameter.high)}{scale}",
        search.on_bound.get(name, MISSING),
        _value(_clean(parameter, search.selected.values[name])),
        str(search.selected.trial + 1),
        number(100 * search.best),
    ]
    if not ours:
        return texts
    values = (chosen or {}).get("values", {})
    on_bound = name in (chosen or {}).get("on_bound", ())
    return [
        *texts,
        MISSING if name not in values else "yes" if on_bound else "no",
        _value(values[name]) if name in values else MISSING,
        number(100 * chosen["objective"]) if chosen else MISSING,
    ]


def _continued(line: Sequence[str]) -> list[str]:
    """The line of another setting of the same search, without the cells that describe the whole search."""
    return ["" if place in WHOLE_SEARCH else text for place, text in enumerate(line)]


def _short(title: str) -> str:
    """A dataset's title without what is in brackets."""
    return title.partition(" (")[0]


def _record(
    inputs: Inputs, row: str, search: QuotedSearch, parameter: Parameter, chosen: Mapping[str, Any] | None
) -> dict[str, Any]:
    name, chosen = parameter.name, chosen or {}
    return {
        "dataset": search.dataset,
        "method": row,
        "label": inputs.labels[row],
        "batch": search.batch,
        "setting": name,
        "low": parameter.low,
        "high": parameter.high,
        "log": parameter.log,
        "selected": search.selected.values[name],
        "on_bound": search.on_bound.get(name, ""),
        "trial": search.selected.trial + 1,
        "trials": len(search.trials),
        "validation_MAP@R": 100 * search.best,
        "needed": search.needed,
        "ours_selected": chosen.get("values", {}).get(name, ""),
        "ours_on_bound": name in chosen["on_bound"] if chosen else "",
        "ours_validation_MAP@R": 100 * chosen["objective"] if chosen else "",
    }


def _clean(parameter: Parameter, value: float) -> float:
    """The value, or the bound if it differs from it only by rounding."""
    ends = [end for end in parameter.ends if abs(parameter.place(value) - parameter.place(end)) <= SAME]
    return ends[0] if ends else value


def _value(value: Any) -> str:
    """A value with four digits; whole powers of ten as 1e−6."""
    return f"{value:.4g}".replace("e-0", "e-").replace("-", MINUS) if is_number(value) else str(value)


def trials_needed(study: str, datasets: Sequence[Inputs]) -> PlainTable:
    """One line per method: after how many trials its searches were close to their own best, fewest first."""
    published = {(i.facts["dataset"], row): quoted for i in datasets for row, quoted in of_dataset(i).items()}
    titles = {inputs.facts["dataset"]: _short(inputs.facts["dataset_title"]) for inputs in datasets}
    names = {row: quoted[0].row for (_, row), quoted in published.items()}
    labels = {row: label for inputs in datasets for row, label in inputs.labels.items()}
    every = datasets[0].quoted_searches if datasets else ()
    medians = median_needed(every)
    columns = sorted(
        {(search.dataset, search.batch) for quoted in published.values() for search in quoted},
        key=lambda column: (column[1], list(titles).index(column[0])),
    )
    ours = {(i.facts["dataset"], row): _needed(table) for i in datasets for row, table in i.trials.items()}
    own_columns = [dataset for dataset in titles if any(place[0] == dataset for place in ours)]
    rows, records = [], []
    for row in sorted(names, key=lambda row: list(medians).index(names[row])):
        of_row = [search for search in every if search.row == names[row]]
        counts = {(s.dataset, s.batch): s.needed for s in of_row}
        sizes = sorted({len(search.space) for search in of_row})
        our_counts = {dataset: ours.get((dataset, row)) for dataset in own_columns}
        free = f"{sizes[0]}–{sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
        cells = [*(counts.get(column) for column in columns), *our_counts.values()]
        rows.append([labels[row], free, *map(_count, cells), f"{medians[names[row]]:g}", str(len(of_row))])
        records.append(
            {
                "method": row,
                "label": labels[row],
                "settings": free,
                **{f"{dataset}_{batch}": counts.get((dataset, batch), "") for dataset, batch in columns},
                **{f"{dataset}_ours": "" if count is None else count for dataset, count in our_counts.items()},
                "median": medians[names[row]],
                "searches": len(of_row),
            }
        )
    head = ["Method", "Free settings", *(f"{titles[dataset]}, batch {batch}" for dataset, batch in columns)]
    head += [f"{titles[dataset]}, ours" for dataset in own_columns] + ["Median", "Searches"]
    return PlainTable(f"{study}-effort", "Trials needed", _about_effort(every, own_columns), head, rows, records)


def _needed(table: pd.DataFrame) -> int | None:
    """The number of trials that our search needed; None if no trial succeeded."""
    best = table.sort_values("trial")["objective"].cummax()
    return needed(list(best.fillna(-1))) if best.notna().any() else None


def _count(count: int | None) -> str:
    return MISSING if count is None else str(count)


def _about_effort(every: Sequence[QuotedSearch], own_columns: Sequence[str]) -> str:
    close = f"{100 * CLOSE:g}"
    early = sum(search.needed <= 5 for search in every)
    sentences = [
        f"Number of trials until the validation MAP@R of a search was within {close} points of its own best, easiest "
        "method first. Each number is a single published search; the median is over all published searches of the "
        "method, on all datasets.",
        f"{early} of {len(every)} searches were already that close after the first five trials, which do not depend on "
        "results.",
    ]
    if own_columns:
        sentences.append("Ours: the searches of this study.")
    return " ".join(sentences)
