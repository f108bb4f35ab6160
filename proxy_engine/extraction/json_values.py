"""JSON values and texts: objects as JSON; members as texts, which keep the notation of numbers."""

from __future__ import annotations

import json
from json.decoder import WHITESPACE  # type: ignore[attr-defined]
from typing import Any

from pydantic_core import to_jsonable_python

from ..checks import short_repr

_DECODER = json.JSONDecoder()


def split_members(text: str) -> dict[str, str]:
    """Return the JSON texts of an object's members by name.

    Args:
        text: A valid JSON object.
    """
    members: dict[str, str] = {}
    position = _skip(text, _skip(text, 0) + 1)
    while text[position] != "}":
        name, position = _DECODER.raw_decode(text, position)
        begin = _skip(text, _skip(text, position) + 1)
        _, end = _DECODER.raw_decode(text, begin)
        members[name] = text[begin:end]
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return members


def split_items(text: str) -> list[str]:
    """Return the JSON texts of an array's items.

    Args:
        text: A valid JSON array.
    """
    items: list[str] = []
    position = _skip(text, _skip(text, 0) + 1)
    while text[position] != "]":
        _, end = _DECODER.raw_decode(text, position)
        items.append(text[position:end])
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return items


def join_members(members: dict[str, str]) -> str:
    """Return a JSON object with members that are JSON texts."""
    return "{" + ", ".join(f"{encode(name)}: {text}" for name, text in members.items()) + "}"


def encode(value: Any) -> str:
    """Return a JSON text in one line. A lone surrogate is escaped: UTF-8 cannot encode it."""
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def in_utf8(value: Any) -> Any:
    """Return a JSON value with its lone surrogates escaped, as in CSV files."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {in_utf8(name): in_utf8(member) for name, member in value.items()}
    return [in_utf8(item) for item in value] if isinstance(value, list) else value


def _skip(text: str, position: int) -> int:
    """Return the position of the next character that is no whitespace."""
    end: int = WHITESPACE.match(text, position).end()
    return end


def pointer_of(name: str) -> str:
    """Return the JSON Pointer of a property."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one: ``None``, NaN, or the NA and NaT of pandas."""
    if value is None:
        return True
    try:
        # Missing values do not equal themselves. A comparison with `pandas.NA` has no truth value.
        return bool(value != value)
    except Exception:
        # Objects of the caller and of libraries may raise anything.
        return type(value).__name__ == "NAType"


def jsonable(value: Any) -> Any:
    """Return a value as JSON: dates in ISO 8601, bytes in base64, missing values as ``None``.

    Objects without a JSON form are written as ``str`` does.
    """
    if is_missing(value):
        return None
    try:
        return to_jsonable_python(
            value, bytes_mode="base64", inf_nan_mode="null", fallback=_fallback
        )
    except (TypeError, ValueError, RecursionError):
        # Such as a list that contains itself.
        return short_repr(value)


def _fallback(value: Any) -> Any:
    if is_missing(value):
        return None
    # Scalars and arrays of NumPy.
    listed = getattr(value, "tolist", None)
    return jsonable(listed()) if callable(listed) else str(value)
