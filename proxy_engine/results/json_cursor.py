"""JSON texts that may end anywhere: positions and values of the leaves, and the value so far."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic_core import from_json

from ..checks import reference_token

_TOKEN = re.compile(
    rb'[ \t\n\r:]+|(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")|(?P<sign>[{}\[\],])'
    rb'|(?P<scalar>[^ \t\n\r:,{}\[\]"]+)',
    re.DOTALL,
)
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class _OpenContainer(NamedTuple):
    """An array or object that is being read.

    ``member`` is the reference token of the member or item; ``None`` before a member's name.
    """

    sign: bytes
    pointer: str
    start: int
    is_empty: bool
    member: str | None


class JsonCursor:
    """Reads a JSON text piece by piece.

    The text is valid JSON or the beginning of it. What follows the value is ignored. Positions are
    offsets in bytes.

    Args:
        offset: The offset of the text's first byte.

    Attributes:
        offset: The offset after the text so far.
        leaves: The keys of complete leaves by JSON Pointer (RFC 6901): of strings, numbers, literal
            names, and empty containers. Equal JSON values have equal keys: 1 and 1.0 are equal, 1
            and ``true`` are not.
        spans: The start and the end of each value by its pointer, in order of their starts. The end
            is ``None`` while the value is incomplete.
        is_complete: Whether the whole value was read. A number at the top level is complete after
            ``finish``.
    """

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self.leaves: dict[str, Hashable] = {}
        self.spans: dict[str, tuple[int, int | None]] = {}
        self.is_complete = False
        self._token = b""
        self._containers: list[_OpenContainer] = []

    def copy(self) -> JsonCursor:
        """Return a cursor at the same position that has not recorded anything."""
        other = JsonCursor(self.offset)
        other.is_complete = self.is_complete
        other._token = self._token
        other._containers = self._containers.copy()
        return other

    def feed(self, text: bytes) -> None:
        """Read more of the text.

        Raises:
            ValueError: A closing bracket has no opening one.
        """
        start = self.offset - len(self._token)
        self.offset += len(text)
        text, self._token = self._token + text, b""
        position = 0
        while position < len(text) and not self.is_complete:
            found = _TOKEN.match(text, position)
            at_end = found is not None and found.end() == len(text)
            if found is None or (at_end and found.lastgroup == "scalar"):
                # An incomplete string, or a number that may get more digits.
                self._token = text[position:]
                return
            self._take(found.lastgroup, found[0], start + position)
            position = found.end()

    def finish(self) -> None:
        """Take the end of the text as the end of a number or a literal name."""
        token = self._token
        if token and not self._awaits_name and not isinstance(_key(token), Unfinished):
            self._token = b""
            self._add(token, self.offset - len(token))

    @property
    def unfinished(self) -> Iterator[tuple[str, Hashable]]:
        """The pointers and keys of the leaf at the end of the text and of its containers.

        The key of the leaf is that of a number if it may be one, and otherwise an
        :class:`Unfinished`. The keys of objects are equal if the names of the members in progress
        are. Arrays have equal keys.
        """
        if self._token and not self._awaits_name:
            yield self._pointer, _key(self._token)
        for container in self._containers:
            name: Hashable = container.member if container.sign == b"{" else None
            if container.member is None:
                name = self._token
            yield container.pointer, Unfinished(name)

    def open_pointer(self, following: bytes) -> str:
        """Return the pointer of the innermost incomplete value, or of the next value.

        Args:
            following: The next byte, which ends a number; it may be empty.
        """
        if not self._containers:
            return ""
        container = self._containers[-1]
        is_scalar = bool(self._token) and not self._token.startswith(b'"')
        if container.member is None or (is_scalar and following and following in b",]} \t\n\r"):
            return container.pointer
        is_due = container.sign == b"{" and self._pointer not in self.spans
        return self._pointer if self._token or is_due else container.pointer

    @property
    def _awaits_name(self) -> bool:
        return bool(self._containers) and self._containers[-1].member is None

    @property
    def _pointer(self) -> str:
        """The pointer of the value that is read, or comes next."""
        if not self._containers:
            return ""
        container = self._containers[-1]
        return f"{container.pointer}/{container.member}"

    def _take(self, kind: str | None, token: bytes, start: int) -> None:
        match kind, token:
            case "string", _ if self._awaits_name:
                name = reference_token(str(json.loads(token)))
                self._containers[-1] = self._containers[-1]._replace(member=name)
            case "string" | "scalar", _:
                self._add(token, start)
            case "sign", b"{" | b"[":
                pointer = self._next_pointer()
                self.spans[pointer] = (start, None)
                first = None if token == b"{" else "0"
                self._containers.append(_OpenContainer(token, pointer, start, True, first))
            case "sign", b"}" | b"]":
                self._close(start + 1)
            case "sign", _ if self._containers:
                container = self._containers[-1]
                is_array = container.sign == b"["
                following = str(int(container.member or 0) + 1) if is_array else None
                self._containers[-1] = container._replace(member=following)

    def _next_pointer(self) -> str:
        """Return the pointer of a value that begins; its container is no longer empty."""
        pointer = self._pointer
        if self._containers:
            self._containers[-1] = self._containers[-1]._replace(is_empty=False)
        return pointer

    def _add(self, token: bytes, start: int) -> None:
        pointer = self._next_pointer()
        self.leaves[pointer] = _key(token)
        self.spans[pointer] = (start, start + len(token))
        self.is_complete = not self._containers

    def _close(self, end: int) -> None:
        if not self._containers:
            raise ValueError("a closing bracket has no opening one")
        container = self._containers.pop()
        self.spans[container.pointer] = (container.start, end)
        if container.is_empty:
            self.leaves[container.pointer] = container.sign
        self.is_complete = not self._containers


class Unfinished(NamedTuple):
    """The key of a value that is not complete: the text of a leaf, or the name of a member."""

    text: Hashable


def _key(token: bytes) -> Hashable:
    """Return the key of a token.

    Literal names are bytes, strings are text, and numbers are decimals, so that keys of different
    types differ. A number whose exponent is too large for a decimal is its text.
    """
    if token.startswith(b'"'):
        return str(json.loads(token)) if _TOKEN.fullmatch(token) else Unfinished(token)
    if _NUMBER.fullmatch(token):
        try:
            return Decimal(token.decode())
        except ArithmeticError:
            return token
    return token if token in (b"true", b"false", b"null") else Unfinished(token)


# Pydantic's parser parses the text from the start each time. So that the total cost is linear in
# the length, every piece is parsed up to `_FREE` characters; beyond, only while all parses together
# have read at most `_PASSES` times the text.
_FREE = 4096
_PASSES = 512

_UNFINISHED_NUMBER = re.compile(r"((?:^|[:,\[])\s*-?[0-9]+(?:\.[0-9]+)?)(?:\.|[eE][+-]?)$")


class PartialJson:
    """A JSON text that grows piece by piece, and its value for display.

    Strings appear as far as they are written, without incomplete escapes; numbers, ``true``,
    ``false`` and ``null`` once they are valid; keys once they have a value. A number may get more
    digits but never disappears.

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
