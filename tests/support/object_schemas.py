"""JSON Schemas of objects that have the listed properties and no others, and tools that take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["closed_object", "function_tool"]


def closed_object(required: Sequence[str] | None = None, /, **properties: Any) -> dict[str, Any]:
    """Return the schema of objects without other properties.

    Args:
        required: The names of the required properties; all of them by default.
        **properties: Their schemas.
    """
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def function_tool(name: str, parameters: Any, *, description: str | None = None) -> dict[str, Any]:
    """Return OpenAI's definition of a tool."""
    function = {"name": name, "description": description, "parameters": parameters}
    return {
        "type": "function",
        "function": {key: value for key, value in function.items() if value is not None},
    }
