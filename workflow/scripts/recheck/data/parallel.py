"""Work on many items at once, results in order."""

import functools
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any

from recheck.progress import Progress

CHUNK = 8
CHUNKS_PER_WORKER = 4


def ordered_map(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    workers: int,
    *,
    total: int,
    description: str,
) -> Iterator[Any]:
    """Yield ``function(item)`` in the order of the items, computed by ``workers`` processes.

    Only a few chunks per worker are under way at a time, so that results which are large (decoded images)
    do not pile up in memory. Processes are forked: a script of the workflow has no import guard, so a
    spawned process would run the script again.
    """
    with Progress(total=total, desc=description, unit="img") as bar:
        results = map(function, items) if workers <= 1 else _in_processes(function, iter(items), workers)
        for result in results:
            yield result
            bar.update()


def _in_processes(function: Callable[[Any], Any], items: Iterator[Any], workers: int) -> Iterator[Any]:
    chunks = iter(lambda: list(islice(items, CHUNK)), [])
    work = functools.partial(_chunk, function)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        waiting = deque(pool.submit(work, chunk) for chunk in islice(chunks, CHUNKS_PER_WORKER * workers))
        try:
            while waiting:
                results = waiting.popleft().result()
                waiting.extend(pool.submit(work, chunk) for chunk in islice(chunks, 1))
                yield from results
        finally:
            pool.shutdown(cancel_futures=True)


def _chunk(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    return [function(item) for item in items]
