"""Compile the rules of a grammar to the node of its texts, and to its machine.

Recursive rules become nodes; other rules are inlined. A union or a repetition of
bounded texts becomes one language of characters, so that the inside of a string is one lexeme,
whose walk all states share. Everything longer is put together in bytes.

Where a rule can begin with another one, the expansion of that rule is inlined instead of its node.
So one look at a state's transitions finds all that can come next, however long the chain of rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from state_machines.budgets import spend
from state_machines.context_free.analysis import Analysis
from state_machines.context_free.recursion import LeftRecursion, RuleBook
from state_machines.errors import UnsatisfiableGrammarError, UnsupportedGrammarError
from state_machines.grammar.encoding import RAW, encode_set, encoded
from state_machines.grammar.lexicon import Lexicon, TerminalLanguage
from state_machines.grammar.lexing import before_lexeme
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import (
    Concatenation,
    concatenation,
    literal,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.rule_options import LimitedRule
from state_machines.grammar.tokens import token_set
from state_machines.grammar.until import text_without
from state_machines.grammar.word_lists import literals
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine
from state_machines.syntax_tree import (
    Characters,
    Choice,
    Expression,
    Grammar,
    NamedTokens,
    Reference,
    Repeat,
    Rule,
    Series,
    String,
    Terminal,
    walk,
)

_SHORTEST_TEXT_BYTES = 1_000_000
"""Bytes of the shortest text of a grammar."""

MAX_EXCLUDED = 64
"""Largest complement of a repeated class that is compiled as text without these characters. The
masks of such texts do not depend on the count until its bound is near."""

LONG_TEXT_BYTES = 1024
"""Length from which a text is a language of bytes, since those take several bytes at a step."""

SMALL_COUNT = 16
"""Count up to which a repeated class is a counter like any other."""

_NESTED_RULES = 100
"""Rules up to which transitions are computed when they are needed, by recursion."""

_END = "end", "of text"
"""The key of an empty rule; other keys are names, or begin with another word."""


@dataclass(frozen=True, slots=True)
class LexicalGrammar:
    """A grammar whose texts are divided into lexemes.

    Attributes:
        rules: The rules by name. The leaves of their bodies are
            :class:`~state_machines.syntax_tree.Terminal` and
            :class:`~state_machines.syntax_tree.Reference`.
        terminals: The terminals; ``Terminal.number`` is an index.
        ignored: Numbers of the terminals whose lexemes may stand between and behind all others.
        start: The rule that whole texts match.
        ignores_first: Whether ignored lexemes may also precede the first lexeme.
        ignores_once: Whether at most one ignored lexeme stands between two others.
        owners: Machines that languages of terminals belong to.
        token_sets: The tokens by name or by number among the terminals.
        limited_rules: The rules with a limit on tokens.
    """

    rules: dict[str, Rule]
    terminals: tuple[TerminalLanguage, ...]
    ignored: frozenset[int]
    start: str
    ignores_first: bool = False
    ignores_once: bool = False
    owners: tuple[StateMachine, ...] = ()
    token_sets: tuple[NamedTokens, ...] = ()
    limited_rules: tuple[LimitedRule, ...] = ()


class ExpressionCompiler:
    """Compiles expressions without assertions: to languages of bytes, or of code points.

    Subclasses know the expressions that only they have.
    """

    def compile(self, expression: Expression, *, first: bool = False) -> Node:
        """Return the language of an expression in bytes, :data:`EMPTY` if no text matches.

        Args:
            expression: The expression.
            first: Whether a rule begins with the expression; for rules alone.
        """
        spend()
        match expression:
            case String(text=text):
                return literal(text.encode())
            case Characters(members=members):
                return encode_set(members, RAW)
            case Series(parts=parts):
                last = len(parts) - 1
                return self._concatenation_of(
                    self.compile(part, first=first and number == last)
                    for number, part in enumerate(reversed(parts))
                )
            case Choice(branches=branches):
                return self._union(branches, first)
            case Repeat(body=body, min_count=min_count, max_count=max_count):
                if max_count == 0:
                    return EPSILON
                if not self.is_text(body) and _text_without(expression) is None:
                    return repetition(self.compile(body, first=first), min_count, max_count)
        return encoded(self.text(expression), RAW)

    def text(self, expression: Expression) -> Node:
        """Return the language of an expression in code points."""
        spend()
        match expression:
            case String(text=text):
                spend(len(text))
                return literals([text])
            case Characters(members=members):
                return symbols(members)
            case Series(parts=parts):
                return self._concatenation_of(map(self.text, reversed(parts)))
            case Choice(branches=branches):
                words = [(branch, self.word(branch)) for branch in branches]
                plain = literals(word for _, word in words if word is not None)
                return union([plain, *(self.text(each) for each, word in words if word is None)])
            case Repeat(body=body, min_count=min_count, max_count=max_count):
                return _text_without(expression) or repetition(
                    self.text(body), min_count, max_count
                )
        raise AssertionError(f"{expression!r} has no language of its own")

    def is_text(self, expression: Expression) -> bool:
        """Whether a repetition of an expression is compiled as one language of code points.

        The inside of a string is then one lexeme, whose walk all states share.
        """
        raise NotImplementedError  # pragma: no cover - abstract

    def word(self, expression: Expression) -> str | None:
        """Return the only text of an expression, if it is written as one."""
        return expression.text if isinstance(expression, String) else None

    def too_many_optional_parts(self, what: str) -> NoReturn:
        """Raise for a series that is compiled in too many steps."""
        raise NotImplementedError  # pragma: no cover - abstract

    def _union(self, branches: tuple[Expression, ...], first: bool) -> Node:
        words = [(branch, self.word(branch)) for branch in branches]
        plain = [word.encode() for _, word in words if word is not None]
        found = [self.compile(branch, first=first) for branch, word in words if word is None]
        return union([literals(plain), *found] if plain else found)

    def _concatenation_of(self, backwards: Iterable[Node]) -> Node:
        node = EPSILON
        for part in backwards:
            count, then = 0, node
            while part.nullable and isinstance(then, Concatenation) and then.head.nullable:
                count, then = count + 1, then.tail
            if count >= LIMITS.adjacent_optional_parts:
                self.too_many_optional_parts(
                    f"more than {LIMITS.adjacent_optional_parts} optional parts in a row"
                )
            node = concatenation(part, node)
        return node


def _text_without(repeat: Repeat) -> Node | None:
    """Return many characters of a class that leaves out few; ``None`` for other repetitions.

    The masks of such texts do not depend on the count until its bound is near.
    """
    members = repeat.body.only_characters
    if members is None or (repeat.max_count or repeat.min_count) <= SMALL_COUNT:
        return None
    excluded = ~members
    if len(excluded) > MAX_EXCLUDED:
        return None
    return text_without(map(chr, excluded), repeat.min_count, repeat.max_count)


class GrammarCompiler(ExpressionCompiler):
    """Compiles the rules that are reachable from ``start``; the node of that rule is ``start``.

    The expansions of recursive rules are defined in ``book``.

    Raises:
        GrammarError: No text matches, or a limit is exceeded.
    """

    def __init__(self, rules: dict[str, Rule], start: str, book: RuleBook) -> None:
        self.analysis = analysis = Analysis(rules, start)
        self._rules = analysis.rules
        self._check(self._rules[start])
        self.rule = self._rules[start]
        """The rule that is being compiled, for error messages."""
        self._book = book
        self._nodes: dict[str, Node] = {}
        self._character_nodes: dict[str, Node] = {}
        self._terminals: dict[int, Node] = {}
        self._inlined: set[str] = set()
        """Rules whose nodes are their expansions."""
        for name, length in analysis.shortest.items():
            if length == math.inf:
                self._nodes[name] = EMPTY
            elif name in analysis.recursive:
                is_nullable = length == 0
                self._nodes[name] = book.node(name, nullable=is_nullable, min_length=int(length))
        for name in (name for members in analysis.order for name in members):
            if name not in self._nodes:
                self.rule = self._rules[name]
                self._nodes[name] = self.compile(self._rules[name].body)
        for members in analysis.left_order:
            if members[0] in analysis.left_recursive:
                LeftRecursion(analysis, members, book, self.compile).define()
            elif analysis.shortest[members[0]] < math.inf:
                self._define(members[0])
            if len(self._rules) > _NESTED_RULES:
                for name in members:
                    # In this order, the transitions of a rule need few other rules at a time.
                    _ = self._nodes[name].transitions
        self.start = self._nodes[start]

    def _define(self, name: str) -> None:
        """Define the expansion of a rule that is not left-recursive."""
        analysis = self.analysis
        if name not in analysis.recursive and self._inlined.issuperset(analysis.left_edges[name]):
            self._inlined.add(name)
            self._book.define(name, self._nodes[name])
            return
        self.rule = self._rules[name]
        self._book.define(name, self.compile(self.rule.body, first=True))

    def _check(self, rule: Rule) -> None:
        length = self.analysis.shortest[rule.name]
        if length == math.inf:
            raise UnsatisfiableGrammarError.at(
                rule.position,
                f"no text matches the rule {rule.name!r}",
                rule.name,
                "Each of its alternatives leads to itself or to a class without a member",
            )
        if length > _SHORTEST_TEXT_BYTES:
            what = f"the shortest text has more than {_SHORTEST_TEXT_BYTES:,} bytes"
            raise UnsupportedGrammarError.at(rule.position, what, rule.name)

    def compile(self, expression: Expression, *, first: bool = False) -> Node:
        """Return the language of an expression in bytes, :data:`EMPTY` if no text matches.

        Args:
            expression: The expression, all of whose rules have nodes.
            first: Whether a rule begins with the expression. Its left corners are then inlined, so
                they must have been defined in the book.
        """
        match expression:
            case Terminal(number=number):
                known = self._terminals.get(number)
                if known is None:
                    known = self._terminals[number] = symbols(1 << number)
                return known
            case NamedTokens(names=names, ranges=ranges, is_negated=is_negated):
                return token_set(names, ranges, is_negated=is_negated)
            case Reference(name=name):
                return self._book.known(name) if first else self._nodes[name]
        return super().compile(expression, first=first)

    def text(self, expression: Expression) -> Node:
        """Return the language of a bounded expression in code points."""
        if not isinstance(expression, Reference):
            return super().text(expression)
        known = self._character_nodes.get(expression.name)
        if known is None:
            known = self.text(self._rules[expression.name].body)
            self._character_nodes[expression.name] = known
        return known

    def is_text(self, expression: Expression) -> bool:
        return self.analysis.is_bounded(expression)

    def _union(self, branches: tuple[Expression, ...], first: bool) -> Node:
        texts = [branch.text for branch in branches if isinstance(branch, String)]
        is_long = any(len(text.encode()) > LONG_TEXT_BYTES for text in texts)
        if len(texts) < len(branches) and not is_long and all(map(self.is_text, branches)):
            return encoded(self.text(Choice(branches)), RAW)
        return super()._union(branches, first)

    def too_many_optional_parts(self, what: str) -> NoReturn:
        raise UnsupportedGrammarError.at(self.rule.position, what, self.rule.name)


def byte_machine(grammar: Grammar, start: str) -> StateMachine:
    """Return the machine of the texts of a rule. All states of unbounded texts have a rule book.

    Raises:
        GrammarError: No text matches, or a limit is exceeded.
    """
    rules = grammar.rules
    book = RuleBook(lambda book: _define(rules, start, book))
    parts = (part for rule in rules.values() for part in walk(rule.body))
    token_sets = [part for part in parts if isinstance(part, NamedTokens)]
    return StateMachine(_define(rules, start, book), book.clear, token_sets=token_sets)


def _define(rules: dict[str, Rule], start: str, book: RuleBook) -> Node:
    """Define the rules in a book, and return the texts of a rule."""
    compiler = GrammarCompiler(rules, start, book)
    node = compiler.start
    if node.rule_book is None and not compiler.analysis.is_bounded(rules[start].body):
        # An empty rule behind a grammar without recursion: masks of states with a rule book are
        # walks of one automaton, which take a quarter of the time.
        book.define(_END, EPSILON)
        node = concatenation(node, book.node(_END, nullable=True, min_length=0))
    return node


def lexical_machine(grammar: LexicalGrammar, start: str) -> StateMachine:
    """Return the machine of the texts of a rule.

    Raises:
        GrammarError: No text matches, or a limit is exceeded.
    """
    book = RuleBook(lambda book: GrammarCompiler(grammar.rules, start, book))
    compiler = GrammarCompiler(grammar.rules, start, book)
    lexicon = Lexicon(
        grammar.terminals,
        sum(1 << number for number in grammar.ignored),
        compiler.analysis.followers(),
        ignores_once=grammar.ignores_once,
    )
    node = before_lexeme(lexicon, compiler.start, may_ignore=grammar.ignores_first)
    if node is EMPTY:
        rule = grammar.rules[start]
        raise UnsatisfiableGrammarError.at(
            rule.position,
            f"no text of the rule {rule.name!r} is found whose lexemes are longest matches",
            rule.name,
            "A terminal continues with every byte that the next one begins with",
        )
    temperatures = (each.temperature for each in grammar.terminals)
    return StateMachine(
        node,
        book.clear,
        token_sets=grammar.token_sets,
        limited_rules=grammar.limited_rules,
        temperatures=(each for each in temperatures if each is not None),
        inner=grammar.owners,
    )
