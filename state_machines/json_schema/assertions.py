"""Keywords that assert something about the value itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import repetition, symbols
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.constants import constant, constants, is_encodable
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.formats import format_language
from state_machines.json_schema.numbers.intervals import Interval
from state_machines.json_schema.numbers.number_sets import (
    INTEGERS,
    PLAIN_INTEGERS,
    NumberSet,
    exact,
)
from state_machines.json_schema.objects.clauses import Absent, Clause, Present
from state_machines.json_schema.objects.object_shape import ObjectShape, shape_of_clauses
from state_machines.json_schema.terms import FALSE, TRUE, Term
from state_machines.json_schema.value_sets import ANY_TEXT, ANY_VALUE, NO_VALUE, ValueSet, disjoin
from state_machines.regex import compile_pattern

__all__ = [
    "const",
    "count",
    "dependent_required",
    "enum",
    "exclusive_maximum",
    "exclusive_minimum",
    "format_",
    "lacking",
    "max_items",
    "max_length",
    "max_properties",
    "maximum",
    "min_items",
    "min_length",
    "min_properties",
    "minimum",
    "multiple_of",
    "names_in",
    "objects_with",
    "pattern",
    "required",
    "requiring",
    "restrict_one_type",
    "type_",
    "unique_items",
]

FEW_DEPENDENCIES = 3
"""Dependencies that are taken as alternatives; more are clauses."""

_TYPES: dict[str, ValueSet] = {
    "null": ValueSet(null=True),
    "boolean": ValueSet(booleans=ANY_VALUE.booleans),
    "number": ValueSet(numbers=ANY_VALUE.numbers),
    "integer": ValueSet(numbers=INTEGERS),
    "string": ValueSet(strings=ANY_TEXT),
    "array": ValueSet(arrays=ANY_VALUE.arrays),
    "object": ValueSet(objects=ANY_VALUE.objects),
}

_PLAIN_INTEGER = ValueSet(numbers=PLAIN_INTEGERS)


def restrict_one_type(
    *,
    numbers: NumberSet | None = None,
    strings: Node | None = None,
    array: ArrayShape | None = None,
    shape: ObjectShape | None = None,
) -> ValueSet:
    """Return every value, with the values of one type restricted."""
    return ValueSet(
        null=True,
        booleans=ANY_VALUE.booleans,
        numbers=ANY_VALUE.numbers if numbers is None else numbers,
        strings=ANY_TEXT if strings is None else strings,
        arrays=ANY_VALUE.arrays if array is None else (array,),
        objects=ANY_VALUE.objects if shape is None else (shape,),
    )


def type_(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``type``: one of the named types (validation, 6.1.1)."""
    del evaluator
    names = value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str) or name not in _TYPES:
            raise location.error(
                f"{name!r} is not a type", "type", hint=f"Types are {', '.join(sorted(_TYPES))}"
            )
    if not names:
        raise location.error("type lists no type", "type")
    types = {**_TYPES, "integer": _PLAIN_INTEGER} if location.dialect.plain_integers else _TYPES
    return types[names[0]] if len(names) == 1 else disjoin(types[name] for name in names)


