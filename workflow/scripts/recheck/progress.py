"""A progress bar that becomes a few plain lines in a log."""

import io
import logging
import os
import sys
import time

from tqdm import tqdm

from recheck.terminal import LIVE

log = logging.getLogger("recheck")
LINES_EVERY_SECONDS = 15.0


class Progress(tqdm):
    """A tqdm bar on a terminal without a live line; elsewhere one log line every few seconds. Both log a last line."""

    def __init__(self, *args, **kwargs):
        kwargs.setdefault("file", sys.stderr)
        kwargs.setdefault("leave", False)
        kwargs.setdefault("dynamic_ncols", True)
        self._next_line = time.monotonic() + LINES_EVERY_SECONDS
        self._last_line = None
        self._on_terminal = kwargs["file"].isatty() and LIVE not in os.environ
        if not self._on_terminal:
            kwargs["file"] = io.StringIO()  # because tqdm writes a carriage return even if it shows nothing
        super().__init__(*args, **kwargs)

    def display(self, msg=None, pos=None):
        if self._on_terminal:
            return super().display(msg, pos)
        if time.monotonic() >= self._next_line:
            self._line()
        return True

    def close(self):
        if not self.disable and self.n:
            self._line()
        super().close()

    def _line(self):
        if (self.n, self.postfix) != self._last_line:
            self._next_line, self._last_line = time.monotonic() + LINES_EVERY_SECONDS, (self.n, self.postfix)
            log.info("%s", str(self))
