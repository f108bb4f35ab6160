"""Short words of languages without parts: texts, numbers, tries.

A best-first search finds the word. If several symbols lead to the same state, it tries a single
symbol: if possible one that is a token and whose runs are tokens, such as ``a`` with ``aaaa``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from typing import TypeVar

from state_machines.budgets import spend
from state_machines.caches import WeakKeyLruCache
from state_machines.completion.texts import SHORT, CompletionText, Segmenter, joined
from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.node import EMPTY, EPSILON, Node, leading_bytes
from state_machines.grammar.nodes import Concatenation, Repetition, SymbolNode, Union
from state_machines.grammar.symbols import CodePointSet, byte_set, bytes_in
from state_machines.grammar.tokens import TokenNode
from state_machines.grammar.word_lists import ListedText
from state_machines.graphs import Edge, Visit, best_first
from state_machines.limits import LIMITS
from state_machines.masks.spelled_tokens import SpelledTokens

_SHORT_WORDS = 4096
"""Texts for which a short word is cached."""

_REPEATED_CHARACTERS = 4096
"""Characters of a repetition that is spelled out at once."""

_WORD_DETOUR_BYTES = 4
"""Bytes by which a branch may be longer than the shortest one."""

_WORD_DETOUR_STATES = 1024
"""States visited after the shortest branch was found."""

L = TypeVar("L")

Runs = tuple[tuple[str, int], ...]
"""A text as parts, each repeated a number of times."""

CHECKED = 128
"""Bytes up to which an encoded word is one text, which is matched."""

_PLAIN = "a0 e1-_.xA="
_LETTERS = _PLAIN + "".join(chr(c) for c in range(0x20, 0x7F) if chr(c) not in _PLAIN)


class LeafTexts:
    """Finds words that a vocabulary can write. Thread-safe."""

    def __init__(self, segmenter: Segmenter, spelled: SpelledTokens) -> None:
        self._spelled = spelled
        trie = segmenter.trie
        self._segmenter = segmenter
        alone = [byte for byte in range(256) if trie.endings_of(bytes((byte,)), 0)]
        self._alone = byte_set(alone)
        runs = {
            letter: trie.endings_of(letter.encode() * segmenter.longest, 0)
            for letter in _LETTERS
            if ord(letter) in alone and letter not in '"\\'
        }
        longest = sorted(runs, key=lambda letter: -max(runs[letter], default=0))
        self._letters = [ord(letter) for letter in longest]
        rest = [byte for byte in alone if byte not in self._letters]
        self._bytes = [*self._letters, *rest]
        self._known: WeakKeyLruCache[Node, Runs] = WeakKeyLruCache(_SHORT_WORDS)

    def encoded(self, node: EncodedText) -> CompletionText | None:
        """Return a short word of an encoded text, if one is found."""
        runs = self._runs(node.text, 0)
        if runs is None:
            return None
        text = self._segmenter.text(node.terminator)
        # A terminator that cannot stand in the text needs no check.
        barred = None if node.spelling.escapes else node.terminator[:1] or None
        is_barred = False
        for letters, times in reversed(runs):
            try:
                spelled = node.spelling.spell(letters)
            except UnicodeEncodeError:
                return None
            is_barred = is_barred or (barred is not None and barred in spelled)
            run = self._segmenter.repeated(self._segmenter.text(spelled), times)
            if run is None:
                return None
            text = joined(run, text)
        if text.size > CHECKED:
            return None if is_barred else text
        content = text.flat
        return self._segmenter.text(content) if node.matches(content) else None

    def token(self, node: TokenNode) -> CompletionText | None:
        """Return the form or the spelling of some token of a set; ``None`` if there is none."""
        for _, ids in self._spelled.targets(node):
            return self._segmenter.text(self._spelled.form(int(ids[0])))
        return None

    def _runs(self, node: Node, depth: int) -> Runs | None:
        """Return a short word of a language of characters, if one is found."""
        if node.nullable:
            return ()
        if isinstance(node, SymbolNode):
            return ((chr(self._character(node.symbols)), 1),)
        known = self._known.get(node)
        if known is None:
            known = self._make_runs(node, depth + 1)
            if known is not None:
                weight = 1 + sum(len(letters) for letters, _ in known) // 64
                self._known.put(node, known, weight)
        return known

    def _make_runs(self, node: Node, depth: int) -> Runs | None:
        if depth > LIMITS.word_nesting or node.boolean:
            return self._search(node)
        if isinstance(node, Repetition):
            body = self._runs(node.body, depth)
            size = 0 if body is None else sum(len(letters) * times for letters, times in body)
            if body is None or size > _REPEATED_CHARACTERS:
                return None
            return (("".join(letters * times for letters, times in body), node.min_count),)
        if isinstance(node, Union):
            spend(len(node.members))
            words = (self._runs(member, depth) for member in sorted(node.members, key=_min_length))
            return next((word for word in words if word is not None), None)
        if isinstance(node, Concatenation):
            parts: list[tuple[str, int]] = []
            while node is not EPSILON:
                head, node = (
                    (node.head, node.tail) if isinstance(node, Concatenation) else (node, EPSILON)
                )
                part = self._runs(head, depth)
                if part is None:
                    return None
                parts += part
            spend(1 + len(parts) // 4)
            return tuple(_merged(parts))
        return self._search(node)

    def _search(self, start: Node) -> Runs | None:
        def edges(state: Node) -> Iterator[Edge[Node, str]]:
            if isinstance(state, ListedText):
                letters = str(state.text[state.start :])
                yield state.end, letters, len(letters)
                return
            transitions = state.transitions
            spend(1 + len(transitions))
            for symbols, target in transitions:
                character = self._character(symbols)
                # An escape or a form of several bytes is longer than a plain character.
                yield target, chr(character), 1 if character < 0x80 else 6

        for visit in _ends(start, edges, attrgetter("nullable")):
            return (("".join(visit.path), 1),)
        return None

    def _character(self, symbols: CodePointSet) -> int:
        """Return one character out of a set."""
        first, last = symbols.ranges[0]
        if first >= 0x7F or (first == last and len(symbols.ranges) == 1):
            return first
        letter = next((letter for letter in self._letters if letter in symbols), None)
        if letter is None:
            spend(len(self._letters) // 8)
        return first if letter is None else letter

    def byte(self, symbols: int) -> int:
        """Return a byte of a set, a single-byte token if there is one."""
        alone = symbols & self._alone
        for byte in self._bytes if alone else ():
            if alone >> byte & 1:
                return byte
        return bytes_in(symbols)[0]

    def branches(self, start: Node, kinds: tuple[type[Node], ...]) -> list[tuple[bytes, Node]]:
        """Return short paths from a state: (the text, the state that it leads to).

        A path ends at a state that accepts, given as :data:`EPSILON`, that is of one of some kinds,
        or that begins with a long text.
        """

        def is_end(state: Node) -> bool:
            is_long = state.min_length > SHORT and len(state.leading_text) > SHORT
            return state.nullable or is_long or isinstance(state, kinds)

        def edges(state: Node) -> list[Edge[Node, int]]:
            transitions = state.transitions
            spend(1 + len(transitions))
            return [(target, self.byte(symbols), 1) for symbols, target in transitions]

        return [
            (bytes(visit.path), EPSILON if visit.state.nullable else visit.state)
            for visit in islice(_ends(start, edges, is_end), LIMITS.word_branches)
        ]

    def several(self, start: Node, max_steps: int) -> Iterator[bytes]:
        """Yield different words, short ones first; stop after ``max_steps`` prefixes."""
        visits: Counter[Node] = Counter()

        def edges(visit: Visit[tuple[bytes, Node], None]) -> list[Edge[tuple[bytes, Node], None]]:
            text, state = visit.state
            visits[state] += 1
            if visits[state] > LIMITS.visits_per_state:
                return []
            following = leading_bytes(state)
            spend(1 + len(following))
            longer = ((text + bytes((byte,)), state.derivative(byte)) for byte in following)
            return [(prefix, None, 1) for prefix in longer if prefix[1] is not EMPTY]

        def bound(prefix: tuple[bytes, Node]) -> int:
            text, state = prefix
            # Plain letters before bytes that begin an escape or a longer form.
            is_plain = not text or (text[-1] < 0x7F and text[-1] != 0x5C)
            return state.min_length + (0 if is_plain else 4)

        for visit in islice(best_first((b"", start), edges, bound), max_steps):
            text, state = visit.state
            if state.nullable:
                yield text


_min_length = attrgetter("min_length")


def _ends(
    start: Node, edges: Callable[[Node], Iterable[Edge[Node, L]]], is_end: Callable[[Node], bool]
) -> Iterator[Visit[Node, L]]:
    """Yield the nearest end of a path, and ends that are little farther, beyond which none is."""
    nearest: int | None = None
    later = 0
    visits = best_first(
        start, lambda visit: () if is_end(visit.state) else edges(visit.state), _min_length
    )
    for visit in islice(visits, LIMITS.word_states):
        length = visit.cost + visit.state.min_length
        if nearest is not None:
            later += 1
            if length > nearest + _WORD_DETOUR_BYTES or later > _WORD_DETOUR_STATES:
                break
        if is_end(visit.state):
            nearest = length if nearest is None else nearest
            yield visit


def _merged(runs: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield runs, with neighbours that are not repeated as one."""
    for is_single, group in groupby(runs, key=lambda run: run[1] == 1):
        if is_single:
            yield "".join(letters for letters, _ in group), 1
        else:
            yield from group
