"""Keywords that constrain a value without applying another schema.

Section numbers are those of JSON Schema Validation 2020-12 if no other document is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import repetition, symbols
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.object_shape import (
    Absent,
    Clause,
    ObjectShape,
    Present,
    shape_of_clauses,
)
from state_machines.json_schema.algebra.terms import FALSE, TRUE, Term, TermTable, TextsOf
from state_machines.json_schema.algebra.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    NO_VALUE,
    ValueSet,
    constant,
    constants,
    disjoin,
    is_encodable,
    restrict_one_type,
)
from state_machines.json_schema.reader.context import Context, schema_term
from state_machines.json_schema.reader.document import SchemaLocation
from state_machines.quotes import SUBSTRING_UNIT, UNITS
from state_machines.reader_languages.formats import format_language
from state_machines.reader_languages.numbers.intervals import Interval, exact
from state_machines.reader_languages.numbers.number_sets import INTEGERS, NumberSet
from state_machines.reader_languages.table import reader_language
from state_machines.regex import compile_pattern

DEPENDENCY_STEPS = 16
"""Steps charged for a dependency of one property."""

FEW_DEPENDENCIES = 3
"""Entries of ``dependentRequired`` up to which each becomes a disjunction; more become clauses."""

VALUES_BY_TYPE: dict[str, ValueSet] = {
    "null": ValueSet(null=True),
    "boolean": ValueSet(booleans=ANY_VALUE.booleans),
    "number": ValueSet(numbers=ANY_VALUE.numbers),
    "integer": ValueSet(numbers=INTEGERS),
    "string": ValueSet(strings=ANY_TEXT),
    "array": ValueSet(arrays=ANY_VALUE.arrays),
    "object": ValueSet(objects=ANY_VALUE.objects),
}

_CHARACTER = symbols(ANY_CODE_POINT)


def type_(_: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``type``: the value has one of the named types (6.1.1).

    OpenAPI 3.0: ``nullable: true`` adds null to the types. The other adjacent keywords apply to
    null as to every value, so an ``enum`` has to list it.
    """
    names = value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str) or name not in VALUES_BY_TYPE:
            hint = f"The types are {', '.join(sorted(VALUES_BY_TYPE))}"
            raise location.error(f"{name!r} is not a type", "type", hint=hint)
    if not names:
        raise location.error("type is an empty array", "type", hint="Name at least one type")
    if admits_null(location):
        names = [*names, "null"]
    return disjoin(VALUES_BY_TYPE[n] for n in names) if names[1:] else VALUES_BY_TYPE[names[0]]


def admits_null(location: SchemaLocation) -> bool:
    """Whether a schema adds null to its ``type`` by ``nullable``."""
    return location.dialect.nullable and location.schema.get("nullable") is True


def enum(context: Context, _: SchemaLocation, value: Any) -> ValueSet:
    """``enum``: the value equals one of the listed values (6.1.2)."""
    return constants(value, context.terms)


def const(context: Context, _: SchemaLocation, value: Any) -> ValueSet:
    """``const``: the value equals the given value (6.1.3)."""
    return constant(value, context.terms)


