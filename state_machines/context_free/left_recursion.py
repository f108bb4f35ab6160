r"""Elimination of left recursion.

Let A₁ … Aₙ be rules that are left corners of one another. Without the empty text each is

    Aᵢ = Bᵢ ∪ A₁ T₁ᵢ ∪ … ∪ Aₙ Tₙᵢ

where no text of Bᵢ begins with any of them. These equations are linear, so their least solution
(Rosenkrantz, "Matrix equations and normal forms for context-free grammars", JACM 1967) is

    Aᵢ  = B₁ R₁ᵢ ∪ … ∪ Bₙ Rₙᵢ
    Rⱼᵢ = ε (if i = j) ∪ Tⱼ₁ R₁ᵢ ∪ … ∪ Tⱼₙ Rₙᵢ

For one rule ``a ::= a x | y`` this is ``y x*``. Where a Tⱼₖ contains the empty text, Rₖᵢ is part of
Rⱼᵢ. That is closed over here, so that no R begins with an R, and no B with an A or an R.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias

from state_machines.budgets import spend
from state_machines.context_free.analysis import Analysis
from state_machines.context_free.rules import RuleBook, nonempty
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, union
from state_machines.syntax_tree import Alternatives, Expression, Reference, Repeat, Series

_Split: TypeAlias = "tuple[Node | str, tuple[Expression, ...]]"
"""The first part of a text, a node without the empty word or a rule, and the parts after it."""


class _Compile(Protocol):
    def __call__(self, expression: Expression, *, first: bool = False) -> Node: ...


class LeftRecursion:
    """Rules that are left corners of one another; :meth:`define` defines them in the rule book.

    Args:
        members: Names of the rules, one component of ``analysis.left_order``.
        book: Where the nodes of the rules are defined.
        compile: The compiler of expressions; with ``first``, a rule begins with the expression.
    """

    def __init__(
        self, analysis: Analysis, members: list[str], book: RuleBook, compile: _Compile
    ) -> None:
        self._analysis = analysis
        self._members = dict.fromkeys(members)
        self._book = book
        self._compile = compile
        self._bases: dict[str, Node] = {}
        """Bᵢ by rule."""
        self._tails: dict[str, list[tuple[Node, str]]] = {name: [] for name in members}
        """By rule j: the pairs Tⱼᵢ, i."""
        for name in members:
            bases: list[Node] = []
            for head, parts in self._split(analysis.rules[name].body):
                tail = compile(Series(parts))
                if tail is EMPTY:
                    continue
                if isinstance(head, str):
                    self._tails[head].append((tail, name))
                else:
                    bases.append(concatenation(head, tail))
            self._bases[name] = union(bases)
        self._corners: dict[str, list[tuple[str, bool]]] = {name: [] for name in members}
        """By rule: its left corners, and whether the tail after the corner can be empty."""
        for name, tails in self._tails.items():
            for tail, whole in tails:
                self._corners[whole].append((name, tail.nullable))

    def define(self) -> None:
        """Define all the rules, and the remainders R."""
        for last in self._members:
            leading = self._leading_to(last)
            for name in leading:
                self._book.define(("rest", name, last), self._remainder(name, last, leading))
            whole = union(
                concatenation(self._bases[name], self._remainder_node(name, last, leading))
                for name in leading
            )
            is_nullable = self._analysis.shortest[last] == 0
            self._book.define(last, optional(whole) if is_nullable else whole)

    def _leading_to(self, last: str) -> dict[str, bool]:
        """Return the rules that a text of ``last`` can begin with, and whether R can be empty."""
        found = {last: True}
        # First those that are reached through nullable tails alone.
        for only_nullable in (True, False):
            stack = list(found)
            while stack:
                corners = self._corners[stack.pop()]
                spend(1 + len(corners) // 16)
                for name, is_nullable in corners:
                    if name not in found and (is_nullable or not only_nullable):
                        found[name] = only_nullable
                        stack.append(name)
        return found

    def _remainder_node(self, name: str, last: str, leading: dict[str, bool]) -> Node:
        nullable = leading[name]
        return self._book.node(
            ("rest", name, last),
            nullable=nullable,
            min_length=0 if nullable else 1,
            closed=name == last,
        )

    def _remainder(self, name: str, last: str, leading: dict[str, bool]) -> Node:
        """Return R: the texts that continue a text of ``name`` to a text of ``last``."""
        closure = {name: None}
        stack = [name]
        found: list[Node] = [EPSILON] if leading[name] else []
        while stack:
            for tail, whole in self._tails[stack.pop()]:
                if whole in leading:
                    after = self._remainder_node(whole, last, leading)
                    found.append(concatenation(nonempty(tail), after))
                if tail.nullable and whole not in closure:
                    closure[whole] = None
                    stack.append(whole)
        return union(found)

    def _split(self, expression: Expression) -> Iterator[_Split]:
        """Split the texts of an expression, without the empty one, by their first part."""
        if not self._begins_with_member(expression):
            node = nonempty(self._compile(expression, first=True))
            if node is not EMPTY and node is not EPSILON:
                yield node, ()
            return
        match expression:
            case Reference(name=name):
                yield name, ()
            case Series(parts=parts):
                for index, part in enumerate(parts):
                    for head, tail in self._split(part):
                        yield head, tail + parts[index + 1 :]
                    if not self._analysis.nullable(part):
                        break
            case Alternatives(branches=branches):
                for branch in branches:
                    yield from self._split(branch)
            case Repeat(body=body, min_count=min_count, max_count=max_count):
                fewer = 0 if self._analysis.nullable(body) else max(min_count - 1, 0)
                again = Repeat(body, fewer, None if max_count is None else max_count - 1)
                for head, tail in self._split(body):
                    yield head, (*tail, again)

    def _begins_with_member(self, expression: Expression) -> bool:
        spend()
        return any(name in self._members for name in self._analysis.left_corners(expression))
