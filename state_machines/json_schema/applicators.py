"""Keywords that apply other schemas, to the value or to its children."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from state_machines.grammar.boolean import complement
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.arrays.array_shape import ArrayShape, Counted
from state_machines.json_schema.assertions import (
    count,
    names_in,
    objects_with,
    requiring,
    restrict_one_type,
)
from state_machines.json_schema.constants import is_encodable
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.exactly_one import in_exactly_one
from state_machines.json_schema.objects.object_shape import NameRule, ObjectShape
from state_machines.json_schema.terms import FALSE, TRUE, Term
from state_machines.json_schema.value_sets import ANY_TEXT, ValueSet
from state_machines.regex import compile_pattern

__all__ = [
    "additional_properties",
    "all_of",
    "any_of",
    "contains",
    "dependencies",
    "dependent_schemas",
    "dynamic_ref",
    "if_",
    "items",
    "items_or_tuple",
    "not_",
    "one_of",
    "pattern_properties",
    "prefix_items",
    "properties",
    "property_names",
    "recursive_ref",
    "ref",
]


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
    return [evaluator.table.schema_ref(location) for location in locations]


def dynamic_ref(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``$dynamicRef``: as ``$ref``, by way of the dynamic scope (core, 8.2.3.2)."""
    return evaluator.table.schema_ref(location.document.resolve(location, value, "$dynamicRef"))


