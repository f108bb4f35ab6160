"""JSON Schemas of pydantic types as tools have them: closed, and without needless titles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pydantic
from pydantic.json_schema import JsonSchemaWarningKind

from ..errors import InvalidToolError
from ..pydantic_schemas import ClosedJsonSchema

__all__ = ["described", "generated_schema"]


class _ToolJsonSchema(ClosedJsonSchema):
    # A default that JSON cannot write is Python's own affair; the model may leave it out.
    ignored_warning_kinds: ClassVar[set[JsonSchemaWarningKind]] = {  # type: ignore[misc]
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Titles that only repeat a name would be read by the model, and paid for."""
        return False


def generated_schema(adapter: pydantic.TypeAdapter[Any], tool: str) -> dict[str, Any]:
    """The schema of ``adapter``, without title and description. Raises ``InvalidToolError``."""
    try:
        schema = adapter.json_schema(schema_generator=_ToolJsonSchema)
    except Exception as error:
        # A type can run its own code when pydantic builds its schema.
        raise InvalidToolError(
            f"pydantic has no schema for the parameters: {error}", tool=tool
        ) from error
    schema.pop("title", None)
    schema.pop("description", None)
    return schema


def described(schema: dict[str, Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """``schema`` with descriptions of those properties that have none."""
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
