"""Unions of object shapes as one shape with clauses, so that conjunctions need not multiply out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from state_machines.json_schema.objects.conditions import Absent, Clause, Condition, Present
from state_machines.json_schema.objects.object_shape import ObjectShape, shape_of_clauses
from state_machines.json_schema.terms import TRUE, TermTable

__all__ = ["as_one_shape"]


def as_one_shape(shapes: Sequence[ObjectShape], table: TermTable, most: int) -> ObjectShape | None:
    """Return the union of shapes as one shape with at most ``most`` clauses, if it can be one.

    By distribution: each clause of the result joins one clause of every shape. Shapes that say
    something of properties they do not list, or of how many there are, are no clauses.
    """
    if any(shape.others or shape.least or shape.most is not None for shape in shapes):
        return None
    forms = [_clauses(shape) for shape in shapes]
    if prod(map(len, forms)) > most:
        return None
    joined = (dict.fromkeys(c for clause in way for c in clause) for way in product(*forms))
    clauses = tuple(dict.fromkeys(tuple(clause) for clause in joined if not _holds(clause)))
    names = dict.fromkeys(name for shape in shapes for name in (*shape.properties, *shape.required))
    order = tuple(dict.fromkeys(name for shape in shapes for name in shape.order))
    return replace(shape_of_clauses(names, clauses, table), order=order)


def _clauses(shape: ObjectShape) -> list[Clause]:
    clauses: list[Clause] = []
    for name in shape.required:
        clauses.append((Present(name, shape.properties.get(name, TRUE)),))
    for name, term in shape.properties.items():
        if term is not TRUE and name not in shape.required:
            clauses.append((Absent(name), Present(name, term)))
    return [*clauses, *shape.clauses]


def _holds(clause: Mapping[Condition, None]) -> bool:
    return any(isinstance(c, Absent) and Present(c.name, TRUE) in clause for c in clause)
