"""The parts of a tool call: the head with the tool's name, the id, the arguments, the end.

A call of a *custom tool*, whose only argument is a text, is a call of a function with the string
``input``. Every notation can write it, and a chat template that knows functions alone can describe
the tool. :class:`InputDecoder` finds the text of the input in arguments that are still being
written.
"""

from __future__ import annotations

import json
import re
import string
import uuid
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from functools import cached_property
from secrets import choice as any_of
from typing import Any

from state_machines.argument_notations import INPUT, CompiledArguments, Notation
from state_machines.argument_notations.shared_arguments import SharedArguments, shared_arguments
from state_machines.errors import SchemaError, ToolSchemaWarning, UnsatisfiableSchemaError
from state_machines.grammar.encoding import RAW, decoded, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.tokens import Spell
from state_machines.json_schema.algebra.value_sets import ANY_TEXT, is_json_value
from state_machines.machine import RegexStateMachine, StateMachine
from state_machines.root.parts import (
    Choice,
    DistinctSubState,
    DistinctValue,
    Marker,
    Optional,
    Part,
    SubState,
)

CALL = "tool_call"
"""The name of all parts of tool calls."""

_HIGH, _LOW = "[dD][89abAB][0-9a-fA-F]{2}", "[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPED_TEXT = re.compile(
    # The first half of a surrogate pair waits for the second.
    rf"(?:[^\"\\]|\\(?:u(?:{_HIGH}\\u{_LOW}|(?!{_HIGH})[0-9a-fA-F]{{4}}|{_HIGH}(?=.{{6}}))|[^u]))*",
    re.DOTALL,
)


@dataclass(frozen=True, eq=False)
class ToolSignature:
    """The name of a tool and the JSON Schema of its arguments.

    Attributes:
        name: The name.
        parameters: The JSON Schema.
        input: For a custom tool, the machine of its input, which is the only argument; ``None`` for
            other tools.
        excluding: Arguments that no call has.
        written_name: The name in the texts of calls; by default the name.
    """

    name: str
    parameters: Mapping[str, Any] | bool
    input: StateMachine | None = None
    excluding: tuple[Any, ...] = ()
    written_name: str = ""

    def __post_init__(self) -> None:
        if not self.written_name:
            object.__setattr__(self, "written_name", self.name)


@dataclass(frozen=True)
class CallIds:
    """The ids of a family's calls.

    Attributes:
        pattern: The text that the model writes for ``{id}`` in the head or foot, as a pattern.
        template: The id, with ``{id}`` for that text. If it is empty, the text is not an id.
        length: The number of letters and digits of generated ids; ``None`` for any form.
    """

    pattern: str = ""
    template: str = "{id}"
    length: int | None = None

    def new(self, name: str, index: int) -> str:
        """Return an id for a call whose id the model did not write.

        Args:
            name: The name of the tool.
            index: The number of the call in the answer, from 0.
        """
        if "{name}" in self.template:
            return self.read(name, str(index)) or ""
        if self.length is None:
            return f"call_{uuid.uuid4().hex[:24]}"
        letters = string.ascii_letters + string.digits
        return "".join(any_of(letters) for _ in range(self.length))

    def read(self, name: str, text: str) -> str | None:
        """Return the id of a call of a tool, given the text that the model has written for it."""
        return self.template.replace("{name}", name).replace("{id}", text) or None


ANY_IDS = CallIds()
"""The model writes no ids, and any id suits it."""


@dataclass(frozen=True, eq=False)
class CallLayout(SubState):
    """Text around a call that has several spellings.

    Attributes:
        language: The spellings, over code points.
    """

    _: KW_ONLY
    language: Node

    def machine(self) -> StateMachine:
        """Return the machine of the spellings."""
        return StateMachine(encoded(self.language, RAW))


@dataclass(frozen=True, eq=False)
class CallStart(Marker):
    """The text before a call's id or arguments. It contains the written name of ``tool``.

    Once it is written, ``tool`` is certain to be called.
    """

    _: KW_ONLY
    tool: ToolSignature


@dataclass(frozen=True, eq=False)
class CallText(Marker):
    """Text inside a call, around the id that the model writes."""