def enum(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``enum``: equal to one of the listed values (validation, 6.1.2)."""
    if not isinstance(value, list):
        raise location.error("enum is not an array", "enum")
    return constants(value, evaluator.table)


def const(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``const``: equal to the value (validation, 6.1.3)."""
    del location
    return constant(value, evaluator.table)


def _number(location: SchemaLocation, keyword: str, value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise location.error(f"{keyword} is not a number", keyword)
    return exact(value)


def _exclusive_beside(location: SchemaLocation, keyword: str) -> bool:
    if not location.dialect.boolean_exclusive:
        return False
    value = location.schema.get(keyword, False)
    if not isinstance(value, bool):
        raise location.error(f"{keyword} is not a Boolean", keyword, hint="In draft 4 it is one")
    return value


def minimum(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``minimum`` (validation, 6.2.4); in draft 4 ``exclusiveMinimum`` beside it is a Boolean."""
    del evaluator
    low = _number(location, "minimum", value)
    is_open = _exclusive_beside(location, "exclusiveMinimum")
    return restrict_one_type(numbers=NumberSet.of((Interval(low=low, low_open=is_open),)))


def maximum(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``maximum`` (validation, 6.2.2); in draft 4 ``exclusiveMaximum`` beside it is a Boolean."""
    del evaluator
    high = _number(location, "maximum", value)
    is_open = _exclusive_beside(location, "exclusiveMaximum")
    return restrict_one_type(numbers=NumberSet.of((Interval(high=high, high_open=is_open),)))


def exclusive_minimum(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``exclusiveMinimum`` (validation, 6.2.5)."""
    del evaluator
    low = _number(location, "exclusiveMinimum", value)
    return restrict_one_type(numbers=NumberSet.of((Interval(low=low, low_open=True),)))


def exclusive_maximum(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``exclusiveMaximum`` (validation, 6.2.3)."""
    del evaluator
    high = _number(location, "exclusiveMaximum", value)
    return restrict_one_type(numbers=NumberSet.of((Interval(high=high, high_open=True),)))


def multiple_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``multipleOf`` (validation, 6.2.1): exact, also for decimals."""
    del evaluator
    step = _number(location, "multipleOf", value)
    if step <= 0:
        raise location.error("multipleOf is not greater than 0", "multipleOf")
    return restrict_one_type(numbers=NumberSet.of((Interval(step=step),)))


def count(location: SchemaLocation, keyword: str, value: Any) -> int:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or value < 0:
        raise location.error(f"{keyword} is not a non-negative integer", keyword)
    return int(value)


def _bound(
    keyword: str, make: Callable[[int], ValueSet]
) -> Callable[[SchemaLocation, Any, TermEvaluator], ValueSet]:
    """Return the function of a keyword whose value is a count."""

    def read(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
        del evaluator
        return make(count(location, keyword, value))

    read.__doc__ = f"``{keyword}`` (validation, 6.3 to 6.5)."
    return read


_CHARACTER = symbols(ANY_CODE_POINT)

min_length = _bound(
    "minLength", lambda n: restrict_one_type(strings=repetition(_CHARACTER, n, None))
)
max_length = _bound("maxLength", lambda n: restrict_one_type(strings=repetition(_CHARACTER, 0, n)))
min_items = _bound("minItems", lambda n: restrict_one_type(array=ArrayShape(min_items=n)))
max_items = _bound("maxItems", lambda n: restrict_one_type(array=ArrayShape(max_items=n)))
min_properties = _bound(
    "minProperties", lambda n: restrict_one_type(shape=ObjectShape(min_members=n))
)
max_properties = _bound(
    "maxProperties", lambda n: restrict_one_type(shape=ObjectShape(max_members=n))
)


def unique_items(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``uniqueItems``: no two items are equal as JSON (validation, 6.4.3)."""
    del evaluator
    if not isinstance(value, bool):
        raise location.error("uniqueItems is not a Boolean", "uniqueItems")
    return restrict_one_type(array=ArrayShape(unique=value))


def pattern(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``pattern``: the expression matches somewhere in the string (validation, 6.3.3)."""
    del evaluator
    if not isinstance(value, str):
        raise location.error("pattern is not a string", "pattern")
    return restrict_one_type(strings=compile_pattern(value, search=True))


def format_(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``format``: the string is of the format; unknown ones assert nothing (validation, 7).

    Where the dialect itself says that formats are asserted, unknown ones are errors (2020-12
    validation, 7.2.3).
    """
    del evaluator
    if not isinstance(value, str):
        raise location.error("format is not a string", "format")
    language = format_language(value, location.dialect.name)
    if language is None and location.dialect.asserts_formats:
        raise UnsupportedSchemaError(f"the format {value!r} is not known", keyword="format")
    return restrict_one_type(strings=language)


def names_in(location: SchemaLocation, keyword: str, value: Any) -> list[str]:
    """Return the value of a keyword that is an array of strings."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise location.error(f"{keyword} is not an array of strings", keyword)
    return value


def required(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``required``: these properties are there (validation, 6.5.3)."""
    del evaluator
    return requiring(dict.fromkeys(names_in(location, "required", value)))


def dependent_required(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``dependentRequired``: who has this property has those too (validation, 6.5.4)."""
    if not isinstance(value, dict):
        raise location.error("dependentRequired is not an object", "dependentRequired")
    table = evaluator.table
    if len(value) > FEW_DEPENDENCIES:
        # As alternatives, they would multiply out.
        needed = {n: required(location, names, evaluator) for n, names in value.items()}
        pairs = [(n, other) for n, v in needed.items() for other in v.objects[0].required]
        clauses: list[Clause] = [
            (Absent(n), Present(other, TRUE)) for n, other in pairs if n != other
        ]
        listed = (name for pair in pairs for name in pair)
        return table.evaluated(restrict_one_type(shape=shape_of_clauses(listed, clauses, table)))
    return table.all_of(
        table.any_of(
            (
                table.evaluated(lacking(name)),
                table.evaluated(requiring(names_in(location, "dependentRequired", names))),
            )
        )
        for name, names in value.items()
    )


def requiring(names: Iterable[str]) -> ValueSet:
    """Return the values that are no object without one of the names."""
    required_names = tuple(names)
    if not all(map(is_encodable, required_names)):
        return replace(ANY_VALUE, objects=())
    return restrict_one_type(shape=ObjectShape(required=required_names))


def lacking(name: str) -> ValueSet:
    """Return the values that are no object with a property of that name."""
    if not is_encodable(name):
        return ANY_VALUE
    return restrict_one_type(shape=ObjectShape(properties={name: FALSE}))


def objects_with(name: str) -> ValueSet:
    """Return the objects that have a property of that name."""
    if not is_encodable(name):
        return NO_VALUE
    return ValueSet(objects=(ObjectShape(required=(name,)),))
