"""Confidences of values whose text was drawn from exact distributions of finite choices.

A choice is drawn from its options given the text before it. Several options can have the same value
at a pointer (``1,`` and ``1 ,`` and ``1.0,``), and one option can have several values
(``true, "b": false}``). The options are therefore read from the position of the choice on, and the
probability of a value is that of all options in which it is the same. The product over the choices
that write the value is the probability of these choices, given the other text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...checks.pointers import prefixes
from .answer_values import AnswerValues, Region
from .json_cursor import JsonCursor

if TYPE_CHECKING:
    from ..generation import ScoredChoice, ScoredOption


Entries: TypeAlias = frozenset[tuple[str, Hashable]]
"""The content of an option: the keys of leaves and of incomplete values by pointer."""

_Read: TypeAlias = Callable[[bytes], Entries]
_Cursors: TypeAlias = dict[int, JsonCursor]


def choice_confidences(values: AnswerValues, choices: Iterable[ScoredChoice]) -> dict[str, float]:
    """Return the probabilities of the values that choices alone have written.

    Args:
        values: The answer.
        choices: The choices, in the order of the output.

    Returns:
        The probabilities by pointer. A container has one if all values in it have.
    """
    product: dict[str, float] = defaultdict(lambda: 1.0)
    written: list[tuple[int, int]] = []
    cursors: _Cursors = {}
    for choice in choices:
        text = choice.chosen.text.encode()
        if not text or not values.output.startswith(text, choice.offset):
            # Cut off.
            continue
        span = (choice.offset, choice.offset + len(text))
        for pointer, probability in _shares(values, choice, span, cursors).items():
            product[pointer] *= probability
        start = choice.offset - choice.forced_bytes
        if written and written[-1][1] >= start:
            start = written.pop()[0]
        written.append((start, span[1]))
    unknown = {
        outer
        for pointer in values.leaves
        if not _is_within(values.spans[pointer], written)
        for outer in prefixes(pointer)
    }
    return {
        pointer: min(product[pointer], 1.0) for pointer in values.spans if pointer not in unknown
    }


def _is_within(span: tuple[int, int] | None, written: Sequence[tuple[int, int]]) -> bool:
    """Whether one of the ``written`` spans, which are in order, contains a span."""
    if span is None:
        return False
    number = bisect_right(written, span[0], key=lambda each: each[0])
    return number > 0 and span[1] <= written[number - 1][1]


def _shares(
    values: AnswerValues, choice: ScoredChoice, span: tuple[int, int], cursors: _Cursors
) -> dict[str, float]:
    """Return the total probability of the options that leave a value as it is, by pointer."""
    readers = [
        _json_reader(values, region, choice.offset, cursors)
        if region.kind == "json"
        else _text_reader(values, region, choice)
        for region in values.regions
        if _touch(span, (region.start, region.end))
    ]
    chosen = _read(readers, choice.chosen)
    changed = [
        (option.probability, {*_pointers(chosen ^ _read(readers, option))})
        for option in choice.options
    ]
    affected = {*_pointers(chosen)}.union(*(pointers for _, pointers in changed))
    return {
        pointer: sum(share for share, pointers in changed if pointer not in pointers)
        for pointer in affected
        if _touch(span, values.spans.get(pointer))
    }


def _read(readers: Iterable[_Read], option: ScoredOption) -> Entries:
    text = option.text.encode()
    return frozenset(entry for read in readers for entry in read(text))


def _pointers(entries: Collection[tuple[str, Hashable]]) -> Iterable[str]:
    return (outer for pointer, _ in entries for outer in prefixes(pointer))


def _touch(span: tuple[int, int], other: tuple[int, int] | None) -> bool:
    return other is not None and span[0] < other[1] and other[0] < span[1]


def _json_reader(values: AnswerValues, region: Region, offset: int, cursors: _Cursors) -> _Read:
    """Return a function from an option's text to its entries in a region of JSON.

    The cursor of the region is moved to ``offset``.
    """
    gap = values.output[offset : region.start]
    start = cursors.setdefault(region.start, JsonCursor(region.start))
    start.feed(values.output[start.offset : offset])

    def read(text: bytes) -> Entries:
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
    # beginning of a call is that of one tool only.
    end = region.end + (region.kind == "text")
    expected = values.output[choice.offset : end]
    reaches = choice.offset + len(chosen) >= end

    def read(text: bytes) -> Entries:
        is_same = text == chosen or (reaches and text.startswith(expected))
        return frozenset({(region.pointer, is_same)})

    return read
