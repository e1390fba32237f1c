"""The context in which every workflow script runs: log to the rule's log file, and report errors to the user."""

import contextlib
import hashlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from recheck import blame, circumstances, retries
from recheck.errors import UserError, printable

log = logging.getLogger("recheck")


class Stopped(SystemExit):
    """Raised on SIGTERM, so that the job ends at once but still removes incomplete files."""

    def __init__(self, signal_number: int):
        super().__init__(128 + signal_number)
        self.name = signal.Signals(signal_number).name


@contextlib.contextmanager
def job(snakemake: Any) -> Iterator[logging.Logger]:
    """Run a script's body; on failure, write the details to the rule's log and one line to the terminal."""
    path = Path(snakemake.log[0])
    _log_to(path)
    log.info("Started.")
    path.with_suffix(retries.SUFFIX).unlink(missing_ok=True)
    # A user's classes (`module:Class`) live in the working directory, beside the Snakefile.
    sys.path.append(str(Path.cwd()))
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)  # exit normally, so that incomplete files are removed
    try:
        _reset_future_times(snakemake.input)
        yield log
    except UserError as error:
        log.debug("traceback", exc_info=error)
        _end(path, f"{_where(snakemake.wildcards)}{error}", str(error), not error.may_pass)
    except (KeyboardInterrupt, Stopped) as stop:
        name, code = (stop.name, stop.code) if isinstance(stop, Stopped) else ("SIGINT", 130)
        log.warning("Stopped by %s: run the same command again to resume.", name)
        sys.exit(code)
    except Exception as error:
        log.debug("traceback", exc_info=error)
        message, for_good = _explained(error)
        if message:
            _end(path, f"{_where(snakemake.wildcards)}{message}", message, for_good)
        reason = f"Unexpected {type(error).__name__}: {error}"
        _end(path, f"{reason} (this is a bug in Recheck: please report it; the traceback is in {path})", reason)


def _explained(error: Exception) -> tuple[str, bool]:
    """The sentence for an error of the machine, of the user's code or of a file, and whether a retry is useless.

    The sentence is empty if the error is a bug in Recheck.
    """
    if message := circumstances.sentence(error):
        return message, circumstances.out_of_gpu_memory(error)
    # The first two frames are this module and the script.
    if message := blame.explain(error, skip=2):
        return message, True
    return _disk_message(error) if isinstance(error, OSError) else "", False


def warn_once(folder: Path, message: str) -> None:
    """Warn on the terminal unless another job has already given this warning; every job's log has the message.

    ``folder`` holds one small file per message.
    """
    path = folder / f"{hashlib.sha256(message.encode()).hexdigest()[:12]}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(message + "\n")
    except FileExistsError:
        log.info("%s", message)
    else:
        log.warning("%s", message)


def _end(path: Path, message: str, reason: str, for_good: bool = False) -> NoReturn:
    """Log the message, write the reason beside the log (for `<study>_so_far` and retries) and exit.

    The next attempt of the job removes that file.
    """
    log.error("%s", message)
    retries.record(path, reason, for_good)
    sys.exit(1)


def _reset_future_times(inputs: Iterable[str]) -> None:
    """Reset modification times in the future, caused by a wrong clock on some machine, to now.

    Otherwise the outputs would be older than their inputs, and Snakemake would delete them after hours of work.
    """
    for path in map(Path, inputs):
        if path.exists() and path.stat().st_mtime > time.time():
            dated = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
            try:
                os.utime(path)
            except OSError:
                raise UserError(
                    f"{path} has a modification time in the future ({dated}), so Snakemake would delete "
                    "this job's outputs as outdated: correct the clock, or touch the file."
                ) from None
            log.warning(
                "%s has a modification time in the future (%s), so some clock is wrong. Its time was reset to now.",
                path,
                dated,
            )


def _exit(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def _disk_message(error: OSError) -> str:
    """The message for an unexpected file error, such as an input that disappeared."""
    name = error.filename or "a file"
    if isinstance(error, FileNotFoundError):
        return f"{name} has disappeared: run the same command again to recreate it."
    return f"{name}: {error.strerror or error}. Check its disk and its permissions, and run the same command again."


def _where(wildcards: Any) -> str:
    """The study, dataset and method that a message is about."""
    known = [f"{key} '{getattr(wildcards, key)}'" for key in ("study", "dataset", "method") if hasattr(wildcards, key)]
    return f"{', '.join(known)}: " if known else ""


class _ForTerminal(logging.Formatter):
    """Escapes control characters: a message may name a file, and a file name may contain anything."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _log_to(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    in_file = logging.FileHandler(path, mode="a", encoding="utf-8", errors="backslashreplace")
    in_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
    on_terminal = logging.StreamHandler(sys.stderr)
    on_terminal.setLevel(logging.WARNING)
    on_terminal.setFormatter(_ForTerminal("%(levelname)s: %(message)s"))
    log.setLevel(logging.DEBUG)
    log.propagate = False
    log.handlers[:] = [in_file, on_terminal]
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").handlers[:] = [in_file]
