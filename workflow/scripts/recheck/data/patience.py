"""How long to wait for a server, and when to give up, so that every download ends."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("recheck")
CHUNK = 1 << 20
NOISE = 4 * CHUNK
"""Maximum bytes from a server between two pieces of the file: headers, interim responses, bodies of redirects."""


class SourceFailed(Exception):
    """One source could not deliver the file; another one might."""

    def __init__(self, reason: str, status: int | None = None):
        super().__init__(reason)
        self.status = status


class TryAgain(Exception):
    """A failure worth a retry: a busy server (``after``: the delay it asks for, in seconds) or a lost connection.

    ``dead``: nothing answered at all; worth a retry only if bytes have arrived before.
    """

    def __init__(self, reason: str, after: float = 0, dead: bool = False):
        super().__init__(reason)
        self.after = after
        self.dead = dead


@dataclass(frozen=True)
class Patience:
    """The bounds of one download from one source. Times are in seconds, speeds in bytes per second."""

    waits: tuple[float, ...] = (2, 5, 15, 30, 60, 120)
    """Waits between attempts. They restart whenever at least CHUNK new bytes have arrived."""
    attempts: int = 100
    """Maximum number of attempts, with or without progress."""
    timeout: float = 60
    """Longest wait for a server's next byte, and for its answer."""
    slowest: float = 1024
    """Fewer bytes per second, over ``timeout`` seconds, count as a lost connection."""
    longest: float = 300
    """Longest Retry-After to obey."""
    grace: float = 3600
    average: float = 64 * 1024
    """The whole download may take ``grace`` seconds, plus the time that its new bytes take at ``average`` speed."""
    clock: Callable[[], float] = time.monotonic


class Watch:
    """Ends a download that makes no progress, or that takes too long for what has arrived."""

    def __init__(self, patience: Patience):
        self.patience = patience
        self.began = patience.clock()
        self.resume(0)
        self.answering()

    def resume(self, start: int) -> None:
        """Start from the bytes that an earlier process has received."""
        self.start = self.furthest = start

    def answering(self) -> None:
        """Note that a server begins to answer."""
        self.since, self.recent, self.noise = self.patience.clock(), 0, 0

    def heard(self, count: int) -> None:
        """Count bytes of any kind from the server."""
        self.noise += count
        if self.noise > NOISE:
            raise SourceFailed(f"the server sent {NOISE:,} bytes that are not part of the file")
        passed = self.patience.clock() - self.since
        if passed > self.patience.timeout:
            if self.recent < self.patience.slowest * passed:
                raise TryAgain(f"only {self.recent:,} bytes of the file came in {passed:.0f} s")
            self.since, self.recent = self.patience.clock(), 0
        self.check_time()

    def arrived(self, count: int, position: int) -> None:
        """Count a piece of the file, which ends at ``position``."""
        self.recent += count
        self.noise = 0
        self.furthest = max(self.furthest, position)

    def check_time(self) -> None:
        """Give up if the whole download takes too long."""
        taken, new = self.patience.clock() - self.began, self.furthest - self.start
        if taken > self.patience.grace + new / self.patience.average:
            raise SourceFailed(f"it is too slow: only {new:,} bytes came in {taken / 3600:.1f} hours")


def persist(attempt: Callable[[], None], arrived: Callable[[], int], name: str, watch: Watch) -> None:
    """Retry until the attempt succeeds; give up after too many attempts, too little progress or too much time."""
    patience, tries, furthest, reason = watch.patience, 0, watch.start, None
    for _ in range(patience.attempts):
        try:
            return attempt()
        except TryAgain as error:
            reason = error
        if arrived() - furthest >= CHUNK:
            tries, furthest = 0, arrived()
        if tries == len(patience.waits) or (reason.dead and arrived() <= watch.start):
            raise SourceFailed(str(reason))
        watch.check_time()
        wait = max(patience.waits[tries], min(reason.after, patience.longest))
        log.warning("%s: %s; retrying in %.0f s.", name, reason, wait)
        time.sleep(wait)
        tries += 1
    raise SourceFailed(f"{reason}; attempt {patience.attempts} was the last")
