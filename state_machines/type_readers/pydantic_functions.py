"""Functions that validate values of pydantic's types, by name, with the texts that they read.

A function of the user cannot be masked. The functions of pydantic itself are known: they restrict
a string to a language, restrict nothing, or depend on something outside of the text. Observed with
pydantic 2.14.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Any
from uuid import UUID

from pydantic import AnyUrl, ByteSize, NameEmail, Secret, SecretBytes, SecretStr
from pydantic.types import Base64Encoder, Base64UrlEncoder

from state_machines.type_readers.core_reader import Core, UnreadableError
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

_CASELESS = frozenset(_CANONICAL)
"""Functions that read texts of any case alike."""

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


def read_by_function(
    core: Core, schema: Schema, config: Mapping[str, Any], *, is_canonical: bool
) -> Schema:
    """Return the schema of the texts that a function accepts.

    Args:
        core: A core schema of a kind ``function-*``.
        schema: The schema of the function's input.
        config: The configuration of the enclosing type.
        is_canonical: Whether different texts have to be different values.
    """
    function, name, arguments = _known_function(core)
    module = getattr(function, "__module__", None) or type(function).__module__
    if isinstance(function, operator.attrgetter) and core["schema"]["type"] == "enum":
        # The value of a member (``use_enum_values``).
        return schema
    if not f"{module}.".startswith(_OWN_MODULES):
        return note(schema, GAPS, f"the validator {name} of the type")
    if name in _OUTSIDE:
        return note(schema, GAPS, _OUTSIDE[name])
    is_read = name in _LANGUAGES or name.startswith(("EncodedBytes.", "EncodedStr."))
    is_cased = is_canonical or name not in _CASELESS
    if is_read and is_cased and _converts_case(core.get("schema", {}), config):
        schema = note(schema, GAPS, f"the case is converted before {name} reads the text")
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


def _converts_case(core: Core, config: Mapping[str, Any]) -> bool:
    """Return whether the letters of a text are converted before a function is called with it."""
    inner = _innermost(core)
    cases = ("to_lower", "to_upper")
    return inner.get("type") == "str" and any(
        inner.get(case, config.get(f"str_{case}")) for case in cases
    )


def _innermost(core: Core) -> Core:
    """Return the core schema of a function's input, behind all choices of input."""
    for name in ("json_schema", "lax_schema", "schema"):
        if name in core:
            return _innermost(core[name])
    return core


def _known_function(core: Core) -> tuple[Any, str, dict[str, Any]]:
    """Return the function of a core schema, its name, and the arguments of its partials."""
    function = core["function"]["function"]
    arguments: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        arguments |= function.keywords
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return function, name, arguments


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
    """Return the schema of the texts whose value, read by another function, has a limit.

    Raises:
        UnreadableError: The limit applies to no value of the type.
    """
    inner = _without_limits(core["schema"])
    gap = note(schema, GAPS, f"{argument}={limit!r}, checked after another validator")
    if GAPS in schema:
        return gap
    if inner["type"] == "json":
        # The limit is that of the value in the text.
        content = schema.get("contentSchema")
        if not content or "$ref" in content:
            return gap
        content = _constrained(inner, content, argument, keyword, limit)
        return {**schema, "contentSchema": content}
    types = value_types(inner)
    method = _METHODS.get(argument, f"__{argument}__")
    if not any(_has_method(cls, method) for cls in types):
        names = ", ".join(sorted(cls.__name__ for cls in types))
        raise UnreadableError(
            f"{argument}={limit!r} applies to no value of {names}",
            hint="Leave the constraint out, or give it to the type inside, such as "
            "Secret[Annotated[str, Field(min_length=8)]]",
        )
    limited = _bounded if keyword in _BOUNDS_KEYWORDS else _sized
    return limited(schema, types, argument, keyword, limit) or gap


def _bounded(
    schema: Schema, types: frozenset[type], argument: str, keyword: str, limit: Any
) -> Schema | None:
    """Return the schema of numbers with a bound; ``None`` if other values have to be compared."""
    is_number = isinstance(limit, int | float | Decimal) and math.isfinite(limit)
    known = all(issubclass(cls, NUMBERS) or cls in _NO_NUMBERS for cls in types)
    if not is_number or not known or schema.get("type") == "string":
        return None
    numbers: Schema = {"type": "number", keyword: limit if isinstance(limit, int) else float(limit)}
    if bool in types:
        kept = [value for value in (False, True) if _HOLDS[argument](value, limit)]
        numbers = {"anyOf": [numbers, *({"const": value} for value in kept)]}
    return {**schema, "allOf": [*schema.get("allOf", ()), numbers]}


def _sized(
    schema: Schema, types: frozenset[type], argument: str, keyword: str, limit: Any
) -> Schema | None:
    """Return the schema of values with a length; ``None`` if it is not that of their JSON."""
    if types == {list}:
        items = {_INNER_KEYWORDS[keyword]: limit}
        return {**schema, "allOf": [*schema.get("allOf", ()), items]}
    if schema.get("type") != "string":
        return schema if _INNER_KEYWORDS[keyword] in schema else None
    if not all(issubclass(cls, _TEXTS) for cls in types):
        return None
    spec = schema.get("x-reader-language") or {}
    if spec.get("language") in _REWRITTEN:
        # The length is that of the value as it is written back.
        schema = {**schema, "x-reader-language": {**spec, "canonical": True}}
    if "case" in spec:
        # The case is converted before the length is counted.
        return None
    is_counted = spec.get("is_text") or spec.get("language") == "text"
    if is_counted or any(issubclass(cls, _BYTES) for cls in types):
        spec = spec or {"language": "bytes"}
        stricter = max if keyword == "minLength" else min
        limit = stricter(limit, spec.get(argument, limit))
        return {**schema, "x-reader-language": {**spec, argument: limit}}
    return {**schema, "allOf": [*schema.get("allOf", ()), {keyword: limit}]}


