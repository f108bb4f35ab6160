"""Functions that validate values of pydantic's types, by name, with the texts that they read.

A function of the user cannot be masked. The functions of pydantic itself are known: they restrict
a string to a language, restrict nothing, or depend on something outside of the text. Observed with
pydantic 2.14.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

from pydantic.types import Base64Encoder, Base64UrlEncoder

from state_machines.type_readers.core_reader import Core
from state_machines.type_readers.type_schema import GAPS, Schema, language, note

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

_CANONICAL: Mapping[str, Schema] = {
    "EmailStr._validate": {**language("email", canonical=True), "format": "email"},
    "NameEmail._validate": {**language("name_email", canonical=True), "format": "name-email"},
    "ByteSize._validate": language("bytesize", canonical=True),
}
"""The same, of texts that are different values."""

_FORMATS: Mapping[str, Schema] = {
    "path": language("path", canonical=True),
    **{
        f"ip{name}{'' if kind == 'address' and version else kind}": language(
            "ip", kind=kind, version=version, canonical=True
        )
        for kind in ("address", "interface", "network")
        for name, version in (("v4", 4), ("v6", 6), ("vany", None))
    },
}
"""Formats with several texts of one value, each with the texts that are different values."""

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
    "PaymentCardNumber.validate": "the check digit, and the length for the brand, are correct",
}
"""Requirements that no mask guarantees; most depend on more than the text."""

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


def distinct_texts(schema: Schema) -> Schema:
    """Return a schema without the texts of a format that are the same value as another text."""
    found = _FORMATS.get(schema.get("format", ""))
    if found is None or "x-reader-language" in schema:
        return schema
    return {**schema, **found}


def read_by_function(core: Core, schema: Schema, *, is_canonical: bool) -> Schema:
    """Return the schema of the texts that a function accepts.

    Args:
        core: A core schema of a kind ``function-*``.
        schema: The schema of the function's input.
        is_canonical: Whether different texts have to be different values.
    """
    function = core["function"]["function"]
    arguments: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        arguments |= function.keywords
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None) or type(function).__module__
    if isinstance(function, operator.attrgetter) and core["schema"]["type"] == "enum":
        # The value of a member (``use_enum_values``).
        return schema
    if not f"{module}.".startswith(_OWN_MODULES):
        return note(schema, GAPS, f"the validator {name} of the type")
    if name in _OUTSIDE:
        return note(schema, GAPS, _OUTSIDE[name])
    if is_canonical and name in _CANONICAL:
        return _with_language(schema, _CANONICAL[name])
    if name in _LANGUAGES:
        return _with_language(schema, _LANGUAGES[name])
    if name.startswith(("EncodedBytes.", "EncodedStr.")):
        encoder = getattr(getattr(function, "__self__", None), "encoder", None)
        found = _ENCODINGS.get((name, encoder))
        if found is None:
            return note(schema, GAPS, f"the encoder {encoder!r} of the type")
        if schema.get("x-reader-language", {}).get("encoding", "utf8") != "utf8":
            return note(schema, GAPS, "the encoding within val_json_bytes")
        return _with_language(schema, found)
    if name in _LENGTHS or name in _BOUNDS:
        argument, keyword = (_LENGTHS | _BOUNDS)[name]
        return _constrained(core, schema, argument, keyword, arguments[argument])
    if name.endswith(_CONDITIONS):
        return note(schema, GAPS, "a predicate of the type")
    if f"{module}.".startswith("pydantic.") and not name.endswith(_CONVERSIONS):
        return note(schema, GAPS, f"the validator {name} of pydantic")
    return schema


_CONVERSIONS = (
    *(
        "<lambda>",
        "SecretStr",
        "SecretBytes",
        "wrap_val",
        "path_validator",
        "defaultdict_validator",
    ),
    *("IPvAnyAddress._validate", "IPvAnyInterface._validate", "IPvAnyNetwork._validate"),
)
"""Functions of pydantic that refuse no text of the schema of their input."""

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
    if spec.get("is_text") or _innermost(core)["type"] == "bytes":
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
