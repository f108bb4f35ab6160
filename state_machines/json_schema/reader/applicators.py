"""Keywords that apply other schemas, to the value itself or to its members and items.

Section numbers are those of JSON Schema Core 2020-12 if no other document is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from state_machines.budgets import spend
from state_machines.grammar.boolean import complement
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.algebra.array_shape import ArrayShape, Counted
from state_machines.json_schema.algebra.object_shape import NameRule, ObjectShape
from state_machines.json_schema.algebra.terms import FALSE, TRUE, ExactlyOne, NamedBy, Term
from state_machines.json_schema.algebra.value_sets import (
    ANY_VALUE,
    ValueSet,
    is_encodable,
    restrict_one_type,
)
from state_machines.json_schema.reader.assertions import (
    DEPENDENCY_STEPS,
    non_negative_integer,
    objects_with_property,
    require_properties,
    string_list,
)
from state_machines.json_schema.reader.context import Context, schema_term
from state_machines.json_schema.reader.document import SchemaLocation
from state_machines.regex import compile_pattern


def _subschemas(location: SchemaLocation, keyword: str, value: Any) -> Iterator[SchemaLocation]:
    if not value:
        raise location.error(f"{keyword} is an empty array", keyword)
    for index, schema in enumerate(value):
        yield location.child(schema, keyword, index)


def _named_subschemas(
    location: SchemaLocation, keyword: str, value: Any
) -> Iterator[tuple[str, SchemaLocation]]:
    for name, schema in value.items():
        yield name, location.child(schema, keyword, name)


def _terms(context: Context, locations: Iterable[SchemaLocation]) -> list[Term]:
    return [schema_term(context, location) for location in locations]


def _reference(keyword: str) -> Callable[[Context, SchemaLocation, Any], Term]:
    """Return the reader of a keyword that holds a reference."""

    def read(context: Context, location: SchemaLocation, _: Any) -> Term:
        return schema_term(context, location.document.resolve(location, keyword))

    read.__doc__ = f"``{keyword}``: the value satisfies the referenced schema."
    return read


ref = _reference("$ref")  # 8.2.3.1
dynamic_ref = _reference("$dynamicRef")  # 8.2.3.2
recursive_ref = _reference("$recursiveRef")  # 2019-09 core, 8.2.4.2


def all_of(context: Context, location: SchemaLocation, value: Any) -> Term:
    """``allOf``: the value satisfies all schemas (10.2.1.1)."""
    return context.terms.all_of(_terms(context, _subschemas(location, "allOf", value)))


def any_of(context: Context, location: SchemaLocation, value: Any) -> Term:
    """``anyOf``: the value satisfies at least one schema (10.2.1.2)."""
    return context.terms.any_of(_terms(context, _subschemas(location, "anyOf", value)))


def one_of(context: Context, location: SchemaLocation, value: Any) -> Term:
    """``oneOf``: the value satisfies exactly one schema (10.2.1.3).

    The adjacent ``required`` can make alternatives disjoint: it makes a property a discriminator.
    """
    terms = _terms(context, _subschemas(location, "oneOf", value))
    within = TRUE
    if "required" in location.schema:
        kept = ("type", "nullable", "properties", "required")
        adjacent = {name: location.schema[name] for name in kept if name in location.schema}
        within = schema_term(context, location.child(adjacent))
    return ExactlyOne(tuple(terms), within)


def not_(context: Context, location: SchemaLocation, value: Any) -> Term:
    """``not``: the value does not satisfy the schema (10.2.1.4)."""
    return context.terms.negation(schema_term(context, location.child(value, "not")))


def if_(context: Context, location: SchemaLocation, value: Any) -> Term:
    """``if`` with the adjacent ``then`` and ``else`` (10.2.2)."""
    schema = location.schema
    condition = schema_term(context, location.child(value, "if"))
    then, otherwise = (
        schema_term(context, location.child(schema[keyword], keyword))
        if keyword in schema
        else TRUE
        for keyword in ("then", "else")
    )
    return context.terms.conditional(condition, then, otherwise)


def _dependency(keyword: str) -> Callable[[Context, SchemaLocation, Any], Term]:
    """Return the reader of a keyword by which a property implies a schema or other properties."""

    def read(context: Context, location: SchemaLocation, value: Any) -> Term:
        parts = []
        for name, needed in value.items():
            spend(DEPENDENCY_STEPS)
            if keyword == "dependencies" and isinstance(needed, list):
                names = string_list(location, keyword, needed)
                then = context.terms.evaluated(require_properties(names))
            else:
                then = schema_term(context, location.child(needed, keyword, name))
            condition = context.terms.evaluated(objects_with_property(name))
            parts.append(context.terms.conditional(condition, then, TRUE))
        return context.terms.all_of(parts)

    read.__doc__ = f"``{keyword}``: an object with a property satisfies a schema."
    return read


dependent_schemas = _dependency("dependentSchemas")  # 10.2.2.4
dependencies = _dependency("dependencies")  # draft 7 validation, 6.5.7


def properties(context: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``properties``: the values of the named properties (10.3.2.1)."""
    terms = {
        name: schema_term(context, child)
        for name, child in _named_subschemas(location, "properties", value)
        if is_encodable(name)
    }
    shape = ObjectShape(properties=terms, order=tuple(terms), lists_names=True)
    return restrict_one_type(shape)


