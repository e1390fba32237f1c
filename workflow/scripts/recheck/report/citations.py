"""The papers cited by the rows of a table, as text and as BibTeX."""

from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
EMPTY = "% This study cites no paper.\n"


def keys(rows: Iterable[Row]) -> dict[str, str]:
    """Row → key of its paper's BibTeX entry, for rows that cite a paper."""
    return {row["name"]: _key(row["paper"]) for row in rows if row["paper"]}


def bibtex(cited: Iterable[Row]) -> str:
    """The BibTeX entries of the papers of all rows and quoted documents, each once, in their order."""
    entries = {_key(each["paper"]): each["paper"]["bibtex"].strip() for each in cited if each["paper"]}
    return "\n\n".join(entries.values()) + "\n" if entries else EMPTY


def quoted_keys(documents: Iterable[Row]) -> list[str]:
    """The BibTeX keys of the documents that are papers and have values."""
    return list(dict.fromkeys(_key(each["paper"]) for each in documents if each["values"] and each.get("paper")))


def reference(paper: Mapping[str, Any]) -> str:
    """A paper as an entry in a list of references."""
    return f"{paper['authors']}: {paper['title']}. {paper['venue']} {paper['year']}."


def _key(paper: Mapping[str, Any]) -> str:
    return paper["bibtex"].partition("{")[2].partition(",")[0].strip()
