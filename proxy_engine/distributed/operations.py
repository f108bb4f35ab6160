"""The operations that all ranks of a distributed run perform, each on its own shard.

Rank 0 decides, the other ranks repeat. Models and caches are *replicated objects*: each rank has
its own, identified by the same number. An operation on a replicated object is performed by rank 0
and by all other ranks, in the same order.

The modules of the generation loop are written for one rank, and know of no other. This module names
their functions that run a model or change a cache, and :func:`replicate` puts functions in their
place that announce the operation to the other ranks. Without a replicated object among its
arguments, such a function is the one that it replaces.

The inputs of the scheduler are not enough for the ranks to agree. Processors and samplers are
functions of the caller, which cannot be sent; deadlines, slow masks and the measured costs of
drafts depend on each rank's clock; and computers that round differently sample different tokens
where two are nearly tied, after which the ranks wait for each other forever. The calls of the model
alone are not enough either: the loop trims, merges and copies caches between them.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, cast

import mlx.core as mx

from ..generation import cache_layers, forward_pass, model_checks, output_layer, shared_prefix
from ..prompt_cache import layers, prompt_caches


class Performer(Protocol):
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

    leader: Performer
    number: int


class ReplicatedList(list[Any]):
    """A list that is a replicated object, such as a cache with one entry per layer."""

    replica: Replica


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that all ranks perform.

    Attributes:
        name: Identifies it in messages.
        function: Performs it on one rank. Its arguments are positional: replicated objects, arrays,
            numbers, texts, ``None``, and lists, tuples and dicts of these. It is deterministic.
        runs_model: Whether it runs the model, so that its result contains collective operations,
            which all ranks have to evaluate. Of a tuple, the first item does.
        creates: Returns the new replicated object from the result; ``None`` if there is none.
    """

    name: str
    function: Callable[..., Any]
    runs_model: bool = False
    creates: Callable[[Any], Any] | None = None


OPERATIONS: dict[str, Operation] = {}
"""All operations, by name."""


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


def _itself(value: Any) -> Any:
    return value


_RUNNING: tuple[tuple[object, str], ...] = (
    (forward_pass, "run_model"),
    (output_layer.OutputLayer, "forward"),
)
"""Functions that run the model."""

_CREATING: tuple[tuple[object, str], ...] = (
    (prompt_caches, "_fresh_cache"),
    (layers, "copy_cache"),
    *((cache_layers, name) for name in ("merge", "extract_row", "extract_kv_row")),
    (cache_layers.Rollback, "before"),
    (cache_layers.RowsRollback, "before"),
    *((shared_prefix, name) for name in ("prefix_layers", "prefix_caches", "row_layers")),
    (output_layer.OutputLayer, "of"),
    (model_checks, "_texts"),
)
"""Functions that return a new replicated object, or ``None``."""

_CHANGING: tuple[tuple[object, str], ...] = (
    *((cache_layers, name) for name in ("extend", "keep_rows", "trim", "trim_rows")),
    *((cache_layers, name) for name in ("_begin_padding", "_end_padding", "drop_padding")),
    (cache_layers.Rollback, "drop"),
    (cache_layers.RowsRollback, "drop"),
    (layers, "trim_to"),
    (layers, "evaluate"),
    (prompt_caches, "_quantize"),
    (model_checks, "_rows_together"),
    (model_checks, "_wide_pass_error"),
)
"""Functions that change a replicated object, or read what every rank has to compute."""


def _register_all() -> Iterator[Operation]:
    for owner, name in (*_RUNNING, *_CREATING, *_CHANGING):
        place = owner, name
        yield register(
            _function(inspect.getattr_static(owner, name)),
            runs_model=place in _RUNNING,
            creates=_itself if place in _CREATING else None,
        )


def _function(value: Any) -> Any:
    """Return the function of a static method; any other value unchanged."""
    return value.__func__ if isinstance(value, staticmethod) else value


_REPLICATED = {id(operation.function): operation for operation in _register_all()}
"""The operations of the generation loop, by the identity of their functions."""


def replicate() -> None:
    """Have functions of this process announce their operations. For rank 0; idempotent.

    A function is replaced under all names that modules and classes of this package have for it.
    Modules that are imported later import the new function.
    """
    package = __name__.partition(".")[0]
    announced = {key: _announced(operation) for key, operation in _REPLICATED.items()}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != package:
            continue
        classes = [value for value in vars(module).values() if inspect.isclass(value)]
        for owner in (module, *(cls for cls in classes if cls.__module__ == name)):
            for attribute, value in list(vars(owner).items()):
                found = announced.get(id(_function(value)))
                if found is not None:
                    is_static = isinstance(value, staticmethod)
                    setattr(owner, attribute, staticmethod(found) if is_static else found)


def _announced(operation: Operation) -> Callable[..., Any]:
    """Return a function that has all ranks perform an operation on replicated objects."""
    function = operation.function

    @wraps(function)
    def perform(*arguments: Any, **named: Any) -> Any:
        leader = _leader(arguments)
        if leader is None:
            return function(*arguments, **named)
        if named:
            raise TypeError(f"{operation.name} takes positional arguments")
        return leader.perform(operation, arguments)

    return perform


def replica_of(value: object) -> Replica | None:
    """Return what identifies a replicated object on rank 0; ``None`` for any other object."""
    return getattr(value, "replica", None)


def _leader(arguments: Sequence[object]) -> Performer | None:
    """Return the leader of the first replicated object among arguments, and items of lists."""
    for argument in arguments:
        items = argument if type(argument) in (list, tuple) else ()
        for value in (argument, *cast("Sequence[object]", items)):
            replica = replica_of(value)
            if replica is not None:
                return replica.leader
    return None


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of nested plain lists, tuples and mappings with changed leaves."""
    if type(value) in (list, tuple):
        return [mapped(item, change) for item in value]
    if isinstance(value, Mapping) and replica_of(value) is None:
        return {name: mapped(item, change) for name, item in value.items()}
    return change(value)


_OBJECT = "object"
_ARRAY = "array"


@dataclass(frozen=True, slots=True)
class RankMessage:
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
        """Return the message as JSON. Its arguments may contain objects and arrays.

        An array is stated by shape and type. Its values are broadcast by a collective operation, so
        that rank 0 does not wait for the device.
        """
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
    def decode(cls, text: bytes) -> RankMessage:
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
        return [read_argument(item, objects, broadcast) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_OBJECT}:
        return objects(value[_OBJECT])
    if value.keys() == {_ARRAY}:
        shape, dtype = value[_ARRAY]
        return broadcast(mx.zeros(shape, getattr(mx, dtype)))
    return {name: read_argument(item, objects, broadcast) for name, item in value.items()}


def _written(value: Any) -> Any:
    replica = replica_of(value)
    if replica is not None:
        return {_OBJECT: replica.number}
    if isinstance(value, mx.array):
        return {_ARRAY: [value.shape, str(value.dtype).removeprefix("mlx.core.")]}
    return value
