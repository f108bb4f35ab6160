"""JSON constants as value sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from state_machines.budgets import spend
from state_machines.grammar.words import word_language
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.numbers.number_sets import exact, points
from state_machines.json_schema.objects.object_shape import NameRule, ObjectShape
from state_machines.json_schema.terms import FALSE, Term, TermTable
from state_machines.json_schema.value_sets import ANY_TEXT, NO_VALUE, ValueSet, disjoin

VALUES_PER_CHARGE = 64
"""Constants between two charges."""

CHARACTERS_PER_STEP = 8
"""Characters of a string for which trie vertices are made in one step."""


def is_encodable(text: str) -> bool:
    """Return whether UTF-8 can encode a string: it has no lone surrogate.

    Strings that cannot be encoded are never generated.
    """
    spend(len(text) // CHARACTERS_PER_STEP)
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def constants(values: Iterable[Any], table: TermTable) -> ValueSet:
    """Return the set of some JSON values, by JSON equality: ``1`` and ``1.0`` are equal."""
    strings: list[str] = []
    numbers: list[Fraction] = []
    others: list[ValueSet] = []
    for count, value in enumerate(values):
        if not count % VALUES_PER_CHARGE:
            spend(VALUES_PER_CHARGE)
        if isinstance(value, str):
            if is_encodable(value):
                strings.append(value)
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            numbers.append(exact(value))
        else:
            others.append(constant(value, table))
    return disjoin((ValueSet(strings=word_language(strings), numbers=points(numbers)), *others))


def constant(value: Any, table: TermTable) -> ValueSet:
    """Return the set of one JSON value.

    Raises:
        TypeError: The value is not a JSON value.
    """
    match value:
        case None:
            return ValueSet(null=True)
        case bool():
            return ValueSet(booleans=frozenset({value}))
        case int() | float() | Decimal():
            return ValueSet(numbers=points((exact(value),)))
        case str():
            return ValueSet(strings=word_language((value,))) if is_encodable(value) else NO_VALUE
        case list():
            items = tuple(_term(item, table) for item in value)
            length = len(items)
            return ValueSet(arrays=(ArrayShape(items, FALSE, min_items=length, max_items=length),))
        case dict() if not all(map(is_encodable, value)):
            return NO_VALUE
        case dict():
            properties = {name: _term(item, table) for name, item in value.items()}
            nothing_else = (NameRule(ANY_TEXT, FALSE),)
            names = tuple(properties)
            shape = ObjectShape(properties, nothing_else, required=names, order=names)
            return ValueSet(objects=(shape,))
    raise TypeError(f"not a JSON value: {value!r}")


def without_scalars(values: ValueSet, excluded: Iterable[Any]) -> ValueSet:
    """Return a value set without some nulls, Booleans and numbers; other constants are ignored."""
    known = list(excluded)
    flags = [value for value in known if isinstance(value, bool)]
    numbers = [
        exact(value)
        for value in known
        if isinstance(value, int | Decimal) and not isinstance(value, bool)
    ]
    return replace(
        values,
        null=values.null and None not in known,
        booleans=values.booleans.difference(flags),
        numbers=values.numbers & ~points(numbers) if numbers else values.numbers,
    )


def _term(value: Any, table: TermTable) -> Term:
    return table.evaluated(constant(value, table))
