"""Telling people what takes time. A report is any function of one line of text."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["Report", "silent", "to_stderr"]

Report = Callable[[str], None]
"""Called with one line that says what begins or has been done."""


def silent(line: str) -> None:
    """Say nothing."""


def to_stderr(line: str) -> None:
    """Write the line to standard error, where it mixes with no result."""
    print(line, file=sys.stderr, flush=True)
