"""Decides which terms are empty, by a least fixed point over the terms of required parts.

A term is inhabited if it contains a scalar, or an array or object all of whose required parts are
inhabited. Values are finite, so a recursive term is inhabited only if the recursion can end.
"""

from __future__ import annotations

from collections.abc import Callable

from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.arrays.item_steps import ItemSteps
from state_machines.json_schema.objects.clause_solver import Domain, find_assignment
from state_machines.json_schema.objects.names import listed_names, name_cells
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term, TermTable
from state_machines.json_schema.value_sets import ValueSet

_IsInhabited = Callable[[Term], bool]


def array_is_inhabited(shape: ArrayShape, table: TermTable, is_inhabited: _IsInhabited) -> bool:
    """Return whether some array has the shape, given which terms are inhabited."""
    if shape.is_contradictory:
        return False
    if shape.counted:
        steps = ItemSteps(shape, table)
        return steps.can_finish(steps.start, is_inhabited)
    required = range(min(shape.min_items, len(shape.prefix)))
    if any(not is_inhabited(shape.item(index)) for index in required):
        return False
    return shape.min_items <= len(shape.prefix) or is_inhabited(shape.rest)


def object_is_inhabited(shape: ObjectShape, table: TermTable, is_inhabited: _IsInhabited) -> bool:
    """Return whether some object has the shape, given which terms are inhabited."""
    if shape.is_contradictory:
        return False
    if any(not is_inhabited(shape.value_of(name, table)) for name in shape.required):
        return False
    if not shape.clauses and shape.min_members <= len(shape.required):
        return True
    listed = {name: shape.value_of(name, table) for name in listed_names(shape)}
    cells = name_cells(shape, table)
    domain = Domain(listed, shape.required, cells, shape.min_members, shape.max_members)
    return find_assignment(shape.clauses, domain, table, is_inhabited) is not None


class _UnknownTermError(Exception):
    """The result depends on a term that has not been visited."""

    def __init__(self, term: Term) -> None:
        self.term = term


def solve_emptiness(
    start: Term,
    known: dict[Term, bool],
    values_of: Callable[[Term], ValueSet],
    table: TermTable,
) -> bool:
    """Return whether a term is empty, and add all results found to ``known``.

    Least fixed point: a term on the stack counts as empty. If it turns out inhabited, the terms
    that were decided on that assumption are decided again.

    Args:
        start: The term.
        known: The emptiness of terms decided before.
        values_of: Returns the head normal form of a term.
        table: Builds the terms of members and items.
    """
    stack = [start]
    on_stack = {start}
    dependants: dict[Term, dict[Term, None]] = {}
    assumed_empty: set[Term] = set()

    def is_inhabited(term: Term) -> bool:
        is_empty = known.get(term)
        if is_empty is not None:
            return not is_empty
        if term not in on_stack and term not in assumed_empty:
            raise _UnknownTermError(term)
        dependants.setdefault(term, {})[stack[-1]] = None
        return False

    while stack:
        term = stack[-1]
        try:
            has_value = _has_value(values_of(term), table, is_inhabited)
        except _UnknownTermError as unknown:
            stack.append(unknown.term)
            on_stack.add(unknown.term)
            continue
        stack.pop()
        on_stack.discard(term)
        if not has_value:
            assumed_empty.add(term)
            continue
        known[term] = False
        if term is start:
            return False
        again = [each for each in dependants.pop(term, {}) if each in assumed_empty]
        assumed_empty.difference_update(again)
        stack.extend(again)
        on_stack.update(again)
    for term in assumed_empty:
        known[term] = True
    return True


def _has_value(values: ValueSet, table: TermTable, is_inhabited: _IsInhabited) -> bool:
    return (
        values.has_scalar
        or any(array_is_inhabited(shape, table, is_inhabited) for shape in values.arrays)
        or any(object_is_inhabited(shape, table, is_inhabited) for shape in values.objects)
    )
