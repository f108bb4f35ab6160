"""Looks at everything that some answer could come to, so that errors come before any answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from state_machines.errors import GrammarBudgetError, SchemaError, UnsupportedSchemaError
from state_machines.grammar.boolean import intersection
from state_machines.json_schema.array_shape import ArrayShape
from state_machines.json_schema.cardinality import check_distinct
from state_machines.json_schema.conditions import Condition, Matching, Present
from state_machines.json_schema.document import Place
from state_machines.json_schema.item_steps import ItemSteps
from state_machines.json_schema.names import listed_names, name_cells
from state_machines.json_schema.normal_form import Normaliser
from state_machines.json_schema.object_shape import ObjectShape, word_in
from state_machines.json_schema.terms import (
    Conjunction,
    Disjunction,
    Located,
    Negation,
    Term,
    TermTable,
)

__all__ = ["check_reachable"]

MAX_TERMS = 50_000
"""Different sets of values that a schema may come to."""


def check_reachable(root: Term, normaliser: Normaliser) -> None:
    """Evaluate every set of values under a term, and ask whether it is empty.

    Raises :class:`~state_machines.errors.SchemaError` for whatever is wrong with one of them.
    """
    seen = {root}
    stack: list[tuple[Term, Place | None]] = [(root, None)]
    while stack:
        term, above = stack.pop()
        with _located(term, above):
            children = _looked_into(term, normaliser)
        place = next(_places(term), above)
        stack.extend((child, place) for child in children - seen)
        seen |= children
        if len(seen) > MAX_TERMS:
            raise _located_at(
                UnsupportedSchemaError(f"more than {MAX_TERMS} different sets of values"), place
            )
        # What a schema of names says of other types must be well-formed, too.
        for names in normaliser.take_read_for_strings():
            with _located(names, place):
                normaliser.values(names)


@contextmanager
def _located(term: Term, above: Place | None) -> Iterator[None]:
    """Say of errors that know no place that they are at the places of a term, or above it."""
    try:
        yield
    except GrammarBudgetError as error:
        found = UnsupportedSchemaError(error.what, hint=error.hint)
        raise _located_at(found, next(_places(term), above)) from error
    except SchemaError as error:
        if error.is_located:
            raise
        places = tuple(_places(term)) or (above,)
        speaking = (it for it in places if it is not None and error.keyword in it.schema)
        raise _located_at(error, next(speaking, places[0])) from error


def _located_at(error: SchemaError, place: Place | None) -> SchemaError:
    if place is None:
        return error.located("", None)
    if error.keyword is not None and error.keyword in place.schema:
        return error.located(place.at(error.keyword), None)
    return error.located(place.pointer, place.keyword)


def _places(term: Term) -> Iterator[Place]:
    """Yield the places that a term is made of, outer ones first."""
    layer = [term]
    while layer:
        below: list[Term] = []
        for each in layer:
            match each:
                case Located(place):
                    yield place
                case Conjunction(parts) | Disjunction(parts):
                    below.extend(parts)
                case Negation(part):
                    below.append(part)
        layer = below


def _looked_into(term: Term, normaliser: Normaliser) -> set[Term]:
    """Return the terms of what the values of a term hold."""
    values, table = normaliser.values(term), normaliser.table
    children: set[Term] = set()
    for array in values.arrays:
        check_distinct(array, normaliser)
        children.update(ItemSteps(array, table).terms())
    for shape in values.objects:
        children.update(_member_terms(shape, table))
    shapes: tuple[ArrayShape | ObjectShape, ...] = (*values.arrays, *values.objects)
    for either in shapes:
        normaliser.shape_is_inhabited(either)
    return children


def _member_terms(shape: ObjectShape, table: TermTable) -> Iterator[Term]:
    """Yield the terms of a shape's members, also of those that answer clauses."""
    for name in listed_names(shape):
        asked = (
            condition.term
            for condition in _conditions(shape)
            if (isinstance(condition, Present) and condition.name == name)
            or (isinstance(condition, Matching) and word_in(condition.names, name))
        )
        yield from _claimed(shape.value_of(name, table), asked, table)
    for cell in name_cells(shape, table):
        asked = (
            condition.term
            for condition in _conditions(shape)
            if isinstance(condition, Matching)
            and not intersection((cell.names, condition.names)).is_empty
        )
        yield from _claimed(cell.term, asked, table)


def _conditions(shape: ObjectShape) -> Iterator[Condition]:
    return (condition for clause in shape.clauses for condition in clause)


def _claimed(term: Term, asked: Iterable[Term], table: TermTable) -> Iterator[Term]:
    yield term
    claims = dict.fromkeys(asked)
    for claim in claims:
        yield table.all_of((term, claim))
    if claims:
        yield table.all_of((term, *claims))
