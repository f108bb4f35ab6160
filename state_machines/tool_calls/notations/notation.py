"""What every notation is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_args

from referencing import Registry

from state_machines.errors import CompositionError
from state_machines.grammar.node import Node
from state_machines.json_schema.compiler import PropertyOrder
from state_machines.json_schema.value_syntax import Whitespace

__all__ = ["CompiledArguments", "Notation", "NotationOptions", "Schema", "Spell", "unique_members"]

Spell = Callable[[str], bytes]
"""The bytes of a marker: of its text, or of the special token that it is in a vocabulary."""

Schema = Mapping[str, Any] | bool


@dataclass(frozen=True)
class NotationOptions:
    """What is said of arguments beside their schema.

    * ``avoid``: texts that no string and no name may contain, such as the marker that ends a call;
    * ``spell``: the bytes of the notation's markers;
    * ``whitespace``: that of JSON in the arguments; ``None``: as the notation has it;
    * the others are those of :class:`~state_machines.json_schema.JsonSchemaStateMachine`.
    """

    avoid: Iterable[str] = ()
    spell: Spell = str.encode
    property_order: PropertyOrder = "schema"
    whitespace: Whitespace | None = None
    assert_formats: bool = True
    strict: bool = False
    registry: Registry[Any] | None = None


_OPTIONS = {field.name for field in fields(NotationOptions)}


@dataclass(frozen=True)
class CompiledArguments:
    """The arguments that one schema admits, in one notation.

    * ``node``: the language of their texts, in bytes;
    * ``read``: returns the arguments that a text writes, special tokens in it by their names;
      raises ``ValueError`` for a text that is not of the notation;
    * ``parser_schema``: a schema for a family's own parser, which tells it of what type each
      property is, so that it reads what ``read`` does.
    """

    node: Node
    read: Callable[[str], dict[str, Any]]
    parser_schema: Mapping[str, Any]


class Notation(ABC):
    """A way to write JSON objects. Immutable.

    ``has_json``: whether arguments are written as JSON, all of them or some; only then has the
    option ``whitespace`` a meaning.
    """

    name: str
    has_json: ClassVar[bool] = False

    def arguments(self, schema: Schema, **options: Any) -> CompiledArguments:
        """Return how the objects that a schema admits are written and read.

        ``options`` are those of :class:`NotationOptions`. Raises
        :class:`~state_machines.errors.SchemaError` as
        :class:`~state_machines.json_schema.JsonSchemaStateMachine` does, and
        :class:`~state_machines.errors.UnsupportedSchemaError` for values that the notation cannot
        write, and :class:`~state_machines.errors.CompositionError` for an unknown option.
        """
        self._check_options(options)
        return self._arguments(schema, NotationOptions(**options))

    def _check_options(self, options: Mapping[str, Any]) -> None:
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise CompositionError(
                f"arguments have no option {unknown[0]!r}",
                part=self.name,
                hint=f"Known are {', '.join(sorted(_OPTIONS))}",
            )
        for name, values in (("whitespace", Whitespace), ("property_order", PropertyOrder)):
            value = options.get(name)
            if value is not None and value not in get_args(values):
                known = ", ".join(map(repr, get_args(values)))
                raise CompositionError(f"{name} is one of {known}, not {value!r}", part=self.name)
        if options.get("whitespace") is not None and not self.has_json:
            raise CompositionError(
                "arguments in this notation have white space of their own",
                part=self.name,
                hint="The option whitespace is for notations with JSON in them",
            )

    @abstractmethod
    def _arguments(self, schema: Schema, options: NotationOptions) -> CompiledArguments: ...

    def node(self, schema: Schema, **options: Any) -> Node:
        """Return the node of :meth:`arguments`."""
        return self.arguments(schema, **options).node

    def read(self, text: str, schema: Schema = True, **options: Any) -> dict[str, Any]:
        """Return the arguments that a text writes, where they are those of a schema.

        Raises ``ValueError`` for a text that is not of the notation. To read more than one text,
        keep what :meth:`arguments` returns.
        """
        return self.arguments(schema, **options).read(text)

    def parser_schema(self, schema: Schema, **options: Any) -> Mapping[str, Any]:
        """Return the schema that a family's own parser is to be given."""
        return self.arguments(schema, **options).parser_schema


def unique_members(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return members as a dict; raises ``ValueError`` where a name comes twice."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{name!r} is written twice")
        members[name] = value
    return members
