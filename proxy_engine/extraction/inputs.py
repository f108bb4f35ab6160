"""Inputs: records with their content, from Python objects, lines, tables or files."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from .json_values import encode, jsonable

if TYPE_CHECKING:
    from ..conversation.content import ImageContent

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class RecordContent:
    """The content that one answer is extracted from.

    Attributes:
        text: The text; may be empty if there are images.
        images: The images, encoded. The engine decodes them.
    """

    text: str = ""
    images: tuple[ImageContent, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One record of an input.

    Attributes:
        index: Its position among the records, from 0.
        record: The record: an object of the caller, the value of a line, the cells of a row.
        label: Names the record in messages.
        key: Identifies the record in the error of its output row.
        fields: The fields that are repeated in the output row; none if the record is malformed.
        read: Returns the content. Raises ``ValueError`` if the record is malformed, or a file
            cannot be read.
        identity: The value that distinguishes the record from records of other inputs.
    """

    index: int
    record: Any
    label: str
    key: Mapping[str, Any]
    fields: Mapping[str, Any]
    read: Callable[[], RecordContent]
    identity: Any = None

    def digest(self) -> str:
        """Return a digest of the record, by which a resumed run recognises it."""
        facts = encode([jsonable(self.key), jsonable(self.identity)])
        # Objects without a JSON form are written with their addresses.
        return hashlib.blake2b(_ADDRESS.sub("", facts).encode(), digest_size=8).hexdigest()


class Inputs:
    """Iterates over the records of an input.

    Args:
        items: The records, read as they are taken.
        unit: The noun for a record, in the singular.
        count: The number of records; ``None`` if unknown.
        columns: The names of the fields, if the input is a table.
        tables: Returns the fields as tables of pyarrow; ``None`` for an input that is no table.
        wait: Waits up to a number of seconds for the next record or the end, and returns whether it
            arrived; ``None`` if records are read without delay.
        is_stored: Whether the first records can be read ahead without waiting.

    Attributes:
        unit: The noun for a record.
        count: The number of records.
        columns: The names of the fields.
        tables: As above.
        is_stored: As above.
    """

    def __init__(
        self,
        items: Iterator[Item],
        unit: str,
        *,
        count: int | None = None,
        columns: Sequence[str] | None = None,
        tables: Callable[[], Iterable[Any] | None] = lambda: None,
        wait: Callable[[float], bool] | None = None,
        is_stored: bool = True,
    ) -> None:
        self.unit = unit
        self.count = count
        self.columns = columns
        self.tables = tables
        self.is_stored = is_stored
        self._items = items
        self._wait = wait
        self._ahead: deque[Item] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        return self._ahead.popleft() if self._ahead else next(self._items)

    def add_images(self, images: tuple[ImageContent, ...]) -> None:
        """Put images before the images of each record that is taken from now on."""

        def added(item: Item) -> Item:
            def read() -> RecordContent:
                content = item.read()
                return replace(content, images=(*images, *content.images))

            return replace(item, read=read)

        if images:
            self._ahead = deque(map(added, self._ahead))
            self._items = map(added, self._items)

    def first(self, count: int) -> list[Item]:
        """Wait for the next ``count`` records and return them, without taking them."""
        self._ahead.extend(islice(self._items, max(count - len(self._ahead), 0)))
        return list(islice(self._ahead, count))

    def peek(self) -> Item | None:
        """Wait for the next record and return it, without taking it; ``None`` at the end."""
        return next(iter(self.first(1)), None)

    def is_ready(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the next record or the end; return whether it arrived."""
        return bool(self._ahead) or self._wait is None or self._wait(seconds)

    def fields(self) -> tuple[str, ...]:
        """Return the names of the records' fields: the columns of a table, or of the first record.

        None for an input that is not stored.
        """
        if self.columns is None:
            item = self.peek() if self.is_stored else None
            return () if item is None else tuple(item.fields)
        return tuple(self.columns)
