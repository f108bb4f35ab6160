"""Functions that validate values of pydantic's types, by name, with the texts that they read.

A function of the user cannot be masked. The functions of pydantic itself are known: they restrict
a string to a language, restrict nothing, or depend on something outside of the text. Observed with
pydantic 2.14.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pydantic.types import Base64Encoder, Base64UrlEncoder

from state_machines.type_readers.marks import GAPS, Schema, note
from state_machines.type_readers.parts import language
from state_machines.type_readers.pydantic_scalars import Core

_LANGUAGES: Mapping[str, Schema] = {
    "EmailStr._validate": {**language("email"), "format": "email"},
    "NameEmail._validate": {**language("name_email"), "format": "name-email"},
    "ByteSize._validate": {"anyOf": [{"type": "integer", "minimum": 0}, language("bytesize")]},
    "validate_str_is_valid_iana_tz": language("zoneinfo"),
    "pattern_str_validator": {**language("python_pattern"), "format": "regex"},
    "pattern_either_validator": {**language("python_pattern"), "format": "regex"},
    "pattern_bytes_validator": {**language("python_pattern"), "format": "regex"},
}
"""The schemas of strings that a function reads; they replace the schema of its input."""

_ENCODINGS: Mapping[tuple[str, object], Schema] = {
    ("EncodedBytes.decode", Base64Encoder): language("base64"),
    ("EncodedBytes.decode", Base64UrlEncoder): language("base64", alphabet="url"),
    ("EncodedStr.decode_str", Base64Encoder): language("base64", is_text=True),
    ("EncodedStr.decode_str", Base64UrlEncoder): language("base64", alphabet="url", is_text=True),
}

_OUTSIDE: Mapping[str, str] = {
    "PathType.validate_file": "the file exists",
    "PathType.validate_directory": "the directory exists",
    "PathType.validate_new": "the path does not exist, and its parent does",
    "PathType.validate_socket": "the path is a socket",
    "import_string": "the name can be imported",
}
"""Requirements that depend on more than the text."""


_OWN_MODULES = ("pydantic.", "pydantic_core", "ipaddress", "annotated_types")

_LENGTHS = {
    "min_length_validator": ("min_length", "minLength"),
    "max_length_validator": ("max_length", "maxLength"),
}
_BOUNDS = {
    "greater_than_validator": ("gt", "exclusiveMinimum"),
    "greater_than_or_equal_validator": ("ge", "minimum"),
    "less_than_validator": ("lt", "exclusiveMaximum"),
    "less_than_or_equal_validator": ("le", "maximum"),
    "multiple_of_validator": ("multiple_of", "multipleOf"),
}
"""Constraints of values behind another function: the argument, and the keyword of JSON Schema."""


def read_by_function(core: Core, schema: Schema) -> Schema:
    """Return the schema of the texts that a function accepts.

    Args:
        core: A core schema of a kind ``function-*``.
        schema: The schema of the function's input.
    """
    function = core["function"]["function"]
    arguments: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        arguments |= function.keywords
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None) or type(function).__module__
    if not f"{module}.".startswith(_OWN_MODULES):
        return note(schema, GAPS, f"the validator {name} of the type")
    if name in _OUTSIDE:
        return note(schema, GAPS, _OUTSIDE[name])
    if name in _LANGUAGES:
        return _with_language(schema, _LANGUAGES[name])
    if name.startswith(("EncodedBytes.", "EncodedStr.")):
        encoder = getattr(getattr(function, "__self__", None), "encoder", None)
        found = _ENCODINGS.get((name, encoder))
        if found is None:
            return note(schema, GAPS, f"the encoder {encoder!r} of the type")
        return _with_language(schema, found)
    if name in _LENGTHS or name in _BOUNDS:
        argument, keyword = (_LENGTHS | _BOUNDS)[name]
        return _constrained(core, schema, argument, keyword, arguments[argument])
    if name.endswith(_CONDITIONS):
        return note(schema, GAPS, "a predicate of the type")
    return schema


_CONDITIONS = ("_predicate", "val_func", "_not", "forbid_inf_nan_check")


def _constrained(core: Core, schema: Schema, argument: str, keyword: str, limit: Any) -> Schema:
    """Return the schema of the texts whose value, read by another function, has a limit."""
    gap = f"{argument}={limit!r}, checked after another validator"
    if GAPS in schema:
        return note(schema, GAPS, gap)
    if keyword in _BOUNDS_KEYWORDS:
        return {**schema, "allOf": [{"type": "number", keyword: limit}]}
    if schema.get("type") != "string":
        return (
            schema if _INNER_KEYWORDS.get(keyword, keyword) in schema else note(schema, GAPS, gap)
        )
    spec = schema.get("x-reader-language") or {}
    if spec.get("language") in _REWRITTEN:
        # The length is that of the value as it is written back.
        schema = {**schema, "x-reader-language": {**spec, "canonical": True}}
    if _innermost(core)["type"] == "bytes" and not spec.get("is_text"):
        spec = spec or {"language": "bytes"}
        return {**schema, "x-reader-language": {**spec, argument: limit}}
    return {**schema, "allOf": [*schema.get("allOf", ()), {keyword: limit}]}


_REWRITTEN = frozenset({"url", "email", "name_email"})
_BOUNDS_KEYWORDS = frozenset(keyword for _, keyword in _BOUNDS.values())
_INNER_KEYWORDS = {"minLength": "minItems", "maxLength": "maxItems"}


def _innermost(core: Core) -> Core:
    """Return the core schema of a function's input, behind all functions and choices of input."""
    while True:
        for name in ("schema", "lax_schema", "json_schema"):
            if name in core:
                core = core[name]
                break
        else:
            return core


def _with_language(schema: Schema, language: Schema) -> Schema:
    """Return the schema of a language, with the annotations of another schema."""
    kept = ("title", "description", "examples", "format", "deprecated", "default")
    return {**language, **{name: schema[name] for name in kept if name in schema}}
