"""The protocol as one JSON Schema: what any line of input or output must match."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from .commands import COMMANDS
from .replies import PROTOCOL, REPLIES

__all__ = ["protocol_schema", "protocol_schema_text"]


class _Exact(GenerateJsonSchema):
    """Without titles, which would only say the names of the fields once more."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """What is no name of an entry is refused."""
        generated = super().dict_schema(schema)
        if "patternProperties" in generated:
            generated["additionalProperties"] = False
        return generated


def protocol_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) of all messages, each a definition of its own.

    ``#/$defs/Command`` is any command, ``#/$defs/Reply`` any reply.
    """
    commands = list(COMMANDS.values())
    modes: list[tuple[Any, JsonSchemaMode]] = [
        *((model, "validation") for model in commands),
        *((model, "serialization") for model in REPLIES),
    ]
    _, generated = models_json_schema(modes, schema_generator=_Exact)
    definitions = generated["$defs"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The bridge's protocol",
        "description": f"Version {PROTOCOL}: every line of input and of output.",
        "oneOf": [{"$ref": "#/$defs/Command"}, {"$ref": "#/$defs/Reply"}],
        "$defs": {
            "Command": {"oneOf": [_reference(model) for model in commands]},
            "Reply": {"oneOf": [_reference(model) for model in REPLIES]},
            **dict(sorted(definitions.items())),
        },
    }


def protocol_schema_text() -> str:
    """The same as text, as it is kept in ``docs/bridge-protocol.json``."""
    return json.dumps(protocol_schema(), indent=2, ensure_ascii=False) + "\n"


def _reference(model: type[Any]) -> dict[str, str]:
    return {"$ref": f"#/$defs/{model.__name__}"}
