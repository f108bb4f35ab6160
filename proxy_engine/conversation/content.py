"""The typed parts of a message: one discriminated union, which pydantic validates.

===================  ========================================  ==================================
part                 as a dict                                 text for a language model
===================  ========================================  ==================================
``TextContent``      ``{"type": "text", "text": …}``           the text
``JsonContent``      ``{"type": "json", "value": …}``          the value as JSON text
``FileContent``      ``{"type": "file", "name": …, …}``        its text, below its name
``ImageContent``     ``{"type": "image", "url": …}``           none: read by multimodal models
``AudioContent``     ``{"type": "audio", …}``                  none: read by multimodal models
``ToolCall``         ``{"type": "action", "id": …, …}``        written by the chat template
===================  ========================================  ==================================

Images, audio and files have a ``url``, or ``data`` with a ``media_type``. In a dict, data is
in base64. Constructors raise ``PromptError`` for invalid values. Those of images and audio also
read files and objects in memory, which dicts cannot name: a dict can come from a stranger.
OpenAI's forms of parts and tool calls are converted to these dicts by ``parsing``.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import uuid
from collections.abc import Mapping
from dataclasses import KW_ONLY, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import numpy.typing as npt
from pydantic import BeforeValidator, Discriminator, Field, Strict, Tag, model_validator

from state_machines.argument_notations import INPUT

from ..checks import short_repr, summary
from ..errors import MediaError, PromptError
from .parsing import (
    JsonValue,
    PromptText,
    Validated,
    decoded,
    json_copy,
    part_fields,
    present,
    validated,
)

if TYPE_CHECKING:
    from PIL.Image import Image


class ContentBase(Validated):
    """Base of the parts.

    Attributes:
        kind: The type of the part in a dict.
    """

    __slots__ = ()
    kind: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _without_kind(cls, values: Any) -> Any:
        # The discriminator of `ContentPart`, which is no field.
        if isinstance(values, dict):
            values.pop("kind", None)
        return values

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"type": kind, …}`` with the fields that are set; data in base64."""
        values = {known.name: getattr(self, known.name) for known in fields(self)}  # type: ignore[arg-type]
        if isinstance(values.get("data"), bytes):
            values["data"] = base64.b64encode(values["data"]).decode("ascii")
        return {"type": self.kind, **present(values)}


@validated
class TextContent(ContentBase):
    """Plain text."""

    text: PromptText
    kind: ClassVar = "text"

    def to_text(self) -> str:
        """Return the text for the model."""
        return self.text


@validated
class JsonContent(ContentBase):
    """A JSON value, such as the result of a tool. The value is copied."""

    # Excluded from the hash: equal values, such as 1 and 1.0, must have equal hashes.
    value: JsonValue = field(default=None, hash=False)
    kind: ClassVar = "json"

    def to_text(self) -> str:
        """Return the value as JSON text."""
        return json.dumps(self.value, ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"type": "json", "value": …}``."""
        return {"type": "json", "value": json_copy(self.value)}


@validated
class MediaContent(ContentBase):
    """Content that is not text: either a ``url`` or ``data``.

    Attributes:
        url: A URL; a ``data:`` URL is kept as it is.
        data: The bytes.
        media_type: The IANA media type, such as ``image/png``.
    """

    _: KW_ONLY
    url: PromptText | None = None
    data: Annotated[bytes | None, Strict(), BeforeValidator(decoded)] = field(
        default=None, repr=False
    )
    media_type: PromptText | None = None
    kind: ClassVar = "media"

    def __post_init__(self) -> None:
        values = {known.name: getattr(self, known.name) for known in fields(self)}
        sources = {name: values[name] for name in ("url", "data", "text") if name in values}
        _check_sources(self.kind, **sources)
        if self.media_type is None and self.data is not None:
            object.__setattr__(self, "media_type", _media_type(self.kind, self.data))

    def to_text(self) -> str:
        """Raise ``PromptError``: the content has no text."""
        raise PromptError(
            f"a language model cannot read {self.kind} content",
            hint="Leave it out, or describe it in words.",
        )


@validated
class ImageContent(MediaContent):
    """An image."""

    kind: ClassVar = "image"

    def __init__(
        self,
        *,
        url: str | None = None,
        data: bytes | None = None,
        path: str | os.PathLike[str] | None = None,
        image: Image | None = None,
        media_type: str | None = None,
    ) -> None:
        """Create the content; exactly one source has to be given. It is decoded by the request.

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
        self._set({"url": url, "data": data, "media_type": media_type})


