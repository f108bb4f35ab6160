"""Recognise schemas that certainly have values, without compiling them.

Most tools have parameters of a few simple forms: objects with listed properties, strings, numbers,
arrays. A schema of these forms is known to be well-formed, supported and satisfiable after one walk
over its text, in a hundredth of the time of a compilation. So its compilation can wait until the
schema is needed. Everything else is left to the compiler.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from state_machines.errors import SchemaError
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.json_schema.emptiness.evaluation import generated
from state_machines.json_schema.machine import Compilation
from state_machines.json_schema.reader.keywords import KEYWORDS
from state_machines.regex import compile_pattern

_MAX_SCHEMAS = 1000
"""Subschemas of a plain schema, so that its compilation stays far below its budget."""

_MAX_DEPTH = 20
_MAX_BRANCHES = 16
"""Branches of ``anyOf``."""

_MAX_COUNT = 64
"""Greatest ``minItems``."""

_MAX_LENGTH = 100_000
"""Greatest ``minLength`` and ``maxLength``."""

_MAX_NUMBER = 1 << 63

_STRINGS = 1024
"""Combinations of keywords for strings of which it is remembered whether they are plain."""

_DIALECTS = frozenset(
    f"{scheme}://json-schema.org/{name}"
    for scheme in ("http", "https")
    for name in ("draft-07/schema", "draft-07/schema#", "draft/2020-12/schema")
)
_IDENTIFIERS = frozenset({"$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema"})
_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_ANNOTATIONS = frozenset(
    {"description", "title", "default", "examples", "example", "deprecated", "readOnly"}
    | {"writeOnly", "$comment"}
)
_READ = frozenset(keyword.name for keyword in KEYWORDS)

PLAIN_WORD = re.compile(r"(?![A-Za-z]{1,8}\Z)[A-Za-z0-9](?:[A-Za-z0-9_.:/@+ -]*[A-Za-z0-9])?")
"""Strings that every notation can write, and reads as strings: no ``null``, ``true`` or ``inf``."""

_LETTERS = re.compile(r"[A-Za-z]{1,8}")
_NO_STRINGS = frozenset(
    {"null", "true", "false", "none", "nil", "yes", "no", "on", "off", "nan", "inf", "infinity"}
)


@dataclass(frozen=True, slots=True)
class PlainSchema:
    """What is known of a schema of objects that certainly has values.

    Attributes:
        names: The names of properties, at any depth.
        required: The names of the properties that every object has.
        has_members: Whether every object has a property.
    """

    names: frozenset[str]
    required: tuple[str, ...]
    has_members: bool


def plain_schema(schema: Any) -> PlainSchema | None:
    """Return the properties of a plain schema of objects; ``None`` for any other schema.

    A plain schema is not refused, and some object satisfies it. So do objects whose strings are all
    among those of :data:`PLAIN_WORD`, whose names are listed, and any one listed property can have
    such a value beside the required ones.

    Args:
        schema: The schema.
    """
    if not isinstance(schema, dict):
        return None
    reader = _PlainCheck(schema)
    if not reader.is_object(schema):
        return None
    required = tuple(schema.get("required", ()))
    minimum = schema.get("minProperties", 0)
    return PlainSchema(frozenset(reader.names), required, bool(required) or minimum > 0)


class _PlainCheck:
    """Walks one schema. Every method returns whether a part is plain."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _MAX_SCHEMAS
        self._references: dict[str, int] = {}
        self._optional = 0
        """The parts around the current one that a value can leave out."""
        self.names: set[str] = set()

    def is_object(self, schema: dict[str, Any]) -> bool:
        """Whether a whole schema, which must be of objects, is plain."""
        if schema.get("type") != "object" and ("type" in schema or "properties" not in schema):
            return False
        others = dict(schema)
        if others.pop("$schema", "http://json-schema.org/draft-07/schema#") not in _DIALECTS:
            return False
        for keyword in ("$defs", "definitions"):
            # Definitions that nothing refers to are not read.
            if keyword in others and not _is_json(others.pop(keyword), 2 * _MAX_DEPTH):
                return False
        most = others.pop("maxProperties", None)
        least = others.pop("minProperties", 0)
        properties = others.get("properties")
        has_choice = isinstance(properties, dict) and bool(properties)
        if type(least) is not int or not 0 <= least <= has_choice:
            return False
        if most is not None and (type(most) is not int or most or least or others.get("required")):
            return False
        return self._schema(others, 0)

    def _schema(self, schema: Any, depth: int) -> bool:
        if schema is True:
            return True
        self._left -= 1
        if type(schema) is not dict or self._left < 0 or depth > _MAX_DEPTH:
            return False
        names = schema.keys() - _ANNOTATIONS
        if len(names) < len(schema) and not all(
            _is_json(schema[name], _MAX_DEPTH) for name in _ANNOTATIONS & schema.keys()
        ):
            return False
        if "$ref" in names:
            return len(names) == 1 and self._reference(schema["$ref"])
        if "anyOf" in names:
            return len(names) == 1 and self._branches(schema["anyOf"], depth)
        for keyword in ("enum", "const"):
            if keyword in names:
                values = schema["enum"] if keyword == "enum" else [schema["const"]]
                return names <= {keyword, "type"} and _is_enum(values, schema.get("type"))
        for name in names:
            check = _CHECKS.get(name)
            if check is None:
                if not (isinstance(name, str) and name.startswith("x-") and name not in _READ):
                    return False
                if not _is_json(schema[name], _MAX_DEPTH):
                    return False
            elif not check(self, schema, depth):
                return False
        return True

    def _reference(self, reference: Any) -> bool:
        """Whether a reference leads to a plain definition, and back to itself only if optional."""
        if not isinstance(reference, str) or not _REFERENCE.fullmatch(reference):
            return False
        known = self._references.get(reference)
        if known is not None:
            return known < self._optional
        self._references[reference] = self._optional
        _, keyword, name = reference.split("/")
        named = self._root.get(keyword)
        if not isinstance(named, dict) or name not in named or not self._schema(named[name], 1):
            return False
        self._references[reference] = _FINISHED
        return True

    def _part(self, schema: Any, depth: int, *, is_optional: bool) -> bool:
        """Whether the schema of a member or of items is plain."""
        self._optional += is_optional
        is_plain = self._schema(schema, depth + 1)
        self._optional -= is_optional
        return is_plain

    def _branches(self, branches: Any, depth: int) -> bool:
        return (
            type(branches) is list
            and 0 < len(branches) <= _MAX_BRANCHES
            and all(type(each) is dict and "anyOf" not in each for each in branches)
            and all(self._schema(each, depth + 1) for each in branches)
        )

    def type_(self, schema: dict[str, Any], depth: int) -> bool:
        del depth
        kind = schema["type"]
        if type(kind) is str:
            return kind in _TYPES
        if type(kind) is not list or not kind or not all(type(each) is str for each in kind):
            return False
        return len(set(kind)) == len(kind) and _TYPES.issuperset(kind)

    def properties(self, schema: dict[str, Any], depth: int) -> bool:
        properties = schema["properties"]
        if type(properties) is not dict or not all(type(name) is str for name in properties):
            return False
        self.names.update(properties)
        required = schema.get("required", ())
        return type(required) in (list, tuple) and all(
            self._part(each, depth, is_optional=name not in required)
            for name, each in properties.items()
        )

    def required(self, schema: dict[str, Any], depth: int) -> bool:
        del depth
        required, properties = schema["required"], schema.get("properties", {})
        if type(required) is not list or not all(type(name) is str for name in required):
            return False
        return len(set(required)) == len(required) and all(name in properties for name in required)

    def additional_properties(self, schema: dict[str, Any], depth: int) -> bool:
        others = schema["additionalProperties"]
        return others is False or self._part(others, depth, is_optional=True)

    def property_names(self, schema: dict[str, Any], depth: int) -> bool:
        del depth
        names: bool = schema["propertyNames"] == {"type": "string"}
        return names

    def items(self, schema: dict[str, Any], depth: int) -> bool:
        return self._part(schema["items"], depth, is_optional=not schema.get("minItems", 0))

    def item_counts(self, schema: dict[str, Any], depth: int) -> bool:
        del depth
        least, most = schema.get("minItems", 0), schema.get("maxItems", _MAX_LENGTH)
        return type(least) is type(most) is int and 0 <= least <= most and least <= _MAX_COUNT

    def unique_items(self, schema: dict[str, Any], depth: int) -> bool:
        del depth
        return schema["uniqueItems"] is False

    def strings(self, schema: dict[str, Any], depth: int) -> bool:
        """Whether the keywords of strings together admit a plain word."""
        del depth
        texts = schema.get("pattern", ""), schema.get("format", "")
        least, most = schema.get("minLength", 0), schema.get("maxLength", _MAX_LENGTH)
        if not type(texts[0]) is type(texts[1]) is str or not type(least) is type(most) is int:
            return False
        if not 0 <= least <= most <= _MAX_LENGTH:
            return False
        if not any(texts):
            # Texts that a parser would read as another value are short.
            return most > 0
        return has_plain_words(*texts, least, most)

    def bounds(self, schema: dict[str, Any], depth: int) -> bool:
        """Whether a number of the type lies between all bounds."""
        del depth
        lower = [schema[name] for name in ("minimum", "exclusiveMinimum") if name in schema]
        upper = [schema[name] for name in ("maximum", "exclusiveMaximum") if name in schema]
        if not all(
            type(each) in (int, float) and abs(each) <= _MAX_NUMBER for each in (*lower, *upper)
        ):
            return False
        gap = 0 if schema.get("type") == "number" else 1
        return max(lower, default=-math.inf) + gap < min(upper, default=math.inf)


