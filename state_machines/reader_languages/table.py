"""The table of reader languages, and the keyword ``x-reader-language`` that names one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from state_machines.caches import WeakValueLruCache
from state_machines.errors import InvalidSchemaError, ProxyError
from state_machines.grammar.node import Node
from state_machines.reader_languages import (
    addresses,
    durations,
    encodings,
    numerals,
    temporal,
    texts,
    urls,
)

READER_LANGUAGE = "x-reader-language"
"""Names the language of a string, with arguments: the value of :func:`reader_language`."""

_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("const", "enum", "default", "example", "examples")

LANGUAGES: Mapping[str, Callable[..., Node]] = {
    "text": texts.text,
    "path": texts.path,
    "zoneinfo": texts.zone_info,
    "python_pattern": texts.python_pattern,
    "bytes": encodings.bytes_,
    "base64": encodings.base64,
    "date": temporal.date,
    "datetime": temporal.datetime,
    "time": temporal.time,
    "duration": durations.duration,
    "uuid": addresses.uuid,
    "ip": addresses.ip,
    "email": addresses.email,
    "name_email": addresses.name_email,
    "url": urls.url,
    "int": numerals.int_,
    "float": numerals.float_,
    "bool": numerals.bool_,
    "decimal": numerals.decimal,
    "fraction": numerals.fraction,
    "complex": numerals.complex_,
    "bytesize": numerals.byte_size,
}
"""The languages by name. Each takes its arguments by keyword, all of them optional."""

_LANGUAGE = "language"
_HELD_LANGUAGES = 64
"""Languages that are held although no machine is."""

_COMPILED: WeakValueLruCache[str, Node] = WeakValueLruCache(_HELD_LANGUAGES)


def reader_language(spec: Mapping[str, Any]) -> Node:
    """Return the language of a name and arguments, over code points.

    Args:
        spec: JSON: the name as ``language``, and the arguments of the language.

    Returns:
        The language; :data:`~state_machines.grammar.node.EMPTY` if the arguments contradict
        one another.

    Raises:
        InvalidSchemaError: No language has the name, or it has no such argument or value.
        PatternError: A pattern cannot be compiled.
    """
    return _COMPILED.get(json.dumps(spec, sort_keys=True), lambda: _compile(spec))


def _compile(spec: Mapping[str, Any]) -> Node:
    name = spec.get(_LANGUAGE)
    make = LANGUAGES.get(name) if isinstance(name, str) else None
    if make is None:
        raise InvalidSchemaError(
            f"{name!r} is not a reader language", hint=f"The languages are {', '.join(LANGUAGES)}"
        )
    arguments = {key: value for key, value in spec.items() if key != _LANGUAGE}
    known = signature(make).parameters
    for key in arguments:
        if key not in known:
            hint = f"Its arguments are {', '.join(known)}" if known else "It has no arguments"
            raise InvalidSchemaError(f"the language {name!r} has no argument {key!r}", hint=hint)
    try:
        return make(**arguments)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ProxyError):
            raise
        raise InvalidSchemaError(f"wrong argument of the language {name!r}: {error}") from error


def without_reader_languages(schema: Any) -> Any:
    """Return a JSON Schema without the keyword, to describe it to a model.

    ``format``, ``pattern`` and the lengths beside the keyword describe the strings.

    Args:
        schema: The schema, as parsed JSON.
    """
    if isinstance(schema, list):
        return [without_reader_languages(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    written: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
            written[keyword] = {name: without_reader_languages(v) for name, v in value.items()}
        elif keyword != READER_LANGUAGE:
            written[keyword] = value if keyword in _VALUES else without_reader_languages(value)
    return written
