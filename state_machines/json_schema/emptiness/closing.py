"""The values that are generated: with ``additional_properties="closed"``, objects are closed.

An object then gets only properties that a schema lists, unless that would leave no value. It
applies to the head normal form of a whole conjunction, since an object may have the properties that
any of its parts lists.
"""

from __future__ import annotations

from dataclasses import replace

from state_machines.json_schema.algebra.object_shape import ObjectShape
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.algebra.value_sets import ValueSet
from state_machines.json_schema.emptiness.evaluation import (
    admitted,
    is_inhabited,
    shape_is_inhabited,
    solve_emptiness,
)
from state_machines.json_schema.reader.context import Context


def generated(context: Context, term: Term) -> ValueSet:
    """Return the values of a term that are generated, closed if the options say so.

    Raises:
        SchemaError: A schema is malformed or unsupported, or applies itself to the same value.
    """
    if context.options.additional_properties == "schema":
        return admitted(context, term)
    known = context.known.generated.get(term)
    if known is None:
        known = context.known.generated[term] = _closed_values(context, admitted(context, term))
    return known


def _closed_values(context: Context, values: ValueSet) -> ValueSet:
    objects = tuple(dict.fromkeys(_closed_shape(context, shape) for shape in values.objects))
    arrays = values.arrays
    if context.options.closes_arrays:
        arrays = tuple(dict.fromkeys(shape.closed() for shape in arrays))
    return replace(values, arrays=arrays, objects=objects)


def _closed_shape(context: Context, shape: ObjectShape) -> ObjectShape:
    """Return a closed shape if it still has finite objects.

    Required members are the same in both shapes. Further members, up to the least number, may be
    recursive: the recursion may end only in objects with names that no schema lists.
    """
    closed = shape.closed(context.terms)
    if closed is shape or not shape_is_inhabited(context, closed):
        return shape
    needs_more = closed.min_members > len(closed.required)
    if needs_more and not is_inhabited(context, closed, lambda t: _has_closed_value(context, t)):
        return shape
    return closed


def _has_closed_value(context: Context, term: Term) -> bool:
    """Return whether a term has a value if all objects below are closed."""

    def closed_values(inner: Term) -> ValueSet:
        values = admitted(context, inner)
        return replace(values, objects=tuple(s.closed(context.terms) for s in values.objects))

    known = context.known.is_empty_closed
    if term not in known:
        known[term] = solve_emptiness(context, term, closed_values, known)
    return not known[term]
