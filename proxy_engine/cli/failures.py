"""The line that stands for an input that failed."""

from __future__ import annotations

import json
from typing import Any

from ..errors import OutputValidationError

__all__ = ["failure_line", "failure_prefix", "is_failure"]


def failure_line(number: int, error: Exception) -> str:
    """The line that says why the input's line ``number`` has no result."""
    facts: dict[str, Any] = {
        "line": number,
        "type": type(error).__name__,
        "message": str(error),
    }
    if isinstance(error, OutputValidationError):
        facts["text"] = error.text
    line = json.dumps({"error": facts}, ensure_ascii=False)
    # Half a surrogate pair is no UTF-8; so written, it is JSON's escape of it.
    return line.encode("utf-8", "backslashreplace").decode("utf-8")


def failure_prefix(number: int) -> bytes:
    """What each such line of the input's line ``number`` begins with."""
    return f'{{"error": {{"line": {number}, "type": "'.encode()


def is_failure(value: Any, number: int) -> bool:
    """Whether a line's value is that of such a line."""
    match value:
        case {"error": {"line": int(line), "type": str(), "message": str(), **others}, **more}:
            return line == number and not more and not others.keys() - {"text"}
    return False
