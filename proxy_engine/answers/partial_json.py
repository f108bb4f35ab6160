"""The value of incomplete JSON text, for display while it is generated.

Strings appear as far as they are written, without incomplete escapes; numbers, ``true``, ``false``
and ``null`` once they are valid; keys once they have a value. Values only grow: a number may get
more digits but never disappears.

Pydantic's parser parses the text from the start each time, at about 180 MB/s, which is as fast as
copying a value that is updated in place. To keep the total cost linear in the length, parses are
rationed: every piece is parsed up to ``_FREE`` characters; beyond, only while all parses together
have read at most ``_PASSES`` times the text.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json

_FREE = 4096
_PASSES = 512

_UNFINISHED_NUMBER = re.compile(r"((?:^|[:,\[])\s*-?[0-9]+(?:\.[0-9]+)?)(?:\.|[eE][+-]?)$")


class PartialJson:
    """A JSON text that grows piece by piece.

    Attributes:
        value: The latest value, a new object each time.
        has_value: Whether there is a value: ``[`` has one, ``tr`` has none.
    """

    def __init__(self) -> None:
        # Joined on demand: appending to a string would copy it each time.
        self._pieces: list[str] = []
        self._length = 0
        self._read = 0
        self.has_value = False
        self.value: Any = None

    @property
    def text(self) -> str:
        """The concatenated pieces."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def add(self, piece: str, *, last: bool = False) -> bool:
        """Append ``piece``, and return whether ``value`` has changed.

        Text that is not JSON, and escapes of lone surrogates, leave the value unchanged.

        Args:
            piece: More text.
            last: Whether the text is complete; it is parsed whatever the ration.
        """
        self._pieces.append(piece)
        self._length += len(piece)
        length = self._length
        if not (last or length <= _FREE or self._read + length <= _PASSES * length):
            return False
        self._read += length
        # Otherwise `1` would appear, disappear at `1.`, and appear again at `1.5`. The end of a
        # string may look the same, which then appears with the next piece.
        text = _UNFINISHED_NUMBER.sub(r"\1", self.text)
        try:
            value = from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return False
        if self.has_value and _same(value, self.value):
            return False
        self.has_value = True
        self.value = value
        return True


def _same(value: Any, other: Any) -> bool:
    return bool(value == other)
