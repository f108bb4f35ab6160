"""What every notation is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from state_machines.grammar.node import Node

__all__ = ["Arguments", "Notation", "Spell"]

Spell = Callable[[str], bytes]
"""The bytes of a marker: of its text, or of the special token that it is in a vocabulary."""


@dataclass(frozen=True)
class Arguments:
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
    """A way to write JSON objects. Immutable."""

    name: str

    @abstractmethod
    def arguments(
        self,
        schema: Mapping[str, Any] | bool,
        *,
        avoid: Iterable[str] = (),
        spell: Spell = str.encode,
        **options: Any,
    ) -> Arguments:
        """Return how the objects that a schema admits are written and read.

        ``avoid`` are texts that no string and no name may contain, such as the marker that ends
        a call; ``spell`` gives the bytes of the notation's markers; ``options`` are those of
        :class:`~state_machines.json_schema.JsonSchemaStateMachine`.

        Raises :class:`~state_machines.errors.SchemaError` as that does, and
        :class:`~state_machines.errors.UnsupportedSchemaError` for what cannot be written.
        """

    def node(self, schema: Mapping[str, Any] | bool, **options: Any) -> Node:
        """Return the node of :meth:`arguments`."""
        return self.arguments(schema, **options).node

    def read(
        self, text: str, schema: Mapping[str, Any] | bool = True, **options: Any
    ) -> dict[str, Any]:
        """Return the arguments that a text writes, where they are those of a schema.

        Raises ``ValueError`` for a text that is not of the notation.
        """
        return self.arguments(schema, **options).read(text)

    def parser_schema(self, schema: Mapping[str, Any] | bool, **options: Any) -> Mapping[str, Any]:
        """Return the schema that a family's own parser is to be given."""
        return self.arguments(schema, **options).parser_schema
