"""An entry of the catalogue of types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Entry", "Library", "entry", "in_msgspec"]

Library = Literal["pydantic", "msgspec"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A type, and JSON texts with the verdict of its reader.

    Attributes:
        name: A name, unique within the library.
        type: The type that users write.
        instances: Texts that the type reads and that users expect to be admitted. Spelled as
            ``json.dumps`` does, with every property in the order of the type, those with defaults
            included.
        refusals: Texts that the type refuses.
        note: What is particular about the type.
        library: The library that reads the type.
    """

    name: str
    type: Any
    instances: tuple[str, ...]
    refusals: tuple[str, ...] = ()
    note: str = ""
    library: Library = "pydantic"

    @property
    def key(self) -> str:
        """The name with that of the library; unique in the catalogue."""
        return f"{self.library}: {self.name}"


def entry(
    name: str,
    type: Any,
    instances: Iterable[str] = (),
    refusals: Iterable[str] = (),
    note: str = "",
) -> Entry:
    """Return an entry of pydantic."""
    return Entry(name, type, tuple(instances), tuple(refusals), note)


def in_msgspec(
    name: str,
    type: Any,
    instances: Iterable[str] = (),
    refusals: Iterable[str] = (),
    note: str = "",
) -> Entry:
    """Return an entry of msgspec."""
    return Entry(name, type, tuple(instances), tuple(refusals), note, "msgspec")
