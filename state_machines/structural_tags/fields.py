"""Reads the members of a JSON object, and locates errors by JSON Pointers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from state_machines.budgets import spend
from state_machines.errors import InvalidStructuralTagError, has_surrogate

MAX_COUNT = 2**31 - 1
"""The greatest number of a field, as XGrammar has it."""

CHARACTERS_PER_STEP = 4096

T = TypeVar("T")


class FieldReader:
    """Reads the members of one JSON object.

    Args:
        value: The object.
        pointer: Its JSON Pointer.
        what: What errors call the object.

    Raises:
        InvalidStructuralTagError: The value is no object.
    """

    def __init__(self, value: object, pointer: str, what: str) -> None:
        if not isinstance(value, Mapping):
            raise InvalidStructuralTagError(
                f"{what} is an object, not {type(value).__name__}", pointer=pointer
            )
        spend()
        self._members: Mapping[str, Any] = value
        self.pointer = pointer
        self.what = what
        self._read: set[str] = set()

    def at(self, *names: str | int) -> str:
        """Return the JSON Pointer of a member."""
        escaped = (str(name).replace("~", "~0").replace("/", "~1") for name in names)
        return "/".join((self.pointer, *escaped))

    def has(self, name: str) -> bool:
        """Whether the object has a member."""
        return name in self._members

    def error(self, what: str, *names: str | int, hint: str = "") -> InvalidStructuralTagError:
        """Return the error of a member."""
        return InvalidStructuralTagError(what, pointer=self.at(*names), hint=hint)

    def member(self, name: str) -> Any:
        """Return a member that must be there."""
        self._read.add(name)
        if name not in self._members:
            raise InvalidStructuralTagError(
                f"{self.what} needs the member {name!r}", pointer=self.pointer
            )
        return self._members[name]

    def optional(self, name: str, default: T) -> Any | T:
        """Return a member, or ``default`` if there is none."""
        self._read.add(name)
        return self._members.get(name, default)

    def end(self) -> None:
        """Raise for members that were not read: a constraint is never ignored."""
        for name in self._members:
            if name not in self._read:
                raise InvalidStructuralTagError(
                    f"{self.what} has no member {str(name)[:80]!r}",
                    pointer=self.at(str(name)[:80]),
                    hint=f"Known are {', '.join(sorted(self._read))}",
                )

    def string(self, name: str, *, allows_empty: bool = True) -> str:
        """Return a member that must be a string."""
        return self.checked_string(self.member(name), name, allows_empty=allows_empty)

    def checked_string(self, value: object, *names: str | int, allows_empty: bool = False) -> str:
        """Return a value that must be a string of Unicode scalar values."""
        if not isinstance(value, str):
            raise self.error(f"{names[0]} is a string, not {type(value).__name__}", *names)
        spend(len(value) // CHARACTERS_PER_STEP)
        if not value and not allows_empty:
            raise self.error(f"{names[0]} cannot be the empty string", *names)
        if has_surrogate(value):
            raise self.error("a text contains half a surrogate pair, which is no character", *names)
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        """Return a member that is a list of strings, by default an empty one."""
        values = self.items(name, required=False)
        return tuple(self.checked_string(value, name, index) for index, value in values)

    def items(self, name: str, *, required: bool = True) -> Iterator[tuple[int, Any]]:
        """Yield the numbered items of a list, which has at least one item if it is required."""
        value = self.member(name) if required else self.optional(name, [])
        if not isinstance(value, list | tuple):
            raise self.error(f"{name} is a list, not {type(value).__name__}", name)
        if required and not value:
            raise self.error(f"{name} needs at least one item", name)
        yield from enumerate(value)

    def boolean(self, name: str, default: bool) -> bool:
        """Return a Boolean member."""
        value = self.optional(name, default)
        if not isinstance(value, bool):
            raise self.error(f"{name} is true or false, not {type(value).__name__}", name)
        return value

    def limit(self, name: str) -> int | None:
        """Return a member that is a non-negative integer or ``None``, the default."""
        value = self.optional(name, None)
        return None if value is None else self.integer(value, name)

    def integer(self, value: object, *names: str | int, minimum: int = 0) -> int:
        """Return a value that must be an integer of at least ``minimum``."""
        name = names[0]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"{name} is an integer, not {type(value).__name__}", *names)
        if not minimum <= value <= MAX_COUNT:
            raise self.error(f"{name} is between {minimum} and {MAX_COUNT}", *names)
        return value

    def choice(self, name: str, known: Iterable[str], default: str | None = None) -> str:
        """Return a member whose value is in a set of strings."""
        value = self.member(name) if default is None else self.optional(name, default)
        names = sorted(known)
        if not isinstance(value, str) or value not in names:
            shown = repr(value[:80]) if isinstance(value, str) else type(value).__name__
            raise self.error(
                f"there is no {name} {shown}", name, hint=f"Known are {', '.join(names)}"
            )
        return value
