"""The typed parts of a message.

===================  ========================================  ==================================
part                 as a dict                                 text for a language model
===================  ========================================  ==================================
``TextContent``      ``{"type": "text", "text": …}``           the text
``JsonContent``      ``{"type": "json", "value": …}``          the value as JSON text
``FileContent``      ``{"type": "file", "name": …, …}``        its text, below its name
``ImageContent``     ``{"type": "image", "url": …}``           none: read by multimodal models
``AudioContent``     ``{"type": "audio", …}``                  none: read by multimodal models
``VideoContent``     ``{"type": "video", …}``                  none: read by no model
``ToolCall``         ``{"type": "action", "id": …, …}``        written by the chat template
===================  ========================================  ==================================

Images, audio, video and files have a ``url``, or ``data`` with a ``media_type``. In a dict, data is
in base64. Constructors raise ``PromptError`` for invalid values. Those of images and audio also
read files and objects in memory, which dicts cannot name: a dict can come from a stranger.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import numpy.typing as npt
import pydantic

from state_machines.argument_notations import INPUT

from ..checks.texts import has_surrogate, short_repr
from ..errors import MediaError, PromptError
from ..media.audio_formats import audio_format
from ..media.image_formats import image_format
from ..media.pixels import encode_png
from ..media.wav import encode_wav

if TYPE_CHECKING:
    from PIL.Image import Image


def check_text(what: str, text: object) -> None:
    """Raise ``PromptError`` unless ``text`` is a string without lone surrogates."""
    if not isinstance(text, str):
        raise PromptError(f"{what} should be a string, not {short_repr(text)}")
    if has_surrogate(text):
        raise PromptError(f"{what} has a lone surrogate, which UTF-8 cannot encode")


def json_copy(what: str, value: Any) -> Any:
    """Return a deep copy of a JSON value, with tuples as lists.

    Raises:
        PromptError: The value is not JSON.
    """
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
    """Plain text."""

    text: str

    def __post_init__(self) -> None:
        check_text("text content", self.text)

    def to_text(self) -> str:
        """Return the text for the model."""
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"type": "text", "text": …}``, which is also OpenAI's form."""
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class JsonContent:
    """A JSON value, such as the result of a tool. The value is copied."""

    # Excluded from the hash: equal values, such as 1 and 1.0, must have equal hashes.
    value: Any = field(hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", json_copy("JSON content", self.value))

    def to_text(self) -> str:
        """Return the value as JSON text."""
        return json.dumps(self.value, ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"type": "json", "value": …}``."""
        return {"type": "json", "value": json_copy("JSON content", self.value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaContent:
    """Content that is not text: either a ``url`` or ``data``.

    Attributes:
        url: A URL; a ``data:`` URL is kept as it is.
        data: The bytes.
        media_type: The IANA media type, such as ``image/png``.
    """

    kind: ClassVar[str] = "media"

    url: str | None = None
    data: bytes | None = field(default=None, repr=False)
    media_type: str | None = None

    def __post_init__(self) -> None:
        self._check("url", "data")

    def to_text(self) -> str:
        """Raise ``PromptError``: the content has no text."""
        raise PromptError(
            f"a language model cannot read {self.kind} content",
            hint="Leave it out, or describe it in words.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"type": kind, …}`` with the fields that are set; data in base64."""
        written: dict[str, Any] = {"type": self.kind}
        for known in fields(self):
            value = getattr(self, known.name)
            if value is not None:
                is_bytes = isinstance(value, bytes)
                written[known.name] = base64.b64encode(value).decode("ascii") if is_bytes else value
        return written

    def _fill(self, url: str | None, data: bytes | None, media_type: str | None) -> None:
        for name, value in (("url", url), ("data", data), ("media_type", media_type)):
            object.__setattr__(self, name, value)
        self._check("url", "data")

    def _check(self, *sources: str) -> None:
        if sum(getattr(self, source) is not None for source in sources) != 1:
            names = ", ".join(map(repr, sources))
            raise PromptError(f"{self.kind} content needs exactly one of {names}")
        for known in fields(self):
            value = getattr(self, known.name)
            if known.name != "data" and value is not None:
                check_text(f"the {known.name} of {self.kind} content", value)
        if not isinstance(self.data, bytes | None):
            raise PromptError(f"the data of {self.kind} content should be bytes")


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ImageContent(MediaContent):
    """An image."""

    kind: ClassVar[str] = "image"

    def __init__(
        self,
        *,
        url: str | None = None,
        data: bytes | None = None,
        path: str | os.PathLike[str] | None = None,
        image: Image | None = None,
        media_type: str | None = None,
    ) -> None:
        """Create the content from exactly one of its sources. It is decoded by the request.

        Args:
            url: A ``data:`` URL, or one that the request reads.
            data: The content of a file: PNG, JPEG, WebP, GIF, BMP or TIFF.
            path: A file, which is read now.
            image: An image of Pillow, which is encoded as PNG now.
            media_type: The IANA media type. Default: recognised by the content.

        Raises:
            PromptError: There is not exactly one source, or a value of a wrong type.
            MediaError: The file or the image cannot be read.
        """
        _check_sources("image", url=url, data=data, path=path, image=image)
        if path is not None:
            data = _read_file("image", path)
        elif image is not None:
            data = _png(image)
        if media_type is None and isinstance(data, bytes):
            found = image_format(data)
            media_type = None if found is None else found.media_type
        self._fill(url, data, media_type)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class AudioContent(MediaContent):
    """An audio recording."""

    kind: ClassVar[str] = "audio"

    def __init__(
        self,
        *,
        url: str | None = None,
        data: bytes | None = None,
        path: str | os.PathLike[str] | None = None,
        array: tuple[npt.ArrayLike, int] | None = None,
        media_type: str | None = None,
    ) -> None:
        """Create the content from exactly one of its sources. It is decoded by the request.

        Args:
            url: A ``data:`` URL, or one that the request reads.
            data: The content of a file, such as WAV, MP3 or FLAC.
            path: A file, which is read now.
            array: Samples and their sample rate in Hz, which are encoded as WAV of one channel and
                16 bits now. Shape (samples,) or (samples, channels); floats are between -1 and 1,
                integers use the range of their type.
            media_type: The IANA media type. Default: recognised by the content.

        Raises:
            PromptError: There is not exactly one source, or a value of a wrong type.
            MediaError: The file cannot be read, or the array is malformed.
        """
        _check_sources("audio", url=url, data=data, path=path, array=array)
        if path is not None:
            data = _read_file("audio", path)
        elif array is not None:
            if not isinstance(array, tuple) or len(array) != 2:
                raise PromptError("the array of audio content should be (samples, sample_rate)")
            data = encode_wav(*array)
        if media_type is None and isinstance(data, bytes):
            found = audio_format(data)
            media_type = None if found is None else found.media_types[0]
        self._fill(url, data, media_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoContent(MediaContent):
    """A video."""

    kind: ClassVar[str] = "video"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent(MediaContent):
    """A file: its ``text``, its ``data``, or a ``url``.

    Attributes:
        name: The file name that the model reads.
        text: The file's text.
    """

    kind: ClassVar[str] = "file"

    name: str | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        self._check("url", "data", "text")

    def to_text(self) -> str:
        """Return the file's name, a line break, and its text. Data of a textual type is decoded.

        Raises:
            PromptError: The file has no text.
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


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, in a message of the assistant.

    Attributes:
        id: Identifies the call within the conversation; its result has the same id.
        name: The tool's name.
        arguments: A JSON object; copied.
        raw: The text that the model wrote; empty if unknown.
        parsed: For a tool with a type or a function: its arguments, converted to Python values.
            For a custom tool: its input. ``None`` otherwise.
        is_custom: Whether the tool is a custom tool. Its arguments are ``{"input": …}``.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict, hash=False)
    raw: str = ""
    parsed: Annotated[Any, pydantic.Field(exclude=True)] = field(
        default=None, hash=False, compare=False
    )
    is_custom: bool = False

    def __post_init__(self) -> None:
        for name in ("id", "name", "raw"):
            check_text(f"the {name} of a tool call", getattr(self, name))
        if not isinstance(self.arguments, Mapping):
            given = short_repr(self.arguments)
            raise PromptError(f"the arguments of a tool call should be an object, not {given}")
        copied = json_copy("an argument of a tool call", dict(self.arguments))
        object.__setattr__(self, "arguments", copied)
        if self.is_custom and self.input is None:
            raise PromptError(f"the arguments of a call of a custom tool are {{{INPUT!r}: …}}")

    @property
    def input(self) -> str | None:
        """The input of a custom tool; ``None`` for other tools."""
        given = self.arguments.get(INPUT) if self.is_custom and len(self.arguments) == 1 else None
        return given if isinstance(given, str) else None

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"type": "action", "id": …, "name": …, "arguments": {…}}``, and ``raw``.

        The call of a custom tool has ``input`` instead of ``arguments``.
        """
        written: dict[str, Any] = {"type": "action", "id": self.id, "name": self.name}
        if self.is_custom:
            written[INPUT] = self.input
        else:
            written["arguments"] = json_copy("an argument of a tool call", self.arguments)
        return {**written, "raw": self.raw} if self.raw else written


Content: TypeAlias = (
    TextContent | JsonContent | ImageContent | AudioContent | VideoContent | FileContent | ToolCall
)


def new_call_id() -> str:
    """Return a random id of nine letters and digits, which every model family accepts."""
    return uuid.uuid4().hex[:9]


def _check_sources(kind: str, **sources: object) -> None:
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        names = ", ".join(map(repr, sources))
        raise PromptError(f"{kind} content needs exactly one of {names}")


def _read_file(kind: str, path: object) -> bytes:
    if not isinstance(path, str | os.PathLike):
        raise PromptError(f"the path of {kind} content should be a path, not {short_repr(path)}")
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise MediaError(
            f"cannot read the {kind} file {short_repr(str(path))}: {reason}"
        ) from error


def _png(image: object) -> bytes:
    # An object can be an image of Pillow only if Pillow is loaded.
    pillow = sys.modules.get("PIL.Image")
    if pillow is None or not isinstance(image, pillow.Image):
        raise PromptError(f"the image should be one of Pillow, not {short_repr(image)}")
    return encode_png(image)


def _is_textual(media_type: str | None) -> bool:
    name = (media_type or "").partition(";")[0].strip().lower()
    return (
        name.startswith("text/")
        or name in ("application/json", "application/xml", "application/x-yaml")
        or name.endswith(("+json", "+xml"))
    )
