"""Conditions on single members of an object, and clauses of them.

A *clause* holds where at least one of its conditions does. What an object must not be comes to
clauses: an object lacks a shape if one thing is missing, or another has a value it may not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from state_machines.grammar.node import Node
from state_machines.json_schema.terms import Term

__all__ = ["Absent", "Clause", "Condition", "Matching", "Present"]


@dataclass(frozen=True, slots=True)
class Absent:
    """No member has the name."""

    name: str


@dataclass(frozen=True, slots=True)
class Present:
    """The member of the name is there, and its value is in ``term``."""

    name: str
    term: Term


@dataclass(frozen=True, slots=True)
class Matching:
    """Some member has a name in ``names``, a language of code points, and a value in ``term``."""

    names: Node
    term: Term


Condition: TypeAlias = Absent | Present | Matching

Clause: TypeAlias = tuple[Condition, ...]
