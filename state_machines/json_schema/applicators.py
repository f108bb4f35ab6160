"""Keywords that apply other schemas, to the value itself or to its members and items.

Section numbers are those of JSON Schema Core 2020-12 if no other document is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from state_machines.grammar.boolean import complement
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.arrays.array_shape import ArrayShape, Counted
from state_machines.json_schema.assertions import (
    non_negative_integer,
    objects_with_property,
    require_properties,
    restrict_one_type,
    string_list,
)
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.exactly_one import in_exactly_one
from state_machines.json_schema.objects.object_shape import NameRule, ObjectShape
from state_machines.json_schema.terms import FALSE, TRUE, Term
from state_machines.json_schema.value_sets import ANY_TEXT, ValueSet, is_encodable
from state_machines.regex import compile_pattern


def _subschemas(location: SchemaLocation, keyword: str, value: Any) -> Iterator[SchemaLocation]:
    if not isinstance(value, list) or not value:
        raise location.error(f"{keyword} is not a non-empty array of schemas", keyword)
    for index, schema in enumerate(value):
        yield location.child(schema, keyword, index)


def _named_subschemas(
    location: SchemaLocation, keyword: str, value: Any
) -> Iterator[tuple[str, SchemaLocation]]:
    if not isinstance(value, dict):
        raise location.error(f"{keyword} is not an object of schemas", keyword)
    for name, schema in value.items():
        yield name, location.child(schema, keyword, name)


def _terms(locations: Iterable[SchemaLocation], evaluator: TermEvaluator) -> list[Term]:
    return [evaluator.schema_ref(location) for location in locations]


def _reference(keyword: str) -> Callable[[SchemaLocation, Any, TermEvaluator], Term]:
    """Return the reader of a keyword that holds a reference."""

    def read(location: SchemaLocation, _: Any, evaluator: TermEvaluator) -> Term:
        return evaluator.schema_ref(location.document.resolve(location, keyword))

    read.__doc__ = f"``{keyword}``: the value satisfies the referenced schema."
    return read


ref = _reference("$ref")  # 8.2.3.1
dynamic_ref = _reference("$dynamicRef")  # 8.2.3.2
recursive_ref = _reference("$recursiveRef")  # 2019-09 core, 8.2.4.2


def all_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``allOf``: the value satisfies all schemas (10.2.1.1)."""
    return evaluator.all_of(_terms(_subschemas(location, "allOf", value), evaluator))


def any_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``anyOf``: the value satisfies at least one schema (10.2.1.2)."""
    return evaluator.any_of(_terms(_subschemas(location, "anyOf", value), evaluator))


def one_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``oneOf``: the value satisfies exactly one schema (10.2.1.3).

    The adjacent ``required`` can make alternatives disjoint: it makes a property a discriminator.
    """
    terms = _terms(_subschemas(location, "oneOf", value), evaluator)
    within = TRUE
    if "required" in location.schema:
        kept = ("type", "properties", "required")
        adjacent = {name: location.schema[name] for name in kept if name in location.schema}
        within = evaluator.schema_ref(location.child(adjacent))
    return in_exactly_one(terms, within, evaluator)