@dataclass(frozen=True, eq=False)
class CallId(SubState):
    """The id of a call, or a number that the format requires.

    Attributes:
        tool: The tool that is called.
        ids: The ids of the family's calls.
    """

    _: KW_ONLY
    tool: ToolSignature
    ids: CallIds

    @cached_property
    def _machine(self) -> StateMachine:
        return RegexStateMachine(self.ids.pattern)

    def machine(self) -> StateMachine:
        """Return the machine of the pattern."""
        return self._machine

    def parse(self, text: str) -> str | None:
        """Return the call's id."""
        return self.ids.read(self.tool.written_name, text)


@dataclass(frozen=True, eq=False)
class CallArguments(DistinctSubState):
    """The arguments of a call. No two calls of an answer have the same tool and arguments.

    Attributes:
        tool: The tool that is called.
        schema: The JSON Schema of the arguments.
        notation: The notation that they are written in.
        avoid: Texts that no string in them contains.
        options: Options of :class:`~state_machines.json_schema.JsonSchemaStateMachine`.

    Refused schemas raise the :class:`~state_machines.errors.SchemaError` of the schema, with the
    tool's name added.
    """

    _: KW_ONLY
    tool: ToolSignature
    schema: Mapping[str, Any] | bool
    notation: Notation
    avoid: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    _shared: SharedArguments | None = field(default=None, init=False, repr=False)

    def machine(self) -> StateMachine:
        """Return the machine of the arguments without special tokens."""
        return self.spelled_machine(str.encode)

    def spelled_machine(self, spell: Spell) -> StateMachine:
        """Return the machine of the arguments."""
        shared = self._share(spell)
        object.__setattr__(self, "_shared", shared)
        return shared.machine()

    def parse(self, text: str) -> dict[str, Any]:
        """Return the arguments of a text; raise ``ValueError`` for any other text."""
        return self._compiled.read(text)

    @property
    def has_values(self) -> bool:
        """Whether the arguments are values of a JSON Schema, and not the input of a custom tool."""
        return self.tool.input is None

    @property
    def kind(self) -> str:
        """The name of the tool."""
        return self.tool.name

    @property
    def excluded(self) -> Iterator[DistinctValue]:
        """The excluded arguments. Those that are no JSON are none of any call."""
        for arguments in filter(is_json_value, self.tool.excluding):
            yield DistinctValue(self.kind, _json_text(arguments))

    def value_of(self, text: str) -> DistinctValue | None:
        """Return the arguments of a text as a value; ``None`` if they are nested too deeply."""
        try:
            return DistinctValue(self.kind, json.dumps(self.parse(text), sort_keys=True))
        except (ValueError, RecursionError):
            return None

    def spellings(self, value: DistinctValue) -> Node:
        """Return the language of the texts that are read as given arguments."""
        try:
            return self._compiled.spellings(json.loads(value.value, parse_float=Decimal))
        except (ValueError, OverflowError):
            # A number beyond the range of floats is read as infinity, which JSON does not have.
            return EMPTY

    def count_values(self, limit: int) -> int:
        """Return a lower bound on the number of different arguments, up to a limit."""
        return self._compiled.count(limit)

    @property
    def language(self) -> Node:
        """The texts of the arguments, in bytes; compiled when it is first needed."""
        return self._compiled.node

    @property
    def parser_schema(self) -> Mapping[str, Any]:
        """The tool's parameters for the family's own parser."""
        return self._compiled.parser_schema

    @property
    def is_satisfiable(self) -> bool:
        """Whether any arguments satisfy the schema; ``True`` also for a schema that is refused."""
        try:
            self._find_shared()
        except UnsatisfiableSchemaError:
            return False
        except SchemaError:
            return True
        return True

    @property
    def _compiled(self) -> CompiledArguments:
        try:
            return self._find_shared().compiled
        except SchemaError as error:
            raise error.of_tool(self.tool.name) from error

    def _find_shared(self) -> SharedArguments:
        """Return the arguments of the last machine."""
        shared = self._shared
        if shared is None:
            shared = self._share(str.encode)
            object.__setattr__(self, "_shared", shared)
        return shared

    def _share(self, spell: Spell) -> SharedArguments:
        tool = self.tool
        options = {
            **self.options,
            "avoid": self.avoid,
            "spell": spell,
            "input": None if tool.input is None else decoded(tool.input.start),
        }
        try:
            shared = shared_arguments(self.notation, self.schema, options)
        except SchemaError as error:
            raise error.of_tool(tool.name) from error
        for refusal in shared.left_out:
            left_out = refusal.of_tool(tool.name)
            warnings.warn(f"left out of calls: {left_out}", ToolSchemaWarning, stacklevel=2)
        return shared


