"""Checks of input values, and their representation in error messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeGuard


def is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is a list or another iterable, and no string, bytes or mapping."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    try:
        iter(value)
    except TypeError:
        # A NumPy array without dimensions has `__iter__`, which raises.
        return False
    return True


def as_list(value: object) -> list[Any] | None:
    """Return the items of a list or another iterable; ``None`` for any other value.

    Strings, bytes and mappings do not count as lists.
    """
    return list(value) if is_iterable(value) else None


def reusable(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of several requests with lists in place of iterators, read once."""
    return {
        name: list(value) if isinstance(value, Iterator) else value
        for name, value in arguments.items()
    }


def short_repr(value: object, limit: int = 80) -> str:
    """Return ``repr(value)``, cut to ``limit`` characters; never raises.

    ``repr`` raises for deeply nested values and for integers of more than 4,300 digits. These are
    shown by their type.
    """
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
