"""Whether an array or object of a given shape exists, given which terms have values."""

from __future__ import annotations

from collections.abc import Callable

from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.arrays.item_steps import ItemSteps
from state_machines.json_schema.objects.clause_solver import Domain, find_assignment
from state_machines.json_schema.objects.names import listed_names, name_cells
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term, TermTable

__all__ = ["array_is_inhabited", "object_is_inhabited"]

_Ask = Callable[[Term], bool]


def array_is_inhabited(shape: ArrayShape, table: TermTable, ask: _Ask) -> bool:
    """Whether some array has the shape; ``ask`` tells whether a term has a value."""
    if shape.is_contradictory:
        return False
    if shape.counted:
        steps = ItemSteps(shape, table)
        return steps.can_finish(steps.start, ask)
    if any(not ask(shape.item(index)) for index in range(min(shape.min_items, len(shape.prefix)))):
        return False
    return shape.min_items <= len(shape.prefix) or ask(shape.rest)


def object_is_inhabited(shape: ObjectShape, table: TermTable, ask: _Ask) -> bool:
    """Whether some object has the shape; ``ask`` tells whether a term has a value."""
    if shape.is_contradictory:
        return False
    if any(not ask(shape.value_of(name, table)) for name in shape.required):
        return False
    if not shape.clauses and shape.min_members <= len(shape.required):
        return True
    listed = {name: shape.value_of(name, table) for name in listed_names(shape)}
    cells = name_cells(shape, table)
    domain = Domain(listed, shape.required, cells, shape.min_members, shape.max_members)
    return find_assignment(shape.clauses, domain, table, ask) is not None
