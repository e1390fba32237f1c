"""A table as wide CSV, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from recheck.report.tables.columns import FAILED, NOT_RUN
from recheck.report.tables.frame import CHANCE

if TYPE_CHECKING:
    from recheck.report.tables.table import Table

# More columns about published values, written only if not empty: suffix of the CSV column → column of the frame.
QUOTE_DETAILS = {"approximate": "approximate", "note": "notes"}


def render(table: Table) -> str:
    """The table as CSV: one line per method, percentages in full precision, empty cells for missing values."""
    lines = []
    used = {name: any(any(details) for details in table.frame[name]) for name in QUOTE_DETAILS.values()}
    for method, rows in table.frame.groupby("method", sort=False):
        line: dict[str, object] = {"method": method, "label": rows["label"].iloc[0]}
        for column in reversed(table.last):
            line |= column.csv(rows)
        if table.failures:
            failures = [failure for failure in table.failures if failure.method == method]
            line["failed"] = "; ".join(f"{failure.where}: {failure.reason}" for failure in failures)
        if table.warnings:
            warnings = [warning for warning in table.warnings if warning.method == method]
            line["warnings"] = "; ".join(
                f"{warning.sentence} ({warning.where})" if warning.where else warning.sentence for warning in warnings
            )
        for row in rows.itertuples():
            prefix = f"{row.view}_{row.metric}"
            if table.measured:
                line[f"{prefix}_status"] = _status(row)
                line[f"{prefix}_dim"] = row.dim
                line[f"{prefix}_mean"], line[f"{prefix}_interval"] = row.mean, row.interval
            for number, value in enumerate(row.quotes, start=1):
                end = f"_{number}" if number > 1 else ""
                line[f"{prefix}_published{end}"] = value
                for name, column in QUOTE_DETAILS.items():
                    if used[column]:
                        detail = getattr(row, column)[number - 1]
                        line[f"{prefix}_{name}{end}"] = None if np.isnan(value) or not detail else detail
            if row.quotes and table.measured:
                line[f"{prefix}_difference"] = row.difference
                line[f"{prefix}_verdict"], line[f"{prefix}_seeds_needed"] = row.verdict, row.seeds_needed
        lines.append(line)
    wide = pd.DataFrame(lines)
    dims = [column for column in wide if column.endswith("_dim")]
    return wide.astype(dict.fromkeys(dims, "Int64")).to_csv(index=False, lineterminator="\n")


def _status(row: Any) -> str:
    """Whether our value was computed, measured, not run or failed, or will not exist."""
    if row.planned == 0:
        return "computed" if row.method == CHANCE else "none"
    return "measured" if not np.isnan(row.mean) else FAILED if row.failed else NOT_RUN
