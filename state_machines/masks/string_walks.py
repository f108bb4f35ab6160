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
from state_machines.masks.descent import Descents
from state_machines.masks.kernel import states_at_vertices
from state_machines.masks.lexeme_walk import ClosingQuotes, StringWalk
from state_machines.masks.token_sets import members, united
from state_machines.masks.token_trie import Ids, TokenTrie

_BACKSLASH = ord("\\")

_NEVER = np.iinfo(np.int32).max
"""In place of the number of characters of a token that is not inside."""


class MeasuredStrings:
    """The tokens inside the strings of a text, after the opening quote, by numbers of characters.

    Args:
        text: The language of the text.
        descents: The walks of the trie.
        closing: The tokens with text after a closing quote.

    Attributes:
        reach: The length from which on an upper bound refuses no token.
    """

    def __init__(self, text: Node, descents: Descents, closing: ClosingQuotes) -> None:
        trie = self._trie = descents.trie
        self._closing = closing
        with descents.table() as table:
            start = table.number(encoded(text, JSON_STRING, b'"'))
            states = states_at_vertices(table, start, trie)
            closed = table.number(EPSILON)
            after = states[trie.vertex_of]
            present = np.flatnonzero(np.bincount(after)).tolist()
            nodes = [table.nodes[number] for number in present]
        written = characters_at(trie)
        quotes = np.flatnonzero(trie.byte == ord('"'))
        self._quotes: Ids = quotes[states[quotes] == closed].astype(np.int32)
        """The vertices of closing quotes."""
        self._lengths: Ids = written[trie.parent[self._quotes]]
        missing = np.zeros(int(states.max(initial=0)) + 1, np.int32)
        missing[present] = _missing_characters(nodes)
        needed = written[trie.vertex_of] + missing[after]
        # A closing quote is no part of the text.
        needed[(after == 0) | (after == closed)] = _NEVER
        self.reach = int(needed.max(initial=0, where=needed < _NEVER))
        self._needed: Ids = np.full(int(trie.ids.max(initial=-1)) + 1, _NEVER, np.int32)
        """The characters of a shortest text that has a token inside, by token id."""
        self._needed[trie.ids] = needed
        # Not held: a text may lead back to itself, and is the key of its measure in a cache.
        self._texts = [ref(node.text) for node in nodes if isinstance(node, EncodedText)]

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        return self._needed.nbytes + self._lengths.nbytes + self._quotes.nbytes

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

    def walk(self, min_chars: int, max_chars: int | None) -> StringWalk:
        """Return the walk of the texts with a number of characters between bounds.

        Args:
            min_chars: The least number; above 0 only if the text is endless.
            max_chars: The greatest number; ``None`` for no bound.
        """
        lengths = self._lengths
        is_inside = self._needed < (_NEVER if max_chars is None else max_chars + 1)
        is_word = lengths >= min_chars
        if max_chars is not None:
            is_word &= lengths <= max_chars
        quotes = self._quotes[is_word]
        tokens = united([members(is_inside)], self._trie.tokens_at_all(quotes))
        return StringWalk(tokens, quotes, self._trie, self._closing)


def _missing_characters(states: Iterable[Node]) -> Ids:
    """Return the fewest characters that complete a text after each state: int32.

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

    return np.array([of(node) for node in states], np.int32)


def characters_at(trie: TokenTrie) -> Ids:
    """Return how many characters of a JSON string begin on the path to each vertex.

    int32, shape (vertices,). An escape is one character, and so is an escaped surrogate pair.
    """
    return trie.tables.group("string_characters", lambda: {"characters": _count(trie)})[
        "characters"
    ]


def _count(trie: TokenTrie) -> npt.NDArray[np.int32]:
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
