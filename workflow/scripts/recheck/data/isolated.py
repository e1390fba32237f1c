"""Run a function on untrusted data in a process of its own, which may crash or run out of memory."""

import faulthandler
import multiprocessing
import os
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

MEMORY = 2 << 30
"""Bytes of memory that the new process may use in addition to those that it inherits."""


class Crashed(Exception):
    """The process ended without a result."""


def isolated(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function, computed in another process. Its exceptions are raised here."""
    fork = multiprocessing.get_context("fork")  # a spawned process would run the workflow's script again
    with ProcessPoolExecutor(1, fork, initializer=_prepare) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise Crashed("reading it crashed") from None


def _prepare() -> None:
    faulthandler.disable()  # the caller reports a crash in one sentence
    sizes = Path("/proc/self/statm")
    if sizes.exists():  # on Linux
        used = int(sizes.read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
