"""Schemas and values a few steps away from real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

__all__ = ["mutated_schema", "mutated_value", "replaced", "subschemas"]

Path = tuple[str | int, ...]

_ONE = (
    *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
_LISTS = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_MAPPINGS = (
    *("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"),
    "properties",
)


def subschemas(schema: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the schema and all schemas in it with their paths, outer ones first."""
    stack = [(path, schema)]
    while stack:
        here, part = stack.pop()
        if not isinstance(part, dict | bool):
            continue
        yield here, part
        if isinstance(part, dict):
            stack.extend(_children(here, part))


def _children(path: Path, schema: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    for keyword, value in schema.items():
        if keyword in _ONE and isinstance(value, dict | bool):
            yield (*path, keyword), value
        elif keyword in _LISTS and isinstance(value, list):
            yield from (((*path, keyword, index), item) for index, item in enumerate(value))
        elif keyword in _MAPPINGS and isinstance(value, dict):
            yield from (((*path, keyword, name), item) for name, item in value.items())


def at(value: Any, path: Path) -> Any:
    """Return what stands at a path."""
    for part in path:
        value = value[part]
    return value


def replaced(value: Any, path: Path, part: Any) -> Any:
    """Return a copy of a value with another part at a path; other parts are shared."""
    if not path:
        return part
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], part)
    return copy


_COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minContains", "maxContains"),
)
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_NEW: tuple[dict[str, Any], ...] = (
    {"additionalProperties": False},
    {"additionalProperties": {"type": "integer"}},
    {"unevaluatedProperties": False},
    {"unevaluatedItems": False},
    {"uniqueItems": True},
    {"minProperties": 1},
    {"minProperties": 2},
    {"maxProperties": 3},
    {"minItems": 1},
    {"maxItems": 2},
    {"contains": {"type": "string"}},
    {"propertyNames": {"pattern": "^[a-z]"}},
    {"propertyNames": {"maxLength": 5}},
    {"patternProperties": {"^a": {"type": "string"}}},
    {"patternProperties": {"e$": True, "^[^e]*$": {"minLength": 1}}},
    {"minLength": 2},
    {"maxLength": 6},
    {"pattern": "^[a-zA-Z ]*$"},
    {"multipleOf": 0.5},
    {"minimum": 0},
    {"exclusiveMaximum": 100},
    {"not": {"type": "null"}},
    {"type": ["string", "null"]},
    {"enum": [0, 1, "a", None, {"a": 1}, [1.0], True]},
    {"const": {"a": [1, 2]}},
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, 100, "", "a", "abc", "é€😀", 'x"\\\n', [], [1], ["a", "a"]),
    *({}, {"a": 1}, {"a": "x", "b": [None]}),
)


def mutated_schema(schema: Any, pool: list[Any], random: Random) -> Any:
    """Return the schema after one to four random changes; ``pool`` are schemas to take from."""
    for _ in range(random.choice((1, 1, 2, 2, 3, 4))):
        change = random.choice(_CHANGES)
        changed = change(schema, pool, random)
        if len(json.dumps(changed)) < 60_000:
            schema = changed
    return schema


def _somewhere(schema: Any, random: Random) -> tuple[Path, Any]:
    return random.choice(list(subschemas(schema)))


def _object_somewhere(schema: Any, random: Random) -> tuple[Path, dict[str, Any]]:
    places = [(p, s) for p, s in subschemas(schema) if isinstance(s, dict) and s]
    return random.choice(places or [((), {"type": "object"})])


def _dropped(schema: Any, pool: list[Any], random: Random) -> Any:
    path, part = _object_somewhere(schema, random)
    keyword = random.choice(list(part))
    return replaced(schema, path, {k: v for k, v in part.items() if k != keyword})


def _copied(schema: Any, pool: list[Any], random: Random) -> Any:
    _, source = _object_somewhere(schema, random)
    path, part = _somewhere(schema, random)
    keyword = random.choice(list(source))
    if not isinstance(part, dict) or (not path and keyword == "$schema"):
        return schema
    return replaced(schema, path, {**part, keyword: source[keyword]})


def _moved(schema: Any, pool: list[Any], random: Random) -> Any:
    path, part = _object_somewhere(schema, random)
    keyword = random.choice(list(part))
    without = replaced(schema, path, {k: v for k, v in part.items() if k != keyword})
    target, other = _somewhere(without, random)
    if not isinstance(other, dict) or keyword == "$schema":
        return schema
    return replaced(without, target, {**other, keyword: part[keyword]})


def _swapped(schema: Any, pool: list[Any], random: Random) -> Any:
    donor = random.choice(pool) if random.random() < 0.7 else schema
    path, _ = _somewhere(schema, random)
    _, other = _somewhere(donor, random)
    if not path:
        return schema
    schema = replaced(schema, path, other)
    for keyword in ("definitions", "$defs"):
        if isinstance(donor, dict) and isinstance(donor.get(keyword), dict):
            own = schema.get(keyword)
            schema = {**schema, keyword: {**donor[keyword], **(own if own else {})}}
    return schema


