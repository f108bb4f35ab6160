"""The values of an answer that is being written: complete ones, and the one at its end.

The answer is read by patterns rather than by a parser, since it can be JSON, a tool call in any
notation, or JSON behind free text. A wrong reading costs a useless proposal and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

ValueKind = Literal["string", "raw", "number", "other"]

_COMPLETE = re.compile(
    rb'"(?P<name>(?:[^"\\\n]|\\.)*)"\s*:'
    rb'|"(?P<string>(?:[^"\\\n]|\\.)*)"(?=\s*[,}\])])'
    rb"|(?<=[\s:,\[])(?P<number>-?\d[\d.eE+-]*)(?=\s*[,}\]\n])"
    # A string that is not complete hides numbers and tags within it.
    rb'|(?P<open>"(?:[^"\\\n]|\\.)*+(?:\\|"\s*)?\Z)'
    rb"|<(?P<tag>[^<>/\"\n][^<>\n]{0,200})>"
    rb"|>\n?(?P<raw>[^<>]+?)\n?(?=</)"
)
_NAME_IN_TAG = re.compile(rb"[=\"]?([\w.-]+)[\"']?\s*(?:string=.*)?$")
_ARGUMENT = re.compile(rb"([A-Za-z_][\w.-]{0,60})\"?\s*[=:]\s*$")
_OPENING_QUOTE = re.compile(rb'(?:[:=\[,({]\s*|^)"$')
_MAX_RAW = 2000
_NUMBER = re.compile(rb"(?:(?<=[\s:=\[,(>])|\A)-?\d[\d.]*\Z")
_TAG = re.compile(rb"<([^<>\s=/]+)[^<>]*>(\n?)([^<>]*)\Z")
_MARKED = re.compile(rb"[:\[,]\s*(\xff?(?:<\|\"\|>|<escape>))([^<\xff]*)\Z")
_VALUE_TAGS = (b"arg_value", b"longcat_arg_value", b"value")

_BACKSLASH, _LETTER = 1 << ord("\\"), 1 << ord("a")
# JSON escapes all control characters. Raw text has them, but white space may not be its first byte.
_CONTROL = 1 << 1
_QUOTE = 1 << ord('"')
_DIGITS = sum(1 << byte for byte in b"0123456789")


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """A complete value.

    Attributes:
        key: The name of its property or argument; empty if it has none.
        text: Its text, without escapes.
        start: Where its text begins in the answer.
    """

    key: bytes
    text: bytes
    start: int


@dataclass(frozen=True, slots=True)
class OpenValue:
    """The value at the end of an answer.

    Attributes:
        kind: ``"string"``: of JSON, or between quotes; ``"raw"``: between tags, without escapes;
            ``"number"``; ``"other"``: one that may still be any of these.
        key: The name of its property or argument; empty if it has none.
        start: Where it begins in the answer.
        text: The text so far, without escapes.
        closing: The text that ends it.
        is_item: Whether it is an item of a list behind the first one.
    """

    kind: ValueKind
    key: bytes
    start: int
    text: bytes
    closing: bytes
    is_item: bool = False


class ValueReader:
    """Reads complete values from the front of an answer that grows."""

    __slots__ = ("key", "position")

    def __init__(self) -> None:
        self.key = b""
        self.position = 0

    def copy(self) -> ValueReader:
        """Return an independent reader at the same position."""
        twin = ValueReader()
        twin.key, twin.position = self.key, self.position
        return twin

    def read(self, answer: bytes) -> Iterator[WrittenValue]:
        """Yield the values that are complete and have not been read yet."""
        match = _COMPLETE.search(answer, self.position)
        while match is not None and match.lastgroup != "open":
            self.position = match.end()
            kind = match.lastgroup or ""
            text = match[kind]
            if kind == "name":
                self.key = text
            elif kind == "tag":
                # The text behind the tag begins with its last character.
                self.position = match.end() - 1
                name = _NAME_IN_TAG.search(text)
                if name is not None and not text.startswith(_VALUE_TAGS):
                    self.key = name[1]
            else:
                if kind == "raw" and answer.endswith(b"_key", 0, match.start()):
                    self.key = text
                    match = _COMPLETE.search(answer, self.position)
                    continue
                argument = _ARGUMENT.search(answer, max(0, match.start() - 64), match.start())
                if argument is not None:
                    self.key = argument[1]
                plain = unescape(text) if kind == "string" else text
                if plain:
                    yield WrittenValue(self.key, plain, match.start(kind))
            match = _COMPLETE.search(answer, self.position)


def open_value(answer: bytes, first: int, key: bytes) -> OpenValue | None:
    """Return the value at the end of an answer; ``None`` if there is none.

    Args:
        answer: The answer so far.
        first: The set of bytes that may follow.
        key: The last key before it, as :class:`ValueReader` has read it.
    """
    if first & _BACKSLASH and first & _LETTER and not first & _CONTROL:
        return _open_string(answer, key)
    if first & _CONTROL and first & _LETTER:
        return _open_raw(answer, key)
    number = _NUMBER.search(answer, max(0, len(answer) - 40))
    if number is not None and first & _DIGITS:
        return OpenValue(
            "number", _key(answer, number.start(), key), number.start(), number[0], b""
        )
    quote = answer.rfind(b'"', max(0, len(answer) - 200))
    if quote >= 0 and _OPENING_QUOTE.search(answer, max(0, quote - 8), quote + 1):
        return _open_string(answer, key)
    named = _ARGUMENT.search(answer, max(0, len(answer) - 64))
    if first & _DIGITS:
        return OpenValue("number", named[1] if named else key, len(answer), b"", b"")
    if named is None or not first & _QUOTE:
        return None
    # The value begins behind its quote.
    return OpenValue("other", named[1], len(answer) + 1, b"", b"")


def _key(answer: bytes, end: int, key: bytes) -> bytes:
    """Return the key right before a position, or else the last key before it."""
    argument = _ARGUMENT.search(answer, max(0, end - 64), end)
    return argument[1] if argument else key


def _open_string(answer: bytes, key: bytes) -> OpenValue | None:
    quote = _last_quote(answer)
    if quote < 0:
        return None
    argument = _ARGUMENT.search(answer, max(0, quote - 64), quote)
    text = unescape(answer[quote + 1 :])
    if text is None:
        return None
    is_item = argument is None and answer[max(0, quote - 8) : quote].rstrip().endswith(b",")
    own_key = argument[1] if argument else key
    return OpenValue("string", own_key, quote + 1, text, b'"', is_item)


def _open_raw(answer: bytes, key: bytes) -> OpenValue | None:
    begin = max(0, len(answer) - _MAX_RAW)
    marked = _MARKED.search(answer, begin)
    if marked is not None:
        own_key = _key(answer, marked.start(1), key)
        return OpenValue("raw", own_key, marked.start(2), marked[2], marked[1])
    tag = _TAG.search(answer, begin)
    if tag is None:
        return None
    closing = tag[2] + b"</" + tag[1] + b">"
    return OpenValue("raw", key, tag.start(3), tag[3], closing)


def _last_quote(answer: bytes) -> int:
    """Return the position of the last quote that is not escaped; -1 if there is none."""
    quote = answer.rfind(b'"')
    while quote > 0:
        before = quote
        while before and answer[before - 1] == ord("\\"):
            before -= 1
        if (quote - before) % 2 == 0:
            return quote
        quote = answer.rfind(b'"', 0, quote)
    return quote


def unescape(text: bytes) -> bytes | None:
    """Return the text of a JSON string without quotes; ``None`` if it ends within a character."""
    if b"\\" not in text:
        return text
    try:
        plain: str = json.loads(b'"' + text + b'"')
        return plain.encode()
    except (ValueError, UnicodeError):
        return None


def escape(text: bytes) -> bytes:
    """Return a text as it is written within a JSON string."""
    return json.dumps(text.decode(), ensure_ascii=False)[1:-1].encode()
