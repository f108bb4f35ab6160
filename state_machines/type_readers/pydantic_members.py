"""Names in JSON of a pydantic type's fields: aliases, and paths into nested objects and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from state_machines.type_readers.marks import DEFAULTED, Schema

Path: TypeAlias = tuple[str | int, ...]
"""The names and indices that lead to the value of a field."""


def field_path(core: Mapping[str, Any], name: str, *, uses_alias: bool) -> Path:
    """Return the path at which the value of a field is read: the shortest that is listed.

    Args:
        core: The core schema of the field.
        name: The name of the field.
        uses_alias: Whether the alias is read.
    """
    alias = core.get("validation_alias", name) if uses_alias else name
    if isinstance(alias, str):
        return (alias,)
    paths: list[Path] = [tuple(path) if isinstance(path, list) else (path,) for path in alias]
    if isinstance(alias, list) and not any(isinstance(path, list) for path in alias):
        paths = [tuple(alias)]
    return min(paths, key=len)


@dataclass(slots=True)
class MemberTree:
    """The members of an object, at names and at paths into its values.

    Attributes:
        schema: The schema of a value at the end of a path.
        inner: The values below, by name or index.
        is_required: Whether a value is required here or below.
        is_defaulted: Whether the value has a default.
    """

    schema: Schema | None = None
    inner: dict[str | int, MemberTree] = field(default_factory=dict)
    is_required: bool = False
    is_defaulted: bool = False

    def add(self, path: Path, schema: Schema, *, is_required: bool, is_defaulted: bool) -> None:
        """Add a value at a path; the first value at a path stays."""
        here = self
        for step in path:
            here = here.inner.setdefault(step, MemberTree())
            here.is_required |= is_required
            here.is_defaulted |= is_defaulted
        if here.schema is None:
            here.schema = schema

    def written(self) -> Schema:
        """Return the schema of the object, array or value."""
        if not self.inner:
            return {} if self.schema is None else self.schema
        if all(isinstance(step, int) for step in self.inner):
            return self._array()
        properties = {str(name): tree.written() for name, tree in self.inner.items()}
        schema: Schema = {"type": "object", "properties": properties}
        required = [str(name) for name, tree in self.inner.items() if tree.is_required]
        if required:
            schema["required"] = required
        defaulted = [
            str(name)
            for name, tree in self.inner.items()
            if tree.is_required and tree.is_defaulted and not tree.inner
        ]
        return {**schema, DEFAULTED: defaulted} if defaulted else schema

    def _array(self) -> Schema:
        last = max(int(step) for step in self.inner)
        items = [self.inner[i].written() if i in self.inner else {} for i in range(last + 1)]
        required = [int(step) for step, tree in self.inner.items() if tree.is_required]
        return {
            "type": "array",
            "prefixItems": items,
            "minItems": max(required, default=-1) + 1,
            "maxItems": len(items),
        }