_FINISHED = -1
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/[A-Za-z0-9_.-]+")

_CHECKS: Mapping[str, Callable[[_PlainCheck, dict[str, Any], int], bool]] = {
    "type": _PlainCheck.type_,
    "properties": _PlainCheck.properties,
    "required": _PlainCheck.required,
    "additionalProperties": _PlainCheck.additional_properties,
    "propertyNames": _PlainCheck.property_names,
    "items": _PlainCheck.items,
    **dict.fromkeys(("minItems", "maxItems"), _PlainCheck.item_counts),
    "uniqueItems": _PlainCheck.unique_items,
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), _PlainCheck.strings),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _PlainCheck.bounds
    ),
}


def _is_enum(values: Any, kind: Any) -> bool:
    """Whether values are scalars, of the type if there is one, and some value can be written."""
    if type(values) is not list or not values:
        return False
    if not all(_is_json(value, 0) for value in values):
        return False
    if kind == "string":
        return all(type(value) is str for value in values) and any(map(_is_word, values))
    if kind is None or kind in ("number", "integer", "boolean"):
        numbers = _KINDS.get(kind, ())
        of_kind = [value for value in values if kind is None or type(value) in numbers]
        return len(of_kind) == len(values) and any(
            type(value) is not str or _is_word(value) for value in values if value is not None
        )
    return False


