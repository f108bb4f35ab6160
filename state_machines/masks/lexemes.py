"""The lexemes of a vocabulary, and the walk of each.

===============================  ===================================================
lexeme                           walk
===============================  ===================================================
string with bounds on length     a selection of the walk without bounds
quote from a source              :mod:`~state_machines.masks.quote_walks`
free text up to a mark           one walk for all marks and far bounds
any other                        its automaton, over the trie of the vocabulary
===============================  ===================================================
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np

from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.grammar.boolean import (
    Intersection,
    counts_any_symbol,
    everything,
    intersection,
)
from state_machines.grammar.configurations import MAX_PREFIX_BYTES, LexemeSplit
from state_machines.grammar.encoding import JSON_STRING, RAW, EncodedText, Spelling, encoded
from state_machines.grammar.node import EPSILON, Node, leading_bytes
from state_machines.grammar.nodes import Repetition, concatenation, repetition, symbols
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.until import UntilText
from state_machines.limits import LIMITS
from state_machines.masks.descent import Descents, below
from state_machines.masks.kernel import states_at_vertices
from state_machines.masks.lexeme_tokens import (
    NO_VERTICES,
    ClosingQuotes,
    FreeTextTokens,
    LexemeTokens,
    StringTokens,
    WalkCache,
)
from state_machines.masks.quote_walks import Quote, quote_walk
from state_machines.masks.string_walks import MeasuredStrings, TokenLengths
from state_machines.masks.token_sets import TokenSet, united
from state_machines.masks.token_trie import Ids, concatenated

_NARROW_LEXEMES = 512
"""Lexemes for which it is stored whether few tokens begin them."""

_JSON_STRING_LEADS = 16
"""Byte strings that may precede the text of a JSON string."""

_BOUNDED_TEXTS = 256
"""Texts with clipped bounds that are held; no state holds them."""

_MEASURED_STRING_BYTES = 8 << 20
"""Bytes of texts of strings whose tokens are measured in characters."""

MIN_LEXEME_TOKENS = 256
"""Tokens that a lexeme may begin with, from which on its walk is cached for all schemas."""

MAX_BEGINNINGS = 96
"""Beginnings, of :data:`MAX_PREFIX_BYTES` characters, up to which a text is narrow."""

ANY_TEXT = everything(ANY_CODE_POINT)

_Key: TypeAlias = "tuple[Node, Spelling, bytes, int, int | None]"


class Lexemes:
    """The lexemes of all schemas over one vocabulary.

    A walk is dropped together with the language of code points that its lexeme encodes.
    """

    def __init__(self, descents: Descents) -> None:
        trie = self._trie = descents.trie
        self._descents = descents
        self._walks: WalkCache[_Key, LexemeTokens] = WalkCache(LIMITS.lexeme_walk_bytes)
        self._near: LruCache[Node, None] = LruCache(_BOUNDED_TEXTS)
        self._narrow: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(_NARROW_LEXEMES)
        self._measured: WeakKeyLruCache[Node, MeasuredStrings] = WeakKeyLruCache(
            _MEASURED_STRING_BYTES
        )
        self._closing = ClosingQuotes(trie)
        # Every schema has strings, so their tables are built before the first mask.
        self._lengths = TokenLengths(trie)
        self._any = MeasuredStrings(ANY_TEXT, descents, self._closing, self._lengths)

    def is_narrow(self, split: LexemeSplit) -> bool:
        """Whether few tokens stay inside a lexeme, so that it need not be walked as such."""
        if split.is_any_text:
            return False
        first = split.prefix.first_bytes
        if split.prefix.nullable:
            first |= split.lexeme.first_bytes
        if self._trie.count_from_root(first) < MIN_LEXEME_TOKENS:
            return True
        text = split.lexeme.text
        quote = Quote.of(text)
        if quote is not None:
            return quote.is_narrow
        known = self._narrow.get(text)
        return self._narrow.put(text, _has_few_beginnings(text)) if known is None else known

    def walk(self, prefix: Node, lexeme: EncodedText) -> LexemeTokens:
        """Return the walk of a lexeme after a prefix."""
        text, spelling, terminator = lexeme.text, lexeme.spelling, lexeme.terminator
        min_chars, max_chars = 0, None
        if isinstance(text, UntilText) and spelling is RAW:
            text = text.near(self._longest_text)
        elif prefix is EPSILON and _is_string(lexeme) and Quote.of(text) is None:
            text, min_chars, max_chars = self._without_bounds(text)
        if text is not lexeme.text:
            # Nothing else keeps the text that several lexemes share.
            self._near.put(text, None)
        key = (prefix, spelling, terminator, min_chars, max_chars)
        walk = self._walks.get(text, key)
        if walk is None:
            measured = None
            if prefix is EPSILON and _is_string(lexeme):
                needs_measure = min_chars > 0 or max_chars is not None or text is ANY_TEXT
                measured = self._measure(text) if needs_measure else self._measured.get(text)
            if measured is None:
                made = self._make(prefix, text, spelling, terminator)
            else:
                made = measured.walk(min_chars, max_chars)
            walk = self._walks.put(text, key, made)
        return walk

    @cached_property
    def _longest_text(self) -> int:
        return int(self._trie.characters.max(initial=0))

    def _make(
        self, prefix: Node, text: Node, spelling: Spelling, terminator: bytes
    ) -> LexemeTokens:
        is_string = spelling is JSON_STRING and terminator == b'"'
        head, quote = encoded(text, spelling, terminator), Quote.of(text)
        leads = None if quote is None else words_of(prefix)
        if quote is not None and leads is not None and isinstance(head, EncodedText):
            return self._quote(leads, head, quote)
        is_free = isinstance(text, UntilText) and text.max_chars is None
        if is_free and prefix is EPSILON and spelling is RAW and not terminator:
            return self._free_text(text)  # type: ignore[arg-type]
        return self._descend(concatenation(prefix, head), is_string=is_string)

    def _quote(self, leads: list[bytes], head: EncodedText, quote: Quote) -> LexemeTokens:
        """Return the walk of a quote after one of several byte strings."""
        trie = self._trie
        sets: list[TokenSet] = []
        few: list[int] = []
        ends: list[Ids] = []
        for lead in leads:
            start = trie.follow(lead, 0, few)
            if start is None:
                continue
            found = quote_walk(self._descents, head, quote, start)
            sets.append(found.tokens)
            ends.append(found.ends)
            if lead and head.nullable:
                ends.append(np.array([start], np.int32))
        tokens = united(sets, np.array(few, np.int32))
        quotes = np.unique(concatenated(ends)).astype(np.int32)
        if _is_string(head):
            return StringTokens(tokens, quotes, trie, self._closing)
        return LexemeTokens(tokens, trie.children_of(quotes), trie)

    def _descend(self, lexeme: Node, *, is_string: bool) -> LexemeTokens:
        with self._descents.table() as table:
            found = self._descents.descend(table, below(0, table.number(lexeme)))
        beyond = np.concatenate([NO_VERTICES, *(ends for _, ends in found.leaving)])
        above = self._trie.parent[beyond]
        if is_string:
            return StringTokens(found.tokens, np.unique(above), self._trie, self._closing)
        # The empty lexeme is no lexeme.
        return LexemeTokens(found.tokens, beyond[above != 0], self._trie)

    def _free_text(self, text: UntilText) -> LexemeTokens:
        unbounded = text.without_min_chars()
        if unbounded is not text:
            # The lower bound only restricts where the text may end.
            walk = self._free_walk(unbounded)
            min_chars = text.min_chars + (0 if text.wanted is None else len(text.wanted))
            return walk.ending_late(min_chars, is_prefix_free=text.wanted is not None)
        if text.wanted is not None:
            # Texts up to any of the same strings differ only in where they end.
            walk = self._free_walk(text.without_end())
            last = text.wanted.encode()[-1]
            return walk.ending_at(
                [v for v in walk.vertices_beyond(last) if text.ends_with(self._trie.text(v))]
            )
        with self._descents.table() as table:
            start = table.number(encoded(text, RAW))
            states = states_at_vertices(table, start, self._trie)
            nullable = np.array([node.nullable for node in table.nodes], np.bool_)
        vertices = np.flatnonzero(states)[1:].astype(np.int32)
        return FreeTextTokens.of(vertices, nullable[states[vertices]], self._trie)

    def _free_walk(self, text: UntilText) -> FreeTextTokens:
        node = encoded(text, RAW)
        assert isinstance(node, EncodedText)
        walk = self.walk(EPSILON, node)
        assert isinstance(walk, FreeTextTokens)
        return walk

    def _measure(self, text: Node) -> MeasuredStrings:
        """Return the tokens of the strings of a text without bounds."""
        if text is ANY_TEXT:
            return self._any
        known = self._measured.get(text)
        if known is None:
            made = MeasuredStrings(text, self._descents, self._closing, self._lengths)
            known = self._measured.put(text, made, made.weight)
        return known

    def _without_bounds(self, text: Node) -> tuple[Node, int, int | None]:
        """Return a text without bounds on its length, and the bounds that refuse tokens.

        Texts whose bounds no token reaches share a walk.
        """
        members = text.members if isinstance(text, Intersection) else (text,)
        found = [node for node in members if isinstance(node, Repetition) and node is not ANY_TEXT]
        bounds = [node for node in found if counts_any_symbol(node)]
        if len(bounds) != 1:
            return text, 0, None
        others = [node for node in members if node is not bounds[0]]
        rest = intersection(others) if others else ANY_TEXT
        min_chars, max_chars = bounds[0].min_count, bounds[0].max_count
        if min_chars and not self._measure(rest).is_endless:
            # The bound also refuses characters after which the text can only end earlier.
            rest = intersection((rest, repetition(symbols(ANY_CODE_POINT), min_chars, None)))
            min_chars = 0
        if max_chars is not None and max_chars >= self._measure(rest).reach:
            max_chars = None
        return rest, min(min_chars, self._any.reach + 1), max_chars


def _is_string(lexeme: EncodedText) -> bool:
    return lexeme.spelling is JSON_STRING and lexeme.terminator == b'"'


def _has_few_beginnings(text: Node) -> bool:
    """Whether a language of code points has at most :data:`MAX_BEGINNINGS` beginnings."""
    pending = [(text, 0)]
    beginnings = 0
    while pending:
        node, depth = pending.pop()
        for characters, target in node.transitions:
            beginnings += len(characters)
            if beginnings > MAX_BEGINNINGS:
                return False
            if depth < MAX_PREFIX_BYTES - 1:
                pending.extend((target, depth + 1) for _ in range(len(characters)))
    return True


def words_of(node: Node) -> list[bytes] | None:
    """Return the words of a byte language; ``None`` if it has more than the limit."""
    words: list[bytes] = []
    layer = [(b"", node)]
    while layer:
        words.extend(prefix for prefix, state in layer if state.nullable)
        layer = [
            (prefix + bytes((byte,)), state.derivative(byte))
            for prefix, state in layer
            for byte in leading_bytes(state)
        ]
        if len(words) + len(layer) > _JSON_STRING_LEADS:
            return None
    return words
