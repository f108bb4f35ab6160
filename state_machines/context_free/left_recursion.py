r"""Rules that can begin with themselves, made to begin with something else.

Let A₁ … Aₙ be rules that can begin with one another. Without the empty text each is

    Aᵢ = Bᵢ ∪ A₁ T₁ᵢ ∪ … ∪ Aₙ Tₙᵢ

where the texts of Bᵢ begin with none of them. These equations are linear, so their least solution
(Rosenkrantz, "Matrix equations and normal forms for context-free grammars", JACM 1967) is

    Aᵢ  = B₁ R₁ᵢ ∪ … ∪ Bₙ Rₙᵢ
    Rⱼᵢ = ε (if i = j) ∪ Tⱼ₁ R₁ᵢ ∪ … ∪ Tⱼₙ Rₙᵢ

For one rule ``a ::= a x | y`` this is ``y x*``. Where a Tⱼₖ holds the empty text, Rₖᵢ is part of
Rⱼᵢ; that is closed over here, so that an R begins with no R, and a B neither with an A nor an R.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from state_machines.budgets import spend
from state_machines.context_free.analysis import Analysis
from state_machines.context_free.rules import some
from state_machines.context_free.syntax import (
    Alternatives,
    Expression,
    Reference,
    Repeat,
    Series,
)
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, union

if TYPE_CHECKING:
    from state_machines.context_free.compiler import GrammarCompiler

__all__ = ["LeftRecursion"]

_Split: TypeAlias = "tuple[Node | str, tuple[Expression, ...]]"
"""What a text begins with, a node without the empty word or a rule, and what comes then."""


class LeftRecursion:
    """Rules that can begin with one another; :meth:`expand` says what they stand for."""

    def __init__(self, compiler: GrammarCompiler, analysis: Analysis, members: list[str]) -> None:
        self._compiler = compiler
        self._analysis = analysis
        self._members = dict.fromkeys(members)
        self._beginnings: dict[str, Node] = {}
        self._steps: dict[str, list[tuple[Node, str]]] = {name: [] for name in members}
        """By rule: what may stand behind it, and which rule the whole is one of."""
        for name in members:
            found: list[Node] = []
            for head, parts in self._split(compiler.rules[name].body):
                then = compiler.compile(Series(parts))
                if then is EMPTY:
                    continue
                if isinstance(head, str):
                    self._steps[head].append((then, name))
                else:
                    found.append(concatenation(head, then))
            self._beginnings[name] = union(found)
        self._below: dict[str, list[tuple[str, bool]]] = {name: [] for name in members}
        """By rule: the rules it can begin with, and whether the two can be the same text."""
        for name, steps in self._steps.items():
            for then, above in steps:
                self._below[above].append((name, then.nullable))

    def expand(self) -> None:
        """Say of all rules what they stand for."""
        book = self._compiler.book
        for last in self._members:
            ways = self._leading_to(last)
            for name in ways:
                book.put(("rest", name, last), self._rest(name, last, ways))
            whole = union(
                concatenation(self._beginnings[name], self._node(name, last, ways)) for name in ways
            )
            book.put(last, optional(whole) if self._analysis.shortest[last] == 0 else whole)

    def _leading_to(self, last: str) -> dict[str, bool]:
        """Return the rules by which a text of ``last`` can begin, and whether it can end there."""
        found = {last: True}
        for free in (True, False):
            stack = list(found)
            while stack:
                below = self._below[stack.pop()]
                spend(1 + len(below) // 16)
                for name, is_nullable in below:
                    if name not in found and (is_nullable or not free):
                        found[name] = free
                        stack.append(name)
        return found

    def _node(self, name: str, last: str, ways: dict[str, bool]) -> Node:
        nullable = ways[name]
        return self._compiler.book.node(
            ("rest", name, last),
            nullable=nullable,
            min_length=0 if nullable else 1,
            closed=name == last,
        )

    def _rest(self, name: str, last: str, ways: dict[str, bool]) -> Node:
        """Return what makes a text of ``last`` of a text of ``name``."""
        near = {name: None}
        stack = [name]
        found: list[Node] = [EPSILON] if ways[name] else []
        while stack:
            for then, above in self._steps[stack.pop()]:
                if above in ways:
                    found.append(concatenation(some(then), self._node(above, last, ways)))
                if then.nullable and above not in near:
                    near[above] = None
                    stack.append(above)
        return union(found)

    def _split(self, expression: Expression) -> Iterator[_Split]:
        """Yield ways to write the texts of an expression but the empty one."""
        if not self._begins(expression):
            node = some(self._compiler.compile(expression, first=True))
            if node is not EMPTY and node is not EPSILON:
                yield node, ()
            return
        match expression:
            case Reference(name=name):
                yield name, ()
            case Series(parts=parts):
                for place, part in enumerate(parts):
                    for head, then in self._split(part):
                        yield head, then + parts[place + 1 :]
                    if not self._analysis.nullable(part):
                        break
            case Alternatives(branches=branches):
                for branch in branches:
                    yield from self._split(branch)
            case Repeat(body=body, least=least, most=most):
                fewer = 0 if self._analysis.nullable(body) else max(least - 1, 0)
                again = Repeat(body, fewer, None if most is None else most - 1)
                for head, then in self._split(body):
                    yield head, (*then, again)

    def _begins(self, expression: Expression) -> bool:
        """Whether an expression can begin with one of the rules."""
        spend()
        return any(name in self._members for name in self._analysis.corners(expression))
