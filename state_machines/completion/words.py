"""Short words of languages that are not composed of others: texts, numbers, tries.

A best-first search finds the word. Of the symbols that lead to the same state it tries one: if
possible a symbol that is a single token and has long runs as tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter

from state_machines.best_first import Edge, Visit, best_first
from state_machines.budgets import spend
from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.completion.endings import NOTHING, Ending, joined
from state_machines.completion.segmenter import Segmenter
from state_machines.grammar.encoding import EncodedText, Spelling
from state_machines.grammar.node import EMPTY, EPSILON, Node, Symbols, leading_bytes
from state_machines.grammar.nodes import Concatenation, Repetition, SymbolNode, Union
from state_machines.grammar.symbols import CodePointSet, byte_set, bytes_in
from state_machines.grammar.tokens import TokenNode
from state_machines.grammar.word_lists import Word
from state_machines.limits import LIMITS
from state_machines.masks.spelled_tokens import SpelledTokens

LONG = 256
"""Characters of a text above which its word is composed of shared parts."""

WORD_PIECE = 512
"""Symbols of a listed word that make up one part, counted from its end."""

SEGMENT = 64
"""Bytes of neighbouring characters that make up one part."""

BYTE_WEIGHT = 5
"""The estimated weight of a byte of a long text: itself and a quarter of a token."""

_PLAIN = "a0 e1-_.xA="
_LETTERS = _PLAIN + "".join(chr(c) for c in range(0x20, 0x7F) if chr(c) not in _PLAIN)


class Words:
    """Finds words that a vocabulary can write. Thread-safe."""

    def __init__(self, segmenter: Segmenter, spelled: SpelledTokens) -> None:
        self._spelled = spelled
        trie = segmenter.trie
        self._segmenter = segmenter
        self._longest = segmenter.longest
        alone = [byte for byte in range(256) if trie.endings_of(bytes((byte,)), 0)]
        self._alone = byte_set(alone)
        self._writable = bytes(alone)
        runs = {
            letter: trie.endings_of(letter.encode() * self._longest, 0)
            for letter in _LETTERS
            if ord(letter) in alone and letter not in '"\\'
        }
        longest = sorted(runs, key=lambda letter: -max(runs[letter], default=0))
        self._letters = [ord(letter) for letter in longest]
        rest = [byte for byte in alone if byte not in self._letters]
        self._bytes = [*self._letters, *rest]
        self._texts: WeakKeyLruCache[Node, str] = WeakKeyLruCache(LIMITS.short_words)
        self._ropes: WeakKeyLruCache[Node, tuple[Spelling | None, Ending]] = WeakKeyLruCache(
            LIMITS.short_words
        )
        # No other object holds the states within a listed word, so weak keys would die at once.
        self._word_ropes: LruCache[Node, tuple[Spelling | None, Ending]] = LruCache(
            LIMITS.short_words
        )

    def encoded(self, node: EncodedText) -> Ending | None:
        """Return a short word of an encoded text, or ``None`` if none is found this way."""
        if node.text.min_length > LONG:
            # A terminator that cannot stand in the text needs no check.
            barred = b"" if node.spelling.escapes else node.terminator[:1]
            rope = self._rope(node.text, node.spelling, barred)
            if rope is not None and rope.size:
                return joined(rope, self._segmenter.leaf(node.terminator))
        word = self._word(node)
        return None if word is None else self._segmenter.leaf(word)

    def token_form(self, node: TokenNode) -> bytes | None:
        """Return the form or the spelling of some token of a set; ``None`` if there is none."""
        for _, ids in self._spelled.targets(node):
            return self._spelled.form(int(ids[0]))
        return None

    def of_bytes(self, node: Node) -> Ending | None:
        """Return a long word of a byte language, if every step brings its end nearer."""
        return self._rope(node, None, b"")

    def _rope(self, text: Node, spelling: Spelling | None, barred: bytes) -> Ending | None:
        """Return a long word of a text, spelled; no part may contain ``barred``.

        Each step takes the symbol after which the lower bound on the rest is smallest. The rests of
        a text share the ends of its rope.
        """
        spine: list[tuple[Node, bytes | Ending]] = []
        while True:
            spend(len(spine) % 2)
            known = self._ropes_of(text).get(text)
            if known is not None and known[0] is spelling:
                rope = known[1]
                break
            step = self._step(text, spelling, barred)
            if step is None:
                last = self._part(text, spelling, barred)
                if last is None:
                    return None
                rope = last
                break
            piece, target = step
            spine.append((text, piece))
            text = target
        segment: list[bytes] = []
        size = 0
        for node, piece in reversed(spine):
            if isinstance(piece, bytes):
                segment.append(piece)
                size += len(piece)
            if segment and (size >= SEGMENT or node is spine[0][0] or isinstance(piece, Ending)):
                rope = joined(self._segment(b"".join(reversed(segment))), rope)
                segment.clear()
                size = 0
                self._ropes_of(node).put(node, (spelling, rope))
            if isinstance(piece, Ending):
                rope = joined(piece, rope)
                self._ropes_of(node).put(node, (spelling, rope))
        return rope

    def _ropes_of(self, node: Node) -> LruCache[Node, tuple[Spelling | None, Ending]]:
        return self._word_ropes if type(node) is Word else self._ropes

    def _segment(self, text: bytes) -> Ending:
        """Return a part of a long text, whose weight is estimated if it can be written."""
        if text.translate(None, self._writable):
            return self._segmenter.leaf(text)
        return Ending(text, NOTHING, BYTE_WEIGHT * len(text))

    def _step(
        self, text: Node, spelling: Spelling | None, barred: bytes
    ) -> tuple[bytes | Ending, Node] | None:
        """Return the next part of a word and the state after it, if that is nearer to the end."""
        if text.nullable or text.boolean or isinstance(text, Repetition):
            return None
        if isinstance(text, Concatenation):
            spend()
            part = None if spelling is None else self._part(text.head, spelling, barred)
            return None if part is None else (part, text.tail)
        if isinstance(text, Word):
            letters, target = text.divided(WORD_PIECE)
            spend(1 + len(letters) // 64)
            if spelling is None:
                return (letters, target) if isinstance(letters, bytes) else None
            spelled = self._spelling_of(str(letters), spelling, barred)
            return None if spelled is None else (spelled, target)
        row = text.transitions
        spend(len(row) // 4)
        nearest = min(row, key=_nearness, default=None)
        if nearest is None or nearest[1].min_length >= text.min_length:
            return None
        symbols, target = nearest
        if spelling is None:
            return bytes((self.byte(symbols),)), target
        spelled = self._spelling_of(chr(self._character(symbols)), spelling, barred)
        return None if spelled is None else (spelled, target)

    def _part(self, text: Node, spelling: Spelling | None, barred: bytes) -> Ending | None:
        if text.nullable:
            return NOTHING
        if spelling is None:
            return None
        times = 1
        if isinstance(text, Repetition):
            times, text = text.min_count, text.body
        letters = self._text(text, 0)
        spelled = None if letters is None else self._spelling_of(letters, spelling, barred)
        return (
            None
            if spelled is None
            else self._segmenter.repeated(self._segmenter.leaf(spelled), times)
        )

    def _spelling_of(self, letters: str, spelling: Spelling, barred: bytes) -> bytes | None:
        try:
            spelled = spelling.spell(letters)
        except UnicodeEncodeError:
            return None
        return None if barred and barred in spelled else spelled

    def _word(self, node: EncodedText) -> bytes | None:
        text = self._text(node.text, 0)
        if text is None:
            return None
        try:
            word = node.spell(text)
        except UnicodeEncodeError:
            return None
        return word if node.matches(word) else None

    def _text(self, node: Node, depth: int, max_states: int = LIMITS.word_states) -> str | None:
        """Return a short word of a language of characters, from ``max_states`` states at most."""
        if node.nullable:
            return ""
        if isinstance(node, SymbolNode):
            return chr(self._character(node.symbols))
        known = self._texts.get(node)
        if known is None:
            known = self._make_text(node, depth + 1, max_states)
            if known is not None:
                self._texts.put(node, known)
        return known

    def _make_text(self, node: Node, depth: int, max_states: int) -> str | None:
        if depth > LIMITS.word_nesting or node.boolean:
            return self._search(node, max_states)
        if isinstance(node, Repetition):
            body = self._text(node.body, depth, max_states)
            if body is None or len(body) * node.min_count > LIMITS.repeated_characters:
                return None
            return body * node.min_count
        if isinstance(node, Union):
            best: str | None = None
            # The first word may take the whole budget, a shorter one only a few states.
            spend(len(node.members))
            for member in sorted(node.members, key=_is_searched):
                if best is None or member.min_length < len(best):
                    text = self._text(
                        member, depth, max_states if best is None else LIMITS.better_word_states
                    )
                    if text is not None and (best is None or len(text) < len(best)):
                        best = text
            return best
        if isinstance(node, Concatenation):
            parts: list[str] = []
            while isinstance(node, Concatenation):
                spend()
                part = self._text(node.head, depth, max_states)
                if part is None:
                    return None
                parts.append(part)
                node = node.tail
            part = self._text(node, depth, max_states)
            return None if part is None else "".join(parts) + part
        return self._search(node, max_states)

    def _search(self, start: Node, max_states: int) -> str | None:
        def edges(visit: Visit[Node, str]) -> Iterator[Edge[Node, str]]:
            transitions = visit.state.transitions
            spend(1 + len(transitions))
            for symbols, target in transitions:
                character = self._character(symbols)
                # An escape or a form of several bytes is longer than a plain character.
                yield target, chr(character), 1 if character < 0x80 else 6

        for visit in best_first(start, edges, _min_length):
            if visit.state.nullable:
                return "".join(visit.path)
            max_states -= 1
            if max_states < 0:
                return None
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
        """Return one byte out of a set, if possible one that is a token by itself."""
        alone = symbols & self._alone
        for byte in self._bytes if alone else ():
            if alone >> byte & 1:
                return byte
        return bytes_in(symbols)[0]

    def branches(self, start: Node, kinds: tuple[type[Node], ...]) -> list[tuple[bytes, Node]]:
        """Return short paths from a state: (the text, the state that it leads to).

        A path ends at a state that accepts, given as :data:`EPSILON`, or that is of one of some
        kinds.
        """

        def is_end(state: Node) -> bool:
            return state.nullable or isinstance(state, kinds)

        def edges(visit: Visit[Node, int]) -> list[Edge[Node, int]]:
            if is_end(visit.state):
                return []
            transitions = visit.state.transitions
            spend(1 + len(transitions))
            return [(target, self.byte(symbols), 1) for symbols, target in transitions]

        found: list[tuple[bytes, Node]] = []
        nearest: int | None = None
        later = 0
        for number, visit in enumerate(best_first(start, edges, _min_length)):
            state, length = visit.state, visit.cost + visit.state.min_length
            if nearest is not None:
                later += 1
                if length > nearest + LIMITS.word_detour_bytes:
                    break
            if is_end(state):
                found.append((bytes(visit.path), EPSILON if state.nullable else state))
                nearest = length if nearest is None else nearest
            is_over = later >= LIMITS.word_detour_states or number > LIMITS.word_states
            if is_over or len(found) >= LIMITS.word_branches:
                break
        return found

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


def _nearness(step: tuple[Symbols, Node]) -> int:
    return step[1].min_length


def _is_searched(node: Node) -> bool:
    """Whether the word of the first part must be searched for."""
    while isinstance(node, Concatenation) and not isinstance(node.head, Repetition | Union):
        if node.head.boolean or not isinstance(node.head, SymbolNode):
            return True
        node = node.tail
    return not isinstance(node, Concatenation | Repetition | Union | SymbolNode)
