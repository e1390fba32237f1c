"""One table per dataset, written from the same frame as Markdown, CSV, LaTeX, HTML and ``table.json``."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from recheck.report import citations
from recheck.report.price import Price
from recheck.report.results import Failure
from recheck.report.searches import Searched
from recheck.report.tables import caption, frame
from recheck.report.tables.table import Table, load
from recheck.report.warned import Warned

__all__ = ["Table", "load", "make"]


def make(
    facts: Mapping[str, Any],
    summary: pd.DataFrame,
    *,
    sizes: Mapping[str, Any] | None = None,
    chance: Mapping[str, Mapping[str, float]] | None = None,
    failures: Sequence[Failure] = (),
    warnings: Sequence[Warned] = (),
    searched: Mapping[str, Searched] | None = None,
    prices: Mapping[str, Price] | None = None,
) -> Table:
    """The table of one dataset, with ``.markdown()``, ``.csv()``, ``.latex()``, ``.html()`` and ``.json()``.

    ``sizes`` (``results.split_facts``) is for the caption; ``chance`` has values by view and metric. ``searched``
    has the searches of tuned rows, ``prices`` what rows cost, for studies that show it.
    """
    measured = facts["scope"] != "published"
    failed = {failure.method for failure in failures}
    warned = {warning.method for warning in warnings}
    rows = frame.build(facts, summary, chance if measured else None, failed, warned)
    if searched:
        rows = frame.with_searches(rows, searched)
    if prices is not None and measured:
        rows = frame.with_prices(rows, facts["rows"], prices)
    if not measured:
        rows = frame.with_quotes_only(rows)
    return Table(
        rows,
        caption.text(facts, rows, sizes or {}),
        name=f"{facts['study']}-{facts['dataset']}",
        dataset=facts["dataset"],
        headline=caption.headline(facts, rows),
        measured=measured,
        show_size=facts["show_size"],
        failures=failures,
        warnings=warnings,
        citations=citations.keys(facts["rows"]),
        quoted=citations.quoted_keys(facts["published"]),
    )
