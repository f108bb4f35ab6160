"""Rank 0: performs operations, among them loading, and has all other ranks perform them."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from operator import attrgetter
from typing import Any

import mlx.core as mx

from ..models.load_options import LoadOptions
from ..models.loading import LoadedModel
from ..runtime.device_memory import leave_unwired
from .channel import LeaderChannel, broadcast, is_lost_connection
from .follower import follow
from .operations import (
    Operation,
    RankMessage,
    Replica,
    ReplicatedList,
    mapped,
    register,
    replicate,
)
from .session import Member, Session, join
from .sharding import load_sharded


class Leader:
    """Performs operations on all ranks. For any thread; one operation is performed at a time.

    Args:
        channel: Sends messages to the other ranks.
        group: The process group.
    """

    def __init__(self, channel: LeaderChannel, group: mx.distributed.Group) -> None:
        self._channel = channel
        self._group = group
        self._lock = threading.RLock()
        self._is_performing = False
        self._numbers = count(1)
        # Finalizers run on any thread, at any time: appending is atomic.
        self._unused: deque[int] = deque()
        self._thread: int | None = None
        self._last: mx.array | None = None
        replicate()

    def perform(self, operation: Operation, arguments: Sequence[Any]) -> Any:
        """Perform an operation on all ranks, and return the result of this one.

        An operation that another one calls is part of it, on each rank.

        Args:
            operation: The operation.
            arguments: Its arguments, see ``Operation``.

        Raises:
            Exception: What the operation raises. The other ranks have to raise as well.
        """
        with self._lock:
            if self._is_performing:
                return operation.function(*arguments)
            self._take_turn()
            self._is_performing = True
            try:
                return self._perform(operation, arguments)
            except Exception as error:
                # After a lost connection, the ranks agree which of them has failed.
                if not is_lost_connection(error):
                    self._channel.send(RankMessage(has_failed=True).encode())
                raise
            finally:
                self._is_performing = False

    def _perform(self, operation: Operation, arguments: Sequence[Any]) -> Any:
        number = None if operation.creates is None else next(self._numbers)
        unused = [self._unused.popleft() for _ in range(len(self._unused))]
        message = RankMessage(operation.name, arguments, number, unused)
        self._channel.send(message.encode())
        given = [mapped(argument, self._broadcast) for argument in arguments]
        result = operation.function(*given)
        if operation.runs_model:
            self._last = result[0] if isinstance(result, tuple) else result
            mx.async_eval(self._last)
        if operation.creates is None or number is None:
            return result
        return self._identified(result, operation.creates(result), number)

    def _identified(self, result: Any, created: Any, number: int) -> Any:
        """Return the result; the object that it created is replicated from now on."""
        if created is None:
            return result
        if type(created) is list:
            result = created = ReplicatedList(created)
        created.replica = Replica(self, number)
        weakref.finalize(created, self._unused.append, number).atexit = False
        return result

    def _broadcast(self, value: Any) -> Any:
        return broadcast(value, self._group) if isinstance(value, mx.array) else value

    def _take_turn(self) -> None:
        """Wait for the collective operations on another thread's stream."""
        thread = threading.get_ident()
        if self._thread not in (None, thread) and self._last is not None:
            mx.eval(self._last)
        self._thread = thread


def lead_or_follow(member: Member | None = None) -> Leader:
    """Join the process group. On ranks other than 0, follow rank 0 until it ends.

    Args:
        member: Is aborted if a rank fails.

    Returns:
        The leader, on rank 0.

    Raises:
        InvalidOptionError: No launcher has started the process.
        DistributedError: The group cannot be formed, or a rank has failed.
        SystemExit: Rank 0 has ended; on other ranks.
    """
    session = join()
    if not session.leads:
        session.follow(follow)
    if member is not None:
        session.watch(member)
    return _leader(session)


def load_on_all_ranks(
    leader: Leader, model: str | os.PathLike[str] | None, options: LoadOptions
) -> LoadedModel:
    """Load a model that is sharded over all ranks.

    To be called on rank 0, on the thread that will run the model.

    Args:
        leader: The leader.
        model: Directory or Hugging Face repo id, on all ranks; ``None``: the embedded model.
        options: How to load it.

    Raises:
        ModelError: The model cannot be loaded, or does not divide by the number of ranks.
        InvalidOptionError: An option does not apply to distributed models.
    """
    name = None if model is None else os.fspath(model)
    given = options.model_dump(mode="json", by_alias=True, exclude_unset=True)
    loaded: LoadedModel = leader.perform(_LOAD, (name, given))
    return loaded


def _load(model: str | None, options: Mapping[str, Any]) -> LoadedModel:
    load_options = LoadOptions(**options)
    if not load_options.wired_memory:
        leave_unwired()
    return load_sharded(model, load_options, join().group)


_LOAD = register(_load, creates=attrgetter("model"))


@cache
def _leader(session: Session) -> Leader:
    return Leader(session.channel, session.group)
