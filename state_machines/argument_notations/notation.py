"""The interface of notations of arguments.

A *notation* is a way to write the object ``{"city": "Oslo"}``: as JSON, as ``city="Oslo"`` in
Python, or as ``<parameter=city>Oslo</parameter>``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_args

from state_machines.argument_notations.property_names import PropertyNames, names_of_properties
from state_machines.errors import (
    CompositionError,
    InvalidArgumentError,
    UnsupportedSchemaError,
    check_choice,
)
from state_machines.grammar.node import Node
from state_machines.grammar.tokens import Spell
from state_machines.json_schema.grammar.value_syntax import Whitespace
from state_machines.json_schema.machine import PropertyOrder
from state_machines.json_schema.reader.dialects import SchemaOptions

Schema = Mapping[str, Any] | bool

_ORDERS = get_args(PropertyOrder)
_WHITESPACE = get_args(Whitespace)

INPUT = "input"
"""The only argument of a custom tool, a string."""


@dataclass(frozen=True, kw_only=True)
class NotationOptions(SchemaOptions):
    """Options of the arguments beside their schema.

    Attributes:
        avoid: Texts that no string and no name may contain, such as the marker that ends a call.
        spell: Returns the bytes of the notation's markers.
        whitespace: The white space of JSON in the arguments; ``None`` for the notation's own.
        input: For a custom tool, the texts that its argument :data:`INPUT` may be, as a language of
            code points; ``None`` for other tools.

    The other options are those of schemas.
    """

    avoid: Iterable[str] = ()
    spell: Spell = str.encode
    property_order: PropertyOrder = "schema"
    whitespace: Whitespace | None = None
    input: Node | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("property_order", self.property_order, _ORDERS)
        if self.whitespace is not None:
            check_choice("whitespace", self.whitespace, _WHITESPACE)


_OPTIONS = {field.name for field in fields(NotationOptions)}


@dataclass(frozen=True)
class CompiledArguments:
    """The arguments that one schema admits, in one notation.

    Attributes:
        node: The language of their texts, in bytes.
        read: Returns the arguments of a text, in which special tokens stand as their names. Raises
            ``ValueError`` for a text that is not of the notation.
        parser_schema: A schema that gives the parser of the model family the type of each property,
            so that it reads the same values as ``read``.
        spellings: Returns a language whose texts among those of ``node`` are the ones that ``read``
            reads as the given arguments.
        count: Returns a lower bound on the number of different arguments, up to a limit.
        left_out: Why optional properties of the schema cannot be written, an error for each.
    """

    node: Node
    read: Callable[[str], dict[str, Any]]
    parser_schema: Mapping[str, Any]
    spellings: Callable[[Mapping[str, Any]], Node]
    count: Callable[[int], int]
    left_out: tuple[UnsupportedSchemaError, ...] = ()


class Notation(ABC):
    """A notation of JSON objects. Immutable.

    Attributes:
        name: The name of the notation in errors.
        has_json: Whether some of the values are JSON. Only then the option ``whitespace`` applies.
        plain_names: A pattern of names that the notation can write, other than Python's keywords.
        renames_nested: Whether the notation restricts the names in nested objects as well.
    """

    name: str
    has_json: ClassVar[bool] = False
    renames_nested: ClassVar[bool] = False
    plain_names: ClassVar[re.Pattern[str]] = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

    @property
    def writes_plain(self) -> bool:
        """Whether the notation can write each property of every plain schema.

        See :mod:`state_machines.argument_notations.plain_schemas`.
        """
        return True

    @property
    def is_spelled(self) -> bool:
        """Whether the language depends on the option ``spell``."""
        return True

    def compile(self, schema: Schema, **options: Any) -> CompiledArguments:
        """Return the language and the reader of the objects that a schema admits.

        Args:
            schema: A JSON Schema.
            options: The fields of :class:`NotationOptions`.

        Raises:
            SchemaError: As for :class:`~state_machines.json_schema.JsonSchemaStateMachine`.
            UnsupportedSchemaError: The notation cannot write the values of a required property.
            CompositionError: An option is unknown or has a wrong value.
        """
        return self._compile(schema, self.checked(options))

    def checked(self, options: Mapping[str, Any]) -> NotationOptions:
        """Return the options of :meth:`compile`.

        Raises:
            CompositionError: An option is unknown or has a wrong value.
        """
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise CompositionError(
                f"arguments have no option {unknown[0]!r}",
                part=self.name,
                hint=f"Known are {', '.join(sorted(_OPTIONS))}",
            )
        try:
            checked = NotationOptions(**options)
        except InvalidArgumentError as error:
            raise CompositionError(error.what, part=self.name) from error
        if checked.whitespace is not None and not self.has_json:
            raise CompositionError(
                "this notation does not write JSON, so its white space is fixed",
                part=self.name,
                hint="The option whitespace is for notations that contain JSON",
            )
        return checked

    def compile_checked(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        """Return what :meth:`compile` returns for options that are checked."""
        return self._compile(schema, options)

    def can_write_name(self, name: str) -> bool:
        """Return whether a property of that name can be written as it is."""
        del name
        return True

    def property_names(self, schema: Schema) -> PropertyNames:
        """Return how the properties of a schema are written that cannot be written as they are."""
        if type(self).can_write_name is Notation.can_write_name:
            return PropertyNames()
        names = names_of_properties(schema)
        return PropertyNames(names, self.can_write_name, nested=self.renames_nested)

    @abstractmethod
    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return the text of arguments, as the chat template of the model family writes it.

        ``read`` of the compiled schema returns the arguments, if the notation can write them.
        """

    @abstractmethod
    def end(self, text: str, start: int) -> int:
        """Return the position after the arguments that begin at ``start``.

        The arguments need not match a schema. ``read`` checks the text between the positions.

        Raises:
            ValueError: The arguments do not end.
        """

    @abstractmethod
    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments: ...


def unique_members(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return members as a dictionary; raise ``ValueError`` for a repeated name."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{name!r} is written twice")
        members[name] = value
    return members
