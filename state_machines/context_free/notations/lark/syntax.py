"""The syntax tree of a Lark grammar: the items that only this notation has, and definitions.

Bodies are made of :mod:`state_machines.syntax_tree`'s ``Series``, ``Choice`` and ``Repeat``.
Their leaves are the classes of this module, and ``Reference`` for the name of a rule or terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from state_machines.grammar.node import Node
from state_machines.grammar.symbols import CodePointSet
from state_machines.machine import StateMachine
from state_machines.syntax_tree import Expression, NamedTokens, Rule, SourcePosition


@dataclass(slots=True, unsafe_hash=True)
class InlineTerminal(Expression):
    """A string, a character range, an expression or a substring: a terminal without a name.

    Attributes:
        body: Its texts, an expression without references.
        source: How the grammar writes it.
        position: Where it stands.
    """

    body: Expression = field(hash=False)
    source: str
    position: SourcePosition = field(compare=False)

    @property
    def only_characters(self) -> CodePointSet | None:
        return self.body.only_characters


@dataclass(slots=True, unsafe_hash=True)
class Language(Expression):
    """The texts of a language of code points, such as the substrings of ``%regex { … }``."""

    node: Node


@dataclass(slots=True, unsafe_hash=True)
class NestedJson(Expression):
    """``%json { … }``: one JSON text.

    Attributes:
        machine: The machine of the schema.
        position: Where it stands.
    """

    machine: StateMachine
    position: SourcePosition = field(compare=False)


@dataclass(slots=True, unsafe_hash=True)
class AndExpression(Expression):
    """``A & B``: the texts that all members match."""

    members: tuple[Expression, ...]
    position: SourcePosition = field(compare=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.members


@dataclass(slots=True, unsafe_hash=True)
class NotExpression(Expression):
    """``~A``: all other texts."""

    body: Expression
    position: SourcePosition = field(compare=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.body,)


@dataclass(slots=True, unsafe_hash=True)
class SpecialToken(Expression):
    """``<name>`` or ``<[1,3-5]>``: one of ``tokens``; ``source`` is the text with the brackets."""

    tokens: NamedTokens
    source: str
    position: SourcePosition = field(compare=False)


@dataclass(slots=True, unsafe_hash=True)
class Nested(Expression):
    """``%lark { … }``: the texts of another grammar's rule ``start``."""

    definitions: Definitions
    position: SourcePosition = field(compare=False)


@dataclass(eq=False, slots=True)
class Definitions:
    """All definitions of one grammar.

    Attributes:
        rules: The rules by name.
        terminals: The terminals by name, imported ones included.
        ignored: The operands of ``%ignore``.
        ignores_once: Whether at most one ignored lexeme stands between two others.
        ignores_first: Whether ignored lexemes may precede the first other lexeme.
    """

    rules: dict[str, Rule] = field(default_factory=dict)
    terminals: dict[str, Rule] = field(default_factory=dict)
    ignored: list[Expression] = field(default_factory=list)
    ignores_once: bool = False
    ignores_first: bool = False
