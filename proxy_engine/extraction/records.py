"""The text, the images and the fields of a record, and its prompt.

A record is a string, a mapping, a dataclass, a pydantic object or a named tuple.
"""

from __future__ import annotations

import dataclasses
import os
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pydantic

from state_machines.errors import has_surrogate

from ..checks import short_repr
from ..conversation.content import ImageContent, TextContent
from ..conversation.interaction import Interaction, Role
from ..errors import InvalidOptionError, RecordError
from .inputs import RecordContent
from .json_values import is_missing
from .paths import is_remote, read_bytes

if TYPE_CHECKING:
    from ..conversation.messages import Prompt


Field: TypeAlias = str | Callable[[Any], Any]
"""The name of a field, or a function of the record that returns its value."""

_URL_SCHEMES = ("http://", "https://", "data:")
_SHOWN_FIELDS = 8
CHECKED_RECORDS = 100
"""Records of a list or a file that are checked before the model runs."""


def is_image_url(source: str) -> bool:
    """Whether ``source`` names an image by its URL, not by its path."""
    return source.lower().startswith(_URL_SCHEMES)


@dataclasses.dataclass(frozen=True, slots=True)
class RecordReader:
    """Reads the text and the images of a record.

    Attributes:
        text: The field with the text.
        image: The field with an image, or a list of images; ``None`` without images.
        directory: The directory that paths of images are relative to, or its URL.
        repeats_content: Whether output rows have the text and the images, too.
        is_command_line: Whether records are those of the command line: hints name its flags, and a
            table may lack the column of images.
    """

    text: Field = "text"
    image: Field | None = None
    directory: Path | str = Path()
    repeats_content: bool = True
    is_command_line: bool = False

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise ``InvalidOptionError`` if a table lacks the column of the text or the images."""
        if not self.is_command_line:
            self._check_names(columns, "image", self.image)
        # A table with images may have no texts.
        if self.text != "text" or not (callable(self.image) or self.image in columns):
            self._check_names(columns, "text", self.text)

    def _check_names(self, columns: Collection[str], role: str, field: Field | None) -> None:
        if isinstance(field, str) and field not in columns:
            shown = ", ".join(map(repr, columns)) or "none"
            raise InvalidOptionError(
                f"the table has no column {field!r}; its columns: {shown}",
                option=role,
                hint=self._hint("column", role),
            )

    def check_records(self, records: Iterable[Any]) -> None:
        """Refuse records without a single text.

        Raises:
            InvalidOptionError: None of the records has the field of the text or of the images.
        """
        if callable(self.text) or callable(self.image):
            return
        rows = [self.fields(record) for record in records]
        known = {self.text, self.image} if self.text == "text" else {self.text}
        if not rows or any(not row or known & row.keys() for row in rows):
            return
        shown = ", ".join(map(repr, dict.fromkeys(name for row in rows for name in row)))
        raise InvalidOptionError(
            f"the records have no field {self.text!r}; their fields: {shown}",
            option="text",
            hint=self._hint("field", "text"),
        )

    def fields(self, record: Any) -> Mapping[str, Any]:
        """Return the fields of a record by name; none if it has no fields.

        A string is the field that ``text`` names.
        """
        if isinstance(record, str):
            return {self.text if isinstance(self.text, str) else "text": record}
        if isinstance(record, Mapping):
            return {str(name): value for name, value in record.items()}
        if isinstance(record, pydantic.BaseModel):
            return dict(record)
        if dataclasses.is_dataclass(record) and not isinstance(record, type):
            names = [field.name for field in dataclasses.fields(record)]
            return {name: getattr(record, name) for name in names}
        if isinstance(record, tuple) and hasattr(record, "_asdict"):
            named: dict[str, Any] = record._asdict()
            return named
        return {}

    def repeated(self, record: Any) -> Mapping[str, Any]:
        """Return the fields that the output row repeats."""
        fields = self.fields(record)
        if self.repeats_content:
            return fields
        return {name: fields[name] for name in fields if name not in (self.text, self.image)}

    def read(self, record: Any) -> RecordContent:
        """Return the content of a record.

        Raises:
            RecordError: There is neither a text nor an image.
            ValueError: An image cannot be read.
        """
        images = self._images(record)
        text = self._text(record, is_required=not images)
        if not images and all(map(_is_invisible, text)):
            reason = "has no visible characters" if text.strip() else "is empty"
            raise RecordError(f"the text {reason}", field=_name(self.text))
        return RecordContent(text, images)

    def _text(self, record: Any, *, is_required: bool) -> str:
        value = self._value("text", self.text, record, is_required=is_required)
        if is_missing(value) and not is_required:
            return ""
        name = _name(self.text)
        if is_missing(value):
            raise RecordError("the text is missing", field=name)
        if not isinstance(value, str):
            raise RecordError(f"the text should be a string, not {short_repr(value)}", field=name)
        if has_surrogate(value):
            raise RecordError(
                "the text has a lone surrogate, which UTF-8 cannot encode", field=name
            )
        return value

    def _images(self, record: Any) -> tuple[ImageContent, ...]:
        if self.image is None:
            return ()
        value = self._value("image", self.image, record, is_required=False)
        if is_missing(value):
            return ()
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(self._image(value) for value in values)

    def _image(self, value: Any) -> ImageContent:
        match value:
            case str() if is_image_url(value):
                return ImageContent(url=value)
            # As `datasets` has images that are not decoded.
            case {"bytes": bytes(data)} | (bytes() as data):
                return ImageContent(data=data)
            case {"bytes": None, "path": str(path)} | (str() | os.PathLike() as path):
                return self._image_file(path)
            case ImageContent():
                return value
        if hasattr(value, "tobytes") and hasattr(value, "mode"):
            return ImageContent(image=value)
        raise RecordError(
            "an image should be a path, a URL, bytes or an image of Pillow, not "
            f"{short_repr(value)}",
            field=_name(self.image),
        )

    def _image_file(self, path: str | os.PathLike[str]) -> ImageContent:
        directory, name = self.directory, os.fspath(path)
        if isinstance(directory, str) and not (is_remote(name) or Path(name).is_absolute()):
            name = f"{directory}/{name}"
        if is_remote(name):
            return ImageContent(data=read_bytes(name))
        return ImageContent(path=Path(directory, name))

    def _value(self, role: str, field: Field, record: Any, *, is_required: bool) -> Any:
        if callable(field):
            return called(role, field, record)
        if is_missing(record):
            raise RecordError("the record is missing")
        fields = self.fields(record)
        if field in fields:
            return fields[field]
        if not fields and not isinstance(record, Mapping):
            if self.is_command_line:
                raise RecordError(
                    f"a line should be an object or a string, not {short_repr(record)}"
                )
            raise RecordError(
                "a record should be a string, a mapping, a dataclass or a pydantic object, "
                f"not {short_repr(record)}",
                hint=f"Give {role}= a function of the record.",
            )
        if is_required:
            shown = ", ".join(map(repr, list(fields)[:_SHOWN_FIELDS])) or "none"
            raise RecordError(
                f"the record has no field {field!r}; its fields: {shown}",
                field=field,
                hint=self._hint("field", role),
            )
        return None

    def _hint(self, noun: str, role: str) -> str:
        return f"Name the {noun} with {f'--{role}' if self.is_command_line else f'{role}='}."


def _is_invisible(character: str) -> bool:
    """Whether a character is white space, a control character or one such as U+200B or U+FEFF."""
    return character.isspace() or unicodedata.category(character) in ("Cc", "Cf")


def _name(field: Field | None) -> str | None:
    return field if isinstance(field, str) else None


Instruction: TypeAlias = str | Callable[[Any], str]
"""The text that precedes a record's text in its prompt, or a function of the record."""


