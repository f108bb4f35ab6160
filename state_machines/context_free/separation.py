"""Whether longest match can leave a state of a grammar over lexemes without a word.

A lexeme ends before a byte that no allowed terminal can continue with. So after a lexeme the next
one has to begin with another byte. The parser's state has a shortest word. If each pair of adjacent
terminals of such words can be written, all states have a word. This is decided on a superset of the
pairs of states:

* A *context* is a set of terminals that the parser may allow at one place: those that may follow a
  terminal, or begin a text. The parser allows a subset of them there, so fewer bytes continue a
  lexeme.
* An *end* is a state of the lexer in a context in which a lexeme of a terminal is complete. It is
  good if each terminal that is next in a shortest word has a lexeme that begins with a byte that
  does not continue the state, directly or behind an ignored lexeme, and that leads to a good end
  itself. The set of good ends is a greatest fixed point.

The texts of nested terminals are no lexemes: nothing continues them. Each has one end, without a
state of the lexer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from state_machines.budgets import Verdict, spend
from state_machines.context_free.analysis import Analysis
from state_machines.grammar.lexer import LexerState, Lexicon, terminals_in
from state_machines.limits import LIMITS
from state_machines.syntax_tree import Alternatives, Expression, Reference, Repeat, Series, Terminal


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Which terminals may be adjacent in the words of a parser. Sets of terminals are integers.

    Attributes:
        begin: The terminals that words begin with.
        follow: The terminals that may follow each terminal.
        required: Those among them that follow it in a shortest word of some state.
    """

    begin: int
    follow: tuple[int, ...]
    required: tuple[int, ...]


def adjacency(analysis: Analysis, start: str, terminals: int) -> Adjacency:
    """Return which terminals may be adjacent.

    Args:
        analysis: The rules of the parser.
        start: The rule that whole words match.
        terminals: The number of terminals.
    """
    pairs = _Pairs(analysis, terminals)
    return Adjacency(pairs.edges[start].first, tuple(pairs.follow), tuple(pairs.required))


@dataclass(frozen=True, slots=True)
class _Edges:
    """The terminals at the edges of an expression's words.

    Attributes:
        first: The first terminals of words.
        shortest: The first terminals of shortest words.
        last: The last terminals of words.
    """

    first: int = 0
    shortest: int = 0
    last: int = 0


class _Pairs:
    """Edges of rules, and pairs of adjacent terminals, by iteration."""

    def __init__(self, analysis: Analysis, terminals: int) -> None:
        self._analysis = analysis
        self.edges = dict.fromkeys(analysis.rules, _Edges())
        self.follow = [0] * terminals
        self.required = [0] * terminals
        changed = True
        while changed:
            changed = False
            for name, rule in analysis.rules.items():
                found = self._edges(rule.body)
                if found != self.edges[name]:
                    self.edges[name] = found
                    changed = True
        # The edges are final, so one more visit finds all pairs.
        for rule in analysis.rules.values():
            self._edges(rule.body)

    def _edges(self, expression: Expression) -> _Edges:
        """Return the edges of an expression, and note the pairs inside it."""
        spend()
        if self._analysis.shortest_length(expression) == math.inf:
            return _Edges()
        match expression:
            case Terminal(number=number):
                return _Edges(1 << number, 1 << number, 1 << number)
            case Reference(name=name):
                return self.edges[name]
            case Alternatives(branches=branches):
                return self._alternatives(branches)
            case Repeat(body=body, min_count=min_count, max_count=max_count) if max_count != 0:
                found = self._edges(body)
                if max_count is None or max_count > 1:
                    self._note(self.follow, found.last, found.first)
                if min_count > 1:
                    self._note(self.required, found.last, found.shortest)
                shortest = found.shortest if min_count else 0
                return _Edges(found.first, shortest, found.last)
            case Series(parts=parts):
                return self._series(parts)
        return _Edges()

    def _alternatives(self, branches: tuple[Expression, ...]) -> _Edges:
        found = [self._edges(branch) for branch in branches]
        lengths = [self._analysis.shortest_length(branch) for branch in branches]
        least = min(lengths)
        return _Edges(
            _union(edges.first for edges in found),
            _union(
                edges.shortest
                for edges, length in zip(found, lengths, strict=True)
                if length == least
            ),
            _union(edges.last for edges in found),
        )

    def _series(self, parts: tuple[Expression, ...]) -> _Edges:
        first = shortest = last = 0
        # The last terminals behind which a shortest word has had no terminal yet.
        waiting = 0
        is_empty = True
        for part in parts:
            edges = self._edges(part)
            nullable = self._analysis.nullable(part)
            self._note(self.follow, last, edges.first)
            if is_empty:
                first |= edges.first
                shortest |= 0 if nullable else edges.shortest
            if nullable:
                last |= edges.last
                waiting |= edges.last
            else:
                self._note(self.required, waiting, edges.shortest)
                last = waiting = edges.last
                is_empty = False
        return _Edges(first, shortest, last)

    def _note(self, pairs: list[int], last: int, first: int) -> None:
        for number in terminals_in(last):
            pairs[number] |= first


