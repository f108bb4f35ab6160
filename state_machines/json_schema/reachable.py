"""Looks at everything that some answer could come to, so that errors come before any answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from state_machines.budgets import spend
from state_machines.errors import GrammarBudgetError, SchemaError, UnsupportedSchemaError
from state_machines.grammar.boolean import intersection
from state_machines.grammar.words import contains_word
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.arrays.cardinality import check_distinct
from state_machines.json_schema.arrays.item_steps import ItemSteps
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.objects.clauses import Matching, Present
from state_machines.json_schema.objects.names import listed_names, name_cells
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import (
    Conjunction,
    Disjunction,
    Negation,
    SchemaRef,
    Term,
    TermTable,
)
from state_machines.limits import LIMITS

__all__ = ["check_reachable", "located_at"]

FEW_CLAIMS = 4
"""Terms of which every two are looked at together."""

_MULTIPLYING = (
    *("patternProperties", "contains", "uniqueItems", "oneOf", "anyOf", "allOf", "not", "if"),
    *("dependencies", "dependentSchemas", "dependentRequired", "unevaluatedProperties"),
    *("unevaluatedItems", "additionalProperties", "propertyNames", "enum", "pattern"),
)
"""Keywords that take much work, the likelier ones first."""


def check_reachable(root: Term, evaluator: TermEvaluator) -> None:
    """Evaluate every set of values under a term, and ask whether it is empty.

    Raises :class:`~state_machines.errors.SchemaError` for whatever is wrong with one of them.
    """
    seen = {root}
    stack: list[tuple[Term, SchemaLocation | None]] = [(root, None)]
    while stack:
        term, above = stack.pop()
        spend()
        with located_at(term, above):
            children = _looked_into(term, evaluator)
        place = next(_places(term), above)
        stack.extend((child, place) for child in children if child not in seen)
        seen.update(children)
        with located_at(term, above):
            if len(seen) > LIMITS.schema_terms:
                raise UnsupportedSchemaError(
                    f"more than {LIMITS.schema_terms} different sets of values"
                )
        # What a schema of names says of other types must be well-formed, too.
        for names in evaluator.take_read_for_strings():
            with located_at(names, place):
                evaluator.values(names)


class located_at:
    """Say of errors that know no place that they are at the places of a term, or above it."""

    __slots__ = ("_above", "_term")

    def __init__(self, term: Term, above: SchemaLocation | None = None) -> None:
        self._term = term
        self._above = above

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        match error:
            case GrammarBudgetError():
                found = UnsupportedSchemaError(error.what, hint=error.hint)
                raise _located(found, self._term, self._above) from error
            case RecursionError():
                deep = UnsupportedSchemaError("the schema is nested too deeply")
                raise _located(deep, self._term, self._above) from error
            case SchemaError() if not error.is_located:
                raise _located(error, self._term, self._above) from error


def _located(error: SchemaError, term: Term, above: SchemaLocation | None) -> SchemaError:
    places = list(_places(term))
    if above is not None:
        places.append(above)
    for keyword in _MULTIPLYING if error.keyword is None else (error.keyword,):
        for place in places:
            if keyword in place.schema:
                return error.located(place.at(keyword), keyword)
    if not places:
        return error.located("", None)
    return error.located(places[0].pointer, places[0].keyword)


def _places(term: Term) -> Iterator[SchemaLocation]:
    """Yield the places that a term is made of, outer ones first."""
    layer: dict[Term, None] = {term: None}
    seen: set[Term] = set()
    while layer:
        seen |= layer.keys()
        below: list[Term] = []
        for each in layer:
            match each:
                case SchemaRef(place):
                    yield place
                case Conjunction(parts) | Disjunction(parts):
                    below.extend(parts)
                case Negation(part):
                    below.append(part)
        layer = dict.fromkeys(each for each in below if each not in seen)


def _looked_into(term: Term, evaluator: TermEvaluator) -> dict[Term, None]:
    """Return the terms of what the values of a term hold, in an order that is always the same."""
    values, table = evaluator.values(term), evaluator.table
    children: dict[Term, None] = {}
    for array in values.arrays:
        check_distinct(array, evaluator)
        children.update(dict.fromkeys(ItemSteps(array, table).terms()))
    for shape in values.objects:
        children.update(dict.fromkeys(_member_terms(shape, table)))
    shapes: tuple[ArrayShape | ObjectShape, ...] = (*values.arrays, *values.objects)
    for either in shapes:
        evaluator.shape_is_inhabited(either)
    return children


def _member_terms(shape: ObjectShape, table: TermTable) -> Iterator[Term]:
    """Yield the terms of a shape's members, also of those that answer clauses."""
    present: dict[str, dict[Term, None]] = {}
    matching: dict[Matching, None] = {}
    for clause in shape.clauses:
        for condition in clause:
            match condition:
                case Present(name, term):
                    present.setdefault(name, {})[term] = None
                case Matching():
                    matching[condition] = None
    for name in listed_names(shape):
        spend(1 + len(matching) // 8)
        asked = dict(present.get(name, {}))
        asked.update((c.term, None) for c in matching if contains_word(c.names, name))
        yield from _claimed(shape.value_of(name, table), asked, table)
    for cell in name_cells(shape, table):
        among = (c.term for c in matching if not intersection((cell.names, c.names)).is_empty)
        yield from _claimed(cell.term, among, table)


def _claimed(term: Term, asked: Iterable[Term], table: TermTable) -> Iterator[Term]:
    yield term
    claims = dict.fromkeys(asked)
    for claim in claims:
        yield table.all_of((term, claim))
    if len(claims) <= FEW_CLAIMS:
        for pair in combinations(claims, 2):
            yield table.all_of((term, *pair))
    if claims:
        yield table.all_of((term, *claims))
