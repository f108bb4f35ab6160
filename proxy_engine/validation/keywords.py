"""Keywords that ``jsonschema`` decides inexactly, or in unbounded time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import jsonschema
from jsonschema.protocols import Validator

from state_machines.budgets import spend
from state_machines.errors import PatternError
from state_machines.json_schema.numbers.number_sets import exact
from state_machines.regex import compile_pattern

from .judgement import UndecidedError, charge, judgement

Errors = Iterator[jsonschema.ValidationError]
Keyword = Callable[[Validator, Any, Any, Mapping[str, Any]], Any]
"""A keyword's function; its parameters are the validator, the keyword's value, the instance and
the schema."""

VALUES_PER_STEP = 8
"""Values that are made comparable per step."""

CHARACTERS_PER_STEP = 4
"""Characters of a text that a pattern's machine matches per step."""


def once(keyword: Keyword) -> Keyword:
    """Compute the result of a reference for an instance once, and keep only its first error.

    A result that depends on the dynamic scope is not shared.
    """

    def judge(
        validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]
    ) -> Errors:
        run = judgement()
        resolver: Any = getattr(validator, "_resolver")  # noqa: B009 - not part of the protocol
        key = ("$ref", id(schema), id(instance), resolver._base_uri)
        if key in run.known:
            error = run.known[key]
        else:
            before = run.dynamic
            prepare_lookup(resolver, expected)
            error = next(iter(keyword(validator, expected, instance, schema)), None)
            if run.dynamic == before:
                run.known[key] = error
        if error is not None:
            yield jsonschema.ValidationError(
                error.message, path=list(error.path), instance=error.instance
            )

    return judge


