"""The state of a reader of a pydantic type, and its access to pydantic's core schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind

from state_machines.type_readers.type_schema import Distinctness, Schema

Core = Mapping[str, Any]
"""A core schema: a dict with its kind as ``type``."""


class UnreadableError(PydanticInvalidForJsonSchema):
    """No JSON is read as a part of a type.

    Attributes:
        hint: The remedy.
        pointer: The JSON Pointer of the part.
    """

    def __init__(self, message: str, *, hint: str, pointer: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.pointer = pointer


class CoreReader(Distinctness, GenerateJsonSchema):
    """Generates the schema of one type.

    Attributes:
        writes_defaults: Whether properties with a default are required.
        skipped: The choices of unions that are left out so far.
    """

    writes_defaults: ClassVar[bool] = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.skipped: list[str] = []
        self._cores: dict[str, Core] = {}

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the enclosing type."""
        config: Mapping[str, Any] = self._config.config_dict
        return config

    def is_strict(self, core: Core) -> bool:
        """Return whether a validator converts no values."""
        return bool(core.get("strict", self.config.get("strict")))

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Remember a choice of a union that is left out; other warnings are not for the caller."""
        if kind == "skipped-choice":
            self.skipped.append(detail)

    def base(self, core: Core) -> Schema:
        """Return pydantic's schema of a core schema; its parts are read by the table."""
        method = getattr(super(), f"{core['type'].replace('-', '_')}_schema")
        schema: Schema = method(core)
        return schema

    def resolved(self, core: Core) -> Core:
        """Return a core schema, or the definition that it refers to."""
        while core["type"] == "definition-ref":
            core = self._cores[core["schema_ref"]]
        return core

    def definitions_schema(self, schema: Any) -> JsonSchemaValue:
        """Return the schema of a type with definitions."""
        self._cores.update((core["ref"], core) for core in schema["definitions"])
        return super().definitions_schema(schema)