def _wrapped(schema: Any, pool: list[Any], random: Random) -> Any:
    path, part = _somewhere(schema, random)
    if not path:
        return schema
    _, other = _somewhere(schema, random)
    new = random.choice(_NEW)
    wrappings: tuple[Any, ...] = (
        {"allOf": [part, new]},
        {"allOf": [part, other]},
        {"anyOf": [part, new]},
        {"anyOf": [part, other, new]},
        {"oneOf": [part, new]},
        {"oneOf": [part, other]},
        {"not": part},
        {"not": {"not": part}},
        {"if": part, "then": new, "else": other},
        {"if": new, "then": part},
    )
    return replaced(schema, path, random.choice(wrappings))


def _added(schema: Any, pool: list[Any], random: Random) -> Any:
    path, part = _somewhere(schema, random)
    return (
        replaced(schema, path, {**part, **random.choice(_NEW)})
        if part is not False and part is not True
        else schema
    )


def _rebound(schema: Any, pool: list[Any], random: Random) -> Any:
    places = [
        (path, keyword)
        for path, part in subschemas(schema)
        if isinstance(part, dict)
        for keyword in part
        if keyword in _COUNTS or keyword in _BOUNDS
    ]
    if not places:
        return _added(schema, pool, random)
    path, keyword = random.choice(places)
    value = at(schema, path)[keyword]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return schema
    if keyword in _COUNTS:
        value = random.choice((0, 1, 2, max(value - 1, 0), value + 1, value * 10, 1000))
    elif keyword == "multipleOf":
        value = random.choice((1, 2, 3, 0.1, 0.01, 0.5, 7, value * 2))
    else:
        value = random.choice((0, 1, -1, 0.5, -2.5, value + 1, value - 1, value * 10, -value, 1e20))
    return replaced(schema, (*path, keyword), value)


def _retyped(schema: Any, pool: list[Any], random: Random) -> Any:
    path, part = _object_somewhere(schema, random)
    chosen: Any = random.choice(_TYPES)
    if random.random() < 0.4:
        chosen = random.sample(_TYPES, random.randint(1, 3))
    return replaced(schema, path, {**part, "type": chosen})


def _listed(schema: Any, pool: list[Any], random: Random) -> Any:
    places = [
        (path, keyword)
        for path, part in subschemas(schema)
        if isinstance(part, dict)
        for keyword in ("required", "enum", "anyOf", "oneOf", "allOf")
        if isinstance(part.get(keyword), list) and part[keyword]
    ]
    if not places:
        return schema
    path, keyword = random.choice(places)
    items = at(schema, path)[keyword]
    if random.random() < 0.5 and len(items) > 1:
        items = random.sample(items, random.randint(1, len(items) - 1))
    elif keyword == "required":
        items = [*items, random.choice(("a", "zz", "name", "id"))]
    elif keyword == "enum":
        items = [*items, random.choice(_VALUES)]
    else:
        items = [*items, random.choice((random.choice(_NEW), random.choice(items)))]
    return replaced(schema, (*path, keyword), items)


_CHANGES: tuple[Callable[[Any, list[Any], Random], Any], ...] = (
    *(_dropped, _copied, _moved, _swapped, _swapped, _wrapped, _wrapped, _added, _added),
    *(_rebound, _retyped, _listed),
)


def mutated_value(value: Any, random: Random) -> Any:
    """Return a JSON value that differs in one or two places."""
    for _ in range(random.choice((1, 1, 2))):
        path = random.choice(list(_places(value)))
        value = replaced(value, path, _changed(at(value, path), random))
    return value


def _places(value: Any, path: Path = ()) -> list[Path]:
    found = [path]
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, item in children:
        found.extend(_places(item, (*path, key)))
    return found


def _changed(value: Any, random: Random) -> Any:
    if random.random() < 0.25:
        return random.choice(_VALUES)
    match value:
        case bool() | None:
            return random.choice(_VALUES)
        case int() | float():
            return random.choice((value + 1, value - 1, -value, value * 10, value + 0.5, value / 4))
        case str():
            cut = random.randint(0, len(value))
            return random.choice(
                (value[:cut], value + "a", value + "\n", value[cut:] + value[:cut])
            )
        case list() if value:
            index = random.randrange(len(value))
            item = value[index]
            return random.choice(
                (value[:index], value[:index] + value[index + 1 :], [*value, item], value[::-1])
            )
        case dict() if value:
            name = random.choice(list(value))
            without = {n: v for n, v in value.items() if n != name}
            ways = (without, without, {name: value[name], **without}, {**value, "zz": value[name]})
            return random.choice(ways)
    return random.choice(_VALUES)
