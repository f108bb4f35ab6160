"""Records that are Python objects: strings, mappings, dataclasses, pydantic objects, tuples."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, Self, TypeAlias

import pydantic

from ..checks.texts import has_surrogate, short_repr
from ..conversation.content import ImageContent
from ..errors import InvalidOptionError, RecordError
from .frames import Frame
from .inputs import Content
from .missing import is_missing
from .prompts import called

Field: TypeAlias = str | Callable[[Any], Any]
"""The name of a field, or a function of the record that returns its value."""

_URL_SCHEMES = ("http://", "https://", "data:")
_SHOWN_FIELDS = 8
_CHECKED_RECORDS = 100


def is_url(source: str) -> bool:
    """Whether ``source`` names an image by its URL, not by its path."""
    return source.lower().startswith(_URL_SCHEMES)


@dataclasses.dataclass(frozen=True, slots=True)
class RecordReader:
    """Reads the text and the images of a record.

    Attributes:
        text: The field with the text.
        image: The field with an image, or a list of images; ``None`` without images.
    """

    text: Field = "text"
    image: Field | None = None

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise ``InvalidOptionError`` if a table lacks the column of the text or the images."""
        for role, field in (("text", self.text), ("image", self.image)):
            # A table with images may have no texts.
            is_needed = role == "image" or self.image is None or field != "text"
            if isinstance(field, str) and field not in columns and is_needed:
                known = short_repr(list(columns))
                raise InvalidOptionError(
                    f"the frame has no column {field!r}; its columns: {known}",
                    option=role,
                    hint=f"Name the column with {role}=.",
                )

    def check_records(self, records: Iterable[Any]) -> None:
        """Refuse a list in whose first records no text is. Records of an iterator fail alone.

        Raises:
            InvalidOptionError: None of the records has the field of the text or of the images.
        """
        if not isinstance(records, Sequence) or callable(self.text) or callable(self.image):
            return
        rows = [self.fields(record) for record in records[:_CHECKED_RECORDS]]
        known = {self.text, self.image} if self.text == "text" else {self.text}
        if not rows or any(not row or known & row.keys() for row in rows):
            return
        shown = ", ".join(map(repr, dict.fromkeys(name for row in rows for name in row)))
        raise InvalidOptionError(
            f"the records have no field {self.text!r}; their fields: {shown}",
            option="text",
            hint="Name the field with text=.",
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

    def read(self, record: Any) -> Content:
        """Return the content of a record.

        Raises:
            RecordError: There is neither a text nor an image.
            ValueError: An image cannot be read.
        """
        images = self._images(record)
        text = self._text(record, is_required=not images)
        if not text.strip() and not images:
            raise RecordError("the text is empty", field=_name(self.text))
        return Content(text, images)

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
        return tuple(_image(value, _name(self.image)) for value in values)

    def _value(self, role: str, field: Field, record: Any, *, is_required: bool) -> Any:
        if callable(field):
            return called(role, field, record)
        if is_missing(record):
            raise RecordError("the record is missing")
        fields = self.fields(record)
        if field in fields:
            return fields[field]
        if not fields and not isinstance(record, Mapping):
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
                hint=f"Name the field with {role}=.",
            )
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class RecordItem:
    """A Python object as an item of an input.

    Attributes:
        index: Its position, from 0.
        record: The object.
        reader: Reads its content.
    """

    index: int
    record: Any
    reader: RecordReader

    @property
    def label(self) -> str:
        """Names the record in messages."""
        return f"record {self.index}"

    @property
    def key(self) -> Mapping[str, Any]:
        """Nothing: the row's position identifies the record."""
        return {}

    def fields(self) -> Mapping[str, Any]:
        """Return all fields of the record."""
        return self.reader.fields(self.record)

    def read(self) -> Content:
        """Return the content of the record; see :meth:`RecordReader.read`."""
        return self.reader.read(self.record)


class RecordInputs:
    """Iterates over Python objects.

    Args:
        records: The objects; an iterator is read as items are taken.
        frame: The same records as a frame, if they are rows of one.
        reader: Reads their content.

    Attributes:
        reader: Reads their content.
    """

    unit = "record"

    def __init__(self, records: Iterable[Any], frame: Frame | None, reader: RecordReader) -> None:
        self._count = len(records) if isinstance(records, Sized) else None
        if frame is not None:
            self._count = frame.count()
        self._records: Iterator[tuple[int, Any]] = enumerate(records if frame is None else frame)
        self.reader = reader
        self._next: RecordItem | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RecordItem:
        item = self.peek()
        if item is None:
            raise StopIteration
        self._next = None
        return item

    def peek(self) -> RecordItem | None:
        """Return the next record, without taking it; ``None`` at the end."""
        if self._next is None:
            index, record = next(self._records, (None, None))
            if index is None:
                return None
            self._next = RecordItem(index, record, self.reader)
        return self._next

    def is_ready(self, seconds: float) -> bool:
        """Return ``True``: an iterator cannot be asked without reading it."""
        return True

    def count(self) -> int | None:
        """Return the number of records; ``None`` for an iterator."""
        return self._count


def _image(value: Any, field: str | None) -> ImageContent:
    match value:
        case str():
            return ImageContent(url=value) if is_url(value) else ImageContent(path=value)
        case os.PathLike():
            return ImageContent(path=Path(value))
        case bytes():
            return ImageContent(data=value)
        case ImageContent():
            return value
        # As `datasets` has images that are not decoded.
        case {"bytes": bytes(data)}:
            return ImageContent(data=data)
        case {"bytes": None, "path": str(path)}:
            return ImageContent(path=path)
    if hasattr(value, "tobytes") and hasattr(value, "mode"):
        return ImageContent(image=value)
    raise RecordError(
        f"an image should be a path, a URL, bytes or an image of Pillow, not {short_repr(value)}",
        field=field,
    )


def _name(field: Field) -> str | None:
    return field if isinstance(field, str) else None
