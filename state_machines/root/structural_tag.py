"""A structural tag as a part of an answer."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

from state_machines.errors import UnsupportedStructuralTagError
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.tokens import Spell
from state_machines.machine import StateMachine
from state_machines.root.parts import SubState
from state_machines.structural_tags import Format, bounded, parse


@dataclass(frozen=True, eq=False)
class StructuralTagPart(SubState):
    """A stretch of an answer that a structural tag describes. Its value is its text.

    Attributes:
        format: The format of the tag, see :mod:`state_machines.structural_tags.formats`.
    """

    _: KW_ONLY
    format: Format = field(repr=False)

    @classmethod
    def of(cls, tag: Any, name: str = "structured") -> Self:
        """Return the part of a structural tag in either of XGrammar's forms.

        Args:
            tag: The tag as parsed JSON, or its text.
            name: The name of the part.

        Raises:
            StructuralTagError: The tag is malformed, or a part of it cannot be enforced.
            SchemaError: A schema in it is refused. The pointer is one of the tag.
        """
        return cls(name, format=parse(tag))

    def machine(self) -> StateMachine:
        """Return the machine of the texts, without special tokens."""
        return self._compiled(str.encode)

    def language(self, spell: Spell) -> Node:
        """Return the language of the texts in bytes."""
        return self._compiled(spell).start

    def _compiled(self, spell: Spell) -> StateMachine:
        with bounded():
            machine = self.format.compiled(spell)
        if machine.start is EMPTY:
            raise UnsupportedStructuralTagError("no text matches the structural tag", pointer="")
        return machine
