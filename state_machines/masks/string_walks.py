"""Walks of strings with bounds on the length: one walk for all bounds.

A token fits between two bounds if its characters, and the fewest that complete the text after it,
fit. So a text is walked once, and the walk of each pair of bounds is a selection by these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from weakref import ref

import numpy as np
import numpy.typing as npt

from state_machines.budgets import Verdict, spend
from state_machines.grammar.encoding import JSON_STRING, EncodedText, encoded
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import Concatenation, Union
from state_machines.grammar.shortest import has_endless_words, shortest_length
from state_machines.masks.descent import Descents, below
from state_machines.masks.kernel import states_at_vertices
from state_machines.masks.lexeme_tokens import NO_VERTICES, ClosingQuotes, StringTokens
from state_machines.masks.token_sets import Bits, packed, united, within, without
from state_machines.masks.token_trie import Ids, TokenTrie

_BACKSLASH, _QUOTE = ord("\\"), ord('"')


class TokenLengths:
    """The tokens of a trie by the number of characters that they begin in a JSON string.

    Attributes:
        at: The characters on the path to each vertex: int32, shape (vertices,). An escape is one
            character, and so is an escaped surrogate pair.
        longest: The greatest number.
        quotes: The vertices of quotes that are not escaped, where tokens end: int32, ascending.
    """

    def __init__(self, trie: TokenTrie) -> None:
        self.at: Ids = trie.tables.group(
            "string_characters", lambda: {"characters": _count_characters(trie)}
        )["characters"]
        self.longest = int(self.at.max(initial=0))
        self._of_token: Ids = np.zeros(int(trie.ids.max(initial=-1)) + 1, np.int32)
        self._of_token[trie.ids] = self.at[trie.vertex_of]
        self._up_to: dict[int, Bits] = {}
        is_escape = trie.byte == _BACKSLASH
        for first, last in zip(trie.levels[1:], trie.levels[2:], strict=False):
            is_escape[first:last] &= ~is_escape[trie.parent[first:last]]
        is_quote = (trie.byte == _QUOTE) & ~is_escape[trie.parent] & (trie.low < trie.end)
        self.quotes: Ids = np.flatnonzero(is_quote).astype(np.int32)

    def up_to(self, count: int) -> Bits:
        """Return the tokens with at most a number of characters."""
        count = max(0, min(count, self.longest))
        known = self._up_to.get(count)
        if known is None:
            fits = self._of_token <= count
            known = self._up_to[count] = np.packbits(fits, bitorder="little")
        return known


class MeasuredStrings:
    """The tokens inside the strings of a text, after the opening quote, by numbers of characters.

    Args:
        text: The language of the text.
        descents: The walks of the trie.
        closing: The tokens with text after a closing quote.
        lengths: The numbers of characters of the tokens.

    Attributes:
        reach: A length from which on an upper bound refuses no token.
    """

    def __init__(
        self, text: Node, descents: Descents, closing: ClosingQuotes, lengths: TokenLengths
    ) -> None:
        trie = self._trie = descents.trie
        self._descents = descents
        self._closing = closing
        self._lengths = lengths
        with descents.table() as table:
            found = descents.descend(
                table, below(0, table.number(encoded(text, JSON_STRING, b'"')))
            )
            nodes = [table.nodes[number] for number in found.reached]
        beyond = np.concatenate([NO_VERTICES, *(ends for _, ends in found.leaving)])
        closed = lengths.quotes[found.tokens.contains(trie.ids[trie.low[lengths.quotes]])]
        self._quotes: Ids = np.union1d(trie.parent[beyond], closed)
        """The vertices of closing quotes."""
        self._word_lengths: Ids = lengths.at[trie.parent[self._quotes]]
        self._inside = without(found.tokens, trie.tokens_at_all(self._quotes))
        nodes = [node for node in nodes if node is not EPSILON]
        missing = _missing_characters(nodes).values()
        self._least_missing = min(missing, default=0)
        self._most_missing = max(missing, default=0)
        self.reach = lengths.longest + self._most_missing
        # Not held: a text may lead back to itself, and is the key of its measure in a cache.
        self._text = ref(text)
        self._texts = [ref(node.text) for node in nodes if isinstance(node, EncodedText)]

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        return self._inside.nbytes + self._word_lengths.nbytes + self._quotes.nbytes

    @cached_property
    def is_endless(self) -> bool:
        """Whether the text is known to have words of any length after every token.

        Then a lower bound only restricts where the text may end.
        """
        texts = [text() for text in self._texts]
        known = {text for text in texts if text is not None}
        known.update([target for text in known for _, target in text.transitions])
        is_complete = None not in texts
        return is_complete and all(has_endless_words(text) is Verdict.YES for text in known)

    def walk(self, min_chars: int, max_chars: int | None) -> StringTokens:
        """Return the walk of the texts with a number of characters between bounds.

        Args:
            min_chars: The least number; above 0 only if the text is endless.
            max_chars: The greatest number; ``None`` for no bound.
        """
        is_word = self._word_lengths >= min_chars
        inside = [self._inside]
        if max_chars is not None:
            is_word &= self._word_lengths <= max_chars
            inside = [within(self._inside, self._lengths.up_to(max_chars - self._most_missing))]
            if self._least_missing < self._most_missing:
                inside.append(packed(self._fitting(max_chars)))
        quotes = self._quotes[is_word]
        tokens = united(inside, self._trie.tokens_at_all(quotes))
        return StringTokens(tokens, quotes, self._trie, self._closing)

    def _fitting(self, max_chars: int) -> Ids:
        """Return tokens that fit, among those for which it depends on the state after them."""
        trie, lengths = self._trie, self._lengths
        certain, possible = (
            lengths.up_to(max_chars - missing)
            for missing in (self._most_missing, self._least_missing)
        )
        ids = within(self._inside, possible & ~certain).ids
        text = self._text()
        if not len(ids) or text is None:
            return NO_VERTICES
        vertex_of = np.zeros(int(trie.ids.max()) + 1, np.int32)
        vertex_of[trie.ids] = trie.vertex_of
        vertices = vertex_of[ids]
        with self._descents.table() as table:
            start = table.number(encoded(text, JSON_STRING, b'"'))
            after = states_at_vertices(table, start, trie)[vertices]
            nodes = {number: table.nodes[number] for number in np.unique(after).tolist()}
        missing = np.zeros(max(nodes) + 1, np.int32)
        found = _missing_characters(nodes.values())
        missing[list(nodes)] = [found[node] for node in nodes.values()]
        return ids[lengths.at[vertices] + missing[after] <= max_chars]


def _missing_characters(states: Iterable[Node]) -> dict[Node, int]:
    """Return the fewest characters that complete a text after each state.

    A character that has begun is not counted.
    """
    known: dict[Node, int] = {}

    def of(node: Node) -> int:
        # At most the bytes of one character are followed.
        found = known.get(node)
        if found is None:
            spend()
            if isinstance(node, EncodedText):
                found = shortest_length(node.text)
            elif isinstance(node, Concatenation):
                # The rest of a character, then the rest of the text.
                found = of(node.tail)
            elif isinstance(node, Union):
                found = min(map(of, node.members))
            else:
                found = min((of(target) for _, target in node.transitions), default=0)
            known[node] = found
        return found

    return {node: of(node) for node in states}


def _count_characters(trie: TokenTrie) -> npt.NDArray[np.int32]:
    characters = trie.characters.copy()
    escaped = trie.byte == _BACKSLASH
    for first, last in zip(trie.levels[1:], trie.levels[2:], strict=False):
        escaped[first:last] |= escaped[trie.parent[first:last]]
    for vertex in np.flatnonzero(escaped).tolist():
        characters[vertex] = _characters_of(trie.text(vertex))
    return characters


def _characters_of(text: bytes) -> int:
    count = at = 0
    while at < len(text):
        if text[at] == _BACKSLASH:
            at += _escape_length(text[at : at + 12])
            count += 1
        else:
            count += text[at] & 0xC0 != 0x80
            at += 1
    return count


def _escape_length(text: bytes) -> int:
    if text[1:2] != b"u":
        return 2
    is_pair = text[2:3] in b"dD" and text[3:4] in b"89abAB" and text[6:8] in (b"", b"\\", b"\\u")
    return 12 if is_pair and len(text) > 3 else 6
