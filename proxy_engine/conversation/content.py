"""What a turn of a conversation is made of: typed parts, each a dict and itself again.

===================  ========================================  ==================================
part                 as a dict                                 a language model reads
===================  ========================================  ==================================
``TextContent``      ``{"type": "text", "text": …}``           the text
``JsonContent``      ``{"type": "json", "value": …}``          the value as JSON text
``FileContent``      ``{"type": "file", "name": …, …}``        its text, below its name
``ImageContent``     ``{"type": "image", "url": …}``           nothing: ``PromptError``
``AudioContent``     ``{"type": "audio", …}``                  nothing: ``PromptError``
``VideoContent``     ``{"type": "video", …}``                  nothing: ``PromptError``
``ToolCall``         ``{"type": "action", "id": …, …}``        what its chat template makes of it
===================  ========================================  ==================================

Images, audio, video and files are a ``url``, or ``data`` with a ``media_type``; in a dict, data is
in base64.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from ..errors import PromptError
from ..text_checks import has_surrogate, short_repr

__all__ = [
    "AudioContent",
    "Content",
    "FileContent",
    "ImageContent",
    "JsonContent",
    "MediaContent",
    "TextContent",
    "ToolCall",
    "VideoContent",
    "check_text",
    "content_from_dict",
    "json_copy",
    "new_call_id",
]


def check_text(what: str, text: object) -> None:
    """Raise ``PromptError`` unless ``text`` is a string that has a UTF-8 form."""
    if not isinstance(text, str):
        raise PromptError(f"{what} is a string, not {short_repr(text)}")
    if has_surrogate(text):
        raise PromptError(f"{what} holds half a surrogate pair, which is no character")


def json_copy(what: str, value: Any) -> Any:
    """Return a copy of a JSON value, tuples as lists. Raises ``PromptError`` for any other."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
        return json.loads(text)
    except RecursionError as error:
        raise PromptError(f"{what} is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise PromptError(f"{what} is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class TextContent:
    """Plain text. Raises ``PromptError`` for text that has no UTF-8 form."""

    text: str

    def __post_init__(self) -> None:
        check_text("text content", self.text)

    def to_text(self) -> str:
        """The text as the model reads it."""
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """``{"type": "text", "text": …}``, as OpenAI's content parts are written."""
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class JsonContent:
    """A JSON value, such as a tool's result; the model reads it as JSON text.

    ``value`` is copied. Raises ``PromptError`` where it is not JSON.
    """

    # Values that are equal, as 1 and 1.0 are, must have equal hashes; so it has no part in them.
    value: Any = field(hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", json_copy("JSON content", self.value))

    def to_text(self) -> str:
        """The value as ``json.dumps`` writes it, in Unicode."""
        return json.dumps(self.value, ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """``{"type": "json", "value": …}``."""
        return {"type": "json", "value": json_copy("JSON content", self.value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaContent:
    """Something that is not text: either a ``url``, or ``data`` (bytes).

    ``media_type`` is the IANA name, such as ``image/png``. Raises ``PromptError`` where there is
    neither or both.
    """

    kind: ClassVar[str] = "media"

    url: str | None = None
    data: bytes | None = field(default=None, repr=False)
    media_type: str | None = None

    def __post_init__(self) -> None:
        self._check({"url": self.url, "data": self.data})

    def to_text(self) -> str:
        """No text stands for it. Raises ``PromptError``."""
        raise PromptError(
            f"a language model cannot read {self.kind} content",
            hint="Leave it out, or put into words what it shows.",
        )

    def to_dict(self) -> dict[str, Any]:
        """``{"type": kind, …}`` with what is known; data in base64."""
        data = None if self.data is None else base64.b64encode(self.data).decode("ascii")
        fields = {"url": self.url, "data": data, "media_type": self.media_type}
        return {"type": self.kind} | {k: v for k, v in fields.items() if v is not None}

    def _check(self, sources: Mapping[str, Any]) -> None:
        names = ", ".join(map(repr, sources))
        if sum(source is not None for source in sources.values()) != 1:
            raise PromptError(f"{self.kind} content has exactly one of {names}")
        for name in ("url", "media_type"):
            if getattr(self, name) is not None:
                check_text(f"the {name} of {self.kind} content", getattr(self, name))
        if not isinstance(self.data, bytes | None):
            raise PromptError(f"the data of {self.kind} content is bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContent(MediaContent):
    """A picture."""

    kind: ClassVar[str] = "image"


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioContent(MediaContent):
    """A recording."""

    kind: ClassVar[str] = "audio"


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoContent(MediaContent):
    """A film."""

    kind: ClassVar[str] = "video"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent(MediaContent):
    """A file: its ``text``, or ``data``, or a ``url``. ``name`` is what the model calls it."""

    kind: ClassVar[str] = "file"

    name: str | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        self._check({"url": self.url, "data": self.data, "text": self.text})
        for name in ("name", "text"):
            if getattr(self, name) is not None:
                check_text(f"the {name} of file content", getattr(self, name))

    def to_text(self) -> str:
        """``name:``, a line break, and the file's text; data of a textual type is decoded.

        Raises ``PromptError`` where there is no text to be had.
        """
        text = self.text
        if text is None and self.data is not None and _is_textual(self.media_type):
            text = self.data.decode("utf-8", "replace")
        if text is None:
            called = f" {self.name!r}" if self.name else ""
            raise PromptError(
                f"a language model cannot read file content{called} without its text",
                hint="Give the file's text, or data of a media type such as 'text/plain'.",
            )
        return f"{self.name}:\n{text}\n" if self.name else text

    def to_dict(self) -> dict[str, Any]:
        """``{"type": "file", …}`` with what is known."""
        # Named, since `super()` does not know the class that `slots=True` puts in place.
        more = {"name": self.name, "text": self.text}
        return MediaContent.to_dict(self) | {k: v for k, v in more.items() if v is not None}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model calls; content of a turn of the assistant's.

    ``id`` tells the call apart from others in the conversation: its result has it, too.
    ``arguments`` is a JSON object, copied. ``raw`` is what the model wrote, where that is known.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict, hash=False)
    raw: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "name", "raw"):
            check_text(f"the {name} of a tool call", getattr(self, name))
        if not isinstance(self.arguments, Mapping):
            raise PromptError(
                f"the arguments of a tool call are an object: {short_repr(self.arguments)}"
            )
        copied = json_copy("an argument of a tool call", dict(self.arguments))
        object.__setattr__(self, "arguments", copied)

    def to_dict(self) -> dict[str, Any]:
        """``{"type": "action", "id": …, "name": …, "arguments": {…}}``, and ``raw`` if known."""
        written: dict[str, Any] = {
            "type": "action",
            "id": self.id,
            "name": self.name,
            "arguments": json_copy("an argument of a tool call", self.arguments),
        }
        return {**written, "raw": self.raw} if self.raw else written


Content: TypeAlias = (
    TextContent | JsonContent | ImageContent | AudioContent | VideoContent | FileContent | ToolCall
)

_MEDIA: dict[str, type[ImageContent | AudioContent | VideoContent | FileContent]] = {
    cls.kind: cls for cls in (ImageContent, AudioContent, VideoContent, FileContent)
}


def new_call_id() -> str:
    """An identifier for a tool call: nine letters and digits, which every family accepts."""
    return uuid.uuid4().hex[:9]


def content_from_dict(value: Any) -> Content:
    """Read what a part's ``to_dict`` wrote. Raises ``PromptError``, also for unknown keys."""
    match value:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return TextContent(text)
        case {"type": "json", "value": inner, **rest} if not rest:
            return JsonContent(inner)
        case {"type": "action", "id": id, "name": name, "arguments": arguments, **rest} if not (
            set(rest) - {"raw"}
        ):
            return ToolCall(id, name, arguments, value.get("raw", ""))
        case {"type": str(kind), **fields} if kind in _MEDIA:
            return _media(kind, fields)
    raise PromptError(f"a content part is not known: {short_repr(value)}")


def _media(kind: str, fields: Mapping[Any, Any]) -> Content:
    known = {"url", "data", "media_type"} | ({"name", "text"} if kind == "file" else set())
    unknown = [key for key in fields if key not in known]
    if unknown:
        raise PromptError(f"{kind} content has no {', '.join(map(short_repr, unknown))}")
    given = dict(fields)
    if given.get("data") is not None:
        try:
            given["data"] = base64.b64decode(given["data"], validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise PromptError(f"the data of {kind} content is not base64") from error
    return _MEDIA[kind](**given)


def _is_textual(media_type: str | None) -> bool:
    name = (media_type or "").partition(";")[0].strip().lower()
    return (
        name.startswith("text/")
        or name in ("application/json", "application/xml", "application/x-yaml")
        or name.endswith(("+json", "+xml"))
    )
