"""The terminals of a grammar over lexemes, and the safe ends of their lexemes.

The lexer may end a lexeme only where the next byte cannot continue it. A search for a text that
follows (:mod:`~state_machines.grammar.liveness`) costs time for each state of the parser.
:class:`SafeEnds` has the answer for all states of the parser at once, for most lexemes.

Each terminal has a few *words*, such as ``0`` of ``/[0-9]+/``. A word is read in parallel with all
terminals. The *gap* is the set of the bytes that continue it for some of them: the digits behind
``0``. A word is *safe* if every terminal that can come next has a safe word that begins with
another byte. So ``0`` is safe in front of ``"+"``, and not in front of ``/[0-9a-f]+/`` if that has
the word ``0`` alone. An ignored lexeme, such as white space, may stand between the two words. The
safe words are a greatest fixed point of this rule. Behind a safe word, a shortest rest of the text
can be written, whatever the state of the parser is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import islice
from operator import or_
from typing import NamedTuple
from weakref import WeakKeyDictionary

from state_machines.budgets import spend
from state_machines.grammar.encoding import RAW, EncodedText
from state_machines.grammar.lexer import (
    NEAR_STATES,
    LexerState,
    lexer_state,
    nearest_states,
    terminals_in,
)
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import Literal
from state_machines.grammar.shortest import shortest_text, shortest_word
from state_machines.grammar.symbols import bytes_in

_WORDS = 4
"""Words of a terminal."""

_WORD_STATES = 1_000
"""States of a terminal that are visited to find one of its words."""


@dataclass(frozen=True, slots=True)
class TerminalLanguage:
    """A terminal: the name of a class of lexemes, and their texts.

    Attributes:
        name: The name in the grammar, or the text of an anonymous terminal.
        language: The texts of its lexemes, over bytes. The empty text is no lexeme.
        is_lazy: Whether a lexeme ends as soon as its text is in the language.
        is_nested: Whether the texts are no lexemes, and may end wherever they are complete.
        ending: The texts at the end of lexemes that captures leave out.
        before_ending: The texts in front of ``ending``.
        temperature: The sampling temperature of lexemes; ``None``: that of other text.
    """

    name: str = field(compare=False)
    language: Node
    is_lazy: bool = False
    is_nested: bool = False
    ending: Node | None = None
    before_ending: Node | None = None
    temperature: float | None = None


class Lexicon:
    """The terminals of a grammar, and how texts are divided into their lexemes.

    Args:
        terminals: The terminals by number. Their languages do not have the empty word.
        ignored: The set of terminals whose lexemes may follow any other lexeme.
        followers: By terminal of the parser, the terminals that a shortest rest of a text may go
            on with behind it, and perhaps others, as a set.
        ignores_once: Whether at most one ignored lexeme stands between two others.
    """

    def __init__(
        self,
        terminals: Sequence[TerminalLanguage],
        ignored: int,
        followers: Mapping[int, int],
        *,
        ignores_once: bool = False,
    ) -> None:
        self.terminals = tuple(terminals)
        self.ignored = ignored
        self.followers = followers
        self.ignores_once = ignores_once
        self.lazy = sum(1 << n for n, each in enumerate(terminals) if each.is_lazy)
        self.nested = sum(1 << n for n, each in enumerate(terminals) if each.is_nested)
        self._starts: dict[int, Node] = {}

    def start(self, allowed: int) -> Node:
        """Return the lexer's state before a lexeme of any allowed terminal."""
        known = self._starts.get(allowed)
        if known is None:
            lexemes = terminals_in(allowed & ~self.nested)
            items = ((1 << n, self.terminals[n].language) for n in lexemes)
            known = self._starts[allowed] = lexer_state(items, self.lazy & allowed)
        return known

    @cached_property
    def safe_ends(self) -> SafeEnds:
        """The ends of lexemes behind which every text of the parser can follow."""
        return SafeEnds(self)


class _Word(NamedTuple):
    """A lexeme: its first byte, and the bytes that would continue it, as sets."""

    first: int
    gap: int