def recursive_ref(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``$recursiveRef``: the outermost schema that asks for it (2019-09 core, 8.2.4.2)."""
    if value != "#":
        raise location.error("$recursiveRef is not '#'", "$recursiveRef")
    return evaluator.table.schema_ref(location.document.resolve_recursive(location))


def ref(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``$ref``: what the schema at the reference admits (core, 8.2.3.1)."""
    return evaluator.table.schema_ref(location.document.resolve(location, value, "$ref"))


def all_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``allOf``: what all of the schemas admit (core, 10.2.1.1)."""
    return evaluator.table.all_of(_terms(_subschemas(location, "allOf", value), evaluator))


def any_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``anyOf``: what at least one of the schemas admits (core, 10.2.1.2)."""
    return evaluator.table.any_of(_terms(_subschemas(location, "anyOf", value), evaluator))


def one_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``oneOf``: what exactly one of the schemas admits (core, 10.2.1.3)."""
    terms = _terms(_subschemas(location, "oneOf", value), evaluator)
    return in_exactly_one(terms, evaluator)


def not_(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``not``: what the schema does not admit (core, 10.2.1.4)."""
    return evaluator.table.negation(evaluator.table.schema_ref(location.child(value, "not")))


def if_(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term | ValueSet:
    """``if`` with ``then`` and ``else`` beside it (core, 10.2.2)."""
    table, schema = evaluator.table, location.schema
    condition = table.schema_ref(location.child(value, "if"))
    then = table.schema_ref(location.child(schema["then"], "then")) if "then" in schema else TRUE
    otherwise = (
        table.schema_ref(location.child(schema["else"], "else")) if "else" in schema else TRUE
    )
    return table.conditional(condition, then, otherwise)


def properties(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``properties``: the values of the named properties (core, 10.3.2.1)."""
    table = evaluator.table
    terms = {
        name: table.schema_ref(child)
        for name, child in _named_subschemas(location, "properties", value)
        if is_encodable(name)
    }
    return restrict_one_type(shape=ObjectShape(properties=terms, order=tuple(terms)))


def _name_patterns(location: SchemaLocation) -> dict[str, Node]:
    named = location.keyword_value("patternProperties", dict) or {}
    return {name: compile_pattern(name, search=True) for name in named}


def pattern_properties(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``patternProperties``: the values of properties whose name matches (core, 10.3.2.2)."""
    patterns = _name_patterns(location)
    terms = {
        name: evaluator.table.schema_ref(child)
        for name, child in _named_subschemas(location, "patternProperties", value)
    }
    rules = (NameRule(patterns[name], term) for name, term in terms.items() if term is not TRUE)
    return restrict_one_type(shape=ObjectShape(name_rules=tuple(rules)))


def additional_properties(
    location: SchemaLocation, value: Any, evaluator: TermEvaluator
) -> ValueSet:
    """``additionalProperties``: the values of all properties not named beside it (10.3.2.3)."""
    term = evaluator.table.schema_ref(location.child(value, "additionalProperties"))
    if term is TRUE:
        return restrict_one_type()
    listed = {
        name: TRUE
        for name in location.keyword_value("properties", dict) or {}
        if is_encodable(name)
    }
    matched = union(_name_patterns(location).values())
    names = complement(matched, ANY_CODE_POINT)
    return restrict_one_type(
        shape=ObjectShape(properties=listed, name_rules=(NameRule(names, term),))
    )


def property_names(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``propertyNames``: what every property's name is (core, 10.3.2.4).

    Names are strings, so that what the schema says of objects is none of theirs, be it this
    very keyword.
    """
    allowed = evaluator.strings(evaluator.table.schema_ref(location.child(value, "propertyNames")))
    if allowed is ANY_TEXT:
        return restrict_one_type()
    refused = complement(allowed, ANY_CODE_POINT)
    return restrict_one_type(shape=ObjectShape(name_rules=(NameRule(refused, FALSE),)))


def dependent_schemas(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``dependentSchemas``: who has this property is in that schema too (core, 10.2.2.4)."""
    table = evaluator.table
    return table.all_of(
        table.conditional(table.evaluated(objects_with(name)), table.schema_ref(child), TRUE)
        for name, child in _named_subschemas(location, "dependentSchemas", value)
    )


def dependencies(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``dependencies``: drafts 4 to 7's two keywords in one (draft 7 validation, 6.5.7)."""
    if not isinstance(value, dict):
        raise location.error("dependencies is not an object", "dependencies")
    table = evaluator.table
    parts = []
    for name, needed in value.items():
        if isinstance(needed, list):
            then = table.evaluated(requiring(names_in(location, "dependencies", needed)))
        else:
            then = table.schema_ref(location.child(needed, "dependencies", name))
        parts.append(table.conditional(table.evaluated(objects_with(name)), then, TRUE))
    return table.all_of(parts)


def prefix_items(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``prefixItems``: the first items, one schema each (core, 10.3.1.1)."""
    terms = _terms(_subschemas(location, "prefixItems", value), evaluator)
    return restrict_one_type(array=ArrayShape(prefix=tuple(terms)))


def items(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``items``: every item beyond ``prefixItems`` (core, 10.3.1.2)."""
    before = location.keyword_value("prefixItems", list) or []
    term = evaluator.table.schema_ref(location.child(value, "items"))
    return restrict_one_type(array=_beyond(len(before), term))


def items_or_tuple(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``items`` up to 2019-09: all items, or an array for the first ones (draft 7, 6.4.1)."""
    table = evaluator.table
    if not isinstance(value, list):
        return restrict_one_type(array=_beyond(0, table.schema_ref(location.child(value, "items"))))
    prefix = tuple(
        table.schema_ref(location.child(schema, "items", index))
        for index, schema in enumerate(value)
    )
    rest = TRUE
    if "additionalItems" in location.schema:
        additional = location.schema["additionalItems"]
        rest = table.schema_ref(location.child(additional, "additionalItems"))
    return restrict_one_type(array=_beyond(len(prefix), rest, prefix))


def contains(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``contains`` with ``minContains`` and ``maxContains`` beside it (core, 10.3.1.3)."""
    term = evaluator.table.schema_ref(location.child(value, "contains"))
    least, most = 1, None
    if location.dialect.counts_contained:
        schema = location.schema
        if "minContains" in schema:
            least = count(location, "minContains", schema["minContains"])
        if "maxContains" in schema:
            most = count(location, "maxContains", schema["maxContains"])
    if most is None and least == 0:
        return restrict_one_type()
    return restrict_one_type(array=ArrayShape(counted=(Counted(term, 0, least, most),)))


def _beyond(width: int, rest: Term, prefix: tuple[Term, ...] = ()) -> ArrayShape:
    return ArrayShape(
        prefix=prefix or (TRUE,) * width, rest=rest, max_items=width if rest is FALSE else None
    )
