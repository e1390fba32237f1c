"""Messages for users are safe on a terminal."""

import logging
import pickle

import pytest

from recheck.errors import UserError, printable
from recheck.job import _ForTerminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Straße, 猫, “x”\n\tnext", "Straße, 猫, “x”\n\tnext"),
        ("\x1b[31mred\r\x07", r"\x1b[31mred\x0d\x07"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("caf\udce9.jpg \ud800", r"caf\xe9.jpg \ud800"),
    ],
)
def test_control_characters_and_wrong_bytes_are_escaped(text, shown):
    assert printable(text) == str(UserError(text)) == shown
    record = logging.LogRecord("recheck", logging.WARNING, "", 0, "%s", (text,), None)
    assert _ForTerminal("%(message)s").format(record) == shown
    shown.encode()


def test_an_error_of_another_process_is_the_same():
    assert str(pickle.loads(pickle.dumps(UserError("a\x1b")))) == r"a\x1b"  # noqa: S301
