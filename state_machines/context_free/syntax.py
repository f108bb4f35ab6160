"""The tree of a grammar: rules, and the expressions they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.symbols import CodePointSet

__all__ = [
    "PARTS_PER_STEP",
    "Alternatives",
    "Characters",
    "Expression",
    "Position",
    "Reference",
    "Repeat",
    "Rule",
    "Series",
    "Text",
    "references",
]

PARTS_PER_STEP = 8
"""Parts of an expression that are looked at in about a step."""

Position: TypeAlias = tuple[int, int]
"""Line and column, both from 1."""


@dataclass(frozen=True, slots=True)
class Text:
    """Exactly one text, which may be empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Characters:
    """One character out of a set."""

    members: CodePointSet


@dataclass(frozen=True, slots=True)
class Reference:
    """What the rule ``name`` matches."""

    name: str
    position: Position = field(compare=False, default=(1, 1))


@dataclass(frozen=True, slots=True)
class Series:
    """One part after the other; no part: the empty text."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Any of the branches; at least two."""

    branches: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``body`` between ``least`` and ``most`` times (``None``: without bound)."""

    body: Expression
    least: int
    most: int | None


Expression: TypeAlias = Text | Characters | Reference | Series | Alternatives | Repeat


@dataclass(frozen=True, slots=True)
class Rule:
    """A name for an expression."""

    name: str
    body: Expression
    position: Position


def references(expression: Expression) -> Iterator[Reference]:
    """Yield all references in an expression, those in front first."""
    stack = [expression]
    visits = 0
    while stack:
        visits += 1
        if visits % PARTS_PER_STEP == 1:
            spend()
        match stack.pop():
            case Reference() as found:
                yield found
            case Series(parts=parts) | Alternatives(branches=parts):
                stack.extend(reversed(parts))
            case Repeat(body=body):
                stack.append(body)
