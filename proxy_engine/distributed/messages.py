"""Messages from rank 0: an operation, and the objects that are no longer used.

A message is JSON. Replicated objects are stated by their numbers, and arrays by shape and type:
their values are broadcast by a collective operation, so that rank 0 does not wait for the device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from ..replication import mapped, replica_of

_OBJECT = "object"
_ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Message:
    """A message.

    Attributes:
        operation: Name of the operation; ``None`` if there is none.
        arguments: Its arguments.
        creates: Number of the object that it creates.
        unused: Numbers of the objects that rank 0 no longer uses.
        has_failed: Whether the operation of the previous message raised an exception on rank 0.
    """

    operation: str | None = None
    arguments: Sequence[Any] = ()
    creates: int | None = None
    unused: Sequence[int] = ()
    has_failed: bool = False

    def encode(self) -> bytes:
        """Return the message as JSON. Its arguments may contain objects and arrays."""
        return json.dumps(
            [
                self.operation,
                mapped(self.arguments, _written),
                self.creates,
                list(self.unused),
                self.has_failed,
            ],
            separators=(",", ":"),
        ).encode()

    @classmethod
    def decode(cls, text: bytes) -> Message:
        """Return the message of a JSON text, with its arguments as they were written."""
        operation, arguments, creates, unused, has_failed = json.loads(text)
        return cls(operation, arguments, creates, unused, has_failed)


def read_argument(
    value: Any, objects: Callable[[int], Any], broadcast: Callable[[mx.array], mx.array]
) -> Any:
    """Return the argument that a decoded message states.

    Args:
        value: The argument as it was written.
        objects: Returns the replicated object with a number.
        broadcast: Returns the values on rank 0 of an array of this shape and type.
    """
    if isinstance(value, list):
        return [read_argument(one, objects, broadcast) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_OBJECT}:
        return objects(value[_OBJECT])
    if value.keys() == {_ARRAY}:
        shape, dtype = value[_ARRAY]
        return broadcast(mx.zeros(shape, getattr(mx, dtype)))
    return {name: read_argument(one, objects, broadcast) for name, one in value.items()}


def broadcast(array: mx.array, group: mx.distributed.Group) -> mx.array:
    """Return the values of an array on rank 0, dispatched, not waited for.

    It is evaluated apart from what uses it: the order of the collective operations of a graph
    depends on all of its arrays that are not evaluated, and rank 0 has other ones.

    If a collective operation fails, its result is undefined, and MLX computes with it until the
    error is raised. An undefined token id crashes the process, since MLX checks no bounds. Rank 0
    therefore uses its own values. Other ranks use values whose complement has arrived as well.

    Args:
        array: On rank 0 the values, on other ranks zeros of the same shape and type: integers.
        group: The process group.
    """
    is_leader = group.rank() == 0
    sent = mx.stack([array, ~array if is_leader else array])
    values, complements = found = mx.distributed.all_sum(sent, group=group)
    result = array if is_leader else mx.where(values == ~complements, values, 0)
    mx.async_eval(found, result)
    return result


def _written(value: Any) -> Any:
    replica = replica_of(value)
    if replica is not None:
        return {_OBJECT: replica.number}
    if isinstance(value, mx.array):
        return {_ARRAY: [value.shape, str(value.dtype).removeprefix("mlx.core.")]}
    return value
