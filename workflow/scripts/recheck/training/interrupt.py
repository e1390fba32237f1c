"""Stopping between two steps when a signal arrives."""

import signal
from types import FrameType


class Interrupted(Exception):
    """Raised when a signal asked the run to stop, after its state was saved."""

    def __init__(self, signal_number: int, step: int):
        self.exit_code = 128 + signal_number
        super().__init__(
            f"Stopped by {signal.Signals(signal_number).name} at step {step}, state saved: "
            "run the same command again to resume."
        )


class StopRequest:
    """Remembers TERM or INT; the engine checks for it between two steps."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    def listen(self) -> "StopRequest":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
