"""Names in JSON of a pydantic type's fields: aliases, and paths into nested objects and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any, TypeAlias

from state_machines.type_readers.core_reader import UnreadableError
from state_machines.type_readers.type_schema import DEFAULTED, Schema

Path: TypeAlias = tuple[str | int, ...]
"""The names and indices that lead to the value of a field."""


def field_paths(
    core: Mapping[str, Any], name: str, *, uses_alias: bool, uses_name: bool
) -> tuple[Path, ...]:
    """Return the paths at which the value of a field is read; the first that exists is used.

    Args:
        core: The core schema of the field.
        name: The name of the field.
        uses_alias: Whether the alias is read.
        uses_name: Whether the name is read if no alias is there.
    """
    alias = core.get("validation_alias", name) if uses_alias else name
    if isinstance(alias, str):
        paths: list[Path] = [(alias,)]
    else:
        paths = [tuple(path) if isinstance(path, list) else (path,) for path in alias]
        if isinstance(alias, list) and not any(isinstance(path, list) for path in alias):
            paths = [tuple(alias)]
    if uses_name:
        paths.append((name,))
    return tuple(dict.fromkeys(paths))


def chosen_paths(fields: Sequence[tuple[Path, ...]]) -> Sequence[Path]:
    """Return a path for each field: the shortest that are read together.

    Args:
        fields: The paths of each field.
    """
    names = [paths[0] for paths in fields if len(paths[0]) == 1]
    if len(set(names)) == len(fields):
        return names
    shortest = [min(paths, key=len) for paths in fields]
    by_length = [sorted(paths, key=len) for paths in fields]
    combinations = islice(product(*by_length), _MOST_COMBINATIONS)
    return next((found for found in combinations if _are_read(found, fields)), shortest)


_MOST_COMBINATIONS = 1000


def _are_read(paths: Sequence[Path], fields: Sequence[tuple[Path, ...]]) -> bool:
    """Return whether each field is read at its path, and no path is within another."""
    for index, (path, options) in enumerate(zip(paths, fields, strict=True)):
        others = [*paths[:index], *paths[index + 1 :]]
        if any(_clash(path, other) for other in others):
            return False
        preferred = options[: options.index(path)]
        if any(other[: len(path)] == path for path in preferred for other in others):
            return False
    return True


def _clash(path: Path, other: Path) -> bool:
    """Return whether two paths need different values at one place."""
    for step, other_step in zip(path, other, strict=False):
        if step != other_step:
            return type(step) is not type(other_step)
    return True


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
        """Add a value at a path. Several values at a path are the same JSON."""
        here = self
        for step in path:
            here = here.inner.setdefault(step, MemberTree())
            here.is_required |= is_required
            here.is_defaulted |= is_defaulted
        here.schema = schema if here.schema is None else {"allOf": [here.schema, schema]}

    def written(self) -> Schema:
        """Return the schema of the object, array or value."""
        if not self.inner:
            return {} if self.schema is None else self.schema
        if self.schema is not None:
            return {"allOf": [self.schema, replace(self, schema=None).written()]}
        if all(isinstance(step, int) for step in self.inner):
            return self._array()
        if any(isinstance(step, int) for step in self.inner):
            steps = ", ".join(map(repr, self.inner))
            raise UnreadableError(
                f"the steps {steps} of paths of aliases need an array and an object",
                hint="Give paths that lead into objects or into arrays alone",
            )
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
