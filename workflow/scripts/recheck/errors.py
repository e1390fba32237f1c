"""The exception whose message is shown to the user."""

import difflib
import re
from collections.abc import Iterable


class UserError(Exception):
    """A problem that the user can fix. The message names the file or key, what is wrong and what to do.

    ``may_pass`` marks problems that may also pass by themselves, such as a server that is down.
    """

    may_pass = False

    def __init__(self, message: str):
        super().__init__(printable(message))


class MachineError(UserError):
    """A UserError about the machine or its files, not caused by any setting of a run."""


class MissingPackage(UserError, ImportError):
    """A package is missing that the basic installation of Recheck does not include."""

    def __init__(self, error: ModuleNotFoundError, what: str, extra: str):
        package = (error.name or "").partition(".")[0]
        super().__init__(
            f"{what} needs the package '{package}', which is not installed: run `pip install \".[{extra}]\"` in the "
            "clone of Recheck."
        )


def printable(text: str) -> str:
    """Text for a terminal or a log: control characters and bytes that are not UTF-8, as in file names, are escaped."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", _escaped, text)


def _escaped(match: re.Match) -> str:
    number = ord(match[0])
    return f"\\x{number % 0x100:02x}" if number < 0x100 or 0xDC80 <= number <= 0xDCFF else f"\\u{number:04x}"


def nearest(word: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """The end of an error message about an unknown word: the closest known word, and the words to list."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    words = ", ".join(known if listed is None else sorted(listed)) or "none"
    return f"did you mean '{close[0]}'? Known: {words}" if close else f"known: {words}"
