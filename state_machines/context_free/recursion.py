r"""The nodes of recursive rules, and the elimination of left recursion.

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

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.context_free.analysis import Analysis
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Lifetime,
    Node,
    RuleDefinitions,
    Transitions,
    intern_node,
)
from state_machines.grammar.nodes import branch, concatenation, optional, union
from state_machines.syntax_tree import Choice, Expression, Reference, Repeat, Series


class RuleBook(RuleDefinitions):
    """The expansions of one grammar's recursive rules, by key.

    Args:
        define_all: Defines all expansions. Called again if one is needed after :meth:`clear`.
    """

    __slots__ = ("_define_all", "_expansions")

    def __init__(self, define_all: Callable[[RuleBook], object]) -> None:
        super().__init__()
        self._define_all = define_all
        self._expansions: dict[Hashable, Node] = {}

    def define(self, key: Hashable, node: Node) -> None:
        """Define the expansion of a key."""
        self._expansions[key] = node

    def known(self, key: Hashable) -> Node:
        """Return the expansion of a key; :data:`EMPTY` if it is not defined."""
        return self._expansions.get(key, EMPTY)

    def expansion(self, key: Hashable) -> Node:
        """Return the expansion of a key; define all of them again if they were cleared."""
        known = self._expansions.get(key)
        if known is None:
            self._define_all(self)
            known = self._expansions[key]
        return known

    def clear(self) -> list[Node]:
        """Remove all expansions and return them.

        Nodes and book refer to one another, so the machine calls this in its finalizer. A node that
        outlives the machine defines the expansions again when it needs one.
        """
        self.lifetime = Lifetime()
        found, self._expansions = self._expansions, {}
        return list(found.values())

    def node(
        self, key: Hashable, *, nullable: bool, min_length: int, closed: bool = False
    ) -> RuleNode:
        """Return the node of a key, whose expansion may be defined later.

        Args:
            key: The key of the expansion.
            nullable: Whether the language has the empty word.
            min_length: A lower bound on the length of its words, in bytes.
            closed: Whether the language is nullable and closed under concatenation.
        """
        return intern_node(
            ("RuleNode", id(self), key), lambda: RuleNode(self, key, nullable, min_length, closed)
        )


class RuleNode(Lazy):
    """A rule of a grammar, or a remainder of a left-recursive one."""

    __slots__ = ("_rule", "is_closed", "rule_book")

    def __init__(
        self, book: RuleBook, key: Hashable, nullable: bool, min_length: int, closed: bool
    ) -> None:
        super().__init__(nullable=nullable, min_length=min_length)
        self.is_closed = closed
        self.rule_book: RuleBook = book
        self._rule = key

    def expand(self) -> Node:
        return self.rule_book.expansion(self._rule)

    # From the memoized transitions: a chain of left corners may be thousands of rules long.
    compute_derivative = Node.compute_derivative
    compute_first_bytes = Node.compute_first_bytes


class _NonEmpty(Lazy):
    """The words of ``whole`` without the empty one."""

    __slots__ = ("rule_book", "whole")

    def __init__(self, whole: Node) -> None:
        super().__init__(min_length=max(1, whole.min_length))
        self.whole = whole
        self.rule_book = whole.rule_book

    def expand(self) -> Node:
        return branch(self.whole.transitions)

    def compute_transitions(self) -> Transitions:
        return self.whole.transitions

    def release(self) -> Iterable[Node]:
        return (*super().release(), self.whole)


def nonempty(node: Node) -> Node:
    """Return the words of a node without the empty one."""
    if not node.nullable:
        return node
    if node is EPSILON:
        return EMPTY
    return intern_node(("NonEmpty", id(node)), lambda: _NonEmpty(node))


_Split: TypeAlias = "tuple[Node | str, tuple[Expression, ...]]"
"""The first part of a text, a node without the empty word or a rule, and the parts after it."""


class LeftRecursion:
    """Rules that are left corners of one another; :meth:`define` defines them in the rule book.

    Args:
        members: Names of the rules, one component of ``analysis.left_order``.
        book: Where the nodes of the rules are defined.
        compile: The compiler of expressions; with ``first``, a rule begins with the expression.
    """

    def __init__(
        self, analysis: Analysis, members: list[str], book: RuleBook, compile: Callable[..., Node]
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
            case Choice(branches=branches):
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
