"""Choices among many literals, as one trie.

Small tries are built bottom-up out of hash-consed branches, so common suffixes are shared as well.
Large ones are a sorted list, of which a state is a stretch: they cost what is used of them. Those
that grow word by word share all vertices that a word does not pass through.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable
from itertools import groupby
from operator import itemgetter
from weakref import WeakValueDictionary

from state_machines.effort import spend
from state_machines.grammar.node import EMPTY, EPSILON, Node, Row, Symbols, collect, intern_node
from state_machines.grammar.nodes import branch, choice
from state_machines.grammar.symbols import code_points

__all__ = ["literals", "trie", "with_word"]


MANY_WORDS = 32
"""Words from which on a trie is unfolded as it is met."""


def literals(texts: Iterable[bytes]) -> Node:
    """Return the language of the given byte strings as one trie with shared suffixes."""
    return trie((text, EPSILON) for text in texts)


def trie(
    entries: Iterable[tuple[Iterable[int], Node]],
    singleton: Callable[[int], Symbols] = (1).__lshift__,
) -> Node:
    """Return the choice of *word, then node* over all entries, as one trie.

    ``singleton`` makes a symbol set of one symbol; the default is that of bytes. Built without
    recursion, so words may be of any length.
    """
    listed = [(tuple(word), then) for word, then in entries]
    if len(listed) > MANY_WORDS:
        words = _word_list(listed, singleton)
        return _stretch(words, 0, len(words.texts), 0)
    root: dict[int | None, object] = {}
    for word, then in listed:
        vertex = root
        for symbol in word:
            vertex = vertex.setdefault(symbol, {})  # type: ignore[assignment]
        ends = vertex.setdefault(None, [])
        ends.append(then)  # type: ignore[attr-defined]
    return _fold_trie(root, singleton)


def _fold_trie(root: dict[int | None, object], singleton: Callable[[int], Symbols]) -> Node:
    folded: dict[int, Node] = {}
    stack: list[tuple[dict[int | None, object], bool]] = [(root, False)]
    while stack:
        vertex, ready = stack.pop()
        children = [(symbol, child) for symbol, child in vertex.items() if symbol is not None]
        if not ready:
            stack.append((vertex, True))
            stack.extend((child, False) for _, child in children)  # type: ignore[misc]
            continue
        ends: list[Node] = vertex.get(None, [])  # type: ignore[assignment]
        plain = branch(
            ((singleton(symbol), folded.pop(id(child))) for symbol, child in children),
            nullable=any(end is EPSILON for end in ends),
        )
        others = [end for end in ends if end is not EPSILON]
        folded[id(vertex)] = choice([plain, *others]) if others else plain
    return folded[id(root)]


class _WordList:
    """Different words in order, and what follows each."""

    __slots__ = ("__weakref__", "different_ends", "ends", "lengths", "singleton", "texts")

    def __init__(
        self,
        texts: tuple[tuple[int, ...], ...],
        ends: list[Node],
        singleton: Callable[[int], Symbols],
    ) -> None:
        self.singleton = singleton
        self.texts = texts
        self.ends = ends
        self.lengths = list(map(len, texts))
        self.different_ends = frozenset(ends)


_WORD_LISTS: WeakValueDictionary[Hashable, _WordList] = WeakValueDictionary()


def _word_list(
    entries: list[tuple[tuple[int, ...], Node]], singleton: Callable[[int], Symbols]
) -> _WordList:
    """Return the list of words; equal words are one list, as equal nodes are one."""
    spend(len(entries) // 8)
    entries.sort(key=itemgetter(0))
    texts: list[tuple[int, ...]] = []
    found: list[Node] = []
    for text, group in groupby(entries, key=itemgetter(0)):
        texts.append(text)
        ends = [end for _, end in group]
        found.append(ends[0] if len(ends) == 1 else choice(ends))
    words = tuple(texts)
    key = (words, tuple(map(id, found)), id(singleton))
    known = _WORD_LISTS.get(key)
    if known is None:
        known = _WORD_LISTS[key] = _WordList(words, found, singleton)
    return known


class Stretch(Node):
    """What follows ``depth`` symbols of the words ``first`` up to ``last``, which share these.

    All of these words are longer; with ``nullable`` there is one more, which ends here.
    """

    __slots__ = ("depth", "first", "last", "words")

    def __init__(
        self, words: _WordList, first: int, last: int, depth: int, *, nullable: bool
    ) -> None:
        lengths = words.lengths[first:last]
        bounds = {end.max_length for end in words.different_ends}
        longest = None if None in bounds else max(filter(None, bounds), default=0)
        least = min(end.min_length for end in words.different_ends)
        super().__init__(
            nullable=nullable,
            min_length=0 if nullable else min(lengths) - depth + least,
            max_length=None if longest is None else max(lengths) - depth + longest,
            boolean=any(end.boolean for end in words.different_ends),
        )
        self.words = words
        self.first = first
        self.last = last
        self.depth = depth

    def _make_row(self) -> Row:
        words, depth = self.words, self.depth
        row = []
        start = self.first
        while start < self.last:
            symbol = words.texts[start][depth]
            stop = bisect_right(words.texts, symbol, start, self.last, key=itemgetter(depth))
            row.append((words.singleton(symbol), _stretch(words, start, stop, depth + 1)))
            start = stop
        return collect(row)


def _stretch(words: _WordList, first: int, last: int, depth: int) -> Node:
    spend(1 + (last - first) // 64)
    if last - first == 1:
        return _word(words.texts[first][depth:], words.ends[first], words.singleton)
    then = EMPTY
    if words.lengths[first] == depth:
        then = words.ends[first]
        first += 1
    is_end = then is EPSILON
    longer = intern_node(
        ("Stretch", id(words), first, last, depth, is_end),
        lambda: Stretch(words, first, last, depth, nullable=is_end),
    )
    return longer if is_end or then is EMPTY else choice((longer, then))


class Word(Node):
    """The symbols ``text``, one at least, and then ``end``."""

    __slots__ = ("end", "singleton", "text")

    def __init__(
        self, text: tuple[int, ...], end: Node, singleton: Callable[[int], Symbols]
    ) -> None:
        longest = None if end.max_length is None else len(text) + end.max_length
        super().__init__(
            nullable=False,
            min_length=len(text) + end.min_length,
            max_length=longest,
            boolean=end.boolean,
        )
        self.text = text
        self.end = end
        self.singleton = singleton

    @property
    def is_empty(self) -> bool:
        return self.boolean and self.end.is_empty

    def _make_row(self) -> Row:
        rest = _word(self.text[1:], self.end, self.singleton)
        return collect(((self.singleton(self.text[0]), rest),))


def _word(text: tuple[int, ...], end: Node, singleton: Callable[[int], Symbols]) -> Node:
    if not text:
        return end
    return intern_node(("Word", text, id(end), id(singleton)), lambda: Word(text, end, singleton))


class GrowingTrie(Node):
    """A vertex of a trie of words of code points; ``children`` by code point, ascending."""

    __slots__ = ("children",)

    def __init__(self, children: tuple[tuple[int, Node], ...], nullable: bool) -> None:
        longest = max((1 + (child.max_length or 0) for _, child in children), default=0)
        shortest = min((1 + child.min_length for _, child in children), default=0)
        super().__init__(
            nullable=nullable, min_length=0 if nullable else shortest, max_length=longest
        )
        self.children = children

    def _make_row(self) -> Row:
        return collect((code_points(point), child) for point, child in self.children)


def with_word(words: Node, word: str) -> Node:
    """Return the language of code points that has one word more.

    ``words`` is :data:`EMPTY`, or came from here. Takes steps for the word's length only.
    """
    path: list[tuple[tuple[tuple[int, Node], ...], int, bool]] = []
    vertex = words
    for character in word:
        children, nullable = _parts(vertex)
        path.append((children, ord(character), nullable))
        vertex = next((child for at, child in children if at == ord(character)), EMPTY)
    result = _vertex(_parts(vertex)[0], nullable=True)
    for children, point, nullable in reversed(path):
        others = [pair for pair in children if pair[0] != point]
        ascending = sorted([*others, (point, result)], key=itemgetter(0))
        result = _vertex(tuple(ascending), nullable=nullable)
    return result


def _parts(vertex: Node) -> tuple[tuple[tuple[int, Node], ...], bool]:
    return (vertex.children, vertex.nullable) if isinstance(vertex, GrowingTrie) else ((), False)


def _vertex(children: tuple[tuple[int, Node], ...], *, nullable: bool) -> Node:
    return intern_node(
        ("GrowingTrie", nullable, *(part for at, child in children for part in (at, id(child)))),
        lambda: GrowingTrie(children, nullable),
    )