@validated
class AudioContent(MediaContent):
    """An audio recording."""

    kind: ClassVar = "audio"

    def __init__(
        self,
        *,
        url: str | None = None,
        data: bytes | None = None,
        path: str | os.PathLike[str] | None = None,
        array: tuple[npt.ArrayLike, int] | None = None,
        media_type: str | None = None,
    ) -> None:
        """Create the content; exactly one source has to be given. It is decoded by the request.

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
            # Deferred, as in `_media_type`: prompts of text need no formats of media.
            from ..media.audio_decoding import encode_wav  # noqa: PLC0415

            data = encode_wav(*array)
        self._set({"url": url, "data": data, "media_type": media_type})


@validated
class FileContent(MediaContent):
    """A file: its ``text``, its ``data``, or a ``url``.

    Attributes:
        name: The file name that the model reads.
        text: The file's text.
    """

    _: KW_ONLY
    name: PromptText | None = None
    text: PromptText | None = None
    kind: ClassVar = "file"

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


def _object_copy(value: Any) -> Any:
    return json_copy(dict(value)) if isinstance(value, Mapping) else value


@validated
class ToolCall(ContentBase):
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

    id: PromptText
    name: PromptText
    arguments: Annotated[dict[str, Any], BeforeValidator(_object_copy)] = field(
        default_factory=dict, hash=False
    )
    raw: PromptText = ""
    parsed: Annotated[Any, Field(exclude=True)] = field(default=None, hash=False, compare=False)
    is_custom: Annotated[bool, Strict()] = False
    kind: ClassVar = "action"

    def __str__(self) -> str:
        return f"{self.name}({json.dumps(self.arguments, ensure_ascii=False, default=str)})"

    def __repr__(self) -> str:
        return summary(self, self.name, arguments=self.arguments, id=self.id)

    def __post_init__(self) -> None:
        if self.is_custom and self.input is None:
            raise PromptError(f"the arguments of a call of a custom tool are {{{INPUT!r}: …}}")

    @property
    def input(self) -> str | None:
        """The input of a custom tool; ``None`` for other tools."""
        value = self.arguments.get(INPUT) if self.is_custom and len(self.arguments) == 1 else None
        return value if isinstance(value, str) else None

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"type": "action", "id": …, "name": …, "arguments": {…}}``, and ``raw``.

        The call of a custom tool has ``input`` instead of ``arguments``.
        """
        written: dict[str, Any] = {"type": "action", "id": self.id, "name": self.name}
        if self.is_custom:
            written[INPUT] = self.input
        else:
            written["arguments"] = json_copy(self.arguments)
        return {**written, "raw": self.raw} if self.raw else written


Content: TypeAlias = (
    TextContent | JsonContent | ImageContent | AudioContent | FileContent | ToolCall
)


def _kind_of(part: object) -> str | None:
    kind = part.get("kind") if isinstance(part, dict) else getattr(part, "kind", None)
    return kind if isinstance(kind, str) else None


ContentPart: TypeAlias = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[JsonContent, Tag("json")]
    | Annotated[ImageContent, Tag("image")]
    | Annotated[AudioContent, Tag("audio")]
    | Annotated[FileContent, Tag("file")]
    | Annotated[ToolCall, Tag("action")],
    Discriminator(_kind_of),
    BeforeValidator(part_fields),
]
"""A part, or a dict that is read as one."""


def new_call_id() -> str:
    """Return a random id of nine letters and digits, which every model family accepts."""
    return uuid.uuid4().hex[:9]


def _check_sources(kind: str, **sources: object) -> None:
    if sum(value is not None for value in sources.values()) != 1:
        names = ", ".join(map(repr, sources))
        raise PromptError(f"{kind} content needs exactly one of {names}")


def _media_type(kind: str, data: bytes) -> str | None:
    """Return the media type of images and recordings, recognised by their content."""
    from ..media.audio_decoding import audio_format  # noqa: PLC0415
    from ..media.image_formats import image_format  # noqa: PLC0415

    find = {"image": image_format, "audio": audio_format}.get(kind)
    found = find(data) if find else None
    return found.media_type if found else None


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
    from ..media.image_formats import encode_png  # noqa: PLC0415

    return encode_png(image)


def _is_textual(media_type: str | None) -> bool:
    name = (media_type or "").partition(";")[0].strip().lower()
    return (
        name.startswith("text/")
        or name in ("application/json", "application/xml", "application/x-yaml")
        or name.endswith(("+json", "+xml"))
    )
