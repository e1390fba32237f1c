"""The one exception that is meant for the user's eyes."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend: one sentence that names the file or key, and what to do."""


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error sentence about an unknown word: what was probably meant, and what exists."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}Known: {', '.join(known) or 'none'}"
