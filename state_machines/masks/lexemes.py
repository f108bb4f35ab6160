"""The lexemes of a vocabulary, and the walk of each.

===============================  ===================================================
lexeme                           walk
===============================  ===================================================
JSON string                      :mod:`~state_machines.masks.string_walks`
quote from a source              :mod:`~state_machines.masks.quote_walks`
free text up to a mark           one walk for all marks and far bounds
any other                        its automaton, over the trie of the vocabulary
===============================  ===================================================
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.grammar.configurations import MAX_PREFIX_BYTES, LexemeSplit
from state_machines.grammar.encoding import JSON_STRING, RAW, EncodedText, Spelling, encoded
from state_machines.grammar.line_starts import TextWithoutHeadings
from state_machines.grammar.node import EPSILON, Node, leading_bytes
from state_machines.grammar.nodes import concatenation
from state_machines.grammar.substring import EncodedQuote
from state_machines.grammar.until import UntilText
from state_machines.limits import LIMITS
from state_machines.masks.descent import Descents, below, states_at_vertices
from state_machines.masks.free_texts import FreeTextTokens, HeadingWalks
from state_machines.masks.lexeme_tokens import (
    NO_VERTICES,
    LexemeTokens,
    StringTokens,
    WalkCache,
)
from state_machines.masks.quote_walks import is_sparse_quote, quote_walk
from state_machines.masks.string_walks import (
    LONG_TOKEN,
    Strings,
    with_other_counts,
    without_far_counts,
)
from state_machines.masks.token_sets import TokenSet, united
from state_machines.masks.token_trie import Ids, concatenated

_SPARSE_LEXEMES = 512
"""Lexemes for which it is stored whether few tokens begin them."""

_JSON_STRING_LEADS = 16
"""Byte strings that may precede the text of a JSON string."""

_BOUNDED_TEXTS = 256
"""Texts with clipped bounds that are held; no state holds them."""

MIN_LEXEME_TOKENS = 256
"""Tokens that a lexeme may begin with, from which on its walk is cached for all schemas."""

MAX_BEGINNINGS = 96
"""Beginnings, of :data:`MAX_PREFIX_BYTES` characters, up to which a text is sparse."""

_Key: TypeAlias = "tuple[Node, Spelling, bytes, int, int | None]"


class _Leads(NamedTuple):
    """The byte strings before a string: their vertices, and the tokens along them."""

    starts: tuple[int, ...]
    few: tuple[int, ...]


_NO_LEAD = _Leads((0,), ())


class Lexemes:
    """The lexemes of all schemas over one vocabulary.

    A walk is dropped together with the language of code points that its lexeme encodes.
    """

    def __init__(self, descents: Descents) -> None:
        self._trie = descents.trie
        self._descents = descents
        self._walks: WalkCache[_Key, LexemeTokens] = WalkCache(LIMITS.lexeme_walk_bytes)
        self._near: LruCache[Node, None] = LruCache(_BOUNDED_TEXTS)
        self._sparse: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(_SPARSE_LEXEMES)
        self._leads: WeakKeyLruCache[Node, _Leads | None] = WeakKeyLruCache(_SPARSE_LEXEMES)
        self._strings = Strings(descents)
        self._headings = HeadingWalks(descents.trie)

    def begins_few_tokens(self, first: int) -> bool:
        """Whether few tokens begin with a byte of a set."""
        return self._trie.count_from_root(first) < MIN_LEXEME_TOKENS

    def is_sparse(self, split: LexemeSplit) -> bool:
        """Whether few tokens stay inside a lexeme, so that it need not be walked as such."""
        if split.is_any_text:
            return False
        first = split.prefix.first_bytes
        if split.prefix.nullable:
            first |= split.lexeme.first_bytes
        if self.begins_few_tokens(first):
            return True
        text = split.lexeme.text
        known = self._sparse.peek(text)
        if known is not None:
            return known
        if isinstance(split.lexeme, EncodedQuote):
            return is_sparse_quote(split.lexeme)
        return self._sparse.put(text, _has_few_beginnings(text))

    def walk(self, prefix: Node, lexeme: EncodedText) -> LexemeTokens:
        """Return the walk of a lexeme after a prefix."""
        text, spelling, terminator = lexeme.text, lexeme.spelling, lexeme.terminator
        key = (prefix, spelling, terminator, 0, None)
        walk = self._walks.get(text, key)
        if walk is not None:
            return walk
        if _is_string(lexeme) and not isinstance(lexeme, EncodedQuote):
            leads = self._leads_of(prefix)
            if leads is not None:
                return self._string(prefix, leads, text)
        if isinstance(text, UntilText | TextWithoutHeadings) and spelling is RAW:
            text = self._held(text.near(self._longest_text))
        walk = self._walks.get(text, key)
        if walk is None:
            walk = self._walks.put(text, key, self._make(prefix, text, spelling, terminator))
        return walk

    def _held(self, text: Node) -> Node:
        """Return a text that several lexemes share, and that nothing else may keep."""
        self._near.put(text, None)
        return text

    def _leads_of(self, prefix: Node) -> _Leads | None:
        """Return the byte strings before a string; ``None`` if there are many."""
        if prefix is EPSILON:
            return _NO_LEAD
        known = self._leads.peek(prefix)
        if known is None:
            words = texts_of(prefix)
            if words is None:
                return None
            few: list[int] = []
            found = (self._trie.follow(word, 0, few) for word in words)
            starts = tuple(start for start in found if start is not None)
            known = self._leads.put(prefix, _Leads(starts, tuple(few)))
        return known

    def _string(self, prefix: Node, leads: _Leads, text: Node) -> StringTokens:
        """Return the tokens of a JSON string after its leads."""
        rest, least, most = self._strings.without_bounds(text)
        unbounded, far = without_far_counts(rest)
        if far is not None and least <= 1:
            wider = self._selected(
                prefix, leads, self._held(unbounded), least, most, is_measured=True
            )
            assert wider.missing is not None, "asked for"
            if LONG_TOKEN + wider.missing <= far:
                return self._with_far_counts(prefix, text, wider, wider.missing)
        others = with_other_counts(text)
        if others is not None:
            fewer, more = (self._string(prefix, leads, self._held(other)) for other in others)
            if fewer.is_same(more):
                return more
        return self._selected(
            prefix, leads, rest if rest is text else self._held(rest), least, most
        )

    def _with_far_counts(
        self, prefix: Node, text: Node, wider: StringTokens, missing: int
    ) -> StringTokens:
        """Return the tokens of a string, given its tokens without far bounds on repetitions.

        Only long tokens reach these bounds. So states that differ in such a bound share a walk.
        """
        strings = self._strings
        doubtful = strings.long_tokens[wider.tokens.contains(strings.long_tokens)]
        late = wider.quotes[strings.lengths.at[wider.quotes] >= LONG_TOKEN]
        if not len(doubtful) and not len(late):
            return wider
        # Bounds that no token reaches have no effect. Without them, more states are equal.
        text, _ = without_far_counts(text, strings.lengths.longest + missing)
        string = concatenation(prefix, encoded(text, JSON_STRING, b'"'))
        refused = np.setdiff1d(doubtful, strings.long_tokens_of(string))
        too_late = [v for v in late.tolist() if not string.matches(self._trie.text(v))]
        if not len(refused) and not too_late:
            return wider
        return wider.without(refused, np.array(too_late, np.int32))

    def _selected(
        self,
        prefix: Node,
        leads: _Leads,
        text: Node,
        min_chars: int,
        max_chars: int | None,
        *,
        is_measured: bool = False,
    ) -> StringTokens:
        """Return the tokens of a string between bounds on its length.

        Args:
            prefix: The language of the leads.
            leads: The byte strings before the string.
            text: The language of the string without the bounds.
            min_chars: The lower bound.
            max_chars: The upper bound; ``None`` if there is none.
            is_measured: Whether the result has :attr:`StringTokens.missing`.
        """
        is_bounded = is_measured or min_chars > 0 or max_chars is not None
        measured = [
            self._strings.measured(text, start, is_bounded=is_bounded) for start in leads.starts
        ]
        if max_chars is not None and all(max_chars >= each.reach for each in measured):
            max_chars = None
        key = (prefix, JSON_STRING, b'"', min_chars, max_chars)
        known = self._walks.get(text, key)
        if isinstance(known, StringTokens) and (known.missing is not None or not is_measured):
            return known
        found = [each.tokens(min_chars, max_chars) for each in measured]
        quotes = np.unique(concatenated([NO_VERTICES, *(ends for _, ends in found)]))
        tokens = united([each for each, _ in found], np.array(leads.few, np.int32))
        missing = max((each.missing for each in measured), default=0) if is_bounded else None
        made = StringTokens(
            tokens, quotes.astype(np.int32), self._trie, self._strings.closing, missing
        )
        self._walks.put(text, key, made)
        return made

    @cached_property
    def _longest_text(self) -> int:
        return int(self._trie.characters.max(initial=0))

    def _make(
        self, prefix: Node, text: Node, spelling: Spelling, terminator: bytes
    ) -> LexemeTokens:
        head = encoded(text, spelling, terminator)
        leads = texts_of(prefix) if isinstance(head, EncodedQuote) else None
        if leads is not None:
            assert isinstance(head, EncodedQuote)
            return self._quote(leads, head)
        is_free = isinstance(text, UntilText | TextWithoutHeadings) and text.max_chars is None
        if is_free and prefix is EPSILON and spelling is RAW and not terminator:
            return self._free_text(text)  # type: ignore[arg-type]
        return self._descend(concatenation(prefix, head))

    def _quote(self, leads: list[bytes], quote: EncodedQuote) -> LexemeTokens:
        """Return the walk of a quote after one of several byte strings."""
        trie = self._trie
        sets: list[TokenSet] = []
        few: list[int] = []
        ends: list[Ids] = []
        for lead in leads:
            start = trie.follow(lead, 0, few)
            if start is None:
                continue
            found = quote_walk(self._descents, quote, start)
            sets.append(found.tokens)
            ends.append(found.ends)
            if lead and quote.nullable:
                ends.append(np.array([start], np.int32))
        tokens = united(sets, np.array(few, np.int32))
        quotes = np.unique(concatenated(ends)).astype(np.int32)
        if _is_string(quote):
            return StringTokens(tokens, quotes, trie, self._strings.closing)
        return LexemeTokens(tokens, trie.children_of(quotes), trie)

    def _descend(self, lexeme: Node) -> LexemeTokens:
        with self._descents.table() as table:
            found = self._descents.descend(table, below(0, table.number(lexeme)))
        beyond = np.concatenate([NO_VERTICES, *(ends for _, ends in found.leaving)])
        # The empty lexeme is no lexeme.
        beyond = beyond[self._trie.parent[beyond] != 0]
        return LexemeTokens(found.tokens, beyond, self._trie)

    def _free_text(self, text: UntilText | TextWithoutHeadings) -> LexemeTokens:
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
        if isinstance(text, TextWithoutHeadings) and text.ends_lines:
            walk = self._free_walk(text.without_end())
            return walk.ending_at(self._headings.ends(text, walk.exits))
        if isinstance(text, TextWithoutHeadings) and not self._headings.may_complete(text):
            assert isinstance(text.text, UntilText)
            return self._free_walk(text.text)
        with self._descents.table() as table:
            start = table.number(encoded(text, RAW))
            states = states_at_vertices(table, start, self._trie)
            nullable = np.zeros(len(table.nodes), np.bool_)
            # The table has the states of many lexemes.
            for number in np.unique(states).tolist():
                nullable[number] = table.nodes[number].nullable
        vertices = np.flatnonzero(states)[1:].astype(np.int32)
        return FreeTextTokens.of(vertices, nullable[states[vertices]], self._trie)

    def _free_walk(self, text: UntilText | TextWithoutHeadings) -> FreeTextTokens:
        node = encoded(text, RAW)
        assert isinstance(node, EncodedText)
        walk = self.walk(EPSILON, node)
        assert isinstance(walk, FreeTextTokens)
        return walk


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


def texts_of(node: Node) -> list[bytes] | None:
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