_REWRITTEN = frozenset({"url", "email", "name_email"})
_BOUNDS_KEYWORDS = frozenset(keyword for _, keyword in _BOUNDS.values())
_INNER_KEYWORDS = {"minLength": "minItems", "maxLength": "maxItems"}
_METHODS = {"min_length": "__len__", "max_length": "__len__", "multiple_of": "__mod__"}
_HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "multiple_of": lambda value, step: not value % step,
}

NUMBERS = (int, float, Decimal, Fraction)
_BYTES = (bytes, SecretBytes)
_TEXTS = (str, SecretStr, AnyUrl, *_BYTES)
_NO_NUMBERS = frozenset({str, bytes, NoneType, list, dict, date, datetime, time, UUID, AnyUrl})
"""Types that are read from no number under the masks."""


def _has_method(cls: type, name: str) -> bool:
    """Return whether values of a class may have a method; those of ``object`` may be anything."""
    return cls is object or any(name in vars(base) for base in cls.__mro__[:-1])


def _without_limits(core: Core) -> Core:
    """Return the core schema whose values the functions of limits check."""
    while core["type"].startswith("function-"):
        _, name, _ = _known_function(core)
        if name not in _LENGTHS and name not in _BOUNDS:
            break
        core = core["schema"]
    return core


_TYPES: Mapping[str, frozenset[type]] = {
    "none": frozenset({NoneType}),
    "bool": frozenset({bool}),
    "int": frozenset({int}),
    "float": frozenset({float}),
    "decimal": frozenset({Decimal}),
    "fraction": frozenset({Fraction}),
    "complex": frozenset({complex}),
    "str": frozenset({str}),
    "bytes": frozenset({bytes}),
    "date": frozenset({date}),
    "datetime": frozenset({datetime}),
    "time": frozenset({time}),
    "timedelta": frozenset({timedelta}),
    "uuid": frozenset({UUID}),
    "url": frozenset({AnyUrl}),
    "multi-host-url": frozenset({AnyUrl}),
    "list": frozenset({list}),
    "set": frozenset({set}),
    "frozenset": frozenset({frozenset}),
    "tuple": frozenset({tuple}),
    "dict": frozenset({dict}),
    "typed-dict": frozenset({dict}),
    "any": frozenset({NoneType, bool, int, float, str, list, dict}),
}
"""The types of the values that core schemas read from JSON."""

_RESULTS: Mapping[str, type] = {
    "EmailStr._validate": str,
    "NameEmail._validate": NameEmail,
    "ByteSize._validate": ByteSize,
    "EncodedBytes.decode": bytes,
    "EncodedStr.decode_str": str,
    "SecretStr": SecretStr,
    "SecretBytes": SecretBytes,
    "Secret.__get_pydantic_core_schema__.<locals>.<lambda>": Secret,
    "GenerateSchema._path_schema.<locals>.path_validator": Path,
    "_BaseUrl.__get_pydantic_core_schema__.<locals>.wrap_val": AnyUrl,
}
"""The types of the values that functions of pydantic return."""


def value_types(core: Core) -> frozenset[type]:
    """Return the types of the values that a core schema reads from JSON.

    ``object`` is among them if some are not known.
    """
    kind = core["type"]
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in ("literal", "enum"):
        return frozenset(map(type, core["expected" if kind == "literal" else "members"]))
    if kind in ("model", "dataclass"):
        return frozenset({core["cls"]})
    if kind == "union":
        choices = (choice[0] if isinstance(choice, tuple) else choice for choice in core["choices"])
        return frozenset[type]().union(*map(value_types, choices))
    if kind == "nullable":
        return value_types(core["schema"]) | {NoneType}
    if kind.startswith("function-"):
        core = _without_limits(core)
        if core["type"] != kind:
            return value_types(core)
        _, name, _ = _known_function(core)
        return frozenset({_RESULTS.get(name, object)})
    for inner in ("json_schema", "lax_schema", *(["schema"] if kind == "json" else [])):
        if inner in core:
            return value_types(core[inner])
    return frozenset({object})


_ANNOTATIONS = ("title", "description", "examples", "format", "deprecated", "default", GAPS)


def _with_language(schema: Schema, language: Schema) -> Schema:
    """Return the schema of a language, among the texts that the function is called with."""
    kept = {name: schema[name] for name in _ANNOTATIONS if name in schema}
    read = {name: value for name, value in schema.items() if name not in kept}
    spec = read.pop("x-reader-language", {})
    counted = {name: value for name, value in spec.items() if name not in ("canonical", "case")}
    if counted not in ({}, {"language": "text"}):
        read["x-reader-language"] = counted
    if read in ({}, {"type": "string"}):
        return {**language, **kept}
    return {**language, **kept, "allOf": [read]}
