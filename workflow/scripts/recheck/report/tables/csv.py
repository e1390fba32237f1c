"""A table as CSV: wide and for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from recheck.report.tables.columns import FAILED, NOT_RUN
from recheck.report.tables.frame import CHANCE

if TYPE_CHECKING:
    from recheck.report.tables.table import Table

# What is said of a published value besides, where there is anything to say: the end of a column, and the frame's.
QUOTE_DETAILS = {"approximate": "approximate", "note": "notes"}


def render(table: Table) -> str:
    """Full precision, in percent, empty where there is nothing."""
    lines = []
    doubts = {name: any(any(own) for own in table.frame[name]) for name in QUOTE_DETAILS.values()}
    for method, part in table.frame.groupby("method", sort=False):
        line: dict[str, object] = {"method": method, "label": part["label"].iloc[0]}
        for column in reversed(table.last):
            line |= column.csv(part)
        if table.failures:
            line["failed"] = "; ".join(f"{own.where}: {own.reason}" for own in table.failures if own.method == method)
        for row in part.itertuples():
            prefix = f"{row.view}_{row.metric}"
            if table.measured:
                line[f"{prefix}_status"] = _status(row)
                line[f"{prefix}_dim"] = row.dim
                line[f"{prefix}_mean"], line[f"{prefix}_interval"] = row.mean, row.interval
            for number, value in enumerate(row.quotes, start=1):
                end = f"_{number}" if number > 1 else ""
                line[f"{prefix}_published{end}"] = value
                for name, column in QUOTE_DETAILS.items():
                    if doubts[column]:
                        own = getattr(row, column)[number - 1]
                        line[f"{prefix}_{name}{end}"] = None if np.isnan(value) or not own else own
            if row.quotes and table.measured:
                line[f"{prefix}_difference"] = row.difference
        lines.append(line)
    wide = pd.DataFrame(lines)
    dims = [column for column in wide if column.endswith("_dim")]
    return wide.astype(dict.fromkeys(dims, "Int64")).to_csv(index=False, lineterminator="\n")


def _status(row: Any) -> str:
    """What is said of our own value."""
    if row.method == CHANCE:
        return "computed"
    return "measured" if not np.isnan(row.mean) else FAILED if row.failed else NOT_RUN
