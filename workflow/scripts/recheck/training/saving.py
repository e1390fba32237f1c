"""Saving the state of a run while it trains: a copy is taken between two steps, and a thread writes it."""

import contextlib
import copy
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import torch

from recheck.errors import UserError
from recheck.training.checkpoint import StateFile

SAVE_EVERY = 60.0
"""Seconds between two states, if the config does not say."""
CHEAP = 0.01
"""Largest share of its time that a run may spend on states that are not due."""


class Saver:
    """Writes the states of a run to its file, one at a time.

    A state is due ``every`` seconds after the last one was taken, so a killed run loses at most this time. While a
    state is being written none is due: a slow disk delays the next state, and there is never more than one copy in
    memory. An error of the thread is raised by the next call.
    """

    def __init__(self, file: StateFile, every: float = SAVE_EVERY, clock: Callable[[], float] = time.monotonic):
        self.file, self.every, self.clock = file, every, clock
        self.taken = clock()
        self.cost = math.inf
        self.thread = ThreadPoolExecutor(1, "state")
        self.writing: Future | None = None

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.thread.shutdown()
        if error is None:
            self.wait()

    def due(self, ahead: float = 0.0) -> bool:
        """Whether the last state is too old, or will be after ``ahead`` seconds in which no other can be taken.

        If ``every`` is 0, this waits until the last state is written, and the next one is due.
        """
        if self.every and self.writing is not None and not self.writing.done():
            return False
        self.wait()
        return self.clock() - self.taken + ahead >= self.every

    def cheap(self) -> bool:
        """Whether a save that takes as long as the last one is a small share of the time since then."""
        idle = self.writing is None or self.writing.done()
        return idle and self.cost <= CHEAP * (self.clock() - self.taken)

    def save(self, changing: dict[str, Any], **constant: Any) -> None:
        """Copy what changes in the next step, and write it together with what does not, after any earlier state."""
        self.wait()
        self.taken = self.clock()
        self.writing = self.thread.submit(self._write, {**copied(changing), **constant})

    def _write(self, state: dict[str, Any]) -> None:
        self.file.save(state)
        self.cost = self.clock() - self.taken

    def wait(self) -> None:
        """Wait until the state is written; raise the error if it could not be written."""
        writing, self.writing = self.writing, None
        if writing is not None:
            writing.result()

    def kept(self) -> str:
        """A sentence for the end of an error message that says where the last state is; empty if there is none."""
        with contextlib.suppress(UserError):
            self.wait()
        return self.file.kept()


def copied(value: Any, known: dict[tuple, torch.Tensor] | None = None) -> Any:
    """The same nested lists and dicts with copies of their tensors, on the CPU; shared tensors stay shared."""
    known = {} if known is None else known
    if isinstance(value, torch.Tensor):
        place = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        if place not in known:
            known[place] = value.detach().to("cpu", copy=True)
        return known[place]
    if isinstance(value, dict):
        made = copy.copy(value)  # keeps the attributes of a state_dict
        made.update({key: copied(item, known) for key, item in value.items()})
        return made
    if isinstance(value, (list, tuple)):
        return type(value)(copied(item, known) for item in value)
    return value
