"""The interface of inputs: records of Python objects, lines of a stream, files, or tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from ..conversation.content import ImageContent


@dataclass(frozen=True, slots=True)
class Content:
    """The content that one answer is extracted from.

    Attributes:
        text: The text; may be empty if there are images.
        images: The images, encoded. The engine decodes them.
    """

    text: str = ""
    images: tuple[ImageContent, ...] = ()


class Item(Protocol):
    """One record of an input."""

    @property
    def record(self) -> Any:
        """The record as the caller gave it."""
        ...

    @property
    def label(self) -> str:
        """Names the record in messages."""
        ...

    @property
    def key(self) -> Mapping[str, Any]:
        """Identifies the record in the error of an output row."""
        ...

    def fields(self) -> Mapping[str, Any]:
        """Return the fields that are repeated in the output row; none if the record is malformed.

        Reads no files.
        """
        ...

    def read(self) -> Content:
        """Return the content of the record.

        Raises:
            ValueError: The record is malformed, or a file cannot be read.
        """
        ...


class Inputs(Protocol):
    """Iterates over the records of an input."""

    @property
    def unit(self) -> str:
        """The noun for a record, in the singular."""
        ...

    def __iter__(self) -> Self: ...

    def __next__(self) -> Item: ...

    def peek(self) -> Item | None:
        """Wait for the next record and return it, without taking it; ``None`` at the end."""
        ...

    def is_ready(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the next record or the end; return whether it arrived."""
        ...

    def count(self) -> int | None:
        """Return the number of records; ``None`` if unknown. Called before anything is taken."""
        ...
