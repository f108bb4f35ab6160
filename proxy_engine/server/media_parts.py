"""Content parts with images, recordings and video in the messages of requests.

The model reads no text from them. Their data counts neither as characters of a prompt, nor is it
logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Not `file`, since the text of a file is read.
_MEDIA_TYPES = frozenset(
    ("image_url", "audio_url", "video_url", "input_audio", "image", "audio", "video")
)


def prompt_characters(messages: list[dict[str, Any]]) -> int:
    """Return the number of characters in the strings of messages, except those of media."""
    return _count_characters(without_media(messages))


def without_media(prompt: Any) -> Any:
    """Return a prompt with the size of each image, recording or video in place of its data.

    Only lists of messages have such parts; other prompts are returned unchanged.
    """
    if not isinstance(prompt, list):
        return prompt
    return [{key: _shortened(key, value) for key, value in one.items()} for one in prompt]


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