def _name_patterns(location: SchemaLocation) -> dict[str, Node]:
    patterns = location.keyword_value("patternProperties", dict) or {}
    return {pattern: compile_pattern(pattern, search=True) for pattern in patterns}


def pattern_properties(context: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``patternProperties``: the values of properties whose names match (10.3.2.2)."""
    patterns = _name_patterns(location)
    terms = {
        pattern: schema_term(context, child)
        for pattern, child in _named_subschemas(location, "patternProperties", value)
    }
    rules = (NameRule(patterns[name], term) for name, term in terms.items() if term is not TRUE)
    return restrict_one_type(ObjectShape(name_rules=tuple(rules), limits_others=True))


def additional_properties(context: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``additionalProperties``: the values of all other properties (10.3.2.3).

    The adjacent ``properties`` and ``patternProperties`` apply to the rest.
    """
    term = schema_term(context, location.child(value, "additionalProperties"))
    if term is TRUE:
        return restrict_one_type(ObjectShape(limits_others=True))
    names = location.keyword_value("properties", dict) or {}
    listed = {name: TRUE for name in names if is_encodable(name)}
    others = complement(union(_name_patterns(location).values()), ANY_CODE_POINT)
    rules = (NameRule(others, term),)
    return restrict_one_type(ObjectShape(listed, rules, limits_others=True))


def property_names(context: Context, location: SchemaLocation, value: Any) -> Term:
    """``propertyNames``: the names of all properties satisfy the schema (10.3.2.4).

    Names are strings, so only keywords for strings are read. The schema may therefore contain this
    ``propertyNames`` itself.
    """
    return NamedBy(schema_term(context, location.child(value, "propertyNames")))


def prefix_items(context: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``prefixItems``: the first items, one schema each (10.3.1.1).

    The specification asks for a non-empty array. Generators write an empty one for empty tuples.
    """
    children = (location.child(schema, "prefixItems", index) for index, schema in enumerate(value))
    terms = _terms(context, children)
    is_open = location.schema.keys().isdisjoint(("items", "unevaluatedItems", "contains"))
    return restrict_one_type(ArrayShape(prefix=tuple(terms), lists_items=is_open))


def items(context: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``items``: all items after those of the adjacent ``prefixItems`` (10.3.1.2).

    Where no draft is named, an array is read as up to 2019-09.
    """
    if isinstance(value, list):
        if not location.dialect.array_items:
            raise location.error(
                "items is an array",
                "items",
                hint="2020-12 has prefixItems for tuples, and items for the rest; name an earlier "
                "draft in $schema or leave $schema out",
            )
        if "prefixItems" in location.schema:
            raise location.error(
                "items is an array beside prefixItems", "items", hint="Leave one of them out"
            )
        return items_or_tuple(context, location, value)
    prefix = location.keyword_value("prefixItems", list) or []
    term = schema_term(context, location.child(value, "items"))
    return restrict_one_type(_array((TRUE,) * len(prefix), term))


def items_or_tuple(context: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``items`` up to 2019-09: one schema for all items, or an array of schemas (draft 7, 6.4.1).

    An array applies to the first items, and the adjacent ``additionalItems`` to the others.
    """
    if not isinstance(value, list):
        return restrict_one_type(_array((), schema_term(context, location.child(value, "items"))))
    prefix = tuple(
        schema_term(context, location.child(schema, "items", index))
        for index, schema in enumerate(value)
    )
    rest = TRUE
    if "additionalItems" in location.schema:
        additional = location.schema["additionalItems"]
        rest = schema_term(context, location.child(additional, "additionalItems"))
    return restrict_one_type(_array(prefix, rest))


def _array(prefix: tuple[Term, ...], rest: Term) -> ArrayShape:
    max_items = len(prefix) if rest is FALSE else None
    return ArrayShape(prefix=prefix, rest=rest, max_items=max_items)


def contains(context: Context, location: SchemaLocation, value: Any) -> ValueSet:
    """``contains`` with the adjacent ``minContains`` and ``maxContains`` (10.3.1.3)."""
    term = schema_term(context, location.child(value, "contains"))
    min_count, max_count = 1, None
    if location.dialect.counts_contained:
        schema = location.schema
        if "minContains" in schema:
            min_count = non_negative_integer(location, "minContains", schema["minContains"])
        if "maxContains" in schema:
            max_count = non_negative_integer(location, "maxContains", schema["maxContains"])
    if max_count is None and min_count == 0:
        return ANY_VALUE
    counted = Counted(term, min_count=min_count, max_count=max_count)
    return restrict_one_type(ArrayShape(counted=(counted,)))
