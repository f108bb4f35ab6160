"""Confidences: probabilities of an answer's values among the alternatives that it had.

A finite choice is drawn from its options given the text before it. Several options can have the
same value at a pointer (``1,`` and ``1 ,`` and ``1.0,``), and one option can have several values
(``true, "b": false}``). The options are therefore read from the position of the choice on, and the
probability of a value is that of all options in which it is the same. The product over the choices
that write the value is the probability of these choices, given the other text.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from ..checks import prefixes, short_repr, suggestion
from ..conversation.content import ToolCall
from ..errors import InvalidOptionError
from .json_cursor import JsonCursor
from .parts import AnswerPart, ScoredChoice, ScoredOption

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")

_NUMBER_STARTS = [bytes((byte,)) for byte in b"-0123456789"]

_Span: TypeAlias = tuple[int, int]
_Entries: TypeAlias = frozenset[tuple[str, Hashable]]
"""The content of an option: the keys of leaves and of incomplete values by pointer."""
_Read: TypeAlias = Callable[[bytes], _Entries]


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
    """The values of an answer by JSON Pointer, with their positions in the output.

    Pointers lead into ``{"tool_calls": [{"name": …, "arguments": …}]}`` if the answer has tool
    calls, and into the parsed value otherwise, as JSON. Without both, the value is the text.

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
    spans: dict[str, _Span | None] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)

    @classmethod
    def of(
        cls, text: str, parsed: Any, calls: Sequence[ToolCall], parts: Sequence[AnswerPart]
    ) -> AnswerValues:
        """Return the values of an answer, from attributes of its ``GenerationResult``."""
        values = cls("".join(part.text for part in parts).encode())
        offset = 0
        for part in parts:
            size = len(part.text.encode())
            if part.pointer is not None:
                values._add_part(parsed, calls, part, part.pointer, offset)
            offset += size
        for index, call in enumerate(calls):
            # Notations other than JSON, and answers whose parts are unknown.
            if f"/tool_calls/{index}" not in values.spans:
                values._add_leaf(f"/tool_calls/{index}/name", call.name, None)
            if f"/tool_calls/{index}/arguments" not in values.spans:
                arguments = json.dumps(call.arguments).encode()
                values._add_json(f"/tool_calls/{index}/arguments", arguments, None)
        if not values.spans:
            values._add_leaf("", text, None)
        return values

    def check(self, pointer: object) -> None:
        """Raise ``InvalidOptionError`` unless the answer has a value at ``pointer``."""
        if not isinstance(pointer, str) or not _POINTER.fullmatch(pointer):
            hint = "A pointer is empty, or a '/' before each name or index, as in '/items/0/price'."
            if isinstance(pointer, str) and pointer.startswith("#"):
                hint = "Leave out the '#', which belongs to URI fragments."
            what = f"{short_repr(pointer)} is not a JSON Pointer (RFC 6901)"
            raise InvalidOptionError(what, option="pointer", hint=hint)
        if pointer not in self.spans:
            names = [name for name in self.spans if name]
            hint = suggestion(pointer, names) if names else "The answer is one value, at ''."
            what = f"the answer has no value at {short_repr(pointer)}"
            raise InvalidOptionError(what, option="pointer", hint=hint)

    def _add_part(
        self,
        parsed: Any,
        calls: Sequence[ToolCall],
        part: AnswerPart,
        pointer: str,
        offset: int,
    ) -> None:
        text = part.text.encode()
        end = offset + len(text)
        if calls or part.is_marker:
            _, _, index, member = pointer.split("/")[:4]
            if int(index) >= len(calls):
                # The output ends inside this call.
                return
            if member == "name":
                name = calls[int(index)].name
                first, last = _name_span(part.text, name)
                self._add_leaf(pointer, name, (offset + first, offset + last))
                self.regions.append(Region(pointer, offset, end, "name"))
                return
        elif _is_text(parsed, pointer, part.text):
            self._add_leaf(pointer, part.text, (offset, end))
            self.regions.append(Region(pointer, offset, end, "text"))
            return
        self._add_json(pointer, text, offset)

    def _add_leaf(self, pointer: str, key: Hashable, span: _Span | None) -> None:
        self._add_root(pointer, span)
        self.leaves[pointer] = key

    def _add_json(self, pointer: str, text: bytes, offset: int | None) -> None:
        cursor = JsonCursor(offset or 0)
        cursor.feed(text)
        cursor.finish()
        if not cursor.is_complete:
            # Output that was cut off has no value.
            return
        self._add_root(pointer, None if offset is None else (offset, offset + len(text)))
        for below, (start, end) in cursor.spans.items():
            assert end is not None, "the value is complete"
            self.spans[pointer + below] = None if offset is None else (start, end)
        self.leaves.update((pointer + below, key) for below, key in cursor.leaves.items())
        if offset is not None:
            self.regions.append(Region(pointer, offset, offset + len(text), "json"))

    def _add_root(self, pointer: str, span: _Span | None) -> None:
        """Add the span of a part's value, and extend the spans of the values around it."""
        for outer in reversed([*prefixes(pointer)]):
            known = self.spans.get(outer, span)
            both = (*known, *span) if known is not None and span is not None else None
            self.spans[outer] = None if both is None else (min(both), max(both))


