"""The state of a compilation that the floors share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import local

from state_machines.grammar.node import EMPTY, Node
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.object_shape import ObjectShape
from state_machines.json_schema.algebra.terms import FALSE, TRUE, Term, TermTable
from state_machines.json_schema.algebra.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    NO_VALUE,
    ValueSet,
    conjoin_evaluated,
)
from state_machines.json_schema.reader.dialects import SchemaOptions
from state_machines.json_schema.reader.document import SchemaLocation
from state_machines.quotes import QuoteSources


class _ThreadState(local):
    """What this thread is evaluating.

    Attributes:
        query_depth: The number of nested emptiness queries.
        values: The terms that are being evaluated, each with the query depth at its start.
        strings: The terms whose strings are being evaluated, likewise.
        read_for_strings: The terms that were read for their strings alone.
    """

    def __init__(self) -> None:
        self.query_depth = 0
        self.values: dict[Term, int] = {}
        self.strings: dict[Term, int] = {}
        self.read_for_strings: list[Term] = []


class Known:
    """The results about the terms of a compilation.

    Safe to use from several threads: machines are shared, and terms are evaluated lazily. No lock
    is held during an evaluation; threads share finished results. Two threads that need the same
    term at the same time may both evaluate it.

    Attributes:
        schema_terms: The terms of schemas, by :attr:`SchemaLocation.key`.
        values: Head normal forms.
        generated: The values that are generated.
        strings: The strings of terms, as languages of code points.
        is_empty: Which terms are empty.
        is_empty_closed: The same if all objects below are closed.
        inhabited: Which shapes have an array or object.
        thread: What this thread is evaluating.
    """

    def __init__(self) -> None:
        self.schema_terms: dict[object, Term] = {}
        self.values: dict[Term, ValueSet] = {TRUE: ANY_VALUE, FALSE: NO_VALUE}
        self.generated: dict[Term, ValueSet] = {}
        self.strings: dict[Term, Node] = {TRUE: ANY_TEXT, FALSE: EMPTY}
        self.is_empty: dict[Term, bool] = {TRUE: False, FALSE: True}
        self.is_empty_closed = self.is_empty.copy()
        self.inhabited: dict[ArrayShape | ObjectShape, bool] = {}
        self.thread = _ThreadState()


@dataclass(frozen=True, eq=False, slots=True)
class Context:
    """The state of a compilation that the floors share.

    Attributes:
        options: How schemas are read.
        sources: The texts that strings are quoted from.
        scalar_values: Returns the values of a schema that constrains only scalars, else ``None``.
        json_texts: Returns the JSON texts of a term's values, as a language of code points.
        plain_integers: Whether the reader of the result reads ``1.0`` as no integer (draft 4).
        terms: Builds the terms.
        known: The results about them.
    """

    options: SchemaOptions
    sources: QuoteSources
    scalar_values: Callable[[Context, SchemaLocation], ValueSet | None]
    json_texts: Callable[[Context, Term], Node]
    plain_integers: bool
    terms: TermTable = field(default_factory=lambda: TermTable(conjoin_evaluated), init=False)
    known: Known = field(default_factory=Known, init=False)

    def without_terms(self) -> Context:
        """Return a context that knows no term, and closes no objects."""
        is_open = replace(self.options, additional_properties="schema")
        return Context(is_open, self.sources, self.scalar_values, self.json_texts, False)


def schema_term(context: Context, location: SchemaLocation) -> Term:
    """Return the term of a schema: of several equal locations the first.

    Boolean schemas are constants. Schemas that constrain only scalars are evaluated at once, so
    schemas that admit the same scalars are one term.
    """
    if location.schema is True or (location.schema == {} and not location.ignored):
        return TRUE
    if location.schema is False:
        return FALSE
    key = location.key
    term = context.known.schema_terms.get(key)
    if term is None:
        values = context.scalar_values(context, location)
        term = location if values is None else context.terms.evaluated(values)
        term = context.known.schema_terms.setdefault(key, term)
    return term
