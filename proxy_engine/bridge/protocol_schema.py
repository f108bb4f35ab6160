"""The protocol as a JSON Schema of every line of input and output."""

from __future__ import annotations

import json
from typing import Any, get_origin

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from .commands import COMMANDS
from .replies import INFINITE_FIELDS, PROTOCOL, REPLIES


class _SchemaGenerator(GenerateJsonSchema):
    """Leaves out titles, which repeat the names of fields."""

    def normalize_name(self, name: str) -> str:
        """Name the definition of ``GenerationResult[Any]`` without its type parameter."""
        return super().normalize_name(name.removesuffix("[Any]"))

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Replies contain all of their fields.

        Pydantic's own setting for that does not reach the fields of recursive types.
        """
        return self.mode == "serialization" or super().field_is_required(field, total)

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """Forbid names that no pattern matches."""
        generated = super().dict_schema(schema)
        if "patternProperties" in generated:
            generated["additionalProperties"] = False
        return generated

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """Permit ``null`` for a logarithm of zero."""
        generated = super().dataclass_schema(schema)
        # `GenerationResult[Any]` is an alias of the class.
        kind = get_origin(schema["cls"]) or schema["cls"]
        for name in INFINITE_FIELDS.get(kind, ()):
            if (one := generated["properties"][name]).get("type") == "number":
                one["type"] = ["number", "null"]
        return generated


def protocol_schema() -> dict[str, Any]:
    """Return a JSON Schema (2020-12) of all messages, each in a separate definition.

    ``#/$defs/Command`` is any command, ``#/$defs/Reply`` any reply.
    """
    commands = list(COMMANDS.values())
    modes: list[tuple[Any, JsonSchemaMode]] = [
        *((model, "validation") for model in commands),
        *((model, "serialization") for model in REPLIES),
    ]
    _, generated = models_json_schema(modes, schema_generator=_SchemaGenerator)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The bridge's protocol",
        "description": f"Version {PROTOCOL}: every line of input and of output.",
        "oneOf": [{"$ref": "#/$defs/Command"}, {"$ref": "#/$defs/Reply"}],
        "$defs": {
            "Command": {"oneOf": [_reference(model) for model in commands]},
            "Reply": {"oneOf": [_reference(model) for model in REPLIES]},
            **dict(sorted(generated["$defs"].items())),
        },
    }


def protocol_schema_text() -> str:
    """Return the schema as the text of ``docs/bridge-protocol.json``."""
    return json.dumps(protocol_schema(), indent=2, ensure_ascii=False) + "\n"


def _reference(model: type[Any]) -> dict[str, str]:
    return {"$ref": f"#/$defs/{model.__name__}"}