@dataclass(frozen=True, eq=False)
class CallEnd(Marker):
    """The text from a call's arguments to its end."""


def markers(text: str) -> tuple[Marker, ...]:
    """Return the marker of a text around calls; none if it is empty."""
    return (Marker(CALL, text),) if text else ()


def inner_texts(text: str) -> tuple[Marker, ...]:
    """Return the marker of a text inside a call; none if it is empty."""
    return (CallText(CALL, text),) if text else ()


def one_of(texts: tuple[str, ...]) -> Part | None:
    """Return a part that writes a text of a list; ``None`` if all texts are empty."""
    written = [Marker(CALL, text) for text in texts if text]
    if not written:
        return None
    part = Choice(*written) if len(written) > 1 else written[0]
    return Optional(part) if "" in texts else part


def any_text() -> StateMachine:
    """Return a machine that admits every text."""
    return StateMachine(encoded(ANY_TEXT, RAW))


def _json_text(value: Any) -> str:
    """Return the JSON of a value with sorted names, and with all digits of decimals."""
    match value:
        case Decimal():
            return str(value)
        case dict():
            members = (f"{json.dumps(name)}: {_json_text(value[name])}" for name in sorted(value))
            return f"{{{', '.join(members)}}}"
        case list():
            return f"[{', '.join(map(_json_text, value))}]"
    return json.dumps(value)


def input_schema(description: str = "") -> dict[str, Any]:
    """Return the JSON Schema of the arguments of a custom tool.

    Args:
        description: Describes the input to the model.
    """
    text = {"type": "string", "description": description} if description else {"type": "string"}
    return {
        "type": "object",
        "properties": {INPUT: text},
        "required": [INPUT],
        "additionalProperties": False,
    }


class InputDecoder:
    """Returns the input of a custom tool while its arguments are written.

    The texts around the input, and whether it is escaped, are those of :meth:`Notation.write`.
    Text that may belong to the end of the arguments, and incomplete escapes, are held back.

    Args:
        notation: The notation of the arguments.
    """

    def __init__(self, notation: Notation) -> None:
        before, _, self._after = notation.write({INPUT: "MARK"}).partition("MARK")
        self._is_escaped = "\\" in notation.write({INPUT: '"'})
        # White space between the tokens of JSON is optional.
        pieces = before.split() if self._is_escaped else [before]
        pieces = [piece for word in pieces for piece in re.split(r"([{:=])", word) if piece]
        space = r"\s*" if self._is_escaped else ""
        self._before = re.compile(space + space.join(map(re.escape, pieces)))
        self._held = ""
        self._has_begun = False
        self._has_ended = False
        self.decoded = ""
        """The input so far."""

    def add(self, text: str) -> str:
        """Take more text of the arguments, and return more of the input."""
        if self._has_ended:
            return ""
        self._held += text
        if not self._has_begun:
            found = self._before.match(self._held)
            if found is None:
                return ""
            self._has_begun = True
            self._held = self._held[found.end() :]
        more = self._unescaped() if self._is_escaped else self._raw()
        self.decoded += more
        return more

    def _raw(self) -> str:
        text, after = self._held, self._after
        if after and (end := text.find(after)) >= 0:
            self._has_ended = True
            return text[:end]
        held = next((n for n in range(len(after) - 1, 0, -1) if text.endswith(after[:n])), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def _unescaped(self) -> str:
        found = _ESCAPED_TEXT.match(self._held)
        assert found is not None, "the pattern matches the empty text"
        self._held = self._held[found.end() :]
        self._has_ended = self._held.startswith('"')
        text: str = json.loads(f'"{found[0]}"', strict=False)
        return text
