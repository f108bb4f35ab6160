"""Operations that all ranks of a distributed engine perform, each on its own shard.

Rank 0 decides, the other ranks repeat. Models and caches are *replicated objects*: each rank has
its own, identified by the same number. An operation on a replicated object is performed by rank 0
and by all other ranks, in the same order. Without a replicated object among its arguments, it is
an ordinary function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class Leader(Protocol):
    """Rank 0."""

    def perform(self, operation: Operation, arguments: Sequence[Any]) -> Any:
        """Perform an operation on all ranks, and return the result of rank 0."""


@dataclass(frozen=True, slots=True)
class Replica:
    """Identifies a replicated object on rank 0. It is the attribute ``replica`` of the object.

    Attributes:
        leader: Rank 0.
        number: The object's number, the same on all ranks.
    """

    leader: Leader
    number: int


class ReplicatedList(list[Any]):
    """A list that is a replicated object, such as a cache with one entry per layer."""

    replica: Replica


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that all ranks perform.

    Attributes:
        name: Identifies it in messages.
        function: Performs it on one rank. Its arguments are replicated objects, arrays, numbers,
            texts, ``None``, and lists, tuples and dicts of these. It is deterministic.
        runs_model: Whether it runs the model, so that its result contains collective operations,
            which all ranks have to evaluate. Of a tuple, the first item does.
        creates: Returns the new replicated object from the result; ``None`` if there is none.
    """

    name: str
    function: Callable[..., Any]
    runs_model: bool = False
    creates: Callable[[Any], Any] | None = None


OPERATIONS: dict[str, Operation] = {}
"""The operations of the imported modules, by name."""


def replicated(
    *, runs_model: bool = False, creates: bool = False
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of functions that all ranks perform; see :class:`Operation`.

    The decorated function takes positional arguments.

    Args:
        runs_model: Whether the function runs the model.
        creates: Whether the result is a new replicated object, unless it is ``None``.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        operation = register(function, runs_model=runs_model, creates=_itself if creates else None)

        @wraps(function)
        def perform(*arguments: P.args, **named: P.kwargs) -> T:
            leader = _leader(arguments)
            if leader is None:
                return function(*arguments, **named)
            if named:
                raise TypeError(f"{operation.name} takes positional arguments")
            return cast(T, leader.perform(operation, arguments))

        return perform

    return decorate


def register(
    function: Callable[..., Any],
    *,
    runs_model: bool = False,
    creates: Callable[[Any], Any] | None = None,
) -> Operation:
    """Return the operation of a function, and add it to :data:`OPERATIONS`."""
    name = f"{function.__module__}.{function.__qualname__}"
    operation = OPERATIONS[name] = Operation(name, function, runs_model, creates)
    return operation


def replica_of(value: object) -> Replica | None:
    """Return what identifies a replicated object on rank 0; ``None`` for any other object."""
    return getattr(value, "replica", None)


def _leader(arguments: Sequence[object]) -> Leader | None:
    """Return the leader of the first replicated object among arguments, and items of lists."""
    for argument in arguments:
        items = argument if type(argument) in (list, tuple) else ()
        for value in (argument, *cast("Sequence[object]", items)):
            replica: Replica | None = getattr(value, "replica", None)
            if replica is not None:
                return replica.leader
    return None


def _itself(value: Any) -> Any:
    return value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of nested plain lists, tuples and mappings with changed leaves."""
    if type(value) in (list, tuple):
        return [mapped(item, change) for item in value]
    if isinstance(value, Mapping) and replica_of(value) is None:
        return {name: mapped(item, change) for name, item in value.items()}
    return change(value)
