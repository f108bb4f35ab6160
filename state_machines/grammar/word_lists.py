"""Unions of literals as sorted lists; a state is an interval of the list.

Vertices are created on first use, and texts are not copied. States within long
texts share one cache of derivatives.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable
from itertools import islice
from typing import TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    SharedDerivatives,
    Symbols,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import code_points
from state_machines.limits import LIMITS

Text: TypeAlias = "bytes | str"
"""A word: ``bytes`` over bytes, ``str`` over code points; a list has one kind."""

SHORT = 256
"""Length up to which the rest of a word is interned by its text, so equal suffixes are shared."""

CHUNK = 2048
"""Number of texts that are sorted by one call."""

_SHARED_DERIVATIVES: SharedDerivatives = LruCache(LIMITS.shared_derivatives)


class _TextList:
    """Sorted words, and the node that follows each."""

    __slots__ = (
        "__weakref__",
        "_bounds",
        "_common",
        "_lengths",
        "different_ends",
        "ends",
        "has_boolean_end",
        "longest_end",
        "shortest_end",
        "texts",
    )

    def __init__(self, texts: tuple[Text, ...], ends: list[Node] | Node) -> None:
        self.texts = texts
        self.ends = ends
        self._lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        self._bounds: dict[tuple[int, int], tuple[int, int]] = {}
        self._common: dict[tuple[int, int], int] = {}
        self.different_ends = frozenset((ends,) if isinstance(ends, Node) else ends)
        longest = {end.max_length for end in self.different_ends}
        self.longest_end = None if None in longest else max(filter(None, longest), default=0)
        self.shortest_end = min(end.min_length for end in self.different_ends)
        self.has_boolean_end = any(end.boolean for end in self.different_ends)

    def end(self, index: int) -> Node:
        """Return the node that follows a word."""
        return self.ends if isinstance(self.ends, Node) else self.ends[index]

    def bounds(self, first: int, last: int) -> tuple[int, int]:
        """Return the least and the greatest length of an interval of words."""
        known = self._bounds.get((first, last))
        if known is None:
            lengths = self._lengths[first:last]
            known = self._bounds[first, last] = int(lengths.min()), int(lengths.max())
        return known

    def common(self, first: int, last: int) -> int:
        """Return the length of the common prefix of an interval of words."""
        known = self._common.get((first, last))
        if known is None:
            known = _common_length(self.texts[first], self.texts[last - 1])
            self._common[first, last] = known
        return known


_TEXT_LISTS: WeakValueDictionary[Hashable, _TextList] = WeakValueDictionary()


def literals(texts: Iterable[Text]) -> Node:
    """Return the language of the given words."""
    return word_list((text, EPSILON) for text in texts)


def word_list(entries: Iterable[tuple[Text, Node]]) -> Node:
    """Return the union of all entries: a word, and a node that follows it.

    Lists of equal entries are one object.
    """
    by_text: dict[Text, Node | list[Node]] = {}
    is_uniform = True
    for number, (text, then) in enumerate(entries):
        spend((not number % 8) + len(text) // 4096)
        if then is EMPTY or (then.boolean and then.is_empty):
            continue
        known = by_text.setdefault(text, then)
        if then is not EPSILON:
            is_uniform = False
        if known is not then:
            # Rare: one word with different continuations.
            by_text[text] = [*(known if isinstance(known, list) else [known]), then]
    if not by_text:
        return EMPTY
    texts = tuple(_in_order(list(by_text)))
    ends: list[Node] | Node = EPSILON
    key: Hashable = texts
    if not is_uniform:
        found = (by_text[text] for text in texts)
        ends = [union(end) if isinstance(end, list) else end for end in found]
        key = (texts, *map(id, ends))
    known_list = _TEXT_LISTS.get(key)
    if known_list is None:
        known_list = _TEXT_LISTS[key] = _TextList(texts, ends)
    return _interval(known_list, 0, len(texts), 0)


def _in_order(texts: list[Text]) -> list[Text]:
    """Return different texts in ascending order. No call takes long, so budgets apply."""
    result: list[Text] = []
    stack = [texts]
    while stack:
        group = stack.pop()
        if len(group) <= CHUNK:
            spend(1 + len(group) // 32)
            result += sorted(group)
            continue
        start = _common_length(min(group), max(group))
        by_symbols: dict[Text, list[Text]] = {}
        pending = iter(group)
        while chunk := list(islice(pending, CHUNK)):
            spend(len(chunk) // 16)
            for text in chunk:
                by_symbols.setdefault(text[start : start + 2], []).append(text)
        stack += [by_symbols[symbols] for symbols in sorted(by_symbols, reverse=True)]
    return result


def _common_length(one: Text, other: Text) -> int:
    """Return the length of the common prefix of two texts."""
    shortest = min(len(one), len(other))
    if one[:shortest] == other[:shortest]:
        return shortest
    low, high = 0, shortest
    while high - low > SHORT:
        middle = (low + high) // 2
        spend(1 + (middle - low) // 16384)
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return next((at for at in range(low, high) if one[at] != other[at]), high)


def symbol_set(text: Text, index: int) -> Symbols:
    """Return the set of one symbol of a text."""
    symbol = text[index]
    return 1 << symbol if isinstance(symbol, int) else code_points(symbol)


class ListedTexts(Node):
    """The words ``first`` to before ``last`` without their common first ``depth`` symbols.

    All of these words are longer; with ``nullable`` there is one more word, which ends here.
    """

    __slots__ = ("depth", "first", "last", "words")

    def __init__(
        self, words: _TextList, first: int, last: int, depth: int, *, nullable: bool
    ) -> None:
        shortest, longest = words.bounds(first, last)
        longest_end = words.longest_end
        super().__init__(
            nullable=nullable,
            min_length=0 if nullable else shortest - depth + words.shortest_end,
            max_length=None if longest_end is None else longest - depth + longest_end,
            boolean=words.has_boolean_end,
        )
        self.words = words
        self.first = first
        self.last = last
        self.depth = depth
        if words.common(first, last) - depth > SHORT:
            self.shared_derivatives = _SHARED_DERIVATIVES

    @property
    def leading_text(self) -> bytes:
        text = self.words.texts[self.first]
        if not isinstance(text, bytes) or self.nullable:
            return b""
        return text[self.depth : self.words.common(self.first, self.last)]

    def entries(self) -> list[tuple[bytes, Node]]:
        """Return the rest of each word of bytes and the node behind it, if these nodes differ."""
        words = self.words
        return [
            (text[self.depth :], words.end(index))
            for index in range(self.first, self.last)
            if isinstance(text := words.texts[index], bytes)
            and not isinstance(words.ends, Node)
            and not self.nullable
        ]

    def compute_transitions(self) -> Transitions:
        words, depth = self.words, self.depth
        texts = words.texts
        transitions = []
        start = self.first
        while start < self.last:
            symbol = texts[start][depth]
            stop = bisect_right(texts, symbol, start, self.last, key=lambda text: text[depth])
            members = symbol_set(texts[start], depth)
            following = self._following(start, stop)
            if following is not EMPTY:
                transitions.append((members, following))
            start = stop
        return collect_transitions(transitions)

    def _following(self, first: int, last: int) -> Node:
        """Return the words of an interval below, after one more symbol."""
        return _interval(self.words, first, last, self.depth + 1)

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        common = self.words.common(self.first, self.last)
        if common == self.depth:
            return position + 1, self.derivative(text[position])
        length = min(common - self.depth, len(text) - position)
        own = self.words.texts[self.first]
        if own[self.depth : self.depth + length] != text[position : position + length]:
            return len(text), EMPTY
        return position + length, _interval(self.words, self.first, self.last, self.depth + length)


class Remaining(ListedTexts):
    """The words of an interval without some; ``removed`` is the bit set of these, by their place.

    At least two words are left, and one is removed.
    """

    __slots__ = ("removed",)

    def __init__(
        self, words: _TextList, first: int, last: int, depth: int, removed: int, *, nullable: bool
    ) -> None:
        super().__init__(words, first, last, depth, nullable=nullable)
        self.removed = removed

    def _following(self, first: int, last: int) -> Node:
        removed = self.removed >> (first - self.first)
        return _remaining(self.words, first, last, self.depth + 1, removed)


def without_listed(language: Node, words: Iterable[str]) -> Node | None:
    """Return a list of words of code points without some, in constant time for each.

    Returns:
        ``None`` if the language is no list of words.
    """
    if not isinstance(language, ListedTexts) or language.words.ends is not EPSILON:
        return None
    listed, first, depth = language.words, language.first, language.depth
    if language.nullable:
        return None
    removed = language.removed if isinstance(language, Remaining) else 0
    prefix = listed.texts[first][:depth]
    for word in words:
        spend()
        text = prefix + word  # type: ignore[operator]
        place = bisect_left(listed.texts, text, first, language.last)
        if place < language.last and listed.texts[place] == text:
            removed |= 1 << (place - first)
    return _remaining(listed, first, language.last, depth, removed)


def _remaining(words: _TextList, first: int, last: int, depth: int, removed: int) -> Node:
    """Return the words of an interval, without the words in a bit set and their prefixes."""
    removed &= (1 << (last - first)) - 1
    if not removed:
        return _interval(words, first, last, depth)
    spend()
    left = last - first - removed.bit_count()
    if left == 0:
        return EMPTY
    if left == 1:
        only = first + (~removed & (removed + 1)).bit_length() - 1
        return _word(words.texts[only], depth, EPSILON)
    is_end = len(words.texts[first]) == depth and not removed & 1
    if len(words.texts[first]) == depth:
        first, removed = first + 1, removed >> 1
        if not removed and not is_end:
            return _interval(words, first, last, depth)
    key = ("Remaining", id(words), first, last, depth, removed, is_end)
    return intern_node(key, lambda: Remaining(words, first, last, depth, removed, nullable=is_end))


def _interval(words: _TextList, first: int, last: int, depth: int) -> Node:
    spend()
    if last - first == 1:
        return _word(words.texts[first], depth, words.end(first))
    then = EMPTY
    if len(words.texts[first]) == depth:
        then = words.end(first)
        first += 1
    is_end = then is EPSILON
    longer = intern_node(
        ("ListedTexts", id(words), first, last, depth, is_end),
        lambda: ListedTexts(words, first, last, depth, nullable=is_end),
    )
    return longer if is_end or then is EMPTY else union((longer, then))


class ListedText(Node):
    """The symbols of ``text`` from ``start`` on, at least one, followed by ``end``."""

    __slots__ = ("end", "start", "text")

    def __init__(self, text: Text, start: int, end: Node) -> None:
        length = len(text) - start
        super().__init__(
            nullable=False,
            min_length=length + end.min_length,
            max_length=None if end.max_length is None else length + end.max_length,
            boolean=end.boolean,
        )
        self.text = text
        self.start = start
        self.end = end
        if length > SHORT:
            self.shared_derivatives = _SHARED_DERIVATIVES

    @property
    def is_empty(self) -> bool:
        return self.boolean and self.end.is_empty

    @property
    def leading_text(self) -> bytes:
        return self.text[self.start :] if isinstance(self.text, bytes) else b""

    def compute_transitions(self) -> Transitions:
        rest = _word(self.text, self.start + 1, self.end)
        return collect_transitions(((symbol_set(self.text, self.start), rest),))

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        own, start = self.text, self.start
        length = min(len(own) - start, len(text) - position)
        if own[start : start + length] != text[position : position + length]:
            return len(text), EMPTY
        return position + length, _word(own, start + length, self.end)


def _word(text: Text, start: int, end: Node) -> Node:
    if len(text) - start <= SHORT:
        text, start = text[start:], 0
        if not text:
            return end
    return intern_node(("ListedText", text, start, id(end)), lambda: ListedText(text, start, end))
