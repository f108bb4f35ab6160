"""Head normal forms: sets of JSON values, by type.

Each assertion of JSON Schema applies to one type, so a set of values consists of six independent
parts, one for each type. The sets of scalars are closed under the Boolean operations. Arrays and
objects are unions of *shapes*; the members and items of a shape are unevaluated terms. A JSON
constant is such a set, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial, reduce
from itertools import chain
from operator import and_
from typing import Any, TypeVar, cast

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError, has_surrogate
from state_machines.grammar.boolean import complement, everything, intersection
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.text_languages import word_language
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.object_shape import (
    NO_OTHER_NAMES,
    ObjectShape,
    union_as_clauses,
)
from state_machines.json_schema.algebra.terms import FALSE, Evaluated, Term, TermTable
from state_machines.limits import LIMITS
from state_machines.reader_languages.numbers.intervals import exact
from state_machines.reader_languages.numbers.number_sets import (
    ALL_NUMBERS,
    NO_NUMBERS,
    NumberSet,
    points,
)

_TYPE_ALTERNATIVES = 1024
"""Alternatives of one JSON type in the normal form of a schema."""

ANY_TEXT = everything(ANY_CODE_POINT)

VALUES_PER_STEP = 4
"""Constants of an ``enum`` that are sorted by their types in one step."""

MEMBERS_PER_STEP = 8
"""Members of an object or items of an array that are copied in one step."""

PART_STEPS = 4
"""Steps charged for an item or a member of a constant."""

CHARACTERS_PER_STEP = 8
"""Characters of a string that are encoded in one step."""

MANY_SHAPES = 32
"""Object shapes of a product above which a factor is converted to one shape with clauses."""

_BOTH = frozenset({True, False})


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A set of JSON values.

    Attributes:
        null: Whether ``null`` is in the set.
        booleans: The Booleans.
        numbers: The numbers.
        strings: The strings, as a language of code points.
        arrays: The shapes whose union is the arrays.
        objects: The shapes whose union is the objects.
    """

    null: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: NumberSet = NO_NUMBERS
    strings: Node = EMPTY
    arrays: tuple[ArrayShape, ...] = ()
    objects: tuple[ObjectShape, ...] = ()

    @property
    def has_scalar(self) -> bool:
        """Whether the set contains a null, Boolean, number or string."""
        return (
            self.null
            or bool(self.booleans)
            or not self.numbers.is_empty
            or not self.strings.is_empty
        )

    @property
    def is_nothing(self) -> bool:
        """Whether the set has no scalar and no shape; a set with shapes may be empty, too."""
        return not self.arrays and not self.objects and not self.has_scalar


NO_VALUE = ValueSet()
ANY_VALUE = ValueSet(True, _BOTH, ALL_NUMBERS, ANY_TEXT, (ArrayShape(),), (ObjectShape(),))

T = TypeVar("T")
_Shape = TypeVar("_Shape", ArrayShape, ObjectShape)