def _number(location: SchemaLocation, keyword: str, value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise location.error(f"{keyword} is not a number", keyword)
    return exact(value)


def _bound_keyword(
    keyword: str, make: Callable[[Fraction, bool], Interval], draft_4: str = ""
) -> Callable[[Context, SchemaLocation, Any], ValueSet]:
    """Return the reader of a bound on numbers.

    Args:
        keyword: The keyword.
        make: Returns the interval of a bound, given whether the bound itself is excluded.
        draft_4: The keyword whose Boolean excludes the bound in draft 4; none if the keyword itself
            excludes it.
    """

    def read(_: Context, location: SchemaLocation, value: Any) -> ValueSet:
        dialect = location.dialect
        if not draft_4 and isinstance(value, bool):
            return _boolean_bound(location, keyword, value)
        bound, is_open = _number(location, keyword, value), not draft_4
        if draft_4 and dialect.boolean_exclusive:
            is_open = location.schema.get(draft_4, False)
            if not isinstance(is_open, bool) and not dialect.numeric_exclusive:
                raise location.error(
                    f"{draft_4} is not a Boolean",
                    draft_4,
                    hint="Draft 4 has a Boolean here; name a later draft in $schema for a number",
                )
            # A number is a bound on its own.
            is_open = is_open is True
        return restrict_one_type(NumberSet.of((make(bound, is_open),)))

    read.__doc__ = f"``{keyword}`` (6.2)."
    return read


def _boolean_bound(location: SchemaLocation, keyword: str, value: bool) -> ValueSet:
    """Check a Boolean ``exclusiveMinimum`` or ``exclusiveMaximum``, which ``minimum`` reads."""
    if not location.dialect.boolean_exclusive:
        raise location.error(
            f"{keyword} is not a number",
            keyword,
            hint="Draft 4 and OpenAPI 3.0 have Booleans here; name draft 4 in $schema, or leave "
            "$schema out",
        )
    limit = "minimum" if keyword == "exclusiveMinimum" else "maximum"
    if value and limit not in location.schema:
        raise location.error(f"{keyword} is true, and there is no {limit}", keyword)
    return ANY_VALUE


def _from(bound: Fraction, is_open: bool) -> Interval:
    return Interval(low=bound, low_open=is_open)


def _up_to(bound: Fraction, is_open: bool) -> Interval:
    return Interval(high=bound, high_open=is_open)


minimum = _bound_keyword("minimum", _from, "exclusiveMinimum")
maximum = _bound_keyword("maximum", _up_to, "exclusiveMaximum")
exclusive_minimum = _bound_keyword("exclusiveMinimum", _from)
exclusive_maximum = _bound_keyword("exclusiveMaximum", _up_to)


def multiple_of(_: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``multipleOf`` (6.2.1), exact for decimal fractions."""
    step = _number(location, "multipleOf", value)
    if step <= 0:
        raise location.error("multipleOf is not greater than 0", "multipleOf")
    return restrict_one_type(NumberSet.of((Interval(step=step),)))


def non_negative_integer(location: SchemaLocation, keyword: str, value: Any) -> int:
    """Return the value of a keyword that is a non-negative integer; ``2.0`` is one.

    Raises:
        InvalidSchemaError: The value is not a non-negative integer.
    """
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or value < 0:
        raise location.error(f"{keyword} is not a non-negative integer", keyword)
    return int(value)


def _count_keyword(
    keyword: str, make: Callable[[int], Node | ArrayShape | ObjectShape]
) -> Callable[[Context, SchemaLocation, Any], ValueSet]:
    """Return the reader of a keyword whose value is a count."""

    def read(_: Context, location: SchemaLocation, value: Any) -> ValueSet:
        return restrict_one_type(make(non_negative_integer(location, keyword, value)))

    read.__doc__ = f"``{keyword}`` (6.3 to 6.5)."
    return read


min_length = _count_keyword("minLength", lambda n: repetition(_CHARACTER, n, None))
max_length = _count_keyword("maxLength", lambda n: repetition(_CHARACTER, 0, n))
min_items = _count_keyword("minItems", lambda n: ArrayShape(min_items=n))
max_items = _count_keyword("maxItems", lambda n: ArrayShape(max_items=n))
min_properties = _count_keyword("minProperties", lambda n: ObjectShape(min_members=n))
max_properties = _count_keyword("maxProperties", lambda n: ObjectShape(max_members=n))


def unique_items(_: Context, __: SchemaLocation, value: Any) -> ValueSet:
    """``uniqueItems``: no two items are equal as JSON values (6.4.3)."""
    return restrict_one_type(ArrayShape(unique=value))


def pattern(_: Context, __: SchemaLocation, value: Any) -> ValueSet:
    """``pattern``: the regular expression matches somewhere in the string (6.3.3)."""
    return restrict_one_type(compile_pattern(value, search=True))


def format_(_: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``format``: the string has the format (7).

    An unknown format constrains nothing, or is an error if the dialect requires formats to be
    asserted (7.2.3).
    """
    language = format_language(value, location.dialect.name)
    if language is None and location.dialect.asserts_formats:
        raise UnsupportedSchemaError(
            f"the format {value!r} is not known",
            keyword="format",
            hint="The metaschema requires formats to be asserted; remove the unknown format",
        )
    return ANY_VALUE if language is None else restrict_one_type(language)


def substring_of(context: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``x-substring-of``: the string is a quote from a source, and not empty."""
    unit = location.schema.get(SUBSTRING_UNIT, UNITS[0])
    if unit not in UNITS:
        raise location.error(
            f"{SUBSTRING_UNIT} is not one of {', '.join(map(repr, UNITS))}", SUBSTRING_UNIT
        )
    return restrict_one_type(context.sources.quotes(value, unit))


def reader_language_(context: Context, location: SchemaLocation, value: Any) -> ValueSet | Term:
    """``x-reader-language``: the string is one that a type's validator reads.

    In the language ``json`` it contains JSON of the adjacent ``contentSchema``.
    """
    if value != {"language": "json"}:
        return restrict_one_type(reader_language(value))
    content = location.child(location.schema.get("contentSchema", True), "contentSchema")
    return TextsOf(schema_term(context, content))


def string_list(location: SchemaLocation, keyword: str, value: Any) -> list[str]:
    """Return the value of a keyword that is an array of strings.

    Raises:
        InvalidSchemaError: The value is not an array of strings.
    """
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise location.error(f"{keyword} is not an array of strings", keyword)
    return value


def required(_: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``required``: an object has these properties (6.5.3)."""
    return require_properties(dict.fromkeys(string_list(location, "required", value)))


def dependent_required(context: Context, location: SchemaLocation, value: Any) -> Term:
    """``dependentRequired``: an object with a property has certain other properties (6.5.4)."""
    dependencies = {
        name: string_list(location, "dependentRequired", names) for name, names in value.items()
    }
    if len(dependencies) > FEW_DEPENDENCIES:
        # Clauses, because the product of the disjunctions would have too many shapes.
        return context.terms.evaluated(
            restrict_one_type(_dependency_clauses(dependencies, context.terms))
        )
    return context.terms.all_of(
        context.terms.any_of(
            (
                context.terms.evaluated(forbid_property(name)),
                context.terms.evaluated(require_properties(names)),
            )
        )
        for name, names in dependencies.items()
    )


def _dependency_clauses(dependencies: Mapping[str, Sequence[str]], table: TermTable) -> ObjectShape:
    """Return the objects in which each property of a mapping implies further properties."""
    listed: dict[str, None] = {}
    clauses: list[Clause] = []
    for name, names in dependencies.items():
        spend(DEPENDENCY_STEPS + len(names))
        if not names or not is_encodable(name):
            continue
        listed[name] = None
        if not all(map(is_encodable, names)):
            clauses.append((Absent(name),))
            continue
        listed.update(dict.fromkeys(names))
        clauses.extend((Absent(name), Present(other, TRUE)) for other in names if other != name)
    return shape_of_clauses(listed, clauses, table)


def require_properties(names: Iterable[str]) -> ValueSet:
    """Return all values except objects that lack any of the properties."""
    required_names = tuple(names)
    if not all(map(is_encodable, required_names)):
        return replace(ANY_VALUE, objects=())
    return restrict_one_type(ObjectShape(required=required_names))


def forbid_property(name: str) -> ValueSet:
    """Return all values except objects that have the property."""
    if not is_encodable(name):
        return ANY_VALUE
    return restrict_one_type(ObjectShape(properties={name: FALSE}))


def objects_with_property(name: str) -> ValueSet:
    """Return the objects that have the property."""
    if not is_encodable(name):
        return NO_VALUE
    return ValueSet(objects=(ObjectShape(required=(name,)),))
