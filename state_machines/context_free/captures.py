"""The texts of the rules that a grammar over lexemes captures.

A text is parsed again, since states keep no derivation: the lexer runs from every position that the
parser reaches, and Earley's algorithm ("An efficient context-free parsing algorithm", CACM 1970)
follows the lexemes. Of several derivations, the one that is found first counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from state_machines.budgets import spend
from state_machines.context_free.lexical import LexicalGrammar
from state_machines.errors import InvalidArgumentError
from state_machines.grammar.lexer import LexerState, lexer_state, terminals_in
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


@dataclass(frozen=True, slots=True)
class _Lexeme:
    number: int
    start: int
    end: int


@dataclass(slots=True, eq=False)
class _OpenRule:
    """A rule that is being read: its residual language, its beginning, and the text read so far."""

    rule: Rule
    rest: _Rest | None
    origin: int
    before: _OpenRule | None = None
    child: _OpenRule | _Lexeme | None = None


@dataclass(slots=True)
class _OpenRules:
    """The items at a position of the text."""

    items: list[_OpenRule] = field(default_factory=list)
    keys: set[tuple[int, int, int]] = field(default_factory=set)
    waiting: dict[str, list[_OpenRule]] = field(default_factory=dict)
    empty: dict[str, list[_OpenRule]] = field(default_factory=dict)
    """Items of rules that matched the empty text here."""
    ends: _OpenRule | None = None
    """The start rule, if the text up to here matches it."""


class CaptureReader:
    """Finds the captured texts of a grammar. Thread-safe.

    Args:
        grammar: The grammar.
        start: The rule that whole texts match.

    Attributes:
        rules: The rules by name.
        start_rule: The rule that whole texts match.
    """

    def __init__(self, grammar: LexicalGrammar, start: str) -> None:
        self._grammar = grammar
        self.rules = grammar.rules
        self.start_rule = grammar.rules[start]
        self._ignored = sum(1 << number for number in grammar.ignored)
        self._lazy = sum(1 << n for n, each in enumerate(grammar.terminals) if each.is_lazy)
        nested = (n for n, each in enumerate(grammar.terminals) if each.is_nested)
        self._nested = sum(1 << number for number in nested)
        self._languages = [_as_text(each.language, each.name) for each in grammar.terminals]

    def read(self, text: bytes) -> list[tuple[str, bytes]]:
        """Return the names and the texts of captured rules, in the order in which they begin.

        Raises:
            InvalidArgumentError: The text is not of the grammar.
            GrammarBudgetError: Reading takes more work than the enclosing budget allows.
        """
        root = _ParserRun(self, text).root()
        if root is None:
            raise InvalidArgumentError("the text does not match the grammar", argument="text")
        return list(self._captured(root, text))

    def _captured(self, root: _OpenRule, text: bytes) -> Iterator[tuple[str, bytes]]:
        lexemes: list[_Lexeme] = []
        found: list[tuple[Rule, int, int]] = []
        stack: list[tuple[_OpenRule | _Lexeme, int]] = [(root, -1)]
        while stack:
            spend()
            node, place = stack.pop()
            if isinstance(node, _Lexeme):
                lexemes.append(node)
            elif place >= 0:
                rule, first, _ = found[place]
                found[place] = rule, first, len(lexemes)
            else:
                stack.append((node, len(found)))
                found.append((node.rule, len(lexemes), 0))
                at: _OpenRule | None = node
                # Read from the end to the beginning, so the first child comes out first.
                while at is not None:
                    if at.child is not None:
                        stack.append((at.child, -1))
                    at = at.before
        for rule, first, last in found:
            if rule.options.capture is not None:
                own = lexemes[first:last]
                written = text[own[0].start : own[-1].end] if own else b""
                if isinstance(rule.body, Terminal):
                    written = self._without_ending(rule.body.number, written)
                yield rule.options.capture, written

    def _without_ending(self, number: int, written: bytes) -> bytes:
        """Return the longest beginning of a lexeme behind which its ending is the rest."""
        terminal = self._grammar.terminals[number]
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
            if _matches(terminal.ending, written, place):
                return written[:place]
        return written

    def lexemes(self, allowed: int, text: bytes, start: int) -> Iterator[tuple[int, int]]:
        """Yield the ends of lexemes of allowed terminals, each with the terminals that match."""
        together = allowed & ~self._nested
        if together:
            items = ((1 << n, self._languages[n]) for n in terminals_in(together))
            state = lexer_state(items, self._lazy & together)
            end, state = _longest(state, text, start)
            if isinstance(state, LexerState) and state.complete and end > start:
                yield end, state.complete
        for number in terminals_in(allowed & self._nested & (1 << len(self._languages)) - 1):
            node, end = self._languages[number], start
            while end < len(text) and node is not EMPTY:
                spend()
                node = node.derivative(text[end])
                end += 1
                if node.nullable:
                    yield end, 1 << number
                    if self._lazy >> number & 1:
                        break

    def ignored_at(self, position: int) -> int:
        """Return the terminals whose lexemes may be ignored at a position."""
        return self._ignored if position or self._grammar.ignores_first else 0


class _ParserRun:
    """One run of the parser over a text."""

    def __init__(self, reader: CaptureReader, text: bytes) -> None:
        self._reader = reader
        self._text = text
        self._places: dict[int, _OpenRules] = {}
        self._queue: list[int] = []
        self._rests: dict[tuple[int, int], _Rest] = {}
        self._repeats: dict[tuple[int, int, int | None], Repeat] = {}

    def root(self) -> _OpenRule | None:
        """Return the start rule over the whole text."""
        rule = self._reader.start_rule
        self._add(0, _OpenRule(rule, self._rest(rule.body, None), 0))
        while self._queue:
            position = heappop(self._queue)
            place = self._places[position]
            scanned = [item for item in self._closed(position, place) if item is not None]
            self._scan(position, place, scanned)
        last = self._places.get(len(self._text))
        return None if last is None else last.ends

    def _rest(self, expression: Expression, rest: _Rest | None) -> _Rest:
        key = id(expression), id(rest)
        known = self._rests.get(key)
        if known is None:
            known = self._rests[key] = (expression, rest)
        return known

    def _place(self, position: int) -> _OpenRules:
        place = self._places.get(position)
        if place is None:
            place = self._places[position] = _OpenRules()
            heappush(self._queue, position)
        return place

    def _add(self, position: int, item: _OpenRule) -> None:
        place = self._place(position)
        key = id(item.rule), id(item.rest), item.origin
        if key not in place.keys:
            place.keys.add(key)
            place.items.append(item)

    def _closed(self, position: int, place: _OpenRules) -> Iterator[_OpenRule]:
        """Add the items that follow without a lexeme; yield those before a terminal."""
        # The list grows while it is read.
        for item in place.items:
            spend()
            if item.rest is None:
                self._complete(position, place, item)
                continue
            expression, rest = item.rest
            match expression:
                case Terminal():
                    yield item
                case Reference(name=name):
                    place.waiting.setdefault(name, []).append(item)
                    rule = self._reader.rules[name]
                    self._add(position, _OpenRule(rule, self._rest(rule.body, None), position))
                    for done in place.empty.get(name, ()):
                        self._add(position, _OpenRule(item.rule, rest, item.origin, item, done))
                case Series(parts=parts):
                    for part in reversed(parts):
                        rest = self._rest(part, rest)
                    self._expand(position, item, rest)
                case Choice(branches=branches):
                    for branch in branches:
                        self._expand(position, item, self._rest(branch, rest))
                case Repeat(body=body, min_count=low, max_count=high):
                    if high != 0:
                        again = self._repeat(body, max(low - 1, 0), high)
                        self._expand(position, item, self._rest(body, self._rest(again, rest)))
                    if not low:
                        self._expand(position, item, rest)

    def _repeat(self, body: Expression, min_count: int, max_count: int | None) -> Repeat:
        left = None if max_count is None else max_count - 1
        key = id(body), min_count, left
        known = self._repeats.get(key)
        if known is None:
            known = self._repeats[key] = Repeat(body, min_count, left)
        return known

    def _expand(self, position: int, item: _OpenRule, rest: _Rest | None) -> None:
        self._add(position, _OpenRule(item.rule, rest, item.origin, item))

    def _complete(self, position: int, place: _OpenRules, item: _OpenRule) -> None:
        name = item.rule.name
        if item.origin == position:
            place.empty.setdefault(name, []).append(item)
        if not item.origin and item.rule is self._reader.start_rule and place.ends is None:
            place.ends = item
        for waiting in list(self._places[item.origin].waiting.get(name, ())):
            rest = waiting.rest[1] if waiting.rest is not None else None
            self._add(position, _OpenRule(waiting.rule, rest, waiting.origin, waiting, item))

    def _scan(self, position: int, place: _OpenRules, items: list[_OpenRule]) -> None:
        allowed = 0
        by_number: dict[int, list[_OpenRule]] = {}
        for item in items:
            assert item.rest is not None
            terminal = item.rest[0]
            assert isinstance(terminal, Terminal)
            allowed |= 1 << terminal.number
            by_number.setdefault(terminal.number, []).append(item)
        ignored = self._reader.ignored_at(position)
        for end, matched in self._reader.lexemes(allowed | ignored, self._text, position):
            for number in terminals_in(matched & allowed):
                lexeme = _Lexeme(number, position, end)
                for item in by_number[number]:
                    rest = item.rest[1] if item.rest is not None else None
                    self._add(end, _OpenRule(item.rule, rest, item.origin, item, lexeme))
            if matched & ignored:
                for item in items:
                    self._add(end, _OpenRule(item.rule, item.rest, item.origin, item))
                if place.ends is not None:
                    behind = self._place(end)
                    behind.ends = behind.ends or place.ends


def _matches(language: Node, text: bytes, start: int) -> bool:
    """Return whether the text behind a position is in a language."""
    for byte in text[start:]:
        spend()
        language = language.derivative(byte)
        if language is EMPTY:
            return False
    return language.nullable


def _longest(state: Node, text: bytes, start: int) -> tuple[int, Node]:
    """Return the position after the bytes that a lexer takes, and its state there."""
    end = start
    while end < len(text):
        spend()
        after = state.derivative(text[end])
        if after is EMPTY:
            break
        state, end = after, end + 1
    return end, state


def _as_text(language: Node, name: str) -> Node:
    """Return a terminal's language; that of a token has its text, if the grammar gives it."""
    if not isinstance(language, TokenNode):
        return language
    if not name.startswith("<["):
        return union((language, literal(name.encode())))
    return repetition(symbols(byte_range(0, 0xFF)), 1, MAX_TOKEN_BYTES)
