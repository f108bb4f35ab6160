"""The generator of the schema of one msgspec type, with the definitions of its classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import inspect

from state_machines.errors import UnsatisfiableSchemaError
from state_machines.json_schema.reader.schema_copy import pointer_token
from state_machines.type_readers.type_schema import Distinctness, Schema

Row: TypeAlias = Callable[["MsgspecReader", Any], Schema]
"""Returns the schema of one kind of type, given the reader and the type."""

_Key: TypeAlias = tuple[Any, bool, bool]
"""A class, and whether its values are hashable and canonical."""


def class_name(cls: Any) -> str:
    """Return the name of a class, or of a generic class with its arguments."""
    if not hasattr(cls, "__origin__"):
        return str(cls.__name__)
    arguments = (
        argument.__name__ if isinstance(argument, type) else repr(argument)
        for argument in cls.__args__
    )
    return f"{cls.__origin__.__name__}[{', '.join(arguments)}]"


class MsgspecReader(Distinctness):
    """Generates the schema of one type.

    Args:
        rows: Returns the schema of each kind of type.
        writes_defaults: Whether properties with a default are required.
    """

    def __init__(self, rows: Mapping[type[inspect.Type], Row], *, writes_defaults: bool) -> None:
        self._rows = rows
        self.writes_defaults = writes_defaults
        self._names: dict[_Key, str] = {}
        self._definitions: dict[str, Schema] = {}
        self._path: list[str] = []

    def whole(self, info: inspect.Type) -> Schema:
        """Return the schema of a type, with its definitions."""
        schema = self.schema(info)
        name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
        if name in self._definitions and not _refers_to(self._definitions, schema["$ref"]):
            schema = {**self._definitions.pop(name), **schema}
            del schema["$ref"]
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def schema(self, info: inspect.Type, *steps: str | int) -> Schema:
        """Return the schema of a part.

        Args:
            info: The type of the part.
            steps: The pointer of the part in the schema of the enclosing one.
        """
        self._path.extend(map(str, steps))
        try:
            if isinstance(info, inspect.Metadata):
                # As msgspec does: keywords of the type prevail.
                return {**(info.extra_json_schema or {}), **self.schema(info.type)}
            return self._rows[type(info)](self, info)
        finally:
            del self._path[len(self._path) - len(steps) :]

    def unreadable(self, what: str, hint: str) -> UnsatisfiableSchemaError:
        """Return the error of a part that no JSON is read as."""
        pointer = "".join(f"/{pointer_token(step)}" for step in self._path)
        return UnsatisfiableSchemaError(what, pointer=pointer, hint=hint)

    def unhashable(self, what: str, instead: str) -> UnsatisfiableSchemaError:
        """Return the error of an item of a set that cannot be hashed."""
        return self.unreadable(
            f"{what} is not hashable, so it cannot be in a set", f"Give {instead}, or a list of it"
        )

    def definition(self, cls: Any, make: Callable[[], Schema], *, is_scalar: bool) -> Schema:
        """Return a reference to the schema of a class, which is generated once.

        Args:
            cls: The class.
            make: Generates the schema.
            is_scalar: Whether the schema is the same in a set.
        """
        is_in_set = self.is_hashable and not is_scalar
        key = (cls, is_in_set, is_in_set and self.is_canonical)
        if key in self._names:
            return {"$ref": f"#/$defs/{self._names[key]}"}
        names, definitions, path = dict(self._names), dict(self._definitions), self._path
        name = self._names[key] = self._free_name(cls)
        # Keeps the place of the definition, before the definitions that it refers to.
        self._definitions[name] = {}
        self._path = ["$defs", name] if path else []
        try:
            self._definitions[name] = make()
        except UnsatisfiableSchemaError:
            # Definitions made since may refer to this one.
            self._names, self._definitions = names, definitions
            raise
        finally:
            self._path = path
        return {"$ref": f"#/$defs/{name}"}

    def _free_name(self, cls: Any) -> str:
        origin = getattr(cls, "__origin__", cls)
        qualified = f"{origin.__module__}.{origin.__qualname__}"
        names = [
            class_name(cls),
            qualified,
            *(f"{qualified}.{n}" for n in range(2, 1 + len(self._names))),
        ]
        safe = (re.sub(r"[^a-zA-Z0-9.\-_]", "_", name) for name in names)
        return next(name for name in safe if name not in self._definitions)


def _refers_to(schema: Any, reference: str) -> bool:
    if isinstance(schema, dict):
        return schema.get("$ref") == reference or any(
            _refers_to(part, reference) for part in schema.values()
        )
    return isinstance(schema, list) and any(_refers_to(part, reference) for part in schema)
