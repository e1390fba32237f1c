"""Parse the command line, run one command, and turn every error into one line and an exit code."""

import argparse
import importlib
import logging
import os
import sys
import traceback
from pathlib import Path

from recheck import __version__
from recheck.cli import export
from recheck.cli.text import ERROR, INTERRUPTED, fail
from recheck.errors import MissingPackage, UserError

COMMANDS = ("embed", "search", "same", "export", "compare")
ABOUT = """\
Use models that Recheck has trained. RUN is the folder of one seed of a finished run (its folds together form one
model), of one fold, or of an exported model.
"""
EXIT = """\
exit code:
  0  done; for `same` and `search`: near enough
  1  `same` and `search` only: not near enough
  2  error: one line on standard error describes it
"""


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. It does not import the networks, so that --help is fast."""
    top = argparse.ArgumentParser(
        prog="recheck", description=ABOUT, epilog=EXIT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action="version", version=f"recheck {__version__}")
    commands = top.add_subparsers(required=True, metavar="|".join(COMMANDS))
    for name in COMMANDS:
        module = importlib.import_module(f"recheck.cli.{name}")
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            epilog=f"examples:\n{module.EXAMPLES}\n{module.NOTES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    options = parser().parse_args(arguments)
    sys.stdout.reconfigure(errors="backslashreplace")  # file names can contain any bytes
    logging.captureWarnings(True)  # Pillow warns about details of files that it can read
    if getattr(options, "own_code", False):
        sys.path.append(str(Path.cwd()))  # the folder of a study's modules
    try:
        return options.run(options)
    except UserError as error:
        return fail(str(error))
    except ModuleNotFoundError as error:
        return fail(str(MissingPackage(error, "This command", "export" if options.run is export.run else "train")))
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR
    except OSError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # Python's default exit code, 1, would mean "no" here
        traceback.print_exc()
        return fail(f"Unexpected {type(error).__name__}: {error} (this is a bug in Recheck: please report it)")
