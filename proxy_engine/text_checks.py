"""Checks of values that callers give: lists, text, and what error messages show of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["has_surrogate", "listed", "short_repr"]


def listed(value: object) -> list[Any] | None:
    """Return the items of a list or another iterable; ``None`` for any other value.

    Strings, bytes and mappings are iterable, too. They do not count as lists here.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return None
    try:
        return list(value)
    except TypeError:
        # An array of NumPy's without dimensions says that it is iterable, and is not.
        return None


def short_repr(value: object, limit: int = 80) -> str:
    """Return ``repr(value)`` cut to ``limit`` characters; never raises.

    ``repr`` itself raises for values that are nested too deeply and for integers of more than
    4,300 digits. Such a value is shown by its type.
    """
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def has_surrogate(text: str) -> bool:
    """Return whether ``text`` holds half a surrogate pair, so that it has no UTF-8 form."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
