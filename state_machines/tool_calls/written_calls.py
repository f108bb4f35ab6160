"""Read tool calls in text that was generated without their grammar.

Texts of the format may have any white space where the format has some, and around the punctuation
of JSON. Arguments are found by their notation. Nothing is checked against a schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from state_machines.tool_calls.tool_format import ToolFormat

_SPACE = r"\s*"
_PUNCTUATION = "{}[],:"
_PIECES = re.compile(r"\{(name|id)\}|\s+|[{}\[\],:]|[^\s{}\[\],:]+")
# Text behind a start delimiter may be searched to its end each time.
_MAX_UNREADABLE = 100


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A tool call in a text.

    Attributes:
        name: The name of the called tool.
        id: The id that the text has; ``None`` if it has none.
        arguments: The text of the arguments, in the notation of ``format``.
        raw: The whole call, without delimiters.
        format: The format of the call.
    """

    name: str
    id: str | None
    arguments: str
    raw: str
    format: ToolFormat


@dataclass(frozen=True, slots=True)
class UnreadableCall:
    """Text that begins as a call and cannot be read as one.

    Attributes:
        position: The number of characters before it.
        reason: The first mismatch.
    """

    position: int
    reason: str


def split_calls(text: str, tool_format: ToolFormat) -> Iterator[str | WrittenCall | UnreadableCall]:
    """Yield the free text and the calls of an answer, in their order.

    An unreadable call is yielded before its text, which counts as free text. The last delimiter may
    be missing, as an end token that was not decoded. White space after the last call is no text.

    Args:
        text: The text.
        tool_format: The format of the calls.
    """
    entries = (tool_format, tool_format.without_arguments, tool_format.custom, *tool_format.also)
    readers = [_GroupReader(entry) for entry in entries if entry is not None]
    gap = readers[0].gap
    starts = dict.fromkeys(reader.start.pattern for reader in readers)
    start = re.compile("|".join(starts))
    at, unreadable, calls_end = 0, 0, -1
    while unreadable < _MAX_UNREADABLE and (found := start.search(text, at)):
        read = [reader.read(text, found.end()) for reader in readers]
        calls = next((found for found in read if isinstance(found, tuple)), None)
        if calls is None:
            unreadable += 1
            yield UnreadableCall(found.start(), str(read[0]))
            yield text[at : found.end()]
            at = found.end()
            continue
        if found.start() > at:
            yield text[at : found.start()]
        group, end = calls
        yield from group
        between = gap.match(text, end)
        at = calls_end = between.end() if between is not None else end
    if unreadable == _MAX_UNREADABLE and (found := start.search(text, at)):
        reason = f"what follows {_MAX_UNREADABLE} unreadable calls is not read"
        yield UnreadableCall(found.start(), reason)
    rest = text[at:]
    if rest and not (at == calls_end and rest.isspace()):
        yield rest


class _GroupReader:
    """Reads the calls between two delimiters."""

    def __init__(self, tool_format: ToolFormat) -> None:
        f = self._format = tool_format
        names = {"name": f"(?P<name>{f.names})", "id": f"(?P<id>{f.ids.pattern})"}
        start, head = _spaced(f.start), f"{_spaced(f.head, names)}{_SPACE}"
        opening, between, end = "", "", _spaced(f.end)
        closing = _spaced(f.closing) if f.wraps == "all" else ""
        if f.wraps == "all":
            opening, between = _any_of(f.opening), _any_of(f.between)
        self.start = re.compile(rf"\s?{start}" if f.start[0].isspace() else start)
        self.gap = re.compile(rf"{_SPACE}(?={start})" if f.wraps == "each" else "")
        self._first = re.compile(f"{opening}{_SPACE}{head}")
        self._next = re.compile(f"{between}{_SPACE}{head}")
        self._foot = re.compile(_any_of(f.foot, names))
        # An end token that was not decoded may be missing.
        last = rf"{_SPACE}(?:{end}|\Z)" if end else ""
        closed = f"{_SPACE}{closing}{last}" if closing else last
        self._end = re.compile(rf"{closed}|\s*\Z" if closed else "")

    def read(self, text: str, at: int) -> tuple[list[WrittenCall], int] | ValueError:
        """Return the calls between two delimiters, given the position after the first one.

        Returns:
            The calls, with the position after the last delimiter; or the error of the first
            mismatch.
        """
        try:
            return self._calls(text, at)
        except ValueError as error:
            return error

    def _calls(self, text: str, at: int) -> tuple[list[WrittenCall], int]:
        calls: list[WrittenCall] = []
        head = _past(self._first, text, at, "the head of a call")
        while True:
            call, at = self._call(text, head)
            calls.append(call)
            following = self._next.match(text, at) if self._format.wraps == "all" else None
            if following is None:
                break
            head = following
        return calls, _past(self._end, text, at, "the end of the calls").end()

    def _call(self, text: str, head: re.Match[str]) -> tuple[WrittenCall, int]:
        end = self._format.notation.end(text, head.end())
        foot = _past(self._foot, text, end, "the end of a call")
        found = {**head.groupdict(), **{k: v for k, v in foot.groupdict().items() if v}}
        written = found.get("id")
        id = self._format.ids.read(found["name"], written) if written else None
        arguments, raw = text[head.end() : end], text[head.start() : foot.end()].strip()
        return WrittenCall(found["name"], id, arguments, raw, self._format), foot.end()


def _past(pattern: re.Pattern[str], text: str, at: int, what: str) -> re.Match[str]:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError(f"{what} was expected at character {at}, not {text[at : at + 40]!r}")
    return found


def _spaced(text: str, groups: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a pattern of a text of the format with any white space inside, and none around.

    Args:
        text: The text.
        groups: The patterns of ``{name}`` and ``{id}``.
    """
    pieces = []
    for piece in _PIECES.finditer(text):
        if piece[1] in groups:
            pieces.append(groups[piece[1]])
        elif piece[0].isspace():
            pieces.append(_SPACE)
        elif piece[0] in _PUNCTUATION:
            pieces.append(f"{_SPACE}{re.escape(piece[0])}{_SPACE}")
        else:
            # Some tokenizers decode adjacent special tokens with a space between them.
            pieces.append(re.escape(piece[0]).replace("><", f">{_SPACE}<"))
    # Adjacent repetitions would backtrack.
    pattern = re.sub(r"(?:\\s\*){2,}", lambda _: _SPACE, "".join(pieces))
    return pattern.removeprefix(_SPACE).removesuffix(_SPACE)


def _any_of(texts: Iterable[str], groups: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a pattern of optional white space and any of some texts."""
    patterns = (_spaced(text, groups) for text in texts)
    return f"(?:{'|'.join(pattern and _SPACE + pattern for pattern in patterns)})"
