"""Records of lines and files: the text and images that one result is extracted from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..extraction.inputs import Content

if TYPE_CHECKING:
    from ..conversation.content import ImageContent

TEXT = "text"
"""The field of texts, unless ``--text`` names another."""
IMAGE = "image"
"""The field of images."""

_URL_SCHEMES = ("http://", "https://", "data:")


def is_url(source: str) -> bool:
    """Whether ``source`` names an image by its URL, not by its path."""
    return source.lower().startswith(_URL_SCHEMES)


def read_images(sources: Sequence[str], directory: Path) -> tuple[ImageContent, ...]:
    """Read image files; URLs are fetched by the engine.

    Args:
        sources: Paths and URLs.
        directory: The directory that paths are relative to.

    Raises:
        ValueError: A file cannot be read, or a ``data:`` URL is malformed.
    """
    # Deferred: `--help` need not wait for it.
    from ..conversation.content import ImageContent  # noqa: PLC0415

    return tuple(
        ImageContent(url=source) if is_url(source) else ImageContent(path=directory / source)
        for source in sources
    )


def parse_line(line: bytes) -> Any:
    """Return the JSON value in a line.

    Raises:
        ValueError: The line is malformed.
    """
    try:
        return json.loads(line.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("the line is nested too deeply") from error


def other_fields(value: Any, text: str) -> Mapping[str, Any]:
    """Return the fields of a record besides its text and images."""
    if not isinstance(value, Mapping):
        return {}
    return {name: member for name, member in value.items() if name not in (text, IMAGE)}


def read_value(value: Any, text: str, directory: Path) -> Content:
    """Return the content of a record: a string, or an object with text, images or both.

    Args:
        value: ``"text"`` or ``{"text": …, "image": path or URL, or a list of them}``.
        text: The name of the field with the text.
        directory: The directory that paths are relative to.

    Raises:
        ValueError: The record has no content, or an image cannot be read.
    """
    fields = value if isinstance(value, dict) else {}
    found = value if isinstance(value, str) else fields.get(text)
    image = fields.get(IMAGE)
    if found is None and IMAGE in fields:
        found = ""
    if not isinstance(found, str):
        raise ValueError(f'neither a JSON string nor an object with a "{text}" or an "{IMAGE}"')
    sources = _sources(image)
    # Raises for a lone surrogate, which JSON can escape and UTF-8 cannot encode.
    found.encode("utf-8")
    if not found.strip() and not sources:
        raise ValueError("the text is empty")
    return Content(found, read_images(sources, directory))


def read_content(content: bytes) -> Content:
    """Return the record in the content of a file: an image, recognised by its content, or text.

    Raises:
        ValueError: The content is neither an image nor UTF-8, or is empty.
    """
    # Deferred, as above.
    from ..conversation.content import ImageContent  # noqa: PLC0415
    from ..media.image_formats import READABLE, image_format, other_format  # noqa: PLC0415

    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        text, reason = "", str(error)
    # Some formats begin with letters, and so can a text. Only the formats have null bytes.
    is_text = bool(text) and "\0" not in text
    if not is_text and image_format(content) is not None:
        return Content(images=(ImageContent(data=content),))
    if content and not text:
        other = other_format(content)
        if other is not None:
            raise ValueError(f"{other} is not supported; an input is UTF-8, {READABLE}")
        raise ValueError(f"neither an image nor UTF-8: {reason}")
    if not text.strip():
        raise ValueError("the text is empty")
    return Content(text)


def _sources(value: Any) -> list[str]:
    sources = [value] if isinstance(value, str) else value
    if sources is None:
        return []
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        raise ValueError('"image" should be a path, a URL, or a list of them')
    for source in sources:
        source.encode("utf-8")
    return sources
