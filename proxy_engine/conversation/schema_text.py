"""The text that describes a response format in the prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from .schema_outline import schema_outline

SchemaInPrompt: TypeAlias = Literal["off", "outline", "json_schema"]

MAX_CHARS = 8_000
"""Maximum number of characters of a description, some 2,500 tokens."""


def schema_text(
    schemas: Sequence[tuple[str, Any]],
    form: SchemaInPrompt,
    *,
    may_call: bool = False,
    max_chars: int = MAX_CHARS,
) -> str:
    """Return the instruction to answer with JSON of a schema; empty if there is nothing to say.

    A schema whose text would be longer than its share of ``max_chars`` is written as an outline,
    and a longer outline is cut, see :func:`schema_outline`.

    Args:
        schemas: Names and JSON Schemas of the parts of the answer that are JSON.
        form: How to describe the schemas.
        may_call: Whether the answer may be a tool call instead.
        max_chars: Maximum number of characters of all schemas.
    """
    if form == "off" or not schemas:
        return ""
    share = max_chars // len(schemas)
    texts = []
    for name, schema in schemas:
        subject = "Answer with" if len(schemas) == 1 else f"Write the part {name} as"
        how, described = _described(schema, form, share)
        texts.append(f"{subject} JSON {how}:\n{described}")
    if may_call:
        texts.insert(0, "Call tools if they are needed. If you call none:")
    return "\n\n".join(texts)


def with_schema_text(messages: Sequence[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return messages whose first message of the user begins with a description.

    There it precedes what differs between requests with one schema, and stays in place when a
    conversation continues, so that the prompt cache finds it. A system message would replace the
    default one of many chat templates, and some templates have none.
    """
    written = [dict(message) for message in messages]
    for message in written:
        if message["role"] == "user":
            message["content"] = f"{text}\n\n{message['content']}" if message["content"] else text
            return written
    place = next((i for i, m in enumerate(written) if m["role"] != "system"), len(written))
    written.insert(place, {"role": "user", "content": text})
    return written


def _described(schema: Any, form: SchemaInPrompt, max_chars: int) -> tuple[str, str]:
    if form == "json_schema":
        text = json.dumps(schema, ensure_ascii=False)
        if len(text) <= max_chars:
            return "that matches this JSON Schema", text
    return "in this form", schema_outline(schema, max_chars)
