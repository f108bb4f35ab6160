"""Expressions that only regular expressions have: assertions about the surrounding text."""

from __future__ import annotations

from dataclasses import dataclass

from state_machines.grammar.symbols import CodePointSet
from state_machines.syntax_tree import Expression


@dataclass(frozen=True, slots=True)
class Start(Expression):
    """``^``: the start of the text."""

    @property
    def looks_left(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class End(Expression):
    """``$``: the end of the text."""

    @property
    def reach(self) -> float:
        return 1


@dataclass(frozen=True, slots=True)
class WordBoundary(Expression):
    r"""``\b``, or ``\B`` if ``negated``; ``word`` is the set of word characters."""

    word: CodePointSet
    negated: bool

    @property
    def reach(self) -> float:
        return 1

    @property
    def looks_left(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class LookBehind(Expression):
    """``(?<=…)`` or, if ``negated``, ``(?<!…)`` of one character."""

    members: CodePointSet
    negated: bool

    @property
    def looks_left(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
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
