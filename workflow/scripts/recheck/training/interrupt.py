"""Stopping at a safe place when asked to."""

import signal
from types import FrameType


class Interrupted(Exception):
    """Raised after the state was saved, because a signal asked the run to stop."""

    def __init__(self, signal_number: int, step: int):
        self.exit_code = 128 + signal_number
        super().__init__(
            f"Stopped by {signal.Signals(signal_number).name} at step {step}, state saved: "
            "run the same command again to continue."
        )


class StopRequest:
    """TERM and INT are noted, and looked at between two steps."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    def listen(self) -> "StopRequest":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