def confidences(values: AnswerValues, choices: Iterable[ScoredChoice]) -> dict[str, float]:
    """Return the probabilities of the values that exactly scored choices wrote, in document order.

    A container has one if all values in it have.

    Args:
        values: The answer.
        choices: The choices that wrote it, in the order of the output.
    """
    product: dict[str, float] = defaultdict(lambda: 1.0)
    written: list[_Span] = []
    for pointer, probability in _decisions(values, choices, written):
        product[pointer] *= probability
    unknown = {
        outer
        for pointer in values.leaves
        if not _is_within(values.spans[pointer], written)
        for outer in prefixes(pointer)
    }
    return {
        pointer: min(product[pointer], 1.0) for pointer in values.spans if pointer not in unknown
    }


def token_confidences(
    values: AnswerValues,
    choices: Iterable[ScoredChoice],
    lengths: Sequence[int],
    logprobs: Sequence[float | None],
    *,
    normalized: bool = False,
) -> dict[str, float]:
    """Return the probabilities of all values, by the tokens and choices that wrote them.

    Args:
        values: The answer.
        choices: The choices that were drawn exactly.
        lengths: Bytes of the output that each token wrote.
        logprobs: The log-probability of each token; ``None`` if it was not sampled.
        normalized: Return geometric means over tokens and choices in place of products.
    """
    starts = [0, *itertools.accumulate(lengths)]
    sums = [0.0, *itertools.accumulate(logprob or 0.0 for logprob in logprobs)]
    counts = [0, *itertools.accumulate(logprob is not None for logprob in logprobs)]
    drawn: dict[str, list[float]] = defaultdict(list)
    for pointer, probability in _decisions(values, choices, []):
        drawn[pointer].append(math.log(probability) if probability > 0 else -math.inf)
    texts = {region.pointer for region in values.regions if region.kind == "text"}
    found: dict[str, float] = {}
    for pointer, span in values.spans.items():
        if span is None:
            continue
        # The token that contains a byte is the last one that begins before the next byte.
        first = bisect_left(starts, span[0] + 1) - 1
        end = bisect_left(starts, span[1])
        is_open = pointer in texts or values.output[span[0] : span[0] + 1] in _NUMBER_STARTS
        if is_open and end < len(logprobs) and starts[end] == span[1]:
            # Only the next token says that the value has ended.
            end += 1
        total = sums[end] - sums[first] + sum(drawn[pointer])
        count = counts[end] - counts[first] + len(drawn[pointer])
        found[pointer] = math.exp(total / max(count, 1) if normalized else total)
    return found


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


def _is_text(parsed: Any, pointer: str, text: str) -> bool:
    """Whether the value of a part is its text, rather than JSON."""
    for token in pointer.split("/")[1:]:
        match parsed:
            case dict():
                parsed = parsed.get(token.replace("~1", "/").replace("~0", "~"))
            case list():
                parsed = parsed[int(token)]
    return isinstance(parsed, str) and parsed == text


