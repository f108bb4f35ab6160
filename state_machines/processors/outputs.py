"""From a schema or a type to a state machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from state_machines.caches import LruCache
from state_machines.errors import InvalidArgumentError
from state_machines.json_schema import JsonSchemaStateMachine
from state_machines.machine import StateMachine

_MAX_MACHINES = 64

_machines: LruCache[str, StateMachine] = LruCache(_MAX_MACHINES)


def machine_of(output: object) -> StateMachine:
    """Return the state machine of an output.

    A JSON Schema is compiled with the whitespace that ``json.dumps`` writes, and its objects have
    the properties that it lists, unless it says more about others. The last 64 machines of schemas
    are cached, with the masks that their states have stored.

    Args:
        output: A state machine, a JSON Schema (a mapping or a bool), a pydantic model, or a
            ``pydantic.TypeAdapter``.

    Raises:
        InvalidArgumentError: It is none of these.
        SchemaError: The schema is invalid, unsatisfiable, or would not be enforced.
    """
    if isinstance(output, StateMachine):
        return output
    schema = output if isinstance(output, Mapping | bool) else _schema_of(output)
    try:
        # Not sorted: properties are written in the schema's order.
        key = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the schema is not JSON: {error}", argument="output") from error
    machine = _machines.get(key)
    if machine is None:
        # A copy, since the caller may change the mapping.
        machine = JsonSchemaStateMachine(
            json.loads(key), whitespace="spaced", additional_properties="closed"
        )
        _machines.put(key, machine)
    return machine


def _schema_of(output: object) -> Any:
    for method in ("model_json_schema", "json_schema"):
        if callable(make := getattr(output, method, None)):
            from state_machines.pydantic_schemas import ClosedJsonSchema  # noqa: PLC0415

            return make(schema_generator=ClosedJsonSchema)
    raise InvalidArgumentError(
        f"a {type(output).__name__} is no output",
        argument="output",
        hint="Give a state machine, a JSON Schema, a pydantic model or a pydantic.TypeAdapter",
    )
