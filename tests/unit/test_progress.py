"""Progress: a bar on a terminal, a few plain lines in a log."""

import io
import logging
import math

import pytest

from recheck import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="recheck")
    return lambda: [record.getMessage() for record in caplog.records]


def run(file, steps=200):
    for _ in progress.Progress(range(steps), file=file, desc="train", mininterval=0):
        pass


def test_a_log_gets_the_last_line_once_and_no_carriage_returns(lines, monkeypatch):
    monkeypatch.setattr(progress, "LINES_EVERY_SECONDS", math.inf)
    file = io.StringIO()
    run(file)
    assert file.getvalue() == ""
    assert len(lines()) == 1
    assert "200/200" in lines()[0] and "\r" not in lines()[0]


def test_a_log_gets_lines_in_between_when_it_takes_long(lines, monkeypatch):
    monkeypatch.setattr(progress, "LINES_EVERY_SECONDS", 0.0)
    run(io.StringIO(), steps=5)
    assert 2 <= len(lines()) <= 6
    assert len(set(lines())) == len(lines())


def test_a_terminal_gets_a_moving_bar():
    file = Terminal()
    run(file)
    assert "\r" in file.getvalue() and "train" in file.getvalue()