def dynamic(keyword: Keyword) -> Keyword:
    """Mark the results of a keyword as dependent on the dynamic scope."""

    def judge(validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        judgement().dynamic += 1
        return keyword(validator, expected, instance, schema)

    return judge


def prepare_lookup(resolver: Any, reference: Any) -> None:
    """Charge the resolution of a reference."""
    if not isinstance(reference, str):
        raise UndecidedError("a reference that is not a string")
    run = judgement()
    is_pointer = reference == "#" or reference.startswith("#/")
    if not is_pointer or resolver._base_uri != run.base_uri:
        run.charge_search()


# Patterns


def finds(pattern: Any, text: str) -> bool:
    """Return whether a pattern matches somewhere in a text."""
    if not isinstance(pattern, str):
        raise UndecidedError("a pattern that is not a string")
    try:
        language = compile_pattern(pattern, search=True)
    except PatternError as error:
        raise UndecidedError(str(error)) from error
    for place, character in enumerate(text):
        if not place % CHARACTERS_PER_STEP:
            spend()
        point = ord(character)
        for members, target in language.transitions:
            if point in members:
                language = target
                break
        else:
            return False
    return language.nullable


def _pattern(
    validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]
) -> Errors:
    if isinstance(instance, str) and not finds(expected, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {expected!r}")


def unmatched(schema: Mapping[str, Any], instance: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that neither ``properties`` lists nor ``patternProperties`` matches."""
    listed = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for name in instance:
        if name not in listed and not any(finds(pattern, name) for pattern in patterns):
            yield name


def _pattern_properties(
    validator: Any, expected: Any, instance: Any, schema: Mapping[str, Any]
) -> Errors:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in expected.items():
        for name, value in instance.items():
            if finds(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, expected: Any, instance: Any, schema: Mapping[str, Any]
) -> Errors:
    if not isinstance(instance, dict):
        return
    for name in unmatched(schema, instance):
        if expected is False:
            yield jsonschema.ValidationError(f"the property {name!r} is not allowed")
        else:
            yield from validator.descend(instance[name], expected, path=name)


# Numbers


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)


def _exact(number: int | float | Fraction) -> int | Fraction:
    if isinstance(number, float):
        if not math.isfinite(number):
            raise UndecidedError("a number that is not finite")
        return exact(number)
    return number


def _bound(holds: Callable[[Any, Any], bool], what: str) -> Keyword:
    """Return the function of a keyword that compares numbers."""

    def judge(
        validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]
    ) -> Errors:
        # In drafts 3 and 4 ``exclusiveMinimum`` is a Boolean beside ``minimum``.
        if not _is_number(instance) or not _is_number(expected):
            return
        if not holds(_exact(instance), _exact(expected)):
            yield jsonschema.ValidationError(f"{_shown(instance)} is {what} {expected!r}")

    return judge


def _bound_of_draft_4(keyword: str) -> Keyword:
    exclusive = f"exclusive{keyword.capitalize()}"

    def judge(
        validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]
    ) -> Errors:
        name = exclusive if schema.get(exclusive) is True else keyword
        yield from _BOUNDS[name](validator, expected, instance, schema)

    return judge


_BOUNDS: dict[str, Keyword] = {
    "minimum": _bound(lambda number, bound: number >= bound, "less than the minimum of"),
    "maximum": _bound(lambda number, bound: number <= bound, "greater than the maximum of"),
    "exclusiveMinimum": _bound(lambda number, bound: number > bound, "not greater than"),
    "exclusiveMaximum": _bound(lambda number, bound: number < bound, "not less than"),
}


def _multiple_of(
    validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]
) -> Errors:
    if _is_number(instance) and _exact(instance) % _exact(expected):
        yield jsonschema.ValidationError(f"{_shown(instance)} is not a multiple of {expected!r}")


def _shown(number: Any) -> str:
    return repr(float(number)) if isinstance(number, Fraction) else repr(number)


# Equality


def _identity(value: Any) -> Hashable:
    """Return a key that equal JSON values share."""
    if isinstance(value, bool) or value is None:
        return (type(value), value)
    if _is_number(value):
        return ("number", _exact(value))
    if isinstance(value, list):
        spend(1 + len(value) // VALUES_PER_STEP)
        return ("array", tuple(map(_identity, value)))
    if isinstance(value, dict):
        spend(1 + len(value) // VALUES_PER_STEP)
        return ("object", frozenset((name, _identity(part)) for name, part in value.items()))
    return value  # type: ignore[no-any-return]


def _enum(validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]) -> Errors:
    if isinstance(instance, str):
        found = instance in expected
    else:
        run, key = judgement(), ("enum", id(expected))
        if key not in run.known:
            spend(len(expected) // VALUES_PER_STEP)
            run.known[key] = {_identity(value) for value in expected if not isinstance(value, str)}
        found = _identity(instance) in run.known[key]
    if not found:
        yield jsonschema.ValidationError("the value is none of the enum")


def _const(validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]) -> Errors:
    if _identity(expected) != _identity(instance):
        yield jsonschema.ValidationError("the value is not the constant")


def _unique_items(
    validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]
) -> Errors:
    if expected is not True or not isinstance(instance, list):
        return
    if len(set(map(_identity, instance))) < len(instance):
        yield jsonschema.ValidationError("two items are equal")


def replaced(keywords: Mapping[str, Keyword]) -> dict[str, Keyword]:
    """Return the keywords of a draft, each charged, with those of this module in place."""
    own: dict[str, Keyword] = {
        **_BOUNDS,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "multipleOf": _multiple_of,
        "enum": _enum,
        "const": _const,
        "uniqueItems": _unique_items,
    }
    if "exclusiveMinimum" not in keywords:
        own["minimum"] = _bound_of_draft_4("minimum")
        own["maximum"] = _bound_of_draft_4("maximum")
    found = {name: own.get(name, keyword) for name, keyword in keywords.items()}
    for name in ("$dynamicRef", "$recursiveRef"):
        if name in found:
            found[name] = dynamic(found[name])
    if "$ref" in found:
        found["$ref"] = once(found["$ref"])
    return {name: _charged(keyword) for name, keyword in found.items()}


def _charged(keyword: Keyword) -> Keyword:
    def judge(validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        charge(expected, instance)
        return keyword(validator, expected, instance, schema)

    return judge
