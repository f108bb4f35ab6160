"""``unevaluatedProperties`` and ``unevaluatedItems``, with results shared within a validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
from referencing.jsonschema import lookup_recursive_ref

from state_machines.budgets import spend

from .judgement import judgement
from .keywords import Errors, finds, prepare_lookup


def unevaluated_properties(
    validator: Any, expected: Any, instance: Any, schema: Mapping[str, Any]
) -> Errors:
    """``unevaluatedProperties`` (core, 11.3)."""
    if not isinstance(instance, dict):
        return
    evaluated = _names(validator, instance, schema, without="unevaluatedProperties")
    for name in instance.keys() - evaluated:
        yield from validator.descend(instance[name], expected, path=name)


def unevaluated_items(
    validator: Any, expected: Any, instance: Any, schema: Mapping[str, Any]
) -> Errors:
    """``unevaluatedItems`` (core, 11.2)."""
    if not isinstance(instance, list):
        return
    evaluated = _indices(validator, instance, schema, without="unevaluatedItems")
    for index in sorted(set(range(len(instance))) - evaluated):
        yield from validator.descend(instance[index], expected, path=index)


def _names(
    validator: Any, instance: dict[str, Any], schema: Any, without: str = ""
) -> frozenset[str]:
    """Return the names of the properties that a schema evaluates."""
    if not isinstance(schema, dict):
        return frozenset()
    run, key = judgement(), ("names", id(schema), id(instance), without, _base_uri(validator))
    known: frozenset[str] | None = run.known.get(key)
    if known is not None:
        return known
    spend(1 + len(instance) // 8)
    before = run.dynamic
    names = schema.get("properties", {}).keys() & instance.keys()
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema and keyword != without:
            names |= instance.keys()
    for pattern in schema.get("patternProperties", {}):
        names |= {name for name in instance if finds(pattern, name)}
    for inner, subschema in _in_place(validator, instance, schema):
        names |= _names(inner, instance, subschema)
    result = frozenset(names)
    if run.dynamic == before:
        run.known[key] = result
    return result


def _indices(validator: Any, instance: list[Any], schema: Any, without: str = "") -> frozenset[int]:
    """Return the indices of the items that a schema evaluates."""
    if not isinstance(schema, dict):
        return frozenset()
    run, key = judgement(), ("items", id(schema), id(instance), without, _base_uri(validator))
    known: frozenset[int] | None = run.known.get(key)
    if known is not None:
        return known
    spend(1 + len(instance) // 8)
    before = run.dynamic
    every = range(len(instance))
    items = schema.get("items")
    first = items if isinstance(items, list) else schema.get("prefixItems", [])
    indices = set(every[: len(first)])
    rest = "additionalItems" if isinstance(items, list) else "items"
    if rest in schema or ("unevaluatedItems" in schema and without != "unevaluatedItems"):
        indices.update(every)
    if "contains" in schema and "prefixItems" in validator.VALIDATORS:
        contained = validator.evolve(schema=schema["contains"])
        indices.update(index for index in every if contained.is_valid(instance[index]))
    for inner, subschema in _in_place(validator, instance, schema):
        indices |= _indices(inner, instance, subschema)
    result = frozenset(indices)
    if run.dynamic == before:
        run.known[key] = result
    return result


def _in_place(
    validator: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[tuple[Any, Any]]:
    """Yield the subschemas that apply to the same value and match, each with its validator."""
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            resolver = validator._resolver
            if keyword != "$ref":
                judgement().dynamic += 1
                judgement().charge_search()
            if keyword == "$recursiveRef":
                resolved = lookup_recursive_ref(resolver)
            else:
                prepare_lookup(resolver, schema[keyword])
                resolved = resolver.lookup(schema[keyword])
            inner = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
            yield inner, resolved.contents
    for keyword in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(keyword, []):
            if _holds(validator, instance, subschema):
                yield validator, subschema
    for name, subschema in schema.get("dependentSchemas", {}).items():
        if isinstance(instance, dict) and name in instance:
            yield validator, subschema
    if "if" in schema:
        if _holds(validator, instance, schema["if"]):
            yield validator, schema["if"]
            yield validator, schema.get("then", True)
        else:
            yield validator, schema.get("else", True)


def _holds(validator: Any, instance: Any, schema: Any) -> bool:
    run, key = judgement(), ("holds", id(schema), id(instance), _base_uri(validator))
    known: bool | None = run.known.get(key)
    if known is None:
        before = run.dynamic
        error: jsonschema.ValidationError | None = next(validator.descend(instance, schema), None)
        known = error is None
        if run.dynamic == before:
            run.known[key] = known
    return known


def _base_uri(validator: Any) -> str:
    uri: str = validator._resolver._base_uri
    return uri
