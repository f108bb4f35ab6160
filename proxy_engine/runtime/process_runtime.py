"""Interpreter settings of processes that only run the engine, and progress as lines.

*Cyclic garbage collection.* A full collection visits every container of the process, a model's and
those of its libraries included, and stops all threads for 0.1 s and more. The commands ``serve``,
``bridge`` and ``extract`` exempt the objects that exist after loading (``gc.freeze``), and the
first two collect in full while no request runs.

*Switch interval.* The model's thread releases the interpreter lock several times a token. While
another thread computes, it waits up to the switch interval to get the lock back.

In other processes the library leaves both settings alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import sys
from collections.abc import Callable
from typing import NoReturn, TypeAlias

_YOUNG_OBJECTS = 500
_YOUNG_COLLECTIONS = 10
# A process that is never idle collects in full after a million new containers, which are about
# 100 MB if none of them can be freed.
_MIDDLE_COLLECTIONS = 200
_POLL_SECONDS = 0.5
_SWITCH_SECONDS = 0.0005

_is_ours = False


def take_over() -> None:
    """Apply the settings. Only for processes that belong to a command."""
    global _is_ours
    _is_ours = True
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)
    sys.setswitchinterval(_SWITCH_SECONDS)


def freeze() -> None:
    """Collect, and exempt the remaining objects from later collections, if the process is ours."""
    if _is_ours:
        gc.collect()
        gc.freeze()


def collect() -> None:
    """Collect all garbage, including frozen objects, when a model is released."""
    if _is_ours:
        gc.unfreeze()
    gc.collect()


def collect_if_due() -> bool:
    """Collect in full if objects have reached the oldest generation; return whether it did."""
    is_due = gc.get_count()[2] > 0
    if is_due:
        gc.collect()
    return is_due


def trim() -> None:
    """Return freed memory to the operating system, in milliseconds, if the process is ours.

    glibc keeps freed blocks of up to 32 MB for reuse, so the bodies of a burst of requests would
    stay. A lower limit would make each pass of a model on the CPU map its arrays anew.
    """
    if _is_ours and sys.platform == "linux":
        with contextlib.suppress(AttributeError):
            # Other C libraries have no such function.
            ctypes.CDLL(None).malloc_trim(0)


async def collect_when_idle(is_idle: Callable[[], bool]) -> NoReturn:
    """Collect in full whenever no request runs, until cancelled.

    Args:
        is_idle: Whether no request runs. It must hold at two polls in a row, since a client often
            sends the next request at once.
    """
    was_idle = False
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        now_idle = is_idle()
        if was_idle and now_idle:
            collect_if_due()
        was_idle = now_idle


OnProgress: TypeAlias = Callable[[str], None]
"""Called with one line of text at the start and the end of each step."""

_logger = logging.getLogger(__name__)


def announce(line: str, on_progress: OnProgress | None) -> None:
    """Log a line at level INFO and pass it to the callback, if there is one."""
    _logger.info(line)
    if on_progress is not None:
        on_progress(line)


def to_stderr(line: str) -> None:
    """Print a line to standard error."""
    print(line, file=sys.stderr, flush=True)
