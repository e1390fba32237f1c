"""What a check found."""

from collections.abc import Iterator
from dataclasses import dataclass

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclass(frozen=True)
class Finding:
    """An entry of the report. A problem would stop a run; a note would only slow it down or may not matter."""

    state: str
    name: str
    text: str
    remedy: str = ""

    def lines(self) -> Iterator[str]:
        yield f"{self.state:<8} {self.name:<16} {self.text}"
        if self.remedy:
            yield f"{'':<25} → {self.remedy}"


def ok(name: str, text: str) -> Finding:
    return Finding(OK, name, text)


def note(name: str, text: str, remedy: str) -> Finding:
    return Finding(NOTE, name, text, remedy)


def problem(name: str, text: str, remedy: str) -> Finding:
    return Finding(PROBLEM, name, text, remedy)
