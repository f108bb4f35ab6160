"""Listed values of pydantic types: literals and enums, as values and as keys.

The validator itself is asked which JSON it reads as a value: a tuple, a date or a member of an
enum in a ``Literal`` is read from none. Observed with pydantic 2.14.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic_core import SchemaValidator, to_jsonable_python

from state_machines.type_readers.core_reader import Core, CoreReader, UnreadableError
from state_machines.type_readers.type_schema import LEFT_OUT, Schema, listed, note


def literal(reader: CoreReader, core: Core) -> Schema:
    """``Literal``: the values that the validator reads from their own JSON."""
    return _listed(reader, core, [(value, value) for value in core["expected"]], "Literal")


def enumeration(reader: CoreReader, core: Core) -> Schema:
    """``Enum``: the values of the members that the validator reads from their own JSON."""
    members = [(member.value, member) for member in core["members"]]
    kind = core["cls"]
    schema = _listed(reader, core, members, kind.__name__)
    described = (kind.__doc__ or "").strip()
    if described and described != "An enumeration.":
        schema["description"] = described
    return {"title": kind.__name__, **schema}


def _listed(reader: CoreReader, core: Core, values: list[tuple[Any, Any]], what: str) -> Schema:
    """Return the schema of listed values, each with the object that it is read as."""
    validator = SchemaValidator(core)
    readable: list[Any] = []
    lost: list[str] = []
    for value, expected in values:
        if reader.is_canonical and value in readable:
            # 1 and True are equal in a set.
            continue
        found = [text for text in _written(value) if reads(validator, text, expected)]
        if found:
            readable.append(json.loads(found[0]))
        else:
            lost.append(repr(expected))
    if not readable:
        raise UnreadableError(
            f"no JSON value is read as a member of {what}",
            hint="Give members that are strings, numbers, Booleans or None; in a Literal, give "
            "the value of an enum's member instead of the member",
        )
    schema = listed(readable)
    return note(schema, LEFT_OUT, *lost) if lost else schema


def _written(value: Any) -> Iterator[str]:
    """Yield JSON texts that a value may be read from."""
    text = json_of(value)
    if text is not None:
        yield text
    if isinstance(value, Decimal) and value.is_finite():
        yield json.dumps(float(value))


def json_of(value: Any) -> str | None:
    """Return the JSON text that pydantic writes for a value; ``None`` if there is none."""
    if isinstance(value, Enum) and not isinstance(value, str | int):
        value = value.value
    try:
        return json.dumps(to_jsonable_python(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None


def reads(validator: SchemaValidator, written: str, expected: Any) -> bool:
    """Return whether a validator reads a JSON text as an object."""
    try:
        found = validator.validate_json(written)
    except Exception:
        # The validator of an enum calls the code of the user's class.
        return False
    return found is expected or (type(found) is type(expected) and bool(found == expected))


def listed_keys(core: Core) -> Any:
    """Return the names that are read as members of an enum or a literal."""
    validator = _key_validator(core)
    members = core["members"] if core["type"] == "enum" else core["expected"]
    names, lost = [], []
    for member in members:
        value = getattr(member, "value", member)
        name = value if isinstance(value, str) else json_of(value)
        written = None if name is None else json_of({name: None})
        if written is not None and reads(validator, written, {member: None}):
            names.append(name)
        else:
            lost.append(repr(member))
    if not names:
        return False
    schema: Schema = {"enum": names}
    return note(schema, LEFT_OUT, *(f"the key {name}" for name in lost)) if lost else schema


def _key_validator(core: Core) -> SchemaValidator:
    """Return the validator of a dictionary whose keys are of a core schema."""
    return SchemaValidator({"type": "dict", "keys_schema": core})
