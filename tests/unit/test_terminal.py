"""Snakemake's messages: short reasons, one line of progress, and a live line that never hides a message."""

import io
import logging
from types import SimpleNamespace

import pytest

from recheck import terminal

FACTS = {
    "study": "letters",
    "rows": [{"name": "triplet", "label": "Triplet"}, {"name": "ms", "label": "MS"}],
    "views": [1],
}
PARAMS = "Params have changed since last execution: Union of exclusive params before and now across all output: "


def relabelled(label):
    return {**FACTS, "rows": [{"name": "triplet", "label": label}, FACTS["rows"][1]]}


def params(old, new):
    return f"{PARAMS}before: {old} now: {new} "


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        ("", ""),
        ("Forced execution", "Forced execution"),
        ("Missing output files: b, a, c", "Missing output files: a and 2 more"),
        ("Missing output files: a; Input files updated by another job: b, c", "Missing output files: a"),
        ("Updated input files: a; Code has changed since last execution", None),
        ("Something new of Snakemake: a, b", None),
        (
            f"Updated input files: b, a; {params(repr(FACTS), repr(relabelled('Three')))}",
            "Updated input files: a and 1 more; Settings have changed: rows.triplet.label: Triplet → Three",
        ),
        (
            params(repr(FACTS), repr(relabelled("a now: b"))),
            "Settings have changed: rows.triplet.label: Triplet → a now: b",
        ),
        (params("0.1", "0.2"), "Settings have changed: 0.1 → 0.2"),
        (params("0.1,'a'", "0.2,'b'"), "Settings have changed"),
        (params("<nothing exclusive>", repr(FACTS)), "Settings have changed"),
        (params("<object at 0x7f>", "{'a': 1"), "Settings have changed"),
        (f"{PARAMS}in another format", "Settings have changed"),
    ],
)
def test_a_reason_names_what_changed(reason, short):
    assert terminal.short_reason(reason) == (reason if short is None else short)


def test_many_changes_are_counted_and_long_values_cut():
    old = {str(number): "x" * 100 for number in range(8)}
    new = {str(number): "y" * 100 for number in range(8)}
    text = terminal.short_reason(params(repr(old), repr(new)))
    assert text.endswith(" and 5 more") and len(text) < 600


def record(event, message="", **details):
    made = logging.LogRecord("snakemake", logging.INFO, "", 0, message, None, None)
    made.__dict__.update(event=SimpleNamespace(name=event), **details)
    return made


def started(job, rule, message="", **details):
    return record("JOB_INFO", jobid=job, rule_name=rule, rule_msg=message, **details)


@pytest.fixture
def progress(clock):
    progress = terminal.Progress({"all"}, clock)
    progress.filter(record("RUN_INFO", stats={"train": 4, "table": 1, "all": 1, "total": 6}))
    return progress


def finish(progress, job, done):
    progress.filter(record("JOB_FINISHED", job_id=job))
    progress.filter(record("PROGRESS", done=done, total=6))


def test_one_line_has_jobs_done_the_time_left_and_jobs_running(progress, clock):
    assert progress.line() == "0 of 6 jobs done (0 %)"
    progress.filter(started(1, "train", "Training triplet"))
    progress.filter(started(2, "train", "Training ms"))
    clock.now = 120.0
    finish(progress, 1, 1)
    assert progress.line() == "1 of 6 jobs done (16 %); at least 2 min left; running: Training ms"
    progress.filter(started(3, "train", "Training arcface"))
    assert progress.line() == "1 of 6 jobs done (16 %); at least 2 min left; running: Training ms and 1 more"
    finish(progress, 2, 2)
    progress.filter(started(4, "table", "Rendering"))
    finish(progress, 4, 3)
    assert progress.line() == "3 of 6 jobs done (50 %); about 2 min left; running: Training arcface"


