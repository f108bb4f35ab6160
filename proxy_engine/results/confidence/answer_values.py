"""The values of an answer by JSON Pointer, with their positions in the output."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ...checks.pointers import prefixes
from .json_cursor import JsonCursor

if TYPE_CHECKING:
    from ..generation import AnswerPart, GenerationResult, Particle


Answer: TypeAlias = "GenerationResult[Any] | Particle[Any]"


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of the output that is one value.

    Attributes:
        pointer: The pointer of the value.
        start: The offset of its first byte.
        end: The offset after its last byte.
        kind: ``"json"``: the text is JSON. ``"text"``: it is the value. ``"name"``: it is the
            beginning of a tool call and contains the tool's name.
    """

    pointer: str
    start: int
    end: int
    kind: Literal["json", "text", "name"]


@dataclass(slots=True)
class AnswerValues:
    """The values of an answer.

    Attributes:
        output: The output in UTF-8.
        leaves: The keys of strings, numbers, literal names and empty containers by pointer; see
            ``JsonCursor``.
        spans: The start and the end of every value in ``output``, by pointer, in document order.
            ``None`` for values that the output does not contain as JSON.
        regions: Where the values are, in order.
    """

    output: bytes
    leaves: dict[str, Hashable] = field(default_factory=dict)
    spans: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)


def read_values(answer: Answer) -> AnswerValues:
    """Return the values of an answer.

    Pointers lead into ``{"tool_calls": [{"name": …, "arguments": …}]}`` if the answer has tool
    calls, and into the parsed value otherwise, as JSON. Without both, the value is the text.
    """
    values = AnswerValues("".join(part.text for part in answer.parts).encode())
    offset = 0
    for part in answer.parts:
        size = len(part.text.encode())
        if part.pointer is not None:
            _add_part(values, answer, part, part.pointer, offset)
        offset += size
    for index, call in enumerate(answer.tool_calls):
        # Notations other than JSON, and answers whose parts are unknown.
        if f"/tool_calls/{index}" not in values.spans:
            _add_leaf(values, f"/tool_calls/{index}/name", call.name, None)
        if f"/tool_calls/{index}/arguments" not in values.spans:
            text = json.dumps(call.arguments)
            _add_json(values, f"/tool_calls/{index}/arguments", text.encode(), None)
    if not values.spans:
        _add_leaf(values, "", answer.text, None)
    return values


def open_pointer(parts: Sequence[AnswerPart], offset: int, refused: bytes) -> str:
    """Return the pointer of the value that was open where an output departs from another.

    Args:
        parts: The output.
        offset: A position in it, in bytes.
        refused: The text of the other output from this position on.
    """
    output = "".join(part.text for part in parts).encode()
    pairs = zip(output[offset:], refused, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    offset += same
    following = refused[same : same + 1]
    start = 0
    call = ""
    for number, part in enumerate(parts):
        text = part.text.encode()
        if part.pointer is not None and part.pointer.startswith("/tool_calls/"):
            call = "/".join(part.pointer.split("/")[:3])
        is_value = part.pointer is not None and not part.is_marker
        is_inside = offset < start + len(text) or (is_value and offset == start + len(text))
        if is_inside or number == len(parts) - 1:
            if part.pointer is None or part.is_marker:
                return part.pointer or call
            cursor = JsonCursor()
            try:
                cursor.feed(text[: offset - start])
            except ValueError:
                # The value is no JSON.
                return part.pointer
            return part.pointer + cursor.open_pointer(following)
        start += len(text)
    return ""


def _add_part(
    values: AnswerValues, answer: Answer, part: AnswerPart, pointer: str, offset: int
) -> None:
    text = part.text.encode()
    span = (offset, offset + len(text))
    calls = answer.tool_calls
    if calls or part.is_marker:
        _, _, index, member = pointer.split("/")[:4]
        if int(index) >= len(calls):
            # The output ends inside this call.
            return
        if member == "name":
            name = calls[int(index)].name
            start, end = _name_span(part.text, name)
            _add_leaf(values, pointer, name, (offset + start, offset + end))
            values.regions.append(Region(pointer, *span, "name"))
        else:
            _add_json(values, pointer, text, offset)
    elif _is_text(answer.parsed, pointer, part.text):
        _add_leaf(values, pointer, part.text, span)
        values.regions.append(Region(pointer, *span, "text"))
    else:
        _add_json(values, pointer, text, offset)


def _is_text(parsed: Any, pointer: str, text: str) -> bool:
    """Whether the value of a part is its text, rather than JSON."""
    for token in pointer.split("/")[1:]:
        match parsed:
            case dict():
                parsed = parsed.get(token.replace("~1", "/").replace("~0", "~"))
            case list():
                parsed = parsed[int(token)]
    return isinstance(parsed, str) and parsed == text


def _name_span(head: str, name: str) -> tuple[int, int]:
    """Return where the beginning of a call has the tool's name, in bytes.

    The last occurrence as a whole word counts that is no member's name: in
    ``{"name": "name", "arguments": `` the second. Then the last that is, as in ``{"name": ``.
    Without any, the whole text counts.
    """
    word = rf"(?<!\w){re.escape(name)}(?!\w)"
    found = [*re.finditer(rf'{word}(?!"\s*:)', head)] or [*re.finditer(word, head)]
    start, end = found[-1].span() if found else (0, len(head))
    return len(head[:start].encode()), len(head[:end].encode())


def _add_leaf(
    values: AnswerValues, pointer: str, key: Hashable, span: tuple[int, int] | None
) -> None:
    _add_root(values, pointer, span)
    values.leaves[pointer] = key


def _add_json(values: AnswerValues, pointer: str, text: bytes, offset: int | None) -> None:
    cursor = JsonCursor(offset or 0)
    cursor.feed(text)
    cursor.finish()
    if not cursor.is_complete:
        # Output that was cut off has no value.
        return
    _add_root(values, pointer, None if offset is None else (offset, offset + len(text)))
    for below, (start, end) in cursor.spans.items():
        assert end is not None, "the value is complete"
        values.spans[pointer + below] = None if offset is None else (start, end)
    values.leaves.update((pointer + below, key) for below, key in cursor.leaves.items())
    if offset is not None:
        values.regions.append(Region(pointer, offset, offset + len(text), "json"))


def _add_root(values: AnswerValues, pointer: str, span: tuple[int, int] | None) -> None:
    """Add the span of a part's value, and extend those of the values that contain it."""
    for outer in reversed([*prefixes(pointer)]):
        known = values.spans.get(outer, span)
        both = (*known, *span) if known is not None and span is not None else None
        values.spans[outer] = None if both is None else (min(both), max(both))
