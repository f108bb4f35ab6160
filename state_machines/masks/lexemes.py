"""Which kind of walk suits a lexeme; the walks of a vocabulary, each made once."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress

from state_machines.grammar.boolean import everything
from state_machines.grammar.encoding import JSON_STRING, EncodedText, encoded
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import Repetition, Sequence, SymbolNode, sequence
from state_machines.grammar.symbols import ANY_CODE_POINT, is_whole_alphabet
from state_machines.masks.lexeme_walk import FullWalk, LexemeWalk, states_at_vertices
from state_machines.masks.recent import Recent
from state_machines.masks.string_walks import (
    MAX_VISITS,
    BaseWalk,
    DifferenceWalk,
    FreeText,
    LengthWalk,
    NarrowWalk,
)
from state_machines.masks.token_trie import TokenTrie

__all__ = ["Lexemes"]

MAX_WALKS = 256
MAX_BASES = 16


class Lexemes:
    """The lexemes of all schemas over one vocabulary."""

    def __init__(self, trie: TokenTrie, vocabulary_size: int) -> None:
        self._trie = trie
        self._size = vocabulary_size
        self._walks: Recent[Hashable, LexemeWalk] = Recent(MAX_WALKS)
        self._bases: Recent[Node, BaseWalk] = Recent(MAX_BASES)

    def walk(self, lexeme: Node) -> LexemeWalk:
        """Return the walk of a lexeme."""
        walk = self._walks.get(lexeme)
        if walk is None:
            walk = self._walks.put(lexeme, self._make(lexeme))
        return walk

    def _make(self, lexeme: Node) -> LexemeWalk:
        text, free = _freed(lexeme)
        if text is not None and self._is_wide(text):
            with suppress(OverflowError):
                return self._string(lexeme, text, free)
        if not self._is_wide(lexeme):
            with suppress(OverflowError):
                return NarrowWalk(lexeme, self._trie, self._size)
        return FullWalk(*states_at_vertices(lexeme, self._trie), self._trie, self._size)

    def _is_wide(self, node: Node) -> bool:
        return self._trie.count_from_root(node.first_bytes) > MAX_VISITS

    def _string(self, lexeme: Node, text: EncodedText, free: Node) -> LexemeWalk:
        base = self._base(free, FreeText if lexeme is text else BaseWalk)
        if lexeme is free:
            return base
        counter = text.text
        if not (
            isinstance(base, FreeText)
            and isinstance(counter, Repetition)
            and isinstance(counter.body, SymbolNode)
            and is_whole_alphabet(counter.body.symbols)
        ):
            return DifferenceWalk(lexeme, base, self._trie)
        # Beyond the longest token all counts are alike.
        least = min(counter.least, base.longest + 1)
        most = counter.most if counter.most is None or counter.most <= base.longest else None
        if least == 0 and most is None:
            return base
        walk = self._walks.get((least, most))
        if walk is None:
            walk = self._walks.put((least, most), LengthWalk(base, least, most))
        return walk

    def _base(self, free: Node, kind: type[BaseWalk]) -> BaseWalk:
        base = self._bases.get(free)
        if base is None:
            base = self._bases.put(free, kind(free, self._trie, self._size))
        return base


def _freed(lexeme: Node) -> tuple[EncodedText | None, Node]:
    """Return the JSON string a lexeme ends with, and the lexeme with any string in its place."""
    before: list[Node] = []
    node = lexeme
    while isinstance(node, Sequence):
        before.append(node.head)
        node = node.tail
    if isinstance(node, EncodedText) and node.spelling is JSON_STRING and node.terminator == b'"':
        free = encoded(everything(ANY_CODE_POINT), node.spelling, node.terminator)
        return node, sequence(*before, free)
    return None, lexeme
