"""The syntax tree that parsers of patterns and of grammars build, and that compilers read.

A regular expression is one :class:`Expression`. A :class:`Grammar` has rules, whose expressions
refer to other rules. The assertions at the end are those of patterns alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.symbols import CodePointSet

EXPRESSIONS_PER_STEP = 8
"""Expressions of a tree that one step visits."""

CLASS_MEMBERS_PER_STEP = 8
"""Members of a character class that one step reads."""

REPETITION_MARKS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
"""Repetition operators of one character, with their bounds."""

HEXADECIMAL_ESCAPES = {"x": 2, "u": 4, "U": 8}
"""Letters of escapes by code point, with the number of their digits."""

SourcePosition: TypeAlias = tuple[int, int]
"""Line and column in the text of a grammar, both from 1."""


class Expression:
    """A node of a syntax tree. Nothing changes a node that has been made.

    The classes are not frozen, since a frozen object takes ten times as long to make. The measures
    other than ``children`` are those of patterns, where no rule is referred to.

    Attributes:
        children: The expressions that this one is made of, in their order in the text.
        min_length: Lower bound on the number of characters that are consumed.
        max_length: Upper bound on that number; ``math.inf`` if there is none.
        reach: The number of characters beyond its own end that its assertions may inspect. Where
            it is not positive, the language does not depend on the text that follows.
        looks_left: Whether an assertion at the start or inside inspects the character before it.
    """

    __slots__ = ()

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()

    @property
    def min_length(self) -> float:
        return 0

    @property
    def max_length(self) -> float:
        return 0

    @property
    def reach(self) -> float:
        return -math.inf

    @property
    def looks_left(self) -> bool:
        return False

    @property
    def only_characters(self) -> CodePointSet | None:
        """The members of the class that the expression is, if it is one."""
        return None


@dataclass(slots=True, unsafe_hash=True)
class String(Expression):
    """Exactly one text, which may be empty."""

    text: str


@dataclass(slots=True, unsafe_hash=True)
class Characters(Expression):
    """One character out of a set; the set may be empty."""

    members: CodePointSet

    @property
    def only_characters(self) -> CodePointSet | None:
        return self.members

    @property
    def min_length(self) -> float:
        return 1

    @property
    def max_length(self) -> float:
        return 1


@dataclass(slots=True, unsafe_hash=True)
class Reference(Expression):
    """The texts of the rule ``name``."""

    name: str
    position: SourcePosition = field(compare=False, default=(1, 1))


class _Composite(Expression):
    """An expression with children, whose measures are computed when they are first read."""

    @cached_property
    def looks_left(self) -> bool:
        return any(child.looks_left for child in self.children)


@dataclass(unsafe_hash=True)
class Series(_Composite):
    """A concatenation; without parts, the empty text."""

    parts: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.parts

    @cached_property
    def min_length(self) -> float:
        return sum(part.min_length for part in self.parts)

    @cached_property
    def max_length(self) -> float:
        return sum(part.max_length for part in self.parts)

    @cached_property
    def reach(self) -> float:
        following, reach = 0.0, -math.inf
        for part in reversed(self.parts):
            reach = max(reach, part.reach - following)
            following += part.min_length
        return reach


@dataclass(unsafe_hash=True)
class Choice(_Composite):
    """A union of at least two branches."""

    branches: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.branches

    @cached_property
    def min_length(self) -> float:
        return min(branch.min_length for branch in self.branches)

    @cached_property
    def max_length(self) -> float:
        return max(branch.max_length for branch in self.branches)

    @cached_property
    def reach(self) -> float:
        return max(branch.reach for branch in self.branches)


@dataclass(slots=True, unsafe_hash=True)
class Terminal(Expression):
    """One lexeme of the terminal with a number, in a rule of a :class:`LexicalGrammar`."""

    number: int


@dataclass(slots=True, unsafe_hash=True)
class NamedTokens(Expression):
    """One token out of a set.

    Attributes:
        names: Texts of tokens, such as ``<think>``.
        ranges: First and last ids of ranges of tokens.
        is_negated: Whether the set is every token but these. End tokens are in no negated set.
        position: Where the set stands in the grammar.
        source: How the grammar writes the set.
    """

    names: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    is_negated: bool = False
    position: SourcePosition = field(compare=False, default=(1, 1))
    source: str = field(compare=False, default="")


@dataclass(unsafe_hash=True)
class Repeat(_Composite):
    """``body`` repeated ``min_count`` to ``max_count`` times (``None``: no bound).

    ``position`` is the offset of the repetition in a pattern, for error messages.
    """

    body: Expression
    min_count: int
    max_count: int | None
    position: int = field(compare=False, default=0)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.body,)

    @cached_property
    def min_length(self) -> float:
        return self.body.min_length * self.min_count

    @cached_property
    def max_length(self) -> float:
        if not self.body.max_length or self.max_count == 0:
            return 0
        return math.inf if self.max_count is None else self.body.max_length * self.max_count

    @property
    def reach(self) -> float:
        return self.body.reach


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """The options of a rule: facts about its texts other than their form.

    Attributes:
        capture: The name under which a result gives the text of the rule.
        max_tokens: The greatest number of tokens of the text.
        temperature: The sampling temperature while the text is generated.
        is_lazy: Whether the text is one lexeme that ends as soon as it is complete.
        ending: The expression that ends this lexeme, if there is one.
        is_stop: Whether ``ending`` may also be written behind references to the rule.
    """

    capture: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    is_lazy: bool = False
    ending: Expression | None = None
    is_stop: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A named expression of a grammar."""

    name: str
    body: Expression
    position: SourcePosition
    options: RuleOptions = RuleOptions()


@dataclass(frozen=True, slots=True)
class Grammar:
    """The rules of a grammar by name; whole texts match ``start`` unless the caller says otherwise.

    A rule that ``start`` names need not be there; the compiler reports that.
    """

    rules: dict[str, Rule]
    start: str


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all expressions inside it, in the order of the text."""
    stack = [expression]
    visits = 0
    while stack:
        visits += 1
        if visits % EXPRESSIONS_PER_STEP == 1:
            spend()
        expression = stack.pop()
        yield expression
        stack.extend(reversed(expression.children))


@dataclass(slots=True, unsafe_hash=True)
class Start(Expression):
    """``^``: the start of the text."""

    @property
    def looks_left(self) -> bool:
        return True


@dataclass(slots=True, unsafe_hash=True)
class End(Expression):
    """``$``: the end of the text."""

    @property
    def reach(self) -> float:
        return 1


@dataclass(slots=True, unsafe_hash=True)
class WordBoundary(Expression):
    r"""``\b``, or ``\B`` if ``negated``, between characters of ``word`` and of ``other``.

    The ends of the text count as ``other``. A character of neither set is beside no boundary, and
    beside no place that is none.
    """

    word: CodePointSet
    other: CodePointSet
    negated: bool

    @property
    def reach(self) -> float:
        return 1

    @property
    def looks_left(self) -> bool:
        return True


@dataclass(slots=True, unsafe_hash=True)
class LookBehind(Expression):
    """``(?<=…)`` or, if ``negated``, ``(?<!…)`` of one character."""

    members: CodePointSet
    negated: bool

    @property
    def looks_left(self) -> bool:
        return True


@dataclass(slots=True, unsafe_hash=True)
class LookAhead(Expression):
    """``(?=…)`` or, if ``negated``, ``(?!…)``."""

    body: Expression
    negated: bool

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.body,)

    @property
    def reach(self) -> float:
        return self.body.max_length + max(self.body.reach, 0)

    @property
    def looks_left(self) -> bool:
        return self.body.looks_left
