"""The papers cited by the rows of a table, as text and as BibTeX."""

from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
EMPTY = "% No row of this study cites a paper.\n"


def keys(rows: Iterable[Row]) -> dict[str, str]:
    """Row → key of its paper's BibTeX entry, for rows that cite a paper."""
    return {row["name"]: _key(row["paper"]) for row in rows if row["paper"]}


def bibtex(rows: Iterable[Row]) -> str:
    """The BibTeX entries of all papers, each once, in the order of the rows."""
    entries = {_key(row["paper"]): row["paper"]["bibtex"].strip() for row in rows if row["paper"]}
    return "\n\n".join(entries.values()) + "\n" if entries else EMPTY


def reference(paper: Mapping[str, Any]) -> str:
    """A paper as an entry in a list of references."""
    return f"{paper['authors']}: {paper['title']}. {paper['venue']} {paper['year']}."


def _key(paper: Mapping[str, Any]) -> str:
    return paper["bibtex"].partition("{")[2].partition(",")[0].strip()
