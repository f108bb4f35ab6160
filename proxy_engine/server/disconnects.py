"""Noticing that a client has gone away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

__all__ = ["ClientGoneError", "until_gone"]

T = TypeVar("T")


class ClientGoneError(Exception):
    """Nobody is there to take the answer."""


async def until_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do ``work``, unless the client goes away: then it is cancelled.

    ``receive`` is the request's, after its body was read. Raises ``ClientGoneError``.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientGoneError
    finally:
        for task in (working, watching):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
