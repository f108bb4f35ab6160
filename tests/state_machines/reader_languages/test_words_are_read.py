"""Every word of a reader language is read by the validator, and satisfies the constraints."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import pathlib
import re
import uuid
import warnings
import zoneinfo
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_words import a_word
from pydantic import TypeAdapter, networks
from pydantic_core import CoreConfig, SchemaValidator
from pydantic_core import core_schema as core
from schema_strategies import examples
from url_types import URL_TYPES, url_spec

from state_machines.reader_languages.table import reader_language

Read = Callable[[str], Any]
Case = tuple[dict[str, Any], Read]


def core_reader(schema: core.CoreSchema, config: CoreConfig | None = None) -> Read:
    validator = SchemaValidator(schema, config)
    return lambda text: validator.validate_json(json.dumps(text))


def type_reader(kind: Any) -> Read:
    adapter = TypeAdapter(kind)
    return lambda text: adapter.validate_json(json.dumps(text))


def msgspec_reader(kind: Any) -> Read:
    return lambda text: msgspec.json.decode(json.dumps(text), type=kind)


def with_canonical(spec: dict[str, Any], read: Read) -> Iterator[Case]:
    yield spec, read
    yield {**spec, "canonical": True}, read


def texts() -> Iterator[Case]:
    names = {"strip": "strip_whitespace", "ascii": "ascii_only"}
    constraints: list[dict[str, Any]] = [
        {},
        {"strip": True, "min_length": 1},
        {"strip": True, "max_length": 3, "pattern": "^[a-z]+$"},
        {"strip": True, "ascii": True},
        {"case": "lower", "pattern": "[A-Z]", "min_length": 2},
        {"case": "upper", "max_length": 2},
        {"min_length": 2, "max_length": 2},
    ]
    for arguments in constraints:
        found = {names.get(name, name): value for name, value in arguments.items()}
        case = found.pop("case", None)
        read = core_reader(core.str_schema(**found, **({f"to_{case}": True} if case else {})))
        yield {"language": "text", **arguments}, read
        if "pattern" not in arguments or case is None:
            yield {"language": "text", **arguments, "canonical": True}, read
    rust = r"^[[:alpha:]&&[^b]]\w{0,3}\s?\b"
    spec = {"language": "text", "pattern": rust, "dialect": "rust"}
    yield spec, core_reader(core.str_schema(pattern=rust))
    python = re.compile(r"^ [^\W\d]+ \s [a-z]{2} $ # two letters", re.X | re.I)
    spec = {"language": "text", "pattern": python.pattern, "dialect": "python", "flags": "xi"}
    yield spec, core_reader(core.str_schema(pattern=python))
    yield from with_canonical({"language": "path"}, type_reader(pathlib.Path))
    yield {"language": "zoneinfo"}, type_reader(zoneinfo.ZoneInfo)
    yield {"language": "python_pattern"}, type_reader(re.Pattern)


def encodings() -> Iterator[Case]:
    lengths = [{}, {"min_length": 3}, {"max_length": 4}, {"min_length": 2, "max_length": 5}]
    for encoding in ("utf8", "base64", "hex"):
        config = CoreConfig(val_json_bytes=encoding)
        for length in lengths:
            spec = {"language": "bytes", "encoding": encoding, **length}
            yield from with_canonical(spec, core_reader(core.bytes_schema(**length), config))
    for length in lengths:
        kind = Annotated[bytes, msgspec.Meta(**length)] if length else bytes
        yield {"language": "base64", **length}, msgspec_reader(kind)
    yield {"language": "base64"}, type_reader(pydantic.Base64Bytes)
    yield {"language": "base64", "is_text": True}, type_reader(pydantic.Base64Str)
    yield {"language": "base64", "alphabet": "url"}, type_reader(pydantic.Base64UrlBytes)
    text = {"language": "base64", "alphabet": "url", "is_text": True}
    yield text, type_reader(pydantic.Base64UrlStr)


def numerals() -> Iterator[Case]:
    whole: list[dict[str, Any]] = [
        {},
        {"ge": 5},
        {"gt": -3, "lt": 100},
        {"multiple_of": 7},
        {"ge": 10**30, "multiple_of": 12},
        {"le": -1},
    ]
    for bounds in whole:
        yield {"language": "int", **bounds}, core_reader(core.int_schema(**bounds))
    for bounds in [
        {},
        {"ge": 0.1},
        {"gt": 1e-5, "lt": 1e-3},
        {"multiple_of": 0.1},
        {"le": -0.30000000000000004},
        {"gt": 0, "lt": 1e300},
    ]:
        yield {"language": "float", **bounds}, core_reader(core.float_schema(**bounds))
    for bounds in [
        {},
        {"ge": "5"},
        {"gt": "-3.14", "lt": "100"},
        {"multiple_of": "0.05"},
        {"multiple_of": "0.3", "decimal_places": 0},
        {"max_digits": 5, "decimal_places": 2},
        {"max_digits": 5},
        {"decimal_places": 3},
        {"max_digits": 2, "decimal_places": 2},
        {"max_digits": 2, "decimal_places": 4},
        {"max_digits": 4, "decimal_places": 2, "ge": "99.99"},
        {"max_digits": 40},
        {"gt": "0.00001", "decimal_places": 3},
    ]:
        limits = {k: Decimal(v) if isinstance(v, str) else v for k, v in bounds.items()}
        read = core_reader(core.decimal_schema(**limits))
        yield from with_canonical({"language": "decimal", **bounds}, read)
    yield {"language": "bool"}, core_reader(core.bool_schema())
    yield from with_canonical({"language": "fraction"}, type_reader(Fraction))
    yield from with_canonical({"language": "complex"}, type_reader(complex))
    yield from with_canonical({"language": "bytesize"}, type_reader(pydantic.ByteSize))


def times() -> Iterator[Case]:
    dates = [
        {},
        {"ge": "2024-01-01"},
        {"gt": "2023-12-31", "lt": "2024-03-01"},
        {"le": "0001-02-03"},
        {"gt": "9999-12-30"},
    ]
    for bounds in dates:
        days = {name: dt.date.fromisoformat(text) for name, text in bounds.items()}
        yield {"language": "date", **bounds}, core_reader(core.date_schema(**days))
    yield {"language": "date"}, msgspec_reader(dt.date)
    moments = [
        {},
        {"ge": "2024-01-01T10:00:00"},
        {"gt": "2024-01-01T10:00:00"},
        {"ge": "2024-01-01T00:00:00", "lt": "2024-01-02T00:00:00"},
        {"ge": "2024-01-01T10:00:00+02:00"},
        {"le": "2024-01-01T10:00:00.500Z"},
        {"gt": "2024-01-01T10:00:00Z", "lt": "2024-02-01T00:00:00"},
        {"ge": "0001-01-01T00:00:00Z", "le": "0001-01-02T00:00:00Z"},
        {"gt": "9999-12-31T00:00:00Z"},
    ]
    clocks = [
        {},
        {"ge": "10:00:00"},
        {"gt": "10:00:00", "le": "10:00:01"},
        {"ge": "10:00:00+02:00"},
        {"lt": "10:00:00.5+00:00"},
        {"ge": "00:30:00Z", "le": "23:30:00Z"},
    ]
    zones: list[Any] = [None, "aware", "naive", 3600, 0, -19800]
    for name, parse, schema, given_bounds in (
        ("datetime", dt.datetime.fromisoformat, core.datetime_schema, moments),
        ("time", dt.time.fromisoformat, core.time_schema, clocks),
    ):
        for number, bounds in enumerate(given_bounds):
            limits = {key: parse(text) for key, text in bounds.items()}
            for tz in (zones[number % len(zones)], *zones[:2]):
                spec = {"language": name, "tz": tz, **bounds}
                read = core_reader(schema(tz_constraint=tz, **limits))
                yield from with_canonical(spec, read)
        read = core_reader(schema(strict=True))
        yield {"language": name, **({"strict": True} if name == "datetime" else {})}, read
        read = core_reader(schema(microseconds_precision="error"))
        yield {"language": name, "precision": "error"}, read
    for kind, name in ((dt.datetime, "datetime"), (dt.time, "time")):
        spec = {"language": name, "reader": "msgspec"}
        yield from with_canonical(spec, msgspec_reader(kind))
        for tz in (True, False):
            zoned = Annotated[kind, msgspec.Meta(tz=tz)]
            yield {**spec, "tz": "aware" if tz else "naive"}, msgspec_reader(zoned)


def durations() -> Iterator[Case]:
    largest = 86400 * 999_999_999
    for bounds in [
        {},
        {"ge": 0},
        {"gt": 0},
        {"ge": 86400},
        {"lt": 0},
        {"gt": 1.5, "le": 3600},
        {"ge": -3600, "lt": 90061.25},
        {"le": -0.000001},
        {"ge": largest},
        {"ge": 3600 * 24 * 365, "le": 3600 * 24 * 366},
        {"gt": 59, "lt": 60},
        {"ge": -largest, "lt": -largest + 86400},
    ]:
        limits = {name: dt.timedelta(seconds=value) for name, value in bounds.items()}
        read = core_reader(core.timedelta_schema(**limits))
        yield from with_canonical({"language": "duration", **bounds}, read)
    spec = {"language": "duration", "reader": "msgspec"}
    yield from with_canonical(spec, msgspec_reader(dt.timedelta))


def addresses() -> Iterator[Case]:
    yield from with_canonical({"language": "email"}, type_reader(pydantic.EmailStr))
    yield from with_canonical({"language": "name_email"}, type_reader(pydantic.NameEmail))
    yield from with_canonical({"language": "uuid"}, type_reader(uuid.UUID))
    yield from with_canonical({"language": "uuid"}, msgspec_reader(uuid.UUID))
    for version in (1, 3, 4, 5, 6, 7, 8):
        read = type_reader(getattr(pydantic, f"UUID{version}"))
        yield from with_canonical({"language": "uuid", "version": version}, read)
    for kind in ("address", "interface", "network"):
        spec = {"language": "ip", "kind": kind}
        read = type_reader(getattr(networks, f"IPvAny{kind.title()}"))
        yield from with_canonical(spec, read)
        for version in (4, 6):
            read = type_reader(getattr(ipaddress, f"IPv{version}{kind.title()}"))
            yield from with_canonical({**spec, "version": version}, read)


def urls() -> Iterator[Case]:
    for kind in URL_TYPES:
        yield from with_canonical(url_spec(kind), type_reader(kind))
    constraints: list[dict[str, Any]] = [
        {"max_length": 20},
        {"host_required": True},
        {"allowed_schemes": ["mailto", "urn"]},
        {"default_host": "h"},
        {"default_port": 80},
        {"allowed_schemes": ["git+ssh", "ws"]},
    ]
    for arguments in constraints:
        spec = {"language": "url", **arguments}
        yield from with_canonical(spec, core_reader(core.url_schema(**arguments)))
        several = core_reader(core.multi_host_url_schema(**arguments))
        yield {**spec, "multi_host": True}, several


CASES = [
    case
    for cases in (*(texts, encodings, numerals, times, durations, addresses, urls),)
    for case in cases()
]


@pytest.mark.parametrize(
    ("spec", "read"), CASES, ids=[json.dumps(spec, ensure_ascii=True) for spec, _ in CASES]
)
@examples(15)
@given(seed=st.integers(0, 2**32))
def test_drawn_words_are_read(spec: dict[str, Any], read: Read, seed: int) -> None:
    random = Random(seed)
    for _ in range(4):
        word = a_word(reader_language(spec), random)
        if word is not None:
            with warnings.catch_warnings():
                # Patterns such as "[[]" are read, with a warning.
                warnings.simplefilter("ignore")
                read(word)
