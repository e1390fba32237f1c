"""Stopping between two steps when a signal arrives."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class Interrupted(Exception):
    """Raised when a signal asked the run to stop, after its state was saved."""

    def __init__(self, signal_number: int, step: int):
        self.exit_code = 128 + signal_number
        super().__init__(
            f"Stopped by {signal.Signals(signal_number).name} at step {step}, state saved: "
            "run the same command again to resume."
        )


class StopNow(BaseException):
    """Raised by a signal where nothing would be lost; a BaseException, so that no library catches it."""


class StopRequest:
    """Remembers TERM or INT; the engine checks for it between two steps.

    Steps change the state, so they are never interrupted. An evaluation changes nothing and may take an hour, so a
    signal ends it at once.
    """

    _received: int | None = None
    _raises = False

    @property
    def signal_number(self) -> int | None:
        return self._received

    def listen(self) -> "StopRequest":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        return self

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal raise ``StopNow`` within this context."""
        self._raises = True
        try:
            if self._received is not None:
                raise StopNow
            yield
        finally:
            self._raises = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._received = number
        if self._raises:
            raise StopNow