def test_a_failed_job_no_longer_runs_and_its_time_is_not_counted(progress, clock):
    progress.filter(started(1, "train", "Training triplet"))
    clock.now = 5.0
    progress.filter(record("JOB_ERROR", jobid=1))
    assert progress.line() == "0 of 6 jobs done (0 %)"


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (29, "29 s"), (90, "2 min"), (3700, "1 h 02 min")])
def test_durations_are_readable(seconds, text):
    assert terminal._duration(seconds) == text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_live_line_is_erased_before_a_message_and_overwritten_by_a_job(progress, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "400")
    log = tmp_path / "train.log"
    log.write_text(
        "2026-01-01 00:00:00 INFO epoch 1:  40%|████      | 4/10 loss 0.1\n2026-01-01 00:00:01 DEBUG saved\n"
    )
    screen = Terminal()
    live = terminal.LiveLine(screen, progress)
    live.draw()
    assert screen.getvalue() == "", "nothing runs yet"
    progress.filter(started(1, "train", "Training triplet", log=[str(log)]))
    live.draw()
    shown = "0 of 6 jobs done (0 %); running: Training triplet · epoch 1:  40%|████      | 4/10 loss 0.1"
    assert screen.getvalue() == f"\r\x1b[K{shown}\r"
    live.write("Finished\n")
    assert screen.getvalue().endswith(f"{shown}\r\r\x1b[KFinished\n")
    live.close()
    live.draw()
    assert screen.getvalue().endswith("Finished\n")


def test_a_closed_terminal_is_no_error(progress):
    screen = Terminal()
    progress.filter(started(1, "train", "Training"))
    live = terminal.LiveLine(screen, progress)
    live.draw()
    screen.close()
    live.close()


def test_a_live_line_is_never_wider_than_the_terminal(progress, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    screen = Terminal()
    progress.filter(started(1, "train", "Training " * 20))
    terminal.LiveLine(screen, progress).draw()
    assert len(screen.getvalue().removeprefix("\r\x1b[K").removesuffix("\r")) == 19


def test_handlers_of_plugins_are_left_alone():
    logger = logging.Logger("snakemake")
    plugin = logging.NullHandler()
    plain = logging.StreamHandler(io.StringIO())
    plain.setFormatter(logging.Formatter("%(message)s"))
    logger.handlers = [plugin, plain]
    terminal.install(logger, {"all"}, live=True)
    assert plugin.formatter is None and isinstance(plain.formatter, terminal.Readable)
    logger.handle(record("PROGRESS", done=1, total=2))
    logger.handle(record("JOB_STARTED", "Execute 1 jobs..."))
    logger.handle(record("", "Nothing to be done"))
    assert plain.stream.getvalue() == "1 of 2 jobs done (50 %)\n\nNothing to be done\n"


@pytest.mark.parametrize("asked", [True, False])
def test_jobs_that_end_after_a_request_to_stop_are_no_errors(progress, asked):
    formatter = terminal.Readable(logging.Formatter("%(message)s"), progress, brief=True)
    if asked:
        progress.filter(record("", "Terminating processes on user request, this might take some time."))
    ended = record(
        "", "RuleException:\nCalledProcessError in file 'a':\nCommand 'b' returned non-zero exit status 130."
    )
    assert (formatter.format(ended) == "") == asked
    assert (formatter.format(record("JOB_ERROR", "Error in rule train", jobid=1)) == "") == asked
    assert formatter.format(record("", "The disk is full.")) == "The disk is full."


def test_the_live_line_names_a_row_once(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("2026-01-01 00:00:00 INFO triplet, fold 0, epoch 3:  45%|### | 9/20 [loss 0.1]\n", encoding="utf-8")
    assert terminal._last_progress([str(log)]) == "epoch 3:  45%|### | 9/20 [loss 0.1]"


def test_a_stop_while_planning_is_one_sentence(capsys):
    terminal.say_stopped(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().err == "Stopped on request. Run the same command again to resume.\n"
    terminal.say_stopped(ValueError, ValueError("odd"), None)
    assert "ValueError: odd" in capsys.readouterr().err