def write_prompt(
    instruction: Instruction | None,
    properties: Mapping[str, str],
    is_json: bool,
    record: Any,
    content: RecordContent,
) -> Prompt:
    """Return the prompt of a record: the images, the instruction and the text.

    Args:
        instruction: The instruction; ``None`` for one that names the properties. If it is empty,
            the prompt is the content alone.
        properties: The names of the answer's properties, each with the form of its dates or times
            or an empty text; empty if answers are no objects.
        is_json: Whether answers are JSON.
        record: The record.
        content: Its content.

    Raises:
        RecordError: The instruction is a function that raises, or returns no text.
    """
    if callable(instruction):
        text = called("instruction", instruction, record)
        if not isinstance(text, str):
            raise RecordError(f"instruction(record) should be a text, not {short_repr(text)}")
    else:
        text = _default(properties, is_json, content) if instruction is None else instruction
    text = "\n\n".join(filter(None, [text, content.text.strip()]))
    if not content.images:
        return text
    return Interaction(Role.USER, [*content.images, *([TextContent(text)] if text else [])])


def _default(properties: Mapping[str, str], is_json: bool, content: RecordContent) -> str:
    images = ("image" if len(content.images) == 1 else "images") if content.images else ""
    source = " and ".join(filter(None, ["text" if content.text.strip() else "", images]))
    these = "these" if source == "images" else "this"
    if properties:
        named = (f"{name} ({form})" if form else name for name, form in properties.items())
        return f"Extract {', '.join(named)} from {these} {source} as JSON:"
    return f"Answer{' with JSON' if is_json else ''} about {these} {source}:"


def called(name: str, function: Callable[[Any], Any], record: Any) -> Any:
    """Return ``function(record)``, a function of the caller.

    Raises:
        RecordError: It raised an exception, which is the ``__cause__``.
    """
    try:
        return function(record)
    except Exception as error:
        # The caller's code may raise anything.
        reason = f"{type(error).__name__}: {error}"
        raise RecordError(f"{name}(record) raised {reason}") from error
