"""Content parts with images, recordings and video in the messages of requests.

The model reads no text from them. Their data counts neither as characters of a prompt, nor is it
logged. Their URLs are fetched only if the settings allow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..checks import short_repr
from ..errors import MediaError
from .errors import PartName, media_error

# Not `file`, since the text of a file is read.
_MEDIA_TYPES = frozenset(
    ("image_url", "audio_url", "video_url", "input_audio", "image", "audio", "video")
)


def check_urls(messages: list[dict[str, Any]], part_name: PartName, *, is_allowed: bool) -> None:
    """Raise ``ApiError`` for media at other than ``data:`` URLs, unless URLs are allowed.

    The server refuses them whatever the options of the engine allow.

    Args:
        messages: The messages of a request.
        part_name: The endpoint's names for content parts.
        is_allowed: Whether the setting allows them.
    """
    for index, number, url in () if is_allowed else _media_urls(messages):
        if url[:5].lower() != "data:":
            is_fetchable = url.lower().startswith(("http:", "https:"))
            error = MediaError(
                f"this server reads data: URLs only, not {short_repr(url)}",
                where=f"message {index}, part {number}",
                limit="allow_urls" if is_fetchable else None,
            )
            raise media_error(error, part_name(index, number))


def prompt_characters(messages: list[dict[str, Any]]) -> int:
    """Return the number of characters in the strings of messages, without media."""
    return _count_characters(without_media(messages))


def without_media(prompt: Any) -> Any:
    """Return a prompt with the size of each image, recording or video in place of its data.

    Only lists of messages have such parts; other prompts are returned unchanged.
    """
    if not isinstance(prompt, list):
        return prompt
    return [{key: _shortened(key, value) for key, value in one.items()} for one in prompt]


def _media_urls(messages: list[dict[str, Any]]) -> Iterator[tuple[int, int, str]]:
    """Yield the URLs of media, with the indexes of their messages and parts."""
    for index, message in enumerate(messages):
        content = message.get("content")
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if _is_media(part):
                url = part.get(part["type"], part.get("url"))
                url = url.get("url") if isinstance(url, Mapping) else url
                if isinstance(url, str):
                    yield index, number, url


def _shortened(key: str, value: Any) -> Any:
    # Elsewhere, as in the arguments of a tool call, an object of this form is text to the model.
    if key != "content" or not isinstance(value, list):
        return value
    return [
        {"type": part["type"], "characters": _count_characters(part)} if _is_media(part) else part
        for part in value
    ]


def _is_media(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    return isinstance(kind, str) and kind in _MEDIA_TYPES


def _count_characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_count_characters, value.values()))
    return sum(map(_count_characters, value)) if isinstance(value, list) else 0
