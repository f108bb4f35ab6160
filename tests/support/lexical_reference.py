"""Reference recogniser for grammars over lexemes: longest match, without a return to an earlier end.

Terminals are letters of the parser's grammar, whose texts a chart recognises. The lexer asks the
``regex`` package which terminals can continue with a character.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import regex
from grammar_reference import Chart, Grammar, Tree, written
from hypothesis import strategies as st

from state_machines import RegexStateMachine
from state_machines.context_free.compiler import LexicalGrammar
from state_machines.grammar.lexicon import TerminalLanguage
from state_machines.syntax_tree import (
    Choice,
    Expression,
    Reference,
    Repeat,
    Rule,
    Series,
    Terminal,
)

__all__ = ["ReferenceLexer", "lexical_references"]

NAMES = ("root", "x", "y")


@dataclass(frozen=True)
class ReferenceLexer:
    """A grammar over lexemes.

    Attributes:
        parser: The rules; their characters are terminals.
        patterns: The pattern of each terminal, which does not match the empty text.
        ignored: The terminals that may stand between any two lexemes, and behind the last one if
            another lexeme could follow.
        lazy: The terminals whose lexemes end as soon as they are complete.
        ignores_first: Whether ignored lexemes may precede the first lexeme as well.
    """

    parser: Grammar
    patterns: dict[str, str]
    ignored: frozenset[str] = frozenset()
    lazy: frozenset[str] = frozenset()
    ignores_first: bool = False
    _charts: dict[str, Chart] = field(default_factory=dict, compare=False, repr=False)

    def accepts(self, text: str) -> bool:
        """Return whether a text is divided into lexemes that the rules admit."""
        readings = {""}
        at = 0
        while at < len(text):
            allowed = {
                terminal
                for terminal in self.patterns
                if any(self._chart(reading + terminal).is_beginning for reading in readings)
            }
            ignores = bool(allowed) and (at > 0 or self.ignores_first)
            expected = allowed | self.ignored if ignores else allowed
            at, complete = self._lexeme(text, at, expected)
            extended = {
                reading + terminal
                for reading in readings
                for terminal in complete & allowed
                if self._chart(reading + terminal).is_beginning
            }
            readings = extended | (readings if complete & self.ignored else set())
            if not readings:
                return False
        return any(self._chart(reading).is_word for reading in readings)

    def _lexeme(self, text: str, at: int, expected: set[str]) -> tuple[int, set[str]]:
        """Return where the lexeme at ``at`` ends, and the terminals that it is complete for."""
        end = at
        while end < len(text) and any(
            self._matches(terminal, text[at : end + 1], partial=True) for terminal in expected
        ):
            end += 1
            complete = {t for t in expected if self._matches(t, text[at:end])}
            if complete & self.lazy:
                return end, complete & self.lazy
        return end, {t for t in expected if end > at and self._matches(t, text[at:end])}

    def _matches(self, terminal: str, text: str, *, partial: bool = False) -> bool:
        return regex.fullmatch(self.patterns[terminal], text, partial=partial) is not None

    def _chart(self, reading: str) -> Chart:
        known = self._charts.get(reading)
        if known is None:
            known = self._charts[reading] = Chart(self.parser, reading)
        return known

    @property
    def grammar(self) -> LexicalGrammar:
        """The grammar as parsers of notations return it."""
        numbers = {terminal: number for number, terminal in enumerate(self.patterns)}
        rules = {
            name: Rule(name, _expression(tree, numbers), (1, 1))
            for name, tree in self.parser.rules.items()
        }
        terminals = tuple(
            TerminalLanguage(terminal, RegexStateMachine(pattern).start, terminal in self.lazy)
            for terminal, pattern in self.patterns.items()
        )
        ignored = frozenset(numbers[terminal] for terminal in self.ignored)
        return LexicalGrammar(rules, terminals, ignored, "root", ignores_first=self.ignores_first)

    @property
    def lark(self) -> str:
        """The grammar in Lark, without lazy terminals."""
        assert not self.lazy
        assert not self.ignores_first
        rules = [f"{name}: {_lark(tree)}" for name, tree in self.parser.rules.items()]
        terminals = [f"{name}: /{pattern}/" for name, pattern in self.patterns.items()]
        directives = [f"%ignore {name}" for name in sorted(self.ignored)]
        return "\n".join(["start: root", *rules, *terminals, *directives])


def _expression(tree: Tree, numbers: dict[str, int]) -> Expression:
    match tree:
        case ("text", text):
            return Series(tuple(Terminal(numbers[letter]) for letter in text))
        case ("rule", name):
            return Reference(name)
        case ("all", *parts):
            return Series(tuple(_expression(part, numbers) for part in parts))
        case ("any", *parts):
            return Choice(tuple(_expression(part, numbers) for part in parts))
        case ("times", body, least, most):
            return Repeat(_expression(body, numbers), least, most)
    raise AssertionError(tree)


def _lark(tree: Tree) -> str:
    return written(tree, lambda text: " ".join(text) or '""')


_PATTERNS = [
    *("a", "b", "ab", "ba", "a+", "b+", "[ab]+", "a*b", "ab?", "(ab)+", "a(ba)*", "aab", "[ab]"),
    *("[^a]", " +", " ", "a ?", " b", "b[^b]*b", "a|b a", "(a|ab)b"),
]


def _trees(letters: str) -> st.SearchStrategy[Tree]:
    leaves = st.one_of(
        st.sampled_from(letters).map(lambda letter: ("text", letter)),
        st.sampled_from(letters).map(lambda letter: ("text", letter)),
        st.sampled_from(NAMES).map(lambda name: ("rule", name)),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: ("all", *parts)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("any", *parts)),
            st.tuples(st.just("times"), inner, st.just(0), st.sampled_from([None, 1, 2])),
            st.tuples(st.just("times"), inner, st.just(1), st.sampled_from([None, 2])),
        ),
        max_leaves=5,
    )


@st.composite
def lexical_references(draw: st.DrawFn, *, plain: bool = False) -> ReferenceLexer:
    """Draw a grammar of a few rules and terminals over ``a``, ``b`` and the space.

    Args:
        draw: Hypothesis' function.
        plain: Whether no terminal is lazy and nothing is ignored first, as in plain Lark.
    """
    letters = "ABC"[: draw(st.integers(2, 3))]
    rules = {name: draw(_trees(letters)) for name in NAMES}
    patterns = {letter: draw(st.sampled_from(_PATTERNS)) for letter in letters}
    ignored: frozenset[str] = frozenset()
    if draw(st.booleans()):
        patterns["S"] = draw(st.sampled_from([" ", " +", "b", " a", "[ b]"]))
        ignored = frozenset("S")
    lazy = frozenset(() if plain else draw(st.sets(st.sampled_from(letters), max_size=1)))
    first = not plain and bool(ignored) and draw(st.booleans())
    return ReferenceLexer(Grammar(rules), patterns, ignored, lazy, first)
