"""The ranks other than 0: they perform the operations that rank 0 performs."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module

from ..errors import DistributedError
from ..runtime.device_memory import clear_cache, model_bytes, wired_memory
from .channel import FollowerChannel, broadcast
from .operations import OPERATIONS, RankMessage, read_argument

_PASSES_IN_FLIGHT = 2
"""Passes that are dispatched and not waited for. The CPU prepares the next one meanwhile."""

_PASSES_BETWEEN_CACHE_CLEARINGS = 256

_SECONDS_TO_FAIL = 5
"""How long rank 0 may take to fail as well."""


def follow(channel: FollowerChannel, group: mx.distributed.Group) -> None:
    """Perform the operations of rank 0 until it ends.

    Args:
        channel: Receives the messages of rank 0.
        group: The process group.

    Raises:
        DistributedError: The connection to rank 0 is lost, or this rank cannot do what rank 0 does.
    """
    with ExitStack() as stack:
        follower = Follower(group, stack)
        while (text := channel.receive()) is not None:
            error = follower.perform(RankMessage.decode(text))
            if error is not None:
                # Probes try what some models cannot do: then rank 0 fails as well.
                _expect_failure(error, channel, group.rank())


def _expect_failure(error: Exception, channel: FollowerChannel, rank: int) -> None:
    """Raise ``DistributedError`` unless the same operation fails on rank 0."""
    what = f"rank {rank} cannot perform an operation of rank 0: {error}"
    try:
        text = channel.receive(_SECONDS_TO_FAIL)
    except TimeoutError:
        raise DistributedError(what, rank=rank) from error
    if text is not None and not RankMessage.decode(text).has_failed:
        raise DistributedError(what, rank=rank) from error


class Follower:
    """Performs the operations of rank 0 on this rank.

    Args:
        group: The process group.
        stack: Ends with the process.

    Attributes:
        objects: The replicated objects of this rank, by number.
    """

    def __init__(self, group: mx.distributed.Group, stack: ExitStack) -> None:
        self._group = group
        self.objects: dict[int, Any] = {}
        self._in_flight: deque[mx.array] = deque()
        self._passes = 0
        self._stack = stack

    def perform(self, message: RankMessage) -> Exception | None:
        """Perform the operation of a message, and return the exception that it raises.

        Raises:
            DistributedError: The previous operation failed on rank 0 only.
        """
        if message.has_failed:
            raise DistributedError("an operation failed on rank 0 only", rank=0)
        for number in message.unused:
            self.objects.pop(number, None)
        if message.operation is not None:
            try:
                self._perform(message, message.operation)
            except Exception as error:
                # Whatever it is, rank 0 has to meet it as well.
                return error
        return None

    def _perform(self, message: RankMessage, name: str) -> None:
        operation = OPERATIONS[name]
        arguments = [
            read_argument(one, self.objects.__getitem__, self._broadcast)
            for one in message.arguments
        ]
        result = operation.function(*arguments)
        if operation.runs_model:
            self._dispatch(result[0] if isinstance(result, tuple) else result)
        if operation.creates is not None and message.creates is not None:
            created = operation.creates(result)
            if isinstance(created, Module):
                self._stack.enter_context(wired_memory(model_bytes(created)))
            self.objects[message.creates] = created

    def _dispatch(self, output: mx.array) -> None:
        mx.async_eval(output)
        self._in_flight.append(output)
        if len(self._in_flight) > _PASSES_IN_FLIGHT:
            mx.eval(self._in_flight.popleft())
        self._passes += 1
        if self._passes % _PASSES_BETWEEN_CACHE_CLEARINGS == 0:
            clear_cache()

    def _broadcast(self, array: mx.array) -> mx.array:
        return broadcast(array, self._group)
