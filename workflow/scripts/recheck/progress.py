"""Progress that moves in a terminal and is a few plain lines in a log."""

import logging
import sys
import time

from tqdm import tqdm

log = logging.getLogger("recheck")
LINES_EVERY_SECONDS = 15.0


class Progress(tqdm):
    """A tqdm bar on a terminal; a line in the log from time to time, and always a last one."""

    def __init__(self, *args, **kwargs):
        kwargs.setdefault("file", sys.stderr)
        kwargs.setdefault("leave", False)
        kwargs.setdefault("dynamic_ncols", True)
        self._next_line = time.monotonic() + LINES_EVERY_SECONDS
        self._on_terminal = kwargs["file"].isatty()
        super().__init__(*args, **kwargs)

    def display(self, msg=None, pos=None):
        if self._on_terminal:
            return super().display(msg, pos)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINES_EVERY_SECONDS
            log.info("%s", self)
        return True

    def close(self):
        if not self.disable and self.n:
            log.info("%s", self)
        super().close()
