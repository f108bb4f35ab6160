"""Results of tools of MCP servers as content for the model."""

from __future__ import annotations

import base64
import json
from typing import Any

from ..conversation.content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    JsonContent,
    TextContent,
)
from ..errors import PromptError, ToolFailedError


def tool_result(name: str, result: Any) -> list[Content]:
    """Return the content of a ``CallToolResult``.

    Texts stay texts, images and recordings become media. A resource is its text, or its URI and
    what is known of it. The structured content is added as JSON unless a text says the same.

    Args:
        name: The name of the tool.
        result: The result.

    Raises:
        ToolFailedError: The server reports a failure of the tool.
    """
    parts = [_part(block) for block in result.content]
    if result.is_error:
        texts = [part.to_text() for part in parts if isinstance(part, TextContent | JsonContent)]
        raise ToolFailedError("\n".join(texts) or "the tool failed", tool=name)
    structured = result.structured_content
    if structured is not None and not _is_said(structured, parts):
        parts.append(JsonContent(structured))
    elif structured is not None and all(isinstance(part, TextContent) for part in parts):
        parts = [JsonContent(structured)]
    return parts or [TextContent("")]


def _is_said(structured: Any, parts: list[Content]) -> bool:
    """Return whether texts have a structured value, or the ``result`` that is its only member."""
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    values = [_json(text) for text in texts]
    said: list[Any] = [*texts, *values, texts, values]
    inner = structured
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        inner = structured["result"]
    return structured in said or inner in said


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _part(block: Any) -> Content:
    kind = block.type
    if kind == "text":
        return TextContent(block.text)
    if kind == "image":
        return _media(ImageContent, block.data, block.mime_type)
    if kind == "audio":
        return _media(AudioContent, block.data, block.mime_type)
    if kind == "resource":
        return _resource(block.resource)
    known = block.model_dump(mode="json", by_alias=True, exclude_none=True)
    hidden = ("annotations", "icons", "_meta")
    return JsonContent({key: value for key, value in known.items() if key not in hidden})


def _media(kind: type[ImageContent] | type[AudioContent], data: str, media_type: str) -> Content:
    try:
        return kind(data=base64.b64decode(data, validate=True), media_type=media_type)
    except ValueError as error:
        raise PromptError(f"the data of a result is no base64: {error}") from error


def _resource(resource: Any) -> Content:
    text, media_type = getattr(resource, "text", None), resource.mime_type or ""
    if text is not None:
        return FileContent(name=str(resource.uri), text=text, media_type=resource.mime_type)
    for kind in (ImageContent, AudioContent):
        if media_type.startswith(f"{kind.kind}/"):
            return _media(kind, resource.blob, media_type)
    size = len(resource.blob) * 3 // 4
    said = {"uri": str(resource.uri), "mimeType": media_type or None, "bytes": size}
    return JsonContent({key: value for key, value in said.items() if value is not None})