def _union(sets: Iterable[int]) -> int:
    found = 0
    for each in sets:
        found |= each
    return found


@dataclass(slots=True)
class _Context:
    """The lexer of a context: its states, and the edges between them."""

    terminals: int
    states: list[LexerState] = field(default_factory=list)
    above: dict[LexerState, list[LexerState]] = field(default_factory=dict)
    begins: dict[LexerState, int] = field(default_factory=dict)
    """The states after one byte, with the set of these bytes."""


_End: TypeAlias = tuple[int, LexerState | None, int]
"""An end by context, state and terminal; no state for a nested terminal."""

_Ends: TypeAlias = dict[_End, bool]
"""Whether ends are good."""


def has_dead_state(lexicon: Lexicon, adjacent: Adjacency) -> Verdict:
    """Whether some state of a grammar with longest match has no word. ``YES`` is never proven.

    Args:
        lexicon: The terminals.
        adjacent: Which of them may be adjacent.
    """
    everything = _union((adjacent.begin, *adjacent.follow))
    if lexicon.lazy & (everything | lexicon.ignored) or lexicon.ignores_once:
        return Verdict.UNKNOWN
    one_context = dict.fromkeys(range(len(adjacent.follow)), everything)
    # Often one context for all places is enough, and it has fewer states.
    is_separable = _is_separable(lexicon, adjacent, one_context, everything) or _is_separable(
        lexicon, adjacent, dict(enumerate(adjacent.follow)), adjacent.begin
    )
    return Verdict.NO if is_separable else Verdict.UNKNOWN


def _is_separable(
    lexicon: Lexicon, adjacent: Adjacency, context_after: dict[int, int], begin: int
) -> bool:
    contexts: dict[int, _Context] = {}
    for allowed in {begin, *context_after.values()}:
        context = _explored(lexicon, allowed | lexicon.ignored, contexts)
        if context is None:
            return False
        contexts[allowed] = context
    good: _Ends = {
        (allowed, state, number): True
        for allowed, context in contexts.items()
        for state in context.states
        for number in terminals_in(state.complete)
    }
    nested = [
        (allowed, None, number)
        for allowed, context in contexts.items()
        for number in terminals_in(context.terminals & lexicon.nested)
    ]
    good.update(dict.fromkeys(nested, True))
    while bad := _bad_ends(lexicon, adjacent, context_after, contexts, good):
        good.update(dict.fromkeys(bad, False))
    return all(good[end] for end in nested) and all(
        state in leading
        for allowed, context in contexts.items()
        for number in terminals_in(context.terminals)
        for leading in (_leading_to(context, allowed, number, good),)
        for state in context.states
        if any(bit == 1 << number for bit, _ in state.items)
    )


