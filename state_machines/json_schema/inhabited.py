"""Whether an array or object of a given shape exists, given which terms have values."""

from __future__ import annotations

from collections.abc import Callable

from state_machines.errors import UnsupportedSchemaError
from state_machines.json_schema.array_shape import ArrayShape
from state_machines.json_schema.demands import can_all_be_met
from state_machines.json_schema.item_steps import ItemSteps
from state_machines.json_schema.names import count_words, listed_names, name_cells
from state_machines.json_schema.object_shape import ObjectShape
from state_machines.json_schema.terms import Term, TermTable

__all__ = ["array_is_inhabited", "object_is_inhabited"]

MAX_SOME = 10

_Ask = Callable[[Term], bool]


def array_is_inhabited(shape: ArrayShape, table: TermTable, ask: _Ask) -> bool:
    """Whether some array has the shape; ``ask`` tells whether a term has a value."""
    if shape.is_contradictory:
        return False
    if shape.counted:
        steps = ItemSteps(shape, table)
        return steps.can_finish(steps.start, ask)
    if any(not ask(shape.item(index)) for index in range(min(shape.least, len(shape.prefix)))):
        return False
    return shape.least <= len(shape.prefix) or ask(shape.rest)


def object_is_inhabited(shape: ObjectShape, table: TermTable, ask: _Ask) -> bool:
    """Whether some object has the shape; ``ask`` tells whether a term has a value."""
    if shape.is_contradictory:
        return False
    if any(not ask(shape.value_of(name, table)) for name in shape.required):
        return False
    if shape.some and shape.most is not None:
        raise UnsupportedSchemaError(
            "a bound on the number of properties together with a property that must fail a "
            "schema is not enforced",
            keyword="maxProperties",
        )
    if len(shape.some) > MAX_SOME:
        raise UnsupportedSchemaError(
            f"more than {MAX_SOME} properties that must each fail a schema", keyword="not"
        )
    if shape.some:
        listed = [(name, shape.value_of(name, table)) for name in listed_names(shape)]
        cells = [(cell.names, cell.term) for cell in name_cells(shape, table)]
        if not can_all_be_met(shape.some, listed, cells, table, ask):
            return False
    if shape.least <= len(shape.required):
        return True
    available = sum(ask(shape.value_of(name, table)) for name in listed_names(shape))
    for cell in name_cells(shape, table):
        if available < shape.least and ask(cell.term):
            available += count_words(cell.names, shape.least - available)
    return available >= shape.least
