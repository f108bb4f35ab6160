"""The tree of a regular expression: small frozen nodes that know their measures.

Every node has three measures, computed at birth from its parts':

* ``min_length``, ``max_length``: bounds on the characters it consumes (``math.inf``: no bound);
* ``reach``: how many characters beyond its own end its assertions may look at. A node whose reach
  is not positive is *local*: what it matches does not depend on the text that follows it.

``left`` tells whether a node looks to its left (``^``, ``\\b``, look-behind) at its own start or
inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from state_machines.grammar.symbols import CodePointSet

__all__ = [
    "Alternatives",
    "Characters",
    "End",
    "Expression",
    "LookAhead",
    "LookBehind",
    "Repeat",
    "Series",
    "Start",
    "WordBoundary",
]


@dataclass(frozen=True, slots=True)
class Characters:
    """One character out of a set; the set may be empty (``[]``)."""

    members: CodePointSet
    position: int = field(compare=False, default=0)

    @property
    def min_length(self) -> float:
        return 1

    max_length = min_length

    @property
    def reach(self) -> float:
        return -math.inf

    @property
    def left(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class _Anchor:
    position: int = field(compare=False, default=0)

    @property
    def min_length(self) -> float:
        return 0

    max_length = min_length


@dataclass(frozen=True, slots=True)
class Start(_Anchor):
    """``^``: nothing stands to the left."""

    @property
    def reach(self) -> float:
        return -math.inf

    @property
    def left(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class End(_Anchor):
    """``$``: nothing stands to the right."""

    @property
    def reach(self) -> float:
        return 1

    @property
    def left(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class WordBoundary(_Anchor):
    r"""``\b``, or ``\B`` if ``negated``; ``word`` is the set of word characters."""

    negated: bool = False
    word: CodePointSet = field(default_factory=lambda: CodePointSet(()))

    @property
    def reach(self) -> float:
        return 1

    @property
    def left(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class LookBehind(_Anchor):
    """``(?<=…)`` or, if ``negated``, ``(?<!…)`` of one character."""

    members: CodePointSet = field(default_factory=lambda: CodePointSet(()))
    negated: bool = False

    @property
    def reach(self) -> float:
        return -math.inf

    @property
    def left(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class LookAhead(_Anchor):
    """``(?=…)`` or, if ``negated``, ``(?!…)``."""

    body: Expression = field(default_factory=lambda: Series(()))
    negated: bool = False

    @property
    def reach(self) -> float:
        return self.body.max_length + max(self.body.reach, 0)

    @property
    def left(self) -> bool:
        return self.body.left


@dataclass(frozen=True, slots=True)
class Series:
    """One part after the other; no part: the empty text."""

    parts: tuple[Expression, ...]
    min_length: float = field(init=False, compare=False)
    max_length: float = field(init=False, compare=False)
    reach: float = field(init=False, compare=False)
    left: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        follows = 0.0
        reach = -math.inf
        for part in reversed(self.parts):
            reach = max(reach, part.reach - follows)
            follows += part.min_length
        object.__setattr__(self, "min_length", follows)
        object.__setattr__(self, "max_length", sum(part.max_length for part in self.parts))
        object.__setattr__(self, "reach", reach)
        object.__setattr__(self, "left", any(part.left for part in self.parts))


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Any of the branches; at least one."""

    branches: tuple[Expression, ...]
    min_length: float = field(init=False, compare=False)
    max_length: float = field(init=False, compare=False)
    reach: float = field(init=False, compare=False)
    left: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "min_length", min(b.min_length for b in self.branches))
        object.__setattr__(self, "max_length", max(b.max_length for b in self.branches))
        object.__setattr__(self, "reach", max(b.reach for b in self.branches))
        object.__setattr__(self, "left", any(b.left for b in self.branches))


@dataclass(frozen=True, slots=True)
class Repeat:
    """``body`` between ``least`` and ``most`` times (``None``: without bound)."""

    body: Expression
    least: int
    most: int | None
    position: int = field(compare=False, default=0)
    min_length: float = field(init=False, compare=False)
    max_length: float = field(init=False, compare=False)

    def __post_init__(self) -> None:
        longest = 0.0
        if self.body.max_length and self.most != 0:
            longest = math.inf if self.most is None else self.body.max_length * self.most
        object.__setattr__(self, "min_length", self.body.min_length * self.least)
        object.__setattr__(self, "max_length", longest)

    @property
    def reach(self) -> float:
        return self.body.reach

    @property
    def left(self) -> bool:
        return self.body.left


Expression: TypeAlias = (
    Characters
    | Start
    | End
    | WordBoundary
    | LookBehind
    | LookAhead
    | Series
    | Alternatives
    | Repeat
)
