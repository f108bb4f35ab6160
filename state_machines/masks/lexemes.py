"""Which kind of walk suits a lexeme; the walks of a vocabulary, each made once."""

from __future__ import annotations

from collections.abc import Hashable

from state_machines.grammar.boolean import everything
from state_machines.grammar.encoding import JSON_STRING, EncodedText, encoded
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import Repetition, SymbolNode
from state_machines.grammar.symbols import ANY_CODE_POINT, is_whole_alphabet
from state_machines.masks.lexeme_walk import FullWalk, LexemeWalk, states_at_vertices
from state_machines.masks.recent import Recent
from state_machines.masks.string_walks import (
    MAX_VISITS,
    DifferenceWalk,
    FreeText,
    LengthWalk,
    NarrowWalk,
)
from state_machines.masks.token_trie import TokenTrie

__all__ = ["Lexemes"]

MAX_WALKS = 256


class Lexemes:
    """The lexemes of all schemas over one vocabulary."""

    def __init__(self, trie: TokenTrie, vocabulary_size: int) -> None:
        self._trie = trie
        self._size = vocabulary_size
        self._walks: Recent[Hashable, LexemeWalk] = Recent(MAX_WALKS)
        self._free_text: FreeText | None = None

    def walk(self, lexeme: Node) -> LexemeWalk:
        """Return the walk of a lexeme."""
        walk = self._walks.get(lexeme)
        if walk is None:
            walk = self._walks.put(lexeme, self._make(lexeme))
        return walk

    def _make(self, lexeme: Node) -> LexemeWalk:
        is_narrow = self._trie.count_from_root(lexeme.first_bytes) <= MAX_VISITS
        try:
            if is_narrow:
                return NarrowWalk(lexeme, self._trie, self._size)
            if (
                isinstance(lexeme, EncodedText)
                and lexeme.spelling is JSON_STRING
                and lexeme.terminator == b'"'
            ):
                return self._string(lexeme)
        except OverflowError:
            pass
        return FullWalk(*states_at_vertices(lexeme, self._trie), self._trie, self._size)

    def _string(self, lexeme: EncodedText) -> LexemeWalk:
        base = self._walk_of_free_text()
        text = lexeme.text
        if not (
            isinstance(text, Repetition)
            and isinstance(text.body, SymbolNode)
            and is_whole_alphabet(text.body.symbols)
        ):
            return DifferenceWalk(lexeme, base, self._trie)
        # Beyond the longest token all counts are alike.
        least = min(text.least, base.longest + 1)
        most = text.most if text.most is None or text.most <= base.longest else None
        if least == 0 and most is None:
            return base
        walk = self._walks.get((least, most))
        if walk is None:
            walk = self._walks.put((least, most), LengthWalk(base, least, most))
        return walk

    def _walk_of_free_text(self) -> FreeText:
        if self._free_text is None:
            free = encoded(everything(ANY_CODE_POINT), JSON_STRING, b'"')
            self._free_text = FreeText(free, self._trie, self._size)
        return self._free_text