_KINDS: Mapping[Any, Collection[type]] = {
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
}


def _is_word(text: Any) -> bool:
    if type(text) is not str:
        return False
    if _LETTERS.fullmatch(text):
        return text.lower() not in _NO_STRINGS
    return PLAIN_WORD.fullmatch(text) is not None


@lru_cache(maxsize=1)
def _plain_words() -> Node:
    """Return the language of :data:`PLAIN_WORD`."""
    pattern = r"(?![A-Za-z]{1,8}$)[A-Za-z0-9]([A-Za-z0-9_.:/@+ -]*[A-Za-z0-9])?"
    return compile_pattern(pattern, search=False)


@lru_cache(maxsize=_STRINGS)
def has_plain_words(pattern: str, format: str, least: int, most: int) -> bool:
    """Return whether strings with these keywords are supported, and a plain word is among them."""
    schema = {"type": "string", "pattern": pattern, "format": format, "minLength": least}
    if most < _MAX_LENGTH:
        schema["maxLength"] = most
    try:
        compilation = Compilation(schema)
        with compilation.bounded(compilation.term):
            strings = generated(compilation.context, compilation.term).strings
            return not intersection((strings, _plain_words())).is_empty
    except SchemaError:
        return False


def _is_json(value: Any, depth: int) -> bool:
    """Whether a value is JSON, not nested too deeply, and gives no schema an identifier."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii()) or _is_text(value)
    if kind is bool or value is None:
        return True
    if kind is int or kind is float:
        return bool(abs(value) <= _MAX_NUMBER)
    if depth <= 0:
        return False
    if kind is list:
        return all(_is_json(each, depth - 1) for each in value)
    if kind is dict:
        return all(
            type(name) is str
            and name not in _IDENTIFIERS
            and _is_json(name, 0)
            and _is_json(each, depth - 1)
            for name, each in value.items()
        )
    return False


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
