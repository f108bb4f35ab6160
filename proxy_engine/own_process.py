"""Interpreter settings of processes that run nothing but the engine.

*Cyclic garbage collection.* A full collection visits every container of the process, a model's and
those of its libraries included, and stops all threads for 0.1 s and more. The commands ``serve``,
``bridge`` and ``extract`` exempt the objects that exist after loading (``gc.freeze``), and the
first two collect in full while no request runs.

*Switch interval.* The model's thread releases the interpreter lock several times a token, and waits
up to the switch interval for it while another thread computes. A shorter interval shortens that.

The library itself leaves both to its host.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import NoReturn

__all__ = ["collect", "collect_if_due", "collect_when_idle", "freeze", "take_over"]

_YOUNG_OBJECTS = 500
_YOUNG_COLLECTIONS = 10
# Python collects in full on its own only after a million containers more than at the last time, for
# a process that is never idle. They take about 100 MB if none of them can be freed.
_MIDDLE_COLLECTIONS = 200
_SECONDS_BETWEEN_LOOKS = 0.5
_SWITCH_SECONDS = 0.0005

_is_ours = False


def take_over() -> None:
    """Take charge of the interpreter's settings. For commands only."""
    global _is_ours
    _is_ours = True
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)
    sys.setswitchinterval(_SWITCH_SECONDS)


def freeze() -> None:
    """Collect, and exempt all that is left from later collections; only where taken over."""
    if _is_ours:
        gc.collect()
        gc.freeze()


def collect() -> None:
    """Collect all garbage, that of frozen objects included: a model is about to be dropped."""
    if _is_ours:
        gc.unfreeze()
    gc.collect()


def collect_if_due() -> bool:
    """Collect in full if objects have aged since the last time. Returns whether it did."""
    is_due = gc.get_count()[2] > 0
    if is_due:
        gc.collect()
    return is_due


async def collect_when_idle(is_idle: Callable[[], bool]) -> NoReturn:
    """Collect in full whenever no request runs, until cancelled.

    Args:
        is_idle: Whether no request runs. Twice in a row it must be true before a collection, since
            the client of the last request often sends the next one at once.
    """
    was_idle = False
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        now_idle = is_idle()
        if was_idle and now_idle:
            collect_if_due()
        was_idle = now_idle
