"""JSON Schemas of parameters: closed, and without redundant titles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pydantic
from pydantic.json_schema import JsonSchemaWarningKind

from state_machines.pydantic_schemas import ClosedJsonSchema

from ..errors import InvalidToolError


class _ToolJsonSchema(ClosedJsonSchema):
    # The model may omit a parameter whose default is not JSON.
    ignored_warning_kinds: ClassVar[set[JsonSchemaWarningKind]] = {  # type: ignore[misc]
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Omit titles that repeat the name, which would cost prompt tokens."""
        return False


def generated_schema(adapter: pydantic.TypeAdapter[Any], tool: str) -> dict[str, Any]:
    """Return the schema of ``adapter``, without title and description.

    Args:
        adapter: The type.
        tool: The tool's name, for errors.

    Raises:
        InvalidToolError: Pydantic has no schema for the type.
    """
    try:
        schema = adapter.json_schema(schema_generator=_ToolJsonSchema)
    except Exception as error:
        # A type's own code, called for its schema, may raise anything.
        raise InvalidToolError(
            f"pydantic has no schema for the parameters: {error}", tool=tool
        ) from error
    schema.pop("title", None)
    schema.pop("description", None)
    return schema


def described(schema: dict[str, Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """Add descriptions to the properties that have none."""
    properties = schema.get("properties", {})
    return {
        **schema,
        **(
            {
                "properties": {
                    name: {**inner, "description": descriptions[name]}
                    if name in descriptions and "description" not in inner
                    else inner
                    for name, inner in properties.items()
                }
            }
            if properties
            else {}
        ),
    }
