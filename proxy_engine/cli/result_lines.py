"""The output line of a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..extraction.json_members import encode
from ..extraction.rows import failure


def failure_line(key: Mapping[str, Any], error: Exception) -> str:
    """Return the output line for an input that has no result.

    Args:
        key: Identifies the input.
        error: Its error.
    """
    return encode({"error": failure(key, error)})
