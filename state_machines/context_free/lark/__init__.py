r"""Parse Lark, the notation of the Lark toolkit as llguidance and OpenAI's custom tools read it::

    start: expression
    expression: expression "+" term | term      // a rule, in lower case
    term: NUMBER | "(" expression ")"
    NUMBER: /[0-9]+/                            # a terminal, in upper case
    %ignore /[ \t]+/

A definition ends with its line, unless the next one begins with ``|``. Terminals are the lexemes
into which a text is divided, by longest match; a string or an expression in a rule is a terminal
without a name.

Reading order: this module (the syntax tree of a grammar: the items that only this notation has, and
definitions), ``items`` and ``reader`` (text to definitions), ``terminals`` (their languages),
``lowering`` (definitions to a :class:`~state_machines.context_free.compiler.LexicalGrammar`).
Bodies are made of :mod:`state_machines.syntax_tree`'s ``Series``, ``Choice`` and ``Repeat``. Their
leaves are ``Inline``, ``NamedTokens``, and ``Reference`` for the name of a rule or terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from state_machines.grammar.node import Node
from state_machines.grammar.symbols import CodePointSet
from state_machines.machine import StateMachine
from state_machines.syntax_tree import Expression, Rule, SourcePosition


@dataclass(slots=True, unsafe_hash=True)
class Inline(Expression):
    """A language that is written in place.

    Attributes:
        language: The texts of a string, a range of characters or a regular expression; the
            language of ``%regex { … }``, in code points; the machine of ``%json { … }``; the
            definitions of ``%lark { … }``. The first two are a terminal without a name.
        source: How the grammar writes it.
        position: Where it stands.
    """

    language: InlineLanguage = field(hash=False)
    source: str
    position: SourcePosition = field(compare=False)

    @property
    def only_characters(self) -> CodePointSet | None:
        body = self.language
        return body.only_characters if isinstance(body, Expression) else None


@dataclass(slots=True, unsafe_hash=True)
class Boolean(Expression):
    """``A & B``: the texts that all members match; ``~A``, negated: all other texts."""

    members: tuple[Expression, ...]
    is_negated: bool
    position: SourcePosition = field(compare=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.members


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


InlineLanguage: TypeAlias = Expression | Node | StateMachine | Definitions
