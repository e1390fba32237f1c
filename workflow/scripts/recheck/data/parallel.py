"""Work on many items at once, results in order."""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any

from recheck.progress import Progress


def ordered_map(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    workers: int,
    *,
    total: int,
    description: str,
    unit: str = "img",
) -> Iterator[Any]:
    """Yield ``function(item)`` in the order of the items, computed by ``workers`` processes.

    Only a few items per worker are under way at a time, so that results which are large (decoded images)
    do not pile up in memory. Processes are forked: a script of the workflow has no import guard, so a
    spawned process would run the script again.
    """
    items = iter(items)
    with Progress(total=total, desc=description, unit=unit) as bar:
        if workers <= 1:
            for item in items:
                yield function(item)
                bar.update()
            return
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
            waiting = [pool.submit(function, item) for item in islice(items, 16 * workers)]
            try:
                while waiting:
                    result = waiting.pop(0).result()
                    waiting.extend(pool.submit(function, item) for item in islice(items, 1))
                    yield result
                    bar.update()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
