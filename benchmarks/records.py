"""Files of figures: JSON that people can read and compare line by line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

__all__ = ["as_text", "write_record"]

_NUMBERS = re.compile(r"\[\s*(-?\d[-+.e\d]*(?:,\s*-?\d[-+.e\d]*)*)\s*\]")


def as_text(record: Any) -> str:
    """Return indented JSON, with lists of numbers on one line each."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    return _NUMBERS.sub(lambda match: "[" + re.sub(r",\s+", ", ", match[1]) + "]", text) + "\n"


def write_record(path: Path, record: Any) -> None:
    """Write a file of figures whole: an interrupted run leaves the one before."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(as_text(record), encoding="utf-8")
    partial.replace(path)
