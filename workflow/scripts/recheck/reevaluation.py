"""Keep Snakemake's scheduler from looking for jobs more and more often.

Snakemake (9.27) looks for jobs to start when a job has ended, and again after the time span of
``--max-jobs-per-timespan``, one second by default. Every look plans the next one, so each finished job starts another
endless series of looks: after 400 jobs, Snakemake looks 400 times per second and keeps most of a core busy. One
planned look per time span is enough.
"""

import threading
from collections.abc import Callable
from typing import Any


def install(scheduler: type, timer: Callable[..., Any] = threading.Timer) -> None:
    """Let Snakemake's scheduler plan a look only if none is planned for the same time span.

    Fails if the class has no method of this name: then this module may no longer be needed.
    """
    assert callable(scheduler._schedule_reevalutation)
    planned: set[tuple[int, float]] = set()

    def plan(self: Any, delay: float) -> None:
        key = (id(self), delay)
        if key in planned:
            return
        planned.add(key)

        def look() -> None:
            planned.discard(key)  # first, because the scheduler may plan again as soon as it is released
            self._open_jobs.release()

        waiting = timer(delay, look)
        waiting.daemon = True  # Snakemake can exit without waiting for it
        waiting.start()

    scheduler._schedule_reevalutation = plan
