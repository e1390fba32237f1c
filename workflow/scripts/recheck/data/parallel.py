"""A parallel map that yields its results in order."""

import functools
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

from recheck.errors import UserError
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
    chunk: int = CHUNK,
    done: int = 0,
    size: Callable[[Any], int] = lambda result: 1,
) -> Iterator[Any]:
    """Yield ``function(item)`` for all items in order, computed by ``workers`` processes.

    Each worker has only a few chunks queued, so that large results (decoded images) do not pile up in memory. Processes
    are forked: the workflow's scripts have no import guard, so a spawned process would run the script again. The
    progress bar goes from ``done`` to ``total``, by ``size(result)`` images per result.
    """
    with Progress(total=total, initial=done, desc=description, unit="img") as bar:
        results = map(function, items) if workers <= 1 else _in_processes(function, iter(items), workers, chunk)
        for result in results:
            yield result
            bar.update(size(result))


def _in_processes(function: Callable[[Any], Any], items: Iterator[Any], workers: int, chunk: int) -> Iterator[Any]:
    chunks = iter(lambda: list(islice(items, chunk)), [])
    work = functools.partial(_chunk, function)
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, fork, initializer=_end_with_parent, initargs=(os.getpid(),)) as pool:
        waiting = deque(pool.submit(work, batch) for batch in islice(chunks, CHUNKS_PER_WORKER * workers))
        try:
            while waiting:
                results = waiting.popleft().result()
                waiting.extend(pool.submit(work, batch) for batch in islice(chunks, 1))
                yield from results
        except BrokenProcessPool:
            raise UserError(
                "A worker process was killed, most likely because memory ran out: run the same command again with "
                "fewer --cores."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent(parent: int) -> None:
    """Exit when the parent has gone: after a kill -9 of the parent, a worker would otherwise wait for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _chunk(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    return [function(item) for item in items]
