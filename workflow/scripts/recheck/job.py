"""What every script of the workflow does first: send its log to the rule's log file and its errors to the user."""

import contextlib
import logging
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from recheck.errors import UserError

log = logging.getLogger("recheck")


@contextlib.contextmanager
def job(snakemake: Any) -> Iterator[logging.Logger]:
    """Run a script's body: full story in the rule's log, one sentence on the terminal if it fails."""
    path = Path(snakemake.log[0])
    _log_to(path)
    # A user's own classes (`module:Class`) live beside the Snakefile, that is, in the working directory.
    sys.path.append(str(Path.cwd()))
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)  # so that what is half-written is removed on the way out
    try:
        yield log
    except UserError as error:
        log.debug("where it happened", exc_info=error)
        log.error("%s%s", _where(snakemake.wildcards), error)
        sys.exit(1)
    except KeyboardInterrupt:
        log.error("Interrupted; run the same command again to continue.")
        sys.exit(130)
    except Exception as error:
        log.debug("unexpected", exc_info=error)
        log.error(
            "Unexpected %s: %s (this is a fault of Recheck; the traceback is in %s)", type(error).__name__, error, path
        )
        sys.exit(1)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


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