def conjoin(left: ValueSet, right: ValueSet, table: TermTable) -> ValueSet:
    """Return the intersection of two sets."""
    if left is ANY_VALUE:
        return right
    if right is ANY_VALUE:
        return left
    spend(1 + (len(left.numbers.exceptions) + len(right.numbers.exceptions)) // 2)

    return ValueSet(
        left.null and right.null,
        _common(left.booleans, right.booleans, ANY_VALUE.booleans, and_),
        _common(left.numbers, right.numbers, ANY_VALUE.numbers, and_),
        _common(left.strings, right.strings, ANY_TEXT, lambda a, b: intersection((a, b))),
        _common(left.arrays, right.arrays, ANY_VALUE.arrays, partial(_products, table=table)),
        _common(
            left.objects, right.objects, ANY_VALUE.objects, partial(_object_products, table=table)
        ),
    )


def _common(left: T, right: T, every: T, intersect: Callable[[T, T], T]) -> T:
    """Return the intersection of the parts for one type; most of them are the whole type."""
    if left is right or right is every:
        return left
    return right if left is every else intersect(left, right)


def disjoin(parts: Iterable[ValueSet]) -> ValueSet:
    """Return the union of sets.

    Raises:
        UnsupportedSchemaError: The union has too many shapes.
    """
    sets: list[ValueSet] = []
    arrays: dict[ArrayShape, None] = {}
    objects: dict[ObjectShape, None] = {}
    for values in parts:
        sets.append(values)
        arrays.update(dict.fromkeys(values.arrays))
        objects.update(dict.fromkeys(values.objects))
        _check_count(max(len(arrays), len(objects)))
    return ValueSet(
        any(values.null for values in sets),
        NO_VALUE.booleans.union(*(values.booleans for values in sets)),
        NumberSet.union(values.numbers for values in sets),
        union(values.strings for values in sets),
        _simplified(arrays),
        _simplified(objects),
    )


def _simplified(shapes: Iterable[_Shape]) -> tuple[_Shape, ...]:
    """Return different shapes; only an unconstrained shape, since it contains all shapes."""
    distinct = tuple(shapes)
    return next(((shape,) for shape in distinct if shape.is_unconstrained), distinct)


def negate(values: ValueSet, table: TermTable) -> ValueSet:
    """Return the complement of a set.

    Raises:
        UnsupportedSchemaError: The complement has too many shapes.
    """
    arrays: tuple[ArrayShape, ...] = (ArrayShape(),)
    for array in values.arrays:
        arrays = _products(arrays, array.complement(table), table)
    objects: tuple[ObjectShape, ...] = (ObjectShape(),)
    for shape in values.objects:
        objects = _object_products(objects, shape.complement(table), table)
    return ValueSet(
        null=not values.null,
        booleans=_BOTH - values.booleans,
        numbers=~values.numbers,
        strings=complement(values.strings, ANY_CODE_POINT),
        arrays=arrays,
        objects=objects,
    )


def conjoin_evaluated(
    included: Sequence[Evaluated], excluded: Sequence[Evaluated], table: TermTable
) -> Term | None:
    """Return the values in all of ``included`` and none of ``excluded``.

    Returns:
        ``None`` if the result could have more shapes than the arguments.
    """
    inside = [value_set(term) for term in included]
    if any(len(values.arrays) > 1 or len(values.objects) > 1 for values in inside):
        return None
    result = reduce(lambda a, b: conjoin(a, b, table), inside)
    if excluded and (result.arrays or result.objects):
        return None
    for term in excluded:
        scalars = replace(value_set(term), arrays=(), objects=())
        result = conjoin(result, negate(scalars, table), table)
    return FALSE if result.is_nothing else table.evaluated(result)


def value_set(term: Evaluated) -> ValueSet:
    """Return the head normal form of an evaluated term."""
    return cast("ValueSet", term.values)


def _object_products(
    left: tuple[ObjectShape, ...], right: tuple[ObjectShape, ...], table: TermTable
) -> tuple[ObjectShape, ...]:
    """Return the intersection of two unions; large products are avoided by clauses."""
    if len(left) * len(right) > MANY_SHAPES:
        right = _as_one(right, table)
        if len(right) > 1:
            left = _as_one(left, table)
    return _products(left, right, table)


def _as_one(shapes: tuple[ObjectShape, ...], table: TermTable) -> tuple[ObjectShape, ...]:
    shape = union_as_clauses(shapes, table, LIMITS.union_clauses)
    return shapes if shape is None else (shape,)


def _products(
    left: tuple[_Shape, ...], right: tuple[_Shape, ...], table: TermTable
) -> tuple[_Shape, ...]:
    """Return the intersection of two unions by distribution, without contradictory shapes.

    A shape in both unions contains all its products, so it is not multiplied.
    """
    if len(left) == 1 == len(right):
        spend()
        only = left[0].conjoin(right[0], table)
        return () if only.is_contradictory else (only,)
    shapes = {a: None for a in left if a in right} if len(left) > 1 < len(right) else {}
    for a in left:
        if a in shapes:
            continue
        for b in right:
            if b in shapes:
                continue
            spend()
            shape = a.conjoin(b, table)
            if not shape.is_contradictory:
                shapes[shape] = None
                _check_count(len(shapes))
    return _simplified(shapes)


def _check_count(count: int) -> None:
    if count > _TYPE_ALTERNATIVES:
        raise UnsupportedSchemaError(
            f"one type has more than {_TYPE_ALTERNATIVES:,} alternatives in this schema",
            hint="Nest fewer allOf, anyOf, oneOf and not",
        )


def restrict_one_type(values: NumberSet | Node | ArrayShape | ObjectShape) -> ValueSet:
    """Return all values, with the values of one type restricted; a node restricts strings."""
    match values:
        case NumberSet():
            return replace(ANY_VALUE, numbers=values)
        case ArrayShape():
            return replace(ANY_VALUE, arrays=(values,))
        case ObjectShape():
            return replace(ANY_VALUE, objects=(values,))
    return replace(ANY_VALUE, strings=values)


def is_encodable(text: str) -> bool:
    """Return whether UTF-8 can encode a string: it has no lone surrogate.

    Strings that cannot be encoded are never generated.
    """
    spend(0 if text.isascii() else len(text) // CHARACTERS_PER_STEP)
    return not has_surrogate(text)


def is_json_value(value: Any) -> bool:
    """Return whether JSON can write a value: numbers are finite, and names are strings."""
    match value:
        case None | bool() | str() | int():
            return True
        case float():
            return math.isfinite(value)
        case Decimal():
            return value.is_finite()
        case list():
            return all(map(is_json_value, value))
        case dict():
            has_names = all(isinstance(name, str) for name in value)
            return has_names and all(map(is_json_value, value.values()))
    return False


def interning_key(value: Any) -> object:
    """Return a key that is equal for equal values with equal member order and number types."""
    kind = type(value)
    if kind is str:
        return value
    if kind is dict:
        return id(value), None
    if kind is list:
        spend(len(value) // MEMBERS_PER_STEP)
        return tuple(map(interning_key, value))
    return kind, value


def constants(values: Iterable[Any], table: TermTable) -> ValueSet:
    """Return the set of some JSON values, by JSON equality: ``1`` and ``1.0`` are equal.

    Raises:
        UnsupportedSchemaError: There are too many different arrays or objects. No others are read.
    """
    strings: list[str] = []
    numbers: list[Fraction] = []
    others: list[Any] = []
    for count, value in enumerate(values):
        if not count % VALUES_PER_STEP:
            spend()
        if isinstance(value, str):
            if is_encodable(value):
                strings.append(value)
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            numbers.append(exact(value))
        else:
            others.append(value)
    scalars = ValueSet(strings=word_language(strings), numbers=points(numbers))
    return disjoin(chain((scalars,), _different_constants(others, table)))


def _different_constants(values: Iterable[Any], table: TermTable) -> Iterator[ValueSet]:
    seen: set[object] = set()
    for value in values:
        key = interning_key(value)
        if key not in seen:
            seen.add(key)
            yield constant(value, table)


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
            names = tuple(properties)
            shape = ObjectShape(properties, NO_OTHER_NAMES, required=names, order=names)
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
    spend(PART_STEPS)
    return table.evaluated(constant(value, table))
