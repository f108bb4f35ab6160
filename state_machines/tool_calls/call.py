"""A call of one tool, as parts of an answer: its head with the name, its arguments, its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from state_machines.errors import SchemaError, UnsatisfiableSchemaError
from state_machines.grammar.node import Node
from state_machines.machine import RegexStateMachine, StateMachine
from state_machines.root.parts import Marker, Spell, SubState
from state_machines.tool_calls import notations

__all__ = ["CALL", "CallArguments", "CallEnd", "CallId", "CallStart", "CallText", "ToolSignature"]

CALL = "tool_call"
"""The name of everything that belongs to tool calls."""


@dataclass(frozen=True, eq=False)
class ToolSignature:
    """What a grammar needs to know of a tool: its name and the JSON Schema of its arguments."""

    name: str
    parameters: Mapping[str, Any] | bool


@dataclass(frozen=True, eq=False)
class CallStart(Marker):
    """The text up to a call's arguments, or up to its id, which spells the tool's name.

    Once it is written it is certain that ``tool`` is called.
    """

    _: KW_ONLY
    tool: ToolSignature


@dataclass(frozen=True, eq=False)
class CallText(Marker):
    """Text within a call, around the id that the model writes."""


@dataclass(frozen=True, eq=False)
class CallId(SubState):
    """The part of a call's id that the model writes: text that matches ``pattern``.

    ``template`` makes the id of it (``{name}``, ``{id}``); where it is empty, what is written is
    no id, only a number that the format asks for.
    """

    _: KW_ONLY
    tool: ToolSignature
    pattern: str
    template: str = "{id}"

    @cached_property
    def _machine(self) -> StateMachine:
        return RegexStateMachine(self.pattern)

    def machine(self) -> StateMachine:
        """Return the machine of the pattern."""
        return self._machine

    def parse(self, text: str) -> str | None:
        """Return the call's id."""
        if not self.template:
            return None
        return self.template.replace("{name}", self.tool.name).replace("{id}", text)


@dataclass(frozen=True, eq=False)
class CallArguments(SubState):
    """The arguments of a call of ``tool``, those of ``schema``, written in a notation.

    No string in them contains a text of ``avoid``. ``options`` are those of
    :class:`~state_machines.json_schema.JsonSchemaStateMachine`. Refused schemas raise
    :class:`~state_machines.errors.SchemaError` of the schema's own kind, which names the tool too.
    """

    _: KW_ONLY
    tool: ToolSignature
    schema: Mapping[str, Any] | bool
    notation: notations.Notation
    avoid: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    _made: dict[str, notations.CompiledArguments] = field(
        default_factory=dict, init=False, repr=False
    )

    def machine(self) -> StateMachine:
        """Return the machine of the arguments where no marker is a special token."""
        return StateMachine(self.language(str.encode))

    def language(self, spell: Spell) -> Node:
        """Return the arguments' texts as bytes."""
        made = self._made["last"] = self._arguments(spell)
        return made.node

    def parse(self, text: str) -> dict[str, Any]:
        """Return the arguments; raises ``ValueError`` for text of no such arguments."""
        return self._any().read(text)

    @property
    def parser_schema(self) -> Mapping[str, Any]:
        """The schema that the family's own parser is to be given as the tool's parameters."""
        return self._any().parser_schema

    @property
    def is_satisfiable(self) -> bool:
        """Whether there are any such arguments; ``True`` also where the schema is refused."""
        try:
            self._any()
        except UnsatisfiableSchemaError:
            return False
        except SchemaError:
            return True
        return True

    def _any(self) -> notations.CompiledArguments:
        made = self._made.get("last")
        if made is None:
            made = self._made["last"] = self._arguments(str.encode)
        return made

    def _arguments(self, spell: Spell) -> notations.CompiledArguments:
        try:
            return self.notation.compile(self.schema, avoid=self.avoid, spell=spell, **self.options)
        except SchemaError as error:
            refused = type(error)(
                f"parameters of the tool {self.tool.name!r}: {error.what}",
                pointer=error.pointer if error.is_located else None,
                keyword=error.keyword,
                hint=error.hint,
            )
            refused.tool = self.tool.name
            raise refused from error


@dataclass(frozen=True, eq=False)
class CallEnd(Marker):
    """The text from a call's arguments to its end."""