def _name_span(head: str, name: str) -> _Span:
    """Return where the beginning of a call has the tool's name, in bytes.

    The last occurrence as a whole word counts that is no member's name: in
    ``{"name": "name", "arguments": `` the second. Then the last that is, as in ``{"name": ``.
    Without any, the whole text counts.
    """
    word = rf"(?<!\w){re.escape(name)}(?!\w)"
    found = [*re.finditer(rf'{word}(?!"\s*:)', head)] or [*re.finditer(word, head)]
    start, end = found[-1].span() if found else (0, len(head))
    return len(head[:start].encode()), len(head[:end].encode())


def _decisions(
    values: AnswerValues, choices: Iterable[ScoredChoice], written: list[_Span]
) -> Iterator[tuple[str, float]]:
    """Yield the probability of each choice for each value that it writes a part of.

    Args:
        values: The answer.
        choices: The choices that wrote it, in the order of the output.
        written: Receives the values that the choices have written, in order.
    """
    cursors: dict[int, JsonCursor] = {}
    for choice in choices:
        text = choice.chosen.text.encode()
        if not text or not values.output.startswith(text, choice.offset):
            # Cut off.
            continue
        span = (choice.offset, choice.offset + len(text))
        yield from _shares(values, choice, span, cursors).items()
        start = choice.offset - choice.forced_bytes
        if written and written[-1][1] >= start:
            start = written.pop()[0]
        written.append((start, span[1]))


def _is_within(span: _Span | None, written: Sequence[_Span]) -> bool:
    """Whether a span lies inside any ``written`` span; these are in order."""
    if span is None:
        return False
    number = bisect_right(written, span[0], key=lambda span: span[0])
    return number > 0 and span[1] <= written[number - 1][1]


def _shares(
    values: AnswerValues, choice: ScoredChoice, span: _Span, cursors: dict[int, JsonCursor]
) -> dict[str, float]:
    """Return the total probability of the options that leave a value as it is, by pointer."""
    readers = [
        _json_reader(values, region, choice.offset, cursors)
        if region.kind == "json"
        else _text_reader(values, region, choice)
        for region in values.regions
        if _touch(span, (region.start, region.end))
    ]

    def read(option: ScoredOption) -> _Entries:
        text = option.text.encode()
        return frozenset(entry for reader in readers for entry in reader(text))

    chosen = read(choice.chosen)
    changed = [(option.probability, _pointers(chosen ^ read(option))) for option in choice.options]
    affected = _pointers(chosen).union(*(pointers for _, pointers in changed))
    return {
        pointer: sum(share for share, pointers in changed if pointer not in pointers)
        for pointer in affected
        if _touch(span, values.spans.get(pointer))
    }


def _pointers(entries: Collection[tuple[str, Hashable]]) -> set[str]:
    return {outer for pointer, _ in entries for outer in prefixes(pointer)}


def _touch(span: _Span, other: _Span | None) -> bool:
    return other is not None and span[0] < other[1] and other[0] < span[1]


def _json_reader(
    values: AnswerValues, region: Region, offset: int, cursors: dict[int, JsonCursor]
) -> _Read:
    """Return a function from an option's text to its entries in a region of JSON.

    The cursor of the region is moved to ``offset``.
    """
    gap = values.output[offset : region.start]
    start = cursors.setdefault(region.start, JsonCursor(region.start))
    start.feed(values.output[start.offset : offset])

    def read(text: bytes) -> _Entries:
        if not text.startswith(gap):
            # The option does not write this region.
            return frozenset()
        cursor = start.copy()
        cursor.feed(text[len(gap) :])
        entries = (*cursor.leaves.items(), *cursor.unfinished)
        return frozenset((region.pointer + pointer, key) for pointer, key in entries)

    return read


def _text_reader(values: AnswerValues, region: Region, choice: ScoredChoice) -> _Read:
    """Return a function from an option's text to whether it writes a region as it is."""
    chosen = choice.chosen.text.encode()
    # A text ends where the next byte is not its own: "cat" does not begin "catfish". The
    # beginning of a call belongs to one tool only.
    end = region.end + (region.kind == "text")
    expected = values.output[choice.offset : end]
    reaches = choice.offset + len(chosen) >= end

    def read(text: bytes) -> _Entries:
        is_same = text == chosen or (reaches and text.startswith(expected))
        return frozenset({(region.pointer, is_same)})

    return read
