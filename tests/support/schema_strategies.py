"""Hypothesis strategies for JSON Schemas and for values near them.

Names, characters and numbers come from small pools, so that what schemas say about them meets:
patterns match some of the names, bounds lie among the numbers, alternatives overlap.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

__all__ = [
    "ALL_FEATURES",
    "NAMES",
    "PATTERNS",
    "crowded_arrays",
    "crowded_objects",
    "examples",
    "json_values",
    "object_schemas",
    "schemas",
    "values_near",
]

EFFORT = 20 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 1

NAMES = ("a", "b", "ab", "ba", "é", "c d", '"')
STRINGS = ("", "a", "b", "ab", "ba", "aab", "é", "€😀", "\n", 'a"\\b', "c d", "x\u0001")
NUMBERS = (0, 1, 2, 3, -1, -2, 10, 0.5, 1.0, -0.5, 2.5, 1.25, 0.1, 12345, -30.0)
PATTERNS = ("a", "^a", "b$", "^[ab]*$", "^.{2}$", "^(a|ab)b?$", "[^a]", "^é+$", "a.*b", "^$")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
ALL_FEATURES = frozenset(
    {
        *("enum", "const", "numbers", "strings", "arrays", "objects", "anyOf", "oneOf", "allOf"),
        *("not", "if", "ref", "dependent", "multipleOf", "contains", "uniqueItems"),
        "unevaluated",
    }
)


def examples(count: int) -> settings:
    """Return the settings of a property that is to be tried ``count`` times in a normal run."""
    return settings(max_examples=count * EFFORT)


_scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(STRINGS))

json_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    ),
    max_leaves=5,
)
"""JSON values out of the pools."""


def _subset(draw: st.DrawFn, pool: tuple[str, ...], most: int) -> list[str]:
    return draw(st.lists(st.sampled_from(pool), max_size=most, unique=True))


def _number_keywords(draw: st.DrawFn, features: frozenset[str]) -> dict[str, Any]:
    names = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]
    result = {
        name: draw(st.sampled_from(NUMBERS))
        for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    }
    if "multipleOf" in features and draw(st.integers(0, 3)) == 0:
        result["multipleOf"] = draw(st.sampled_from((1, 2, 3, 0.5, 0.1, 2.5)))
    return result


def _string_keywords(draw: st.DrawFn) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if draw(st.booleans()):
        result["minLength"] = draw(st.integers(0, 3))
    if draw(st.booleans()):
        result["maxLength"] = draw(st.integers(0, 4))
    if draw(st.booleans()):
        result["pattern"] = draw(st.sampled_from(PATTERNS))
    return result


def _array_keywords(draw: st.DrawFn, inner: _Inner, features: frozenset[str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if draw(st.booleans()):
        result["items"] = inner(draw)
    if draw(st.integers(0, 2)) == 0:
        result["prefixItems"] = [inner(draw) for _ in range(draw(st.integers(1, 2)))]
    if draw(st.booleans()):
        result["minItems"] = draw(st.integers(0, 2))
    if draw(st.booleans()):
        result["maxItems"] = draw(st.integers(0, 3))
    if "uniqueItems" in features and draw(st.integers(0, 3)) == 0:
        result["uniqueItems"] = draw(st.booleans())
    if "contains" in features and draw(st.integers(0, 2)) == 0:
        result["contains"] = inner(draw)
        if draw(st.booleans()):
            result["minContains"] = draw(st.integers(0, 2))
        if draw(st.booleans()):
            result["maxContains"] = draw(st.integers(0, 2))
    if "unevaluated" in features and draw(st.integers(0, 4)) == 0:
        result["unevaluatedItems"] = inner(draw)
    return result


def _object_keywords(draw: st.DrawFn, inner: _Inner, features: frozenset[str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if draw(st.integers(0, 3)):
        result["properties"] = {name: inner(draw) for name in _subset(draw, NAMES, 3)}
    if draw(st.booleans()):
        result["required"] = _subset(draw, NAMES, 2)
    if draw(st.booleans()):
        result["additionalProperties"] = inner(draw) if draw(st.booleans()) else False
    if draw(st.integers(0, 3)) == 0:
        result["patternProperties"] = {
            pattern: inner(draw) for pattern in _subset(draw, PATTERNS, 2)
        }
    if draw(st.integers(0, 3)) == 0:
        result["propertyNames"] = _string_keywords(draw)
    if draw(st.integers(0, 3)) == 0:
        result["minProperties"] = draw(st.integers(0, 2))
    if draw(st.integers(0, 3)) == 0:
        result["maxProperties"] = draw(st.integers(0, 3))
    if "dependent" in features and draw(st.integers(0, 5)) == 0:
        result["dependentRequired"] = {
            name: _subset(draw, NAMES, 2) for name in _subset(draw, NAMES, 1)
        }
    if "dependent" in features and draw(st.integers(0, 5)) == 0:
        result["dependentSchemas"] = {name: inner(draw) for name in _subset(draw, NAMES, 1)}
    if "unevaluated" in features and draw(st.integers(0, 4)) == 0:
        result["unevaluatedProperties"] = inner(draw)
    return result


class _Inner:
    """Draws subschemas, fewer and simpler ones the deeper they stand."""

    def __init__(self, depth: int, features: frozenset[str], definitions: tuple[str, ...]) -> None:
        self.depth = depth
        self.features = features
        self.definitions = definitions

    def __call__(self, draw: st.DrawFn) -> Any:
        below = _Inner(self.depth - 1, self.features, self.definitions)
        kind = draw(st.integers(0, 11))
        if kind == 0:
            return draw(st.booleans())
        if kind == 1 and self.definitions:
            return {"$ref": f"#/$defs/{draw(st.sampled_from(self.definitions))}"}
        if kind <= 4 or self.depth <= 0:
            return self._simple(draw)
        result: dict[str, Any] = {}
        if kind <= 9:
            result |= self._typed(draw, below)
        if kind >= 8:
            result |= self._combined(draw, below)
        return result

    def _simple(self, draw: st.DrawFn) -> dict[str, Any]:
        result: dict[str, Any] = {}
        kind = draw(st.integers(0, 5))
        if kind == 0 and "enum" in self.features:
            result["enum"] = draw(st.lists(json_values, min_size=1, max_size=4))
        elif kind == 1 and "const" in self.features:
            result["const"] = draw(json_values)
        elif kind == 2 and "strings" in self.features:
            result |= {"type": "string", **_string_keywords(draw)}
        elif kind == 3 and "numbers" in self.features:
            kind_of_number = draw(st.sampled_from(("number", "integer")))
            result |= {"type": kind_of_number, **_number_keywords(draw, self.features)}
        else:
            result["type"] = draw(st.sampled_from(TYPES))
        return result

    def _typed(self, draw: st.DrawFn, below: _Inner) -> dict[str, Any]:
        result: dict[str, Any] = {}
        kinds = draw(
            st.lists(
                st.sampled_from(("numbers", "strings", "arrays", "objects", "objects")),
                min_size=1,
                max_size=2,
                unique=True,
            )
        )
        if "numbers" in kinds:
            result |= _number_keywords(draw, self.features)
        if "strings" in kinds:
            result |= _string_keywords(draw)
        if "arrays" in kinds:
            result |= _array_keywords(draw, below, self.features)
        if "objects" in kinds:
            result |= _object_keywords(draw, below, self.features)
        named = {"numbers": "number", "strings": "string", "arrays": "array", "objects": "object"}
        match draw(st.integers(0, 3)):
            case 0:
                result["type"] = [named[kind] for kind in kinds]
            case 1 | 2:
                result["type"] = named[kinds[0]]
        return result

    def _combined(self, draw: st.DrawFn, below: _Inner) -> dict[str, Any]:
        known = [n for n in ("anyOf", "oneOf", "allOf", "not", "if") if n in self.features]
        if not known:
            return {}
        name = draw(st.sampled_from(known))
        if name == "not":
            return {"not": below(draw)}
        if name == "if":
            result = {"if": below(draw)}
            if draw(st.booleans()):
                result["then"] = below(draw)
            if draw(st.booleans()):
                result["else"] = below(draw)
            return result
        return {name: [below(draw) for _ in range(draw(st.integers(1, 3)))]}


@st.composite
def schemas(
    draw: st.DrawFn, *, features: frozenset[str] = ALL_FEATURES, depth: int = 2
) -> dict[str, Any]:
    """Draw a JSON Schema of draft 2020-12; ``features`` are the keywords that may occur."""
    definitions: tuple[str, ...] = ()
    if "ref" in features and draw(st.integers(0, 2)) == 0:
        definitions = ("A", "B")[: draw(st.integers(1, 2))]
    inner = _Inner(depth, features, definitions)
    root = inner(draw)
    if not isinstance(root, dict):
        root = {"allOf": [root]}
    if definitions:
        root["$defs"] = {
            name: _Inner(max(depth - 1, 1), features, definitions)(draw) for name in definitions
        }
    return root


_FEW = st.lists(st.sampled_from((1, 2, 3, "a", None)), min_size=1, max_size=3, unique=True)


@st.composite
def _few_objects(draw: st.DrawFn) -> dict[str, Any]:
    """Draw objects that overlap in names and values."""
    names = _subset(draw, NAMES, 3)
    result: dict[str, Any] = {"properties": {name: {"enum": draw(_FEW)} for name in names}}
    result["required"] = [name for name in names if draw(st.booleans())]
    if draw(st.integers(0, 2)) == 0:
        result["additionalProperties"] = draw(st.sampled_from((False, {"enum": [1, 2]})))
    return result


@st.composite
def crowded_objects(draw: st.DrawFn) -> dict[str, Any]:
    """Draw objects of few names and values on which several demands are made at once."""
    values = {"enum": draw(_FEW)}
    result: dict[str, Any] = {"type": "object"}
    if draw(st.booleans()):
        result["properties"] = {name: {"enum": draw(_FEW)} for name in _subset(draw, NAMES, 3)}
        result["additionalProperties"] = draw(st.sampled_from((False, values)))
    else:
        result["additionalProperties"] = values
    if draw(st.booleans()):
        result["propertyNames"] = {"enum": [*_subset(draw, NAMES, 3), "a"]}
    if draw(st.integers(0, 3)) == 0:
        result["minProperties"] = draw(st.integers(1, 3))
    if draw(st.integers(0, 2)) == 0:
        result["maxProperties"] = draw(st.integers(1, 3))
    result["allOf"] = [
        draw(
            st.one_of(
                _FEW.map(lambda few: {"not": {"additionalProperties": {"enum": few}}}),
                _FEW.map(lambda few: {"not": {"properties": {"a": {"enum": few}}}}),
                _FEW.map(lambda few: {"not": {"patternProperties": {"a": {"enum": few}}}}),
                _FEW.map(lambda few: {"properties": {"b": {"enum": few}}}),
                st.sampled_from(NAMES).map(lambda name: {"not": {"required": [name]}}),
                st.sampled_from(NAMES).map(lambda name: {"required": [name]}),
                st.sampled_from((1, 2)).map(lambda n: {"not": {"minProperties": n}}),
                st.sampled_from(PATTERNS).map(lambda p: {"not": {"propertyNames": {"pattern": p}}}),
                st.lists(_few_objects(), min_size=2, max_size=4).map(lambda few: {"oneOf": few}),
                _few_objects().map(lambda shape: {"not": shape}),
                st.tuples(_few_objects(), _few_objects(), _few_objects()).map(
                    lambda three: dict(zip(("if", "then", "else"), three, strict=True))
                ),
                st.tuples(st.sampled_from(NAMES), _few_objects()).map(
                    lambda pair: {"dependentSchemas": {pair[0]: pair[1]}}
                ),
            )
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    return result


@st.composite
def crowded_arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Draw arrays of few values on which several demands are made at once."""
    result: dict[str, Any] = {"type": "array", "items": {"enum": draw(_FEW)}}
    if draw(st.booleans()):
        result["prefixItems"] = [{"enum": draw(_FEW)} for _ in range(draw(st.integers(1, 2)))]
    if draw(st.booleans()):
        result["maxItems"] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        result["minItems"] = draw(st.integers(0, 3))
    if draw(st.integers(0, 3)) == 0:
        result["uniqueItems"] = True
    result["allOf"] = [
        draw(
            st.one_of(
                _FEW.map(lambda few: {"contains": {"enum": few}}),
                _FEW.map(lambda few: {"contains": {"enum": few}, "maxContains": 1}),
                _FEW.map(lambda few: {"contains": {"enum": few}, "minContains": 2}),
                _FEW.map(lambda few: {"not": {"contains": {"enum": few}}}),
                _FEW.map(lambda few: {"not": {"items": {"enum": few}}}),
                _FEW.map(lambda few: {"not": {"prefixItems": [True, {"enum": few}]}}),
                st.sampled_from((1, 2)).map(lambda n: {"not": {"maxItems": n}}),
            )
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    return result


@st.composite
def object_schemas(draw: st.DrawFn, *, depth: int = 1) -> dict[str, Any]:
    """Draw a schema of objects whose members' order is plain: no alternatives anywhere."""
    inner = _Inner(0, frozenset({"strings", "numbers"}), ())
    result = {"type": "object", **_object_keywords(draw, inner, frozenset())}
    for name in list(result.get("properties", {})):
        if depth > 0 and draw(st.booleans()):
            result["properties"][name] = draw(object_schemas(depth=depth - 1))
    return result


@st.composite
def values_near(draw: st.DrawFn, schema: Any) -> Any:
    """Draw a JSON value that follows the schema more often than not; nothing is promised."""
    return _near(draw, schema, schema, 4)


def _near(draw: st.DrawFn, schema: Any, root: Any, depth: int) -> Any:
    if isinstance(schema, bool) or depth <= 0 or draw(st.integers(0, 19)) == 0:
        return draw(json_values if depth > 1 else _scalars)
    if "$ref" in schema:
        target = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        return _near(draw, target, root, depth - 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema and draw(st.booleans()):
            return _near(draw, draw(st.sampled_from(schema[keyword])), root, depth - 1)
    for keyword in ("then", "else", "if"):
        if keyword in schema and draw(st.integers(0, 2)) == 0:
            return _near(draw, schema[keyword], root, depth - 1)
    return _of_type(draw, _type_near(draw, schema), schema, root, depth)


def _type_near(draw: st.DrawFn, schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return draw(st.sampled_from(kind))
    if isinstance(kind, str):
        return kind
    spoken_of = {
        "object": ("properties", "required", "additionalProperties", "patternProperties"),
        "array": ("items", "prefixItems", "minItems", "contains"),
        "string": ("pattern", "minLength", "maxLength"),
        "number": ("minimum", "maximum"),
    }
    likely = [name for name, keywords in spoken_of.items() if any(k in schema for k in keywords)]
    return draw(st.sampled_from(likely or TYPES))


def _of_type(draw: st.DrawFn, kind: str, schema: dict[str, Any], root: Any, depth: int) -> Any:
    match kind:
        case "null":
            return None
        case "boolean":
            return draw(st.booleans())
        case "integer":
            return draw(st.one_of(st.integers(-4, 12), st.sampled_from((1.0, -3.0, 10**20))))
        case "number":
            return draw(st.one_of(st.sampled_from(NUMBERS), st.integers(-4, 12)))
        case "string":
            letters = st.text("ab", min_size=min(schema.get("minLength", 0), 3), max_size=4)
            return draw(st.one_of(letters, st.sampled_from(STRINGS)))
        case "array":
            prefix = schema.get("prefixItems", [])
            rest = schema.get("items", schema.get("contains", True))
            size = draw(st.integers(min(schema.get("minItems", 0), 3), 3))
            return [
                _near(draw, prefix[i] if i < len(prefix) else rest, root, depth - 1)
                for i in range(size)
            ]
    properties = schema.get("properties", {})
    names = set(schema.get("required", ()))
    names.update(name for name in properties if draw(st.booleans()))
    if schema.get("additionalProperties") is not False or draw(st.integers(0, 3)) == 0:
        names.update(_subset(draw, NAMES, 2))
    ordered = draw(st.permutations(sorted(names)))
    other = schema.get("additionalProperties", True)
    return {name: _near(draw, properties.get(name, other), root, depth - 1) for name in ordered}
