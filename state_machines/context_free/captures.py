"""The texts of the rules that a grammar over lexemes captures.

A text is parsed again, since states keep no derivation: the lexer runs from every position that the
parser reaches, and Earley's algorithm ("An efficient context-free parsing algorithm", CACM 1970)
follows the lexemes. Of several derivations, the one that is found first counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from state_machines.budgets import spend
from state_machines.context_free.analysis import Analysis
from state_machines.context_free.compiler import LexicalGrammar
from state_machines.errors import InvalidArgumentError
from state_machines.grammar.lexer import LexerState, lexer_state, terminals_in
from state_machines.grammar.lexicon import TerminalLanguage
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import literal, repetition, symbols, union
from state_machines.grammar.symbols import byte_range
from state_machines.grammar.tokens import TokenNode
from state_machines.syntax_tree import (
    Choice,
    Expression,
    Reference,
    Repeat,
    Rule,
    Series,
    Terminal,
)

MAX_TOKEN_BYTES = 64
"""Greatest length of a token by number, whose text the grammar does not give."""

_Rest = tuple[Expression, "_Rest | None"]
"""Expressions that follow one another, as a linked list."""


_Lexeme = tuple[int, int]
"""The positions where a lexeme begins and ends."""


@dataclass(slots=True, eq=False)
class _Item:
    """A rule that is being read: its residual language, its beginning, and the text read so far.

    The last part of the text is ``child``; what stands in front of it is that of ``before``.
    """

    rule: Rule
    rest: _Rest | None
    origin: int
    before: _Item | None = None
    child: _Item | _Lexeme | None = None

    def behind(self, child: _Item | _Lexeme) -> _Item:
        """Return the item behind its first expression, whose text is ``child``."""
        rest = None if self.rest is None else self.rest[1]
        return _Item(self.rule, rest, self.origin, self, child)


@dataclass(slots=True)
class _Place:
    """The items at a position of the text."""

    items: list[_Item] = field(default_factory=list)
    keys: set[tuple[int, int, int]] = field(default_factory=set)
    waiting: dict[str, list[_Item]] = field(default_factory=dict)
    empty: dict[str, list[_Item]] = field(default_factory=dict)
    """Items of rules that matched the empty text here."""
    ends: _Item | None = None
    """The start rule, if the text up to here matches it."""


def read_captures(grammar: LexicalGrammar, start: str, text: bytes) -> list[tuple[str, bytes]]:
    """Return the names and the texts of captured rules, in the order in which they begin.

    Args:
        grammar: The grammar.
        start: The rule that whole texts match.
        text: The text.

    Raises:
        InvalidArgumentError: The text is not of the grammar.
        GrammarBudgetError: Reading takes more work than the enclosing budget allows.
    """
    root = _Parser(grammar, start, text).root()
    if root is None:
        raise InvalidArgumentError("the text does not match the grammar", argument="text")
    captures = []
    for rule, written in _texts_of_rules(root, text):
        if rule.options.capture is not None:
            if isinstance(rule.body, Terminal):
                written = _without_ending(grammar.terminals[rule.body.number], written)
            captures.append((rule.options.capture, written))
    return captures


def _texts_of_rules(root: _Item, text: bytes) -> Iterator[tuple[Rule, bytes]]:
    """Yield the rules of a derivation, each with its text, in the order in which they begin."""
    lexemes: list[_Lexeme] = []
    found: list[tuple[Rule, int, int]] = []
    stack: list[tuple[_Item | _Lexeme, int]] = [(root, -1)]
    while stack:
        spend()
        node, number = stack.pop()
        if isinstance(node, tuple):
            lexemes.append(node)
        elif number >= 0:
            rule, first, _ = found[number]
            found[number] = rule, first, len(lexemes)
        else:
            stack.append((node, len(found)))
            found.append((node.rule, len(lexemes), 0))
            at: _Item | None = node
            # Read from the end to the beginning, so the first child comes out first.
            while at is not None:
                if at.child is not None:
                    stack.append((at.child, -1))
                at = at.before
    for rule, first, last in found:
        yield rule, text[lexemes[first][0] : lexemes[last - 1][1]] if last > first else b""


def _without_ending(terminal: TerminalLanguage, written: bytes) -> bytes:
    """Return the longest beginning of a lexeme behind which its ending is the rest."""
    if terminal.ending is None or terminal.before_ending is None:
        return written
    before, places = terminal.before_ending, []
    for place in range(len(written) + 1):
        spend()
        if before.nullable:
            places.append(place)
        if place < len(written):
            before = before.derivative(written[place])
    for place in reversed(places):
        end, state = _longest(terminal.ending, written, place)
        if end == len(written) and state.nullable:
            return written[:place]
    return written


class _Parser:
    """Earley's parser, in a run over a text."""

    def __init__(self, grammar: LexicalGrammar, start: str, text: bytes) -> None:
        self._grammar = grammar
        self._start = grammar.rules[start]
        self._text = text
        self._analysis = Analysis(grammar.rules, start)
        self._ignored = sum(1 << number for number in grammar.ignored)
        self._lazy = sum(1 << n for n, each in enumerate(grammar.terminals) if each.is_lazy)
        nested = (n for n, each in enumerate(grammar.terminals) if each.is_nested)
        self._nested = sum(1 << number for number in nested)
        self._languages = [_as_text(each) for each in grammar.terminals]
        self._places: dict[int, _Place] = {}
        self._queue: list[int] = []
        self._rests: dict[tuple[int, int], _Rest] = {}
        self._repeats: dict[tuple[int, int, int | None], Repeat] = {}

    def root(self) -> _Item | None:
        """Return the start rule over the whole text."""
        self._begin(self._start, 0)
        while self._queue:
            position = heappop(self._queue)
            place = self._places[position]
            self._scan(position, place, list(self._before_terminals(position, place)))
        last = self._places.get(len(self._text))
        return None if last is None else last.ends

    def _place(self, position: int) -> _Place:
        place = self._places.get(position)
        if place is None:
            place = self._places[position] = _Place()
            heappush(self._queue, position)
        return place

    def _add(self, position: int, item: _Item) -> None:
        place = self._place(position)
        key = id(item.rule), id(item.rest), item.origin
        if key not in place.keys:
            place.keys.add(key)
            place.items.append(item)

    def _begin(self, rule: Rule, position: int) -> None:
        self._add(position, _Item(rule, self._rest(rule.body, None), position))

    def _rest(self, expression: Expression, rest: _Rest | None) -> _Rest:
        return self._rests.setdefault((id(expression), id(rest)), (expression, rest))

    def _repeat(self, body: Expression, min_count: int, max_count: int | None) -> Repeat:
        """Return a repetition without the first text of its body."""
        least, most = max(min_count - 1, 0), None if max_count is None else max_count - 1
        return self._repeats.setdefault((id(body), least, most), Repeat(body, least, most))

    def _before_terminals(self, position: int, place: _Place) -> Iterator[_Item]:
        """Add the items that follow without a lexeme; yield the items before a terminal."""
        # The list grows while it is read.
        for item in place.items:
            spend()
            if item.rest is None:
                self._complete(position, place, item)
                continue
            expression, rest = item.rest
            if self._analysis.shortest_length(expression) == math.inf:
                continue
            rests: list[_Rest | None] = []
            match expression:
                case Terminal():
                    yield item
                case Reference(name=name):
                    place.waiting.setdefault(name, []).append(item)
                    self._begin(self._grammar.rules[name], position)
                    for done in place.empty.get(name, ()):
                        self._add(position, item.behind(done))
                case Series(parts=parts):
                    for part in reversed(parts):
                        rest = self._rest(part, rest)
                    rests = [rest]
                case Choice(branches=branches):
                    rests = [self._rest(branch, rest) for branch in branches]
                case Repeat(body=body, min_count=low, max_count=high):
                    if high != 0:
                        again = self._rest(self._repeat(body, low, high), rest)
                        rests.append(self._rest(body, again))
                    if not low:
                        rests.append(rest)
            for each in rests:
                self._add(position, _Item(item.rule, each, item.origin, item))

    def _complete(self, position: int, place: _Place, item: _Item) -> None:
        name = item.rule.name
        if item.origin == position:
            place.empty.setdefault(name, []).append(item)
        if not item.origin and item.rule is self._start and place.ends is None:
            place.ends = item
        for waiting in list(self._places[item.origin].waiting.get(name, ())):
            self._add(position, waiting.behind(item))

    def _scan(self, position: int, place: _Place, items: list[_Item]) -> None:
        """Add the items behind a lexeme."""
        by_number: dict[int, list[_Item]] = {}
        for item in items:
            match item.rest:
                case (Terminal(number=number), _):
                    by_number.setdefault(number, []).append(item)
        allowed = sum(1 << number for number in by_number)
        ignored = self._ignored if position or self._grammar.ignores_first else 0
        for end, matched in self._lexemes(allowed | ignored, position):
            lexeme = position, end
            for number in terminals_in(matched & allowed):
                for item in by_number[number]:
                    self._add(end, item.behind(lexeme))
            if matched & ignored:
                for item in items:
                    self._add(end, _Item(item.rule, item.rest, item.origin, item))
                if place.ends is not None:
                    behind = self._place(end)
                    behind.ends = behind.ends or place.ends

    def _lexemes(self, allowed: int, start: int) -> Iterator[tuple[int, int]]:
        """Yield the ends of lexemes of allowed terminals, each with the terminals that match."""
        numbers = terminals_in(allowed & ~self._nested)
        together = lexer_state(
            ((1 << n, self._languages[n]) for n in numbers), self._lazy & allowed
        )
        end, state = _longest(together, self._text, start)
        if isinstance(state, LexerState) and state.complete and end > start:
            yield end, state.complete
        for number in terminals_in(allowed & self._nested):
            node, end = self._languages[number], start
            while end < len(self._text) and node is not EMPTY:
                spend()
                node = node.derivative(self._text[end])
                end += 1
                if node.nullable:
                    yield end, 1 << number


def _longest(state: Node, text: bytes, start: int) -> tuple[int, Node]:
    """Return the position after the bytes that a language takes, and its state there."""
    end = start
    while end < len(text):
        spend()
        after = state.derivative(text[end])
        if after is EMPTY:
            break
        state, end = after, end + 1
    return end, state


def _as_text(terminal: TerminalLanguage) -> Node:
    """Return a terminal's language; a token's language has its text, if the grammar gives it."""
    if not isinstance(terminal.language, TokenNode):
        return terminal.language
    if not terminal.name.startswith("<["):
        return union((terminal.language, literal(terminal.name.encode())))
    return repetition(symbols(byte_range(0, 0xFF)), 1, MAX_TOKEN_BYTES)
