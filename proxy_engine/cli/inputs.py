"""The interface of inputs with many records: lines of a stream, or files."""

from __future__ import annotations

from typing import Any, Protocol, Self

from .records import Record


class Item(Protocol):
    """One item of an input."""

    @property
    def label(self) -> str:
        """Names the item in messages."""
        ...

    @property
    def key(self) -> dict[str, Any]:
        """Identifies the item in the output line of its failure."""
        ...

    def read(self) -> Record:
        """Return the item's record.

        Raises:
            ValueError: The item is malformed, or a file cannot be read.
        """
        ...


class Inputs(Protocol):
    """Iterates over the items of an input."""

    @property
    def unit(self) -> str:
        """The noun for an item, in the singular."""
        ...

    def __iter__(self) -> Self: ...

    def __next__(self) -> Item: ...

    def peek(self) -> Item | None:
        """Wait for the next item and return it, without taking it; ``None`` at the end."""
        ...

    def is_ready(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the next item or the end; return whether it arrived."""
        ...

    def count(self) -> int | None:
        """Return the number of items; ``None`` if unknown. Called before anything is taken."""
        ...
