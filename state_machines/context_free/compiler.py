"""From the rules of a grammar to the node of its texts.

Recursive rules become nodes that stand for them; others are put where they are named. A choice or a
repetition of bounded texts is one language of characters, so that the inside of a string is one
lexeme, whose walk all states share; what is longer is put together in bytes.

Where a rule can begin with another, that one's expansion stands there instead of its node: so a
mask sees at once what a state can begin with, however many rules lie between.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from state_machines.budgets import spend
from state_machines.context_free.analysis import Analysis
from state_machines.context_free.left_recursion import LeftRecursion
from state_machines.context_free.rules import RuleBook
from state_machines.context_free.syntax import (
    Alternatives,
    Characters,
    Expression,
    Reference,
    Repeat,
    Rule,
    Series,
    Text,
)
from state_machines.errors import UnsatisfiableGrammarError, UnsupportedGrammarError
from state_machines.grammar.encoding import RAW, encode_set, encoded
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import (
    Concatenation,
    concatenation,
    literal,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.symbols import code_points
from state_machines.grammar.tries import literals, trie
from state_machines.grammar.until import text_without
from state_machines.limits import LIMITS

__all__ = ["GrammarCompiler"]


MAX_EXCLUDED = 64
"""Characters that a counted class leaves out, up to which it is a text without these: masks of such
texts are the same wherever the bound is far."""

LONG_TEXT = 1024
"""Bytes of a text from which on it is a language of bytes, which is followed in longer steps."""

FEW_ROUNDS = 16
"""Rounds up to which a counted class is a counter like any other."""


class GrammarCompiler:
    """Compiles the rules that texts are made of; ``start`` names the one they begin with.

    What rules stand for is put into ``book``. Raises :class:`~state_machines.errors.GrammarError`.
    """

    def __init__(self, rules: dict[str, Rule], start: str, book: RuleBook) -> None:
        self._analysis = Analysis(rules, start)
        self.rules = self._analysis.rules
        self._check(self.rules[start])
        self._rule = start
        self.book = book
        self._nodes: dict[str, Node] = {}
        self._characters: dict[str, Node] = {}
        for name in self.rules:
            known = self._known(name)
            if known is not None:
                self._nodes[name] = known
        for name in (name for members in self._analysis.order for name in members):
            if name not in self._nodes:
                self._rule = name
                self._nodes[name] = self.compile(self.rules[name].body)
        for members in self._analysis.left_order:
            if members[0] in self._analysis.left_recursive:
                LeftRecursion(self, self._analysis, members).expand()
            elif self._analysis.shortest[members[0]] < math.inf:
                self._rule = members[0]
                body = self.rules[members[0]].body
                self.book.put(members[0], self.compile(body, first=True))
            for name in members:
                # So that no row has to look through many rules at once.
                _ = self._nodes[name].transitions
        self.start = self._nodes[start]

    def _check(self, rule: Rule) -> None:
        length = self._analysis.shortest[rule.name]
        line, column = rule.position
        if length == math.inf:
            raise UnsatisfiableGrammarError(
                f"no text matches the rule {rule.name!r}",
                line=line,
                column=column,
                rule=rule.name,
                hint="Each of its alternatives leads to itself or to a class without a member",
            )
        if length > LIMITS.shortest_text_bytes:
            raise UnsupportedGrammarError(
                f"the shortest text has more than {LIMITS.shortest_text_bytes:,} bytes",
                line=line,
                column=column,
                rule=rule.name,
            )

    def _known(self, name: str) -> Node | None:
        """Return the node of a rule that need not be put together for it."""
        length = self._analysis.shortest[name]
        if length == math.inf:
            return EMPTY
        if name in self._analysis.hollow:
            return EPSILON
        if name in self._analysis.recursive:
            return self.book.node(name, nullable=length == 0, min_length=int(length))
        return None

    def compile(self, expression: Expression, *, first: bool = False) -> Node:
        """Return the byte language of an expression, :data:`EMPTY` if no text matches.

        ``first``: a rule begins with it, of whose other beginnings there are expansions.
        """
        match expression:
            case Text(text=text):
                return literal(text.encode())
            case Characters(members=members):
                return encode_set(members, RAW)
            case Reference(name=name):
                return self.beginning(name) if first else self._nodes[name]
            case Series(parts=parts):
                node = EPSILON
                for place in range(len(parts) - 1, -1, -1):
                    part = self.compile(parts[place], first=first and place == 0)
                    node = self._joined(part, node)
                return node
            case Alternatives(branches=branches):
                return self._choice(branches, first)
            case Repeat(body=body, least=least, most=most):
                if most == 0:
                    return EPSILON
                if isinstance(body, Characters) and (most or least) > FEW_ROUNDS:
                    others = ~body.members
                    if len(others) <= MAX_EXCLUDED:
                        return encoded(text_without(map(chr, others), least, most), RAW)
                if self._analysis.is_bounded(body):
                    return encoded(repetition(self.characters(body), least, most), RAW)
                return repetition(self.compile(body, first=first), least, most)

    def beginning(self, name: str) -> Node:
        """Return the expansion of a rule that another can begin with."""
        return EPSILON if name in self._analysis.hollow else self.book.known(name)

    def _choice(self, branches: tuple[Expression, ...], first: bool) -> Node:
        texts = [branch.text.encode() for branch in branches if isinstance(branch, Text)]
        others = [branch for branch in branches if not isinstance(branch, Text)]
        is_long = any(len(text) > LONG_TEXT for text in texts)
        if others and not is_long and all(map(self._analysis.is_bounded, branches)):
            return encoded(self.characters(Alternatives(branches)), RAW)
        found = [self.compile(branch, first=first) for branch in others]
        return union([literals(texts), *found] if texts else found)

    def characters(self, expression: Expression) -> Node:
        """Return the language of characters of an expression that is bounded."""
        match expression:
            case Text(text=text):
                spend(len(text))
                return concatenation(*(symbols(code_points(ord(letter))) for letter in text))
            case Characters(members=members):
                return symbols(members)
            case Reference(name=name):
                known = self._characters.get(name)
                if known is None:
                    known = self._characters[name] = self.characters(self.rules[name].body)
                return known
            case Series(parts=parts):
                return self._joined_all(map(self.characters, reversed(parts)))
            case Alternatives(branches=branches):
                words = [map(ord, b.text) for b in branches if isinstance(b, Text)]
                found = [self.characters(b) for b in branches if not isinstance(b, Text)]
                plain = [trie(((word, EPSILON) for word in words), code_points)] if words else []
                return union([*plain, *found])
            case Repeat(body=body, least=least, most=most):
                return repetition(self.characters(body), least, most)

    def _joined_all(self, backwards: Iterable[Node]) -> Node:
        node = EPSILON
        for part in backwards:
            node = self._joined(part, node)
        return node

    def _joined(self, part: Node, then: Node) -> Node:
        """Return ``sequence(part, then)`` unless too many parts in a row are optional."""
        run, node = 0, then
        while part.nullable and isinstance(node, Concatenation) and node.head.nullable:
            run, node = run + 1, node.tail
        if run >= LIMITS.adjacent_optional_parts:
            line, column = self.rules[self._rule].position
            raise UnsupportedGrammarError(
                f"more than {LIMITS.adjacent_optional_parts} optional parts in a row",
                line=line,
                column=column,
                rule=self._rule,
            )
        return concatenation(part, then)
