"""Scalars, encoded texts and addresses at the edges of what readers read, from a file of data."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["NUMBERS", "SPECIAL_CHARACTERS", "STRINGS"]

_FILE = Path(__file__).parents[1] / "data" / "unusual_texts.json"
_TEXTS: dict[str, list[str]] = json.loads(_FILE.read_text(encoding="utf-8"))

# Python reads integers of at most 4,300 digits.
_LONG_INTEGERS = ("9" * 4300, "9" * 4301)
_LONG_NUMBERS = (f"0.{'0' * 330}1", "1" * 310, f"1{'0' * 4299}", f"1{'0' * 4300}")
_LONG_ADDRESSES = (
    f"{'a' * 65}@b.org",
    f"a@{'b' * 64}.org",
    f"a@{'b.' * 130}org",
    f"http://{'a' * 300}/",
)

NUMBERS = (*_TEXTS["numbers"], *_LONG_NUMBERS)
"""Texts of numbers in JSON."""

SPECIAL_CHARACTERS = tuple(_TEXTS["special characters"])

STRINGS = (
    *(text for kind in ("texts", "numerals", "times") for text in _TEXTS[kind]),
    *(text for kind in ("encoded texts", "addresses") for text in _TEXTS[kind]),
    *_LONG_INTEGERS,
    *_LONG_ADDRESSES,
)
"""Contents of strings in JSON."""
