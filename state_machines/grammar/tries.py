"""Unions of literals as tries.

A small trie consists of hash-consed branches, built bottom-up, so common suffixes are shared as
well. A large one is a sorted list (:mod:`state_machines.grammar.word_lists`). A growing trie copies
the vertices on the path of a new word and shares the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter

from state_machines.budgets import spend
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Symbols,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.nodes import branch, union
from state_machines.grammar.symbols import code_points
from state_machines.grammar.word_lists import Text, word_list

_ONE_BYTE: Callable[[int], Symbols] = (1).__lshift__

MANY_WORDS = 32
"""Number of words above which a union is a sorted list."""

MANY_SYMBOLS = 16_384
"""Number of symbols of all words together above which a union is a sorted list."""


def literals(texts: Iterable[bytes]) -> Node:
    """Return the language of the given byte strings."""
    return trie((text, EPSILON) for text in texts)


def trie(
    entries: Iterable[tuple[Iterable[int], Node]],
    singleton: Callable[[int], Symbols] = _ONE_BYTE,
) -> Node:
    """Return the union of all entries: a word, and a node that follows it.

    Words may have any length, since the trie is built without recursion.

    Args:
        entries: Words, as their symbols, and nodes.
        singleton: Returns the set of one symbol; by default, of a byte.
    """
    over_bytes = singleton is _ONE_BYTE
    listed: list[tuple[Text, Node]] = []
    symbols = 0
    for word, then in entries:
        text: Text = bytes(word) if over_bytes else "".join(map(chr, word))
        symbols += len(text)
        if len(listed) >= MANY_WORDS or len(text) > MANY_WORDS:
            spend(len(text) // (4096 if isinstance(word, bytes) else 32))
        listed.append((text, then))
    if len(listed) > MANY_WORDS or symbols > MANY_SYMBOLS:
        return word_list(listed, singleton)
    root: dict[int | None, object] = {}
    for text, then in listed:
        vertex = root
        for symbol in text if isinstance(text, bytes) else map(ord, text):
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
        folded[id(vertex)] = union([plain, *others]) if others else plain
    return folded[id(root)]


class GrowingTrie(Node):
    """A vertex of a trie of words of code points; ``children`` are sorted by code point."""

    __slots__ = ("children",)

    def __init__(self, children: tuple[tuple[int, Node], ...], nullable: bool) -> None:
        longest = max((1 + (child.max_length or 0) for _, child in children), default=0)
        shortest = min((1 + child.min_length for _, child in children), default=0)
        super().__init__(
            nullable=nullable, min_length=0 if nullable else shortest, max_length=longest
        )
        self.children = children

    def compute_transitions(self) -> Transitions:
        return collect_transitions((code_points(point), child) for point, child in self.children)


def with_word(words: Node, word: str) -> Node:
    """Return a language of code points with one more word, in time linear in its length.

    Args:
        words: :data:`EMPTY`, or a language that this function returned.
        word: The new word.
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
