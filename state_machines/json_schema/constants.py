"""Single JSON values as sets of values."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from state_machines.json_schema.array_shape import ArrayShape
from state_machines.json_schema.numbers import exact, points
from state_machines.json_schema.object_shape import NameRule, ObjectShape, names_language
from state_machines.json_schema.terms import FALSE, Term, TermTable
from state_machines.json_schema.values import ANY_TEXT, Values, disjoin

__all__ = ["constant", "constants"]


def constants(values: Iterable[Any], table: TermTable) -> Values:
    """Return the set of the given JSON values, by JSON equality: ``1`` and ``1.0`` are one."""
    strings: list[str] = []
    numbers: list[Fraction] = []
    others: list[Values] = []
    for value in values:
        if isinstance(value, str):
            strings.append(value)
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            numbers.append(exact(value))
        else:
            others.append(constant(value, table))
    return disjoin((Values(strings=names_language(strings), numbers=points(numbers)), *others))


def constant(value: Any, table: TermTable) -> Values:
    """Return the set of one JSON value."""
    match value:
        case None:
            return Values(null=True)
        case bool():
            return Values(booleans=frozenset({value}))
        case int() | float() | Decimal():
            return Values(numbers=points((exact(value),)))
        case str():
            return Values(strings=names_language((value,)))
        case list():
            items = tuple(_term(item, table) for item in value)
            shape = ArrayShape(items, FALSE, least=len(items), most=len(items))
            return Values(arrays=(shape,))
        case dict():
            properties = {name: _term(item, table) for name, item in value.items()}
            nothing_else = (NameRule(ANY_TEXT, FALSE),)
            return Values(
                objects=(ObjectShape(properties, nothing_else, required=tuple(properties)),)
            )
    raise TypeError(f"not a JSON value: {value!r}")


def _term(value: Any, table: TermTable) -> Term:
    return table.given(constant(value, table))