def _bad_ends(
    lexicon: Lexicon,
    adjacent: Adjacency,
    context_after: dict[int, int],
    contexts: dict[int, _Context],
    good: _Ends,
) -> list[_End]:
    """Return the ends behind which a terminal cannot begin, as far as the others are good."""
    beginnings = {
        (allowed, number): _beginnings(lexicon, context, allowed, number, good)
        for allowed, context in contexts.items()
        for number in terminals_in(context.terminals)
    }

    def is_blocked(required: int, after: int, beyond: int) -> bool:
        missing = [n for n in terminals_in(required) if not beginnings[after, n] & beyond]
        if not missing:
            return False
        gaps = [
            gap
            for other in terminals_in(lexicon.ignored)
            for gap in _gaps(contexts[after], after, other, beyond, good)
        ]
        return not all(any(beginnings[after, n] & ~gap for gap in gaps) for n in missing)

    # Many ends are alike in these three.
    known: dict[tuple[int, int, int], bool] = {}
    bad: list[_End] = []
    for end, is_good in good.items():
        spend()
        allowed, state, number = end
        if not is_good:
            continue
        if lexicon.ignored >> number & 1:
            # An ignored lexeme leaves the parser's state as it is.
            required = after = allowed
        else:
            required, after = adjacent.required[number], context_after[number]
        key = required, after, -1 if state is None else ~state.first_bytes
        if key not in known:
            known[key] = is_blocked(*key)
        if known[key]:
            bad.append(end)
    return bad


def _explored(lexicon: Lexicon, terminals: int, known: dict[int, _Context]) -> _Context | None:
    """Return the lexer of a context; ``None`` if it has too many states."""
    context = _Context(terminals)
    start = lexicon.start(terminals)
    if not isinstance(start, LexerState):
        return context
    count = sum(len(each.states) for each in known.values())
    for members, target in start.transitions:
        assert isinstance(target, LexerState)
        context.begins[target] = context.begins.get(target, 0) | members
    pending = list(context.begins)
    seen = set(pending)
    while pending:
        state = pending.pop()
        spend()
        context.states.append(state)
        if count + len(context.states) > LIMITS.separated_states:
            return None
        for _, target in state.transitions:
            assert isinstance(target, LexerState)
            context.above.setdefault(target, []).append(state)
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return context


def _leading_to(
    context: _Context,
    allowed: int,
    number: int,
    good: _Ends,
) -> set[LexerState]:
    """Return the states from which a good end of a terminal is reached."""
    bit = 1 << number
    pending = [state for state in context.states if good.get((allowed, state, number))]
    found = set(pending)
    while pending:
        spend()
        for state in context.above.get(pending.pop(), ()):
            if state not in found and any(bit == own for own, _ in state.items):
                found.add(state)
                pending.append(state)
    return found


def _beginnings(
    lexicon: Lexicon,
    context: _Context,
    allowed: int,
    number: int,
    good: _Ends,
) -> int:
    """Return the bytes with which texts of a terminal begin that lead to a good end."""
    if lexicon.nested >> number & 1:
        is_good = good[allowed, None, number]
        return lexicon.terminals[number].language.first_bytes if is_good else 0
    leading = _leading_to(context, allowed, number, good)
    return _union(members for state, members in context.begins.items() if state in leading)


def _gaps(
    context: _Context,
    allowed: int,
    number: int,
    beyond: int,
    good: _Ends,
) -> list[int]:
    """Return the bytes that continue ignored lexemes whose first byte is of a set.

    One set of bytes for each good end of such a lexeme.
    """
    bit = 1 << number
    pending = [state for state, members in context.begins.items() if members & beyond]
    seen = set(pending)
    found: dict[int, None] = {}
    while pending:
        spend()
        state = pending.pop()
        if good.get((allowed, state, number)):
            found[state.first_bytes] = None
        for _, target in state.transitions:
            assert isinstance(target, LexerState)
            if target not in seen and any(bit == own for own, _ in target.items):
                seen.add(target)
                pending.append(target)
    return list(found)
