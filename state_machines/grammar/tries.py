"""Choices among many literals, as one trie.

Tries are built bottom-up out of hash-consed branches, so common suffixes are shared as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from state_machines.grammar.node import EPSILON, Node, Symbols
from state_machines.grammar.nodes import branch, choice

__all__ = ["literals", "trie"]


def literals(texts: Iterable[bytes]) -> Node:
    """Return the language of the given byte strings as one trie with shared suffixes."""
    return trie((text, EPSILON) for text in texts)


def trie(
    entries: Iterable[tuple[Iterable[int], Node]],
    singleton: Callable[[int], Symbols] = (1).__lshift__,
) -> Node:
    """Return the choice of *word, then node* over all entries, as one trie.

    ``singleton`` makes a symbol set of one symbol; the default is that of bytes. Built bottom-up
    without recursion, so words may be of any length.
    """
    root: dict[int | None, object] = {}
    for word, then in entries:
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
