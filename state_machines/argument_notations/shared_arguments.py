"""Arguments that are compiled once for a schema, and not before a call needs them.

Requests send the same tools again and again, in other sets and orders. The arguments of one schema
are therefore shared by all machines of a notation: :func:`shared_arguments` finds them by the text
of the schema and the options. The grammar of a schema that is known to have arguments
(``plain_schemas``) is built when the tool's name has been chosen.
Every other schema is compiled at once, so a refused one is found before the model runs.
"""

from __future__ import annotations

import itertools
import keyword
import marshal
import re
import threading
from collections.abc import Hashable, Mapping
from typing import Any

from state_machines.argument_notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
)
from state_machines.argument_notations.plain_schemas import PlainSchema, plain_schema
from state_machines.budgets import uncharged
from state_machines.caches import WeakValueLruCache
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import release
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine

_USERS_BETWEEN_RELEASES = 64
"""Machines with the same arguments after which the states of earlier texts are released."""

_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_.:/@+ -]*")
"""Texts that the words and names of a plain schema may contain."""

_serial_numbers = itertools.count()


class SharedArguments:
    """The arguments of one schema in one notation. Thread-safe.

    Args:
        notation: The notation.
        schema: The schema. It must not change.
        options: Its options.
        plain: What is known of the schema if it needs no check; ``None`` compiles it at once.

    Raises:
        SchemaError: As for :meth:`Notation.compile`.
    """

    def __init__(
        self,
        notation: Notation,
        schema: Schema,
        options: NotationOptions,
        plain: PlainSchema | None,
    ) -> None:
        self._notation = notation
        self._schema = schema
        self._options = options
        self._lock = threading.RLock()
        self._compiled: CompiledArguments | None = None
        self._users = 0
        self.left_out: tuple[UnsupportedSchemaError, ...] = ()
        """Why optional properties are left out; none of a plain schema is."""
        if plain is None:
            self.left_out = self.compiled.left_out
            self._machine = StateMachine(self.compiled.node)
            return
        empty = notation.write({})
        node = reference(
            ("Arguments", next(_serial_numbers)),
            lambda: self.compiled.node,
            nullable=not empty and not plain.has_members,
            min_length=max(1, len(empty) + sum(len(name) + 1 for name in plain.required)),
            is_deferred=True,
        )
        self._machine = StateMachine(node)

    @property
    def compiled(self) -> CompiledArguments:
        """The arguments, compiled on first use."""
        if self._compiled is None:
            # The compilation is that of all who share the arguments, so no budget of one of them
            # pays for it.
            with self._lock, uncharged():
                if self._compiled is None:
                    compile_ = self._notation.compile_checked
                    self._compiled = compile_(self._schema, self._options)
        return self._compiled

    def machine(self) -> StateMachine:
        """Return the machine of the arguments, for one more machine that contains them."""
        self._users += 1
        if self._users % _USERS_BETWEEN_RELEASES == 0 and self._compiled is not None:
            release((self._compiled.node,))
        return self._machine


_SHARED: WeakValueLruCache[Hashable, SharedArguments] = WeakValueLruCache(LIMITS.shared_arguments)


def shared_arguments(
    notation: Notation, schema: Schema, options: Mapping[str, Any]
) -> SharedArguments:
    """Return the compiled arguments of a schema; equal schemas with equal options share them.

    Args:
        notation: The notation.
        schema: A JSON Schema.
        options: The fields of :class:`NotationOptions`.

    Raises:
        SchemaError: As for :meth:`Notation.compile`.
        CompositionError: An option is unknown or has a wrong value.
    """
    checked = notation.checked(options)
    key = _key(notation, schema, checked)
    if key is None:
        return SharedArguments(notation, schema, checked, None)

    def make() -> SharedArguments:
        # A copy, because the caller may change the schema.
        copied = marshal.loads(key[0])
        plain = plain_schema(copied)
        if plain is not None and not can_write(notation, plain, checked):
            plain = None
        return SharedArguments(notation, copied, checked, plain)

    return _SHARED.get(key, make)


def _key(notation: Notation, schema: Schema, options: NotationOptions) -> tuple[Any, ...] | None:
    """Return the key of arguments; ``None`` if only a single request can use them."""
    own = options.registry, options.sources, options.excluding, options.input
    if any(own) or options.registry is not None or options.input is not None:
        return None
    try:
        # Of this version, equal texts have equal forms, and members keep their order.
        text = marshal.dumps(schema, 2)  # type: ignore[arg-type]
    except ValueError:
        # The schema has values that are no JSON, or is nested too deeply.
        return None
    return (
        text,
        notation,
        tuple(options.avoid),
        options.spell if notation.is_spelled else None,
        options.whitespace,
        options.property_order,
        options.additional_properties,
        options.assert_formats,
        options.strict,
        options.closes_arrays,
    )


def can_write(notation: Notation, plain: PlainSchema, options: NotationOptions) -> bool:
    """Whether a notation can certainly write the properties of a plain schema."""
    return (
        notation.writes_plain
        and not options.strict
        and not any(text and _PLAIN_TEXT.fullmatch(text) for text in options.avoid)
        and all(
            notation.plain_names.fullmatch(name) and not keyword.iskeyword(name)
            for name in plain.names
        )
    )