class SafeEnds:
    """The safe ends of the lexemes of a lexicon."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._followers = lexicon.followers
        self._parsed = sum(1 << number for number in lexicon.followers)
        self._ignored = lexicon.ignored
        self._ignores_once = lexicon.ignores_once
        self._known: WeakKeyDictionary[Node, bool] = WeakKeyDictionary()
        lexer = _ParallelTerminals(lexicon)
        words = [
            tuple(
                word
                for text in (() if each.is_nested else _texts(each.language))
                if (word := lexer.word(1 << number, text)) is not None
            )
            for number, each in enumerate(lexicon.terminals)
        ]
        self._separators = [word for n in terminals_in(lexicon.ignored) for word in words[n]]
        self._fitting: dict[int, int] = {}
        self._remove_unsafe(words)

    def _remove_unsafe(self, words: list[tuple[_Word, ...]]) -> None:
        """Find the first bytes of safe words."""
        while True:
            self._fitting.clear()
            self._first = [reduce(or_, (word.first for word in each), 0) for each in words]
            left = [
                tuple(
                    word
                    for word in each
                    if not self._followers.get(number, 0) & ~self._fit_behind(word.gap)
                )
                for number, each in enumerate(words)
            ]
            if left == words:
                return
            words = left

    def _fit_behind(self, gap: int) -> int:
        """Return the terminals that can follow, as a set, where some bytes cannot be next."""
        barred = gap
        for separator in self._separators:
            if separator.first & ~gap:
                barred &= separator.gap
        return self._fit(barred)

    def _fit(self, gap: int) -> int:
        """Return the terminals with a safe word that does not begin with some bytes, as a set."""
        found = self._fitting.get(gap)
        if found is None:
            found = 0
            for number, first in enumerate(self._first):
                if first & ~gap:
                    found |= 1 << number
            self._fitting[gap] = found
        return found

    def begins(self, allowed: int) -> bool:
        """Whether a text follows in front of a lexeme, if the parser allows some terminals."""
        return allowed & self._fit(0) != 0

    def is_safe(self, lexer: LexerState) -> bool:
        """Whether a text follows within a lexeme, whatever the parser's state is.

        The nearest ends of the lexeme are looked at; if none of them is safe, the answer is no.
        """
        known = self._known.get(lexer)
        if known is None:
            # Most states are an end themselves, or are followed by one that is known.
            known = self._known[lexer] = self._is_safe_end(lexer) or any(
                self._known.get(at) or self._is_safe_end(at)
                for at in islice(nearest_states(lexer), NEAR_STATES)
            )
        return known

    def _is_safe_end(self, lexer: LexerState) -> bool:
        complete, gap = lexer.complete, lexer.first_bytes
        if not complete:
            return False
        fitting = self._fit_behind(gap)
        if any(
            not self._followers[number] & ~fitting
            for number in terminals_in(complete & ~self._ignored)
        ):
            return True
        if not complete & self._ignored:
            return False
        # The parser's state is that before the lexeme, so any terminal may have to follow.
        fitting = self._fit(gap) if self._ignores_once else fitting
        return not self._parsed & ~fitting


def _texts(language: Node) -> Iterator[bytes]:
    """Yield short words of a terminal with different first bytes."""
    if isinstance(language, Literal):
        yield language.text
        return
    if isinstance(language, EncodedText) and language.spelling is RAW and not language.terminator:
        # Characters, so that whole classes of them are not encoded.
        for characters, target in language.text.transitions[:_WORDS]:
            with suppress(ValueError):
                text = shortest_text(target, _WORD_STATES)
                yield (chr(characters.ranges[0][0]) + text).encode()
        return
    for symbols, target in language.transitions[:_WORDS]:
        yield bytes((bytes_in(symbols)[0],)) + (shortest_word(target, _WORD_STATES) or b"")


class _ParallelTerminals:
    """All terminals of a lexicon in parallel, except for nested ones."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lazy = lexicon.lazy
        self._items: list[tuple[int, Node]] = []
        self._texts: list[tuple[bytes, int]] = []
        """The texts that are terminals, with their terminals, in order."""
        for number, each in enumerate(lexicon.terminals):
            bit, language = 1 << number, each.language
            if each.is_nested:
                continue
            if each.is_lazy or language.boolean:
                self._items.append((bit, language))
            elif isinstance(language, Literal):
                self._texts.append((language.text, bit))
            elif language.max_length == 1:
                self._texts += ((bytes((byte,)), bit) for byte in bytes_in(language.first_bytes))
            else:
                self._items.append((bit, language))
        self._texts.sort()

    def word(self, terminal: int, text: bytes) -> _Word | None:
        """Return a text as a word of a terminal, given as a set; ``None`` if it is none."""
        items, complete, gap = self._items, 0, 0
        for byte in text:
            if self._lazy and any(bit & self._lazy and node.nullable for bit, node in items):
                return None
            items = [
                (bit, node.derivative(byte)) for bit, node in items if node.first_bytes >> byte & 1
            ]
        for bit, node in items:
            complete |= bit if node.nullable else 0
            gap |= node.first_bytes
        for other, bit in islice(self._texts, bisect_left(self._texts, (text, 0)), None):
            if not other.startswith(text):
                break
            spend()
            if len(other) == len(text):
                complete |= bit
            else:
                gap |= 1 << other[len(text)]
        if complete & self._lazy:
            complete, gap = complete & self._lazy, 0
        return _Word(1 << text[0], gap) if complete & terminal else None
