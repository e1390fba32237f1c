"""What every script of the workflow does first: send its log to the rule's log file and its errors to the user."""

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from recheck.errors import UserError

log = logging.getLogger("recheck")
FAILED = ".failed"


@contextlib.contextmanager
def job(snakemake: Any) -> Iterator[logging.Logger]:
    """Run a script's body: full story in the rule's log, one sentence on the terminal if it fails."""
    path = Path(snakemake.log[0])
    _log_to(path)
    failed = path.with_suffix(FAILED)
    failed.unlink(missing_ok=True)
    # A user's own classes (`module:Class`) live beside the Snakefile, that is, in the working directory.
    sys.path.append(str(Path.cwd()))
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)  # so that what is half-written is removed on the way out
    try:
        _no_future(snakemake.input)
        yield log
    except UserError as error:
        log.debug("where it happened", exc_info=error)
        _end(failed, f"{_where(snakemake.wildcards)}{error}", str(error))
    except KeyboardInterrupt:
        log.error("Interrupted; run the same command again to continue.")
        sys.exit(130)
    except OSError as error:
        log.debug("where it happened", exc_info=error)
        _end(failed, f"{_where(snakemake.wildcards)}{_of_a_disk(error)}", _of_a_disk(error))
    except Exception as error:
        log.debug("unexpected", exc_info=error)
        reason = f"Unexpected {type(error).__name__}: {error}"
        _end(failed, f"{reason} (this is a fault of Recheck; the traceback is in {path})", reason)


def _end(failed: Path, sentence: str, reason: str) -> NoReturn:
    """Say why, and leave the reason's first line beside the log, for `<study>_so_far`: the next attempt removes it."""
    log.error("%s", sentence)
    with contextlib.suppress(OSError):  # a full disk may be the very reason
        failed.write_text(reason.partition("\n")[0] + "\n", encoding="utf-8")
    sys.exit(1)


def _no_future(inputs: Iterable[str]) -> None:
    """Inputs that a wrong clock, here or on another machine, has dated to the future are of now.

    Snakemake would call it an error that what was made from them is older, and delete it: after hours of work.
    """
    for path in map(Path, inputs):
        if path.exists() and path.stat().st_mtime > time.time():
            dated = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
            try:
                os.utime(path)
            except OSError:
                raise UserError(
                    f"{path} is of the future ({dated}), which Snakemake refuses: correct the clock, or touch the file."
                ) from None
            log.warning("%s was of the future (%s): the clock is or was wrong; it is of now.", path, dated)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _of_a_disk(error: OSError) -> str:
    """What a disk or a connection refused where nobody expected it: an input that vanished, say."""
    name = error.filename or "a file"
    if isinstance(error, FileNotFoundError):
        return f"{name} has vanished while it was needed: run the same command again, what is missing is made anew."
    return f"{name}: {error.strerror or error}; look after its disk or its permissions, and run the same command again."


def _where(wildcards: Any) -> str:
    """Which row of which study a message is about."""
    known = [f"{key} '{getattr(wildcards, key)}'" for key in ("study", "dataset", "method") if hasattr(wildcards, key)]
    return f"{', '.join(known)}: " if known else ""


def _log_to(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    in_file = logging.FileHandler(path, mode="a", encoding="utf-8")
    in_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
    on_terminal = logging.StreamHandler(sys.stderr)
    on_terminal.setLevel(logging.WARNING)
    on_terminal.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    log.setLevel(logging.DEBUG)
    log.propagate = False
    log.handlers[:] = [in_file, on_terminal]
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").handlers[:] = [in_file]