def not_(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``not``: the value does not satisfy the schema (10.2.1.4)."""
    return evaluator.negation(evaluator.schema_ref(location.child(value, "not")))


def if_(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``if`` with the adjacent ``then`` and ``else`` (10.2.2)."""
    table, schema = evaluator, location.schema
    condition = table.schema_ref(location.child(value, "if"))
    then, otherwise = (
        table.schema_ref(location.child(schema[keyword], keyword)) if keyword in schema else TRUE
        for keyword in ("then", "else")
    )
    return table.conditional(condition, then, otherwise)


def dependent_schemas(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``dependentSchemas``: an object with a property satisfies a schema (10.2.2.4)."""
    return evaluator.all_of(
        evaluator.conditional(
            evaluator.evaluated(objects_with_property(name)), evaluator.schema_ref(child), TRUE
        )
        for name, child in _named_subschemas(location, "dependentSchemas", value)
    )


def dependencies(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``dependencies``: required properties or a schema (draft 7 validation, 6.5.7)."""
    if not isinstance(value, dict):
        raise location.error("dependencies is not an object", "dependencies")
    parts = []
    for name, needed in value.items():
        if isinstance(needed, list):
            names = string_list(location, "dependencies", needed)
            then = evaluator.evaluated(require_properties(names))
        else:
            then = evaluator.schema_ref(location.child(needed, "dependencies", name))
        condition = evaluator.evaluated(objects_with_property(name))
        parts.append(evaluator.conditional(condition, then, TRUE))
    return evaluator.all_of(parts)


def properties(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``properties``: the values of the named properties (10.3.2.1)."""
    terms = {
        name: evaluator.schema_ref(child)
        for name, child in _named_subschemas(location, "properties", value)
        if is_encodable(name)
    }
    shape = ObjectShape(properties=terms, order=tuple(terms), lists_names=True)
    return restrict_one_type(shape=shape)


def _name_patterns(location: SchemaLocation) -> dict[str, Node]:
    patterns = location.keyword_value("patternProperties", dict) or {}
    return {pattern: compile_pattern(pattern, search=True) for pattern in patterns}


def pattern_properties(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``patternProperties``: the values of properties whose names match (10.3.2.2)."""
    patterns = _name_patterns(location)
    terms = {
        pattern: evaluator.schema_ref(child)
        for pattern, child in _named_subschemas(location, "patternProperties", value)
    }
    rules = (NameRule(patterns[name], term) for name, term in terms.items() if term is not TRUE)
    return restrict_one_type(shape=ObjectShape(name_rules=tuple(rules), limits_others=True))


def additional_properties(
    location: SchemaLocation, value: Any, evaluator: TermEvaluator
) -> ValueSet:
    """``additionalProperties``: the values of all other properties (10.3.2.3).

    The adjacent ``properties`` and ``patternProperties`` apply to the rest.
    """
    term = evaluator.schema_ref(location.child(value, "additionalProperties"))
    if term is TRUE:
        return restrict_one_type(shape=ObjectShape(limits_others=True))
    names = location.keyword_value("properties", dict) or {}
    listed = {name: TRUE for name in names if is_encodable(name)}
    others = complement(union(_name_patterns(location).values()), ANY_CODE_POINT)
    rules = (NameRule(others, term),)
    return restrict_one_type(shape=ObjectShape(listed, rules, limits_others=True))


def property_names(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``propertyNames``: the names of all properties satisfy the schema (10.3.2.4).

    Names are strings, so only keywords for strings are read. The schema may therefore contain this
    ``propertyNames`` itself.
    """
    child = location.child(value, "propertyNames")
    allowed = evaluator.strings(evaluator.schema_ref(child))
    rejected = NameRule(complement(allowed, ANY_CODE_POINT), FALSE)
    rules = () if allowed is ANY_TEXT else (rejected,)
    return restrict_one_type(shape=ObjectShape(name_rules=rules, limits_others=True))


def prefix_items(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``prefixItems``: the first items, one schema each (10.3.1.1)."""
    terms = _terms(_subschemas(location, "prefixItems", value), evaluator)
    is_open = location.schema.keys().isdisjoint(("items", "unevaluatedItems", "contains"))
    return restrict_one_type(array=ArrayShape(prefix=tuple(terms), lists_items=is_open))


def items(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``items``: all items after those of the adjacent ``prefixItems`` (10.3.1.2)."""
    prefix = location.keyword_value("prefixItems", list) or []
    term = evaluator.schema_ref(location.child(value, "items"))
    return restrict_one_type(array=_array((TRUE,) * len(prefix), term))


def items_or_tuple(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``items`` up to 2019-09: one schema for all items, or an array of schemas (draft 7, 6.4.1).

    An array applies to the first items, and the adjacent ``additionalItems`` to the others.
    """
    if not isinstance(value, list):
        return restrict_one_type(
            array=_array((), evaluator.schema_ref(location.child(value, "items")))
        )
    prefix = tuple(
        evaluator.schema_ref(location.child(schema, "items", index))
        for index, schema in enumerate(value)
    )
    rest = TRUE
    if "additionalItems" in location.schema:
        additional = location.schema["additionalItems"]
        rest = evaluator.schema_ref(location.child(additional, "additionalItems"))
    return restrict_one_type(array=_array(prefix, rest))


def _array(prefix: tuple[Term, ...], rest: Term) -> ArrayShape:
    max_items = len(prefix) if rest is FALSE else None
    return ArrayShape(prefix=prefix, rest=rest, max_items=max_items)


def contains(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``contains`` with the adjacent ``minContains`` and ``maxContains`` (10.3.1.3)."""
    term = evaluator.schema_ref(location.child(value, "contains"))
    min_count, max_count = 1, None
    if location.dialect.counts_contained:
        schema = location.schema
        if "minContains" in schema:
            min_count = non_negative_integer(location, "minContains", schema["minContains"])
        if "maxContains" in schema:
            max_count = non_negative_integer(location, "maxContains", schema["maxContains"])
    if max_count is None and min_count == 0:
        return restrict_one_type()
    counted = Counted(term, min_count=min_count, max_count=max_count)
    return restrict_one_type(array=ArrayShape(counted=(counted,)))
