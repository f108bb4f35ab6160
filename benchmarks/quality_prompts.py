"""Prompts: what a request says about the form of the answer, besides the question."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, get_args

from quality_tasks import Record

__all__ = ["PROMPT_VARIANTS", "PromptVariant", "prompt_of"]

PromptVariant: TypeAlias = Literal["task", "fields", "schema", "example"]
"""``"task"``: the question alone; or followed by the fields with their types, by the JSON Schema,
or by an answer of the same form with other values."""

PROMPT_VARIANTS: tuple[PromptVariant, ...] = get_args(PromptVariant)


def prompt_of(record: Record, variant: PromptVariant) -> str:
    """Return the user's message. The question comes first, so that variants share a prefix."""
    match variant:
        case "task":
            return record.question
        case "fields":
            form = f"Answer with {_described(record.schema)}"
        case "schema":
            form = f"Answer with JSON that matches this JSON Schema:\n{json.dumps(record.schema)}"
        case "example":
            form = f"Answer with JSON of this form:\n{json.dumps(record.example)}"
    return f"{record.question}\n\n{form}"


def _described(schema: Mapping[str, Any]) -> str:
    if schema.get("type") == "array":
        return "a JSON array with these items:\n" + "\n".join(
            f"- {_inline(item)}" for item in schema["items"]["anyOf"]
        )
    return "a JSON object with these fields:\n" + "\n".join(
        f"- {name}: {_inline(member)}" for name, member in schema["properties"].items()
    )


def _inline(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " or ".join(map(json.dumps, schema["enum"]))
    if "properties" in schema:
        members = (f'"{name}": {_inline(s)}' for name, s in schema["properties"].items())
        return f"{{{', '.join(members)}}}"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(kinds) + "".join(_details(schema))


def _details(schema: Mapping[str, Any]) -> Iterator[str]:
    if "minimum" in schema:
        yield f" from {schema['minimum']} to {schema['maximum']}"
    if schema.get("format") == "date":
        yield " (YYYY-MM-DD)"
    if "pattern" in schema:
        yield " (HH:MM)"
    if "items" in schema:
        yield f" of {_inline(schema['items'])}"
