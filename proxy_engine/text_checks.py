"""Checks of values that callers give: what error messages show of them, and which text is valid."""

from __future__ import annotations

__all__ = ["has_surrogate", "short_repr"]


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
