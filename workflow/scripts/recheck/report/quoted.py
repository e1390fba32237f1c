"""The published searches that a figure or table of one dataset shows, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recheck.quoted_searches import QuotedSearch
    from recheck.report.inputs import Inputs

Facts = Mapping[str, Any]


def of_dataset(inputs: Inputs) -> dict[str, list[QuotedSearch]]:
    """Row → its published searches on the dataset of these inputs, those with the study's batch size first."""
    by_key = {(search.dataset, search.row, search.batch): search for search in inputs.quoted_searches}
    by_row: dict[str, list[QuotedSearch]] = {}
    for about in sorted(inputs.facts["quoted_searches"], key=lambda about: not about["same_batch"]):
        published_row = inputs.rows[about["row"]]["compare_to"]
        by_row.setdefault(about["row"], []).append(by_key[inputs.facts["dataset"], published_row, about["batch"]])
    return {row: by_row[row] for row in inputs.labels if row in by_row}


def study_batch(facts: Facts) -> int | None:
    """The batch size of the published searches that the study repeats."""
    return next((about["batch"] for about in facts["quoted_searches"] if about["same_batch"]), None)


def other_batches(facts: Facts) -> list[int]:
    return sorted({about["batch"] for about in facts["quoted_searches"] if not about["same_batch"]})


def batch_label(facts: Facts, batch: int) -> str:
    """The name of a published search in a legend, with its batch size if the figure has several."""
    return f"published, batches of {batch}" if other_batches(facts) else "published"
