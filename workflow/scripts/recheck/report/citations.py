"""The papers behind the rows of a table: for readers, and as BibTeX."""

from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
EMPTY = "% No row of this study names a paper.\n"


def keys(rows: Iterable[Row]) -> dict[str, str]:
    """Row → key of its paper's BibTeX entry, for the rows that name a paper."""
    return {row["name"]: _key(row["paper"]) for row in rows if row["paper"]}


def bibtex(rows: Iterable[Row]) -> str:
    """Every paper once, in the order of the rows."""
    entries = {_key(row["paper"]): row["paper"]["bibtex"].strip() for row in rows if row["paper"]}
    return "\n\n".join(entries.values()) + "\n" if entries else EMPTY


def reference(paper: Mapping[str, Any]) -> str:
    """A paper as a list of references names it."""
    return f"{paper['authors']}: {paper['title']}. {paper['venue']} {paper['year']}."


def _key(paper: Mapping[str, Any]) -> str:
    return paper["bibtex"].partition("{")[2].partition(",")[0].strip()
