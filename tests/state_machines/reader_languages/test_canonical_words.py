"""Different canonical words are different keys, which the library writes back unchanged."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import pathlib
import uuid
import warnings
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
from pydantic import ConfigDict, RootModel, StringConstraints, TypeAdapter, networks
from schema_strategies import examples
from url_types import url_spec

from state_machines.reader_languages.table import reader_language

Convert = Callable[[str], tuple[dict[Any, int], str]]
"""Reads an object, and returns it with the JSON that is written of it."""


def adapter(kind: Any) -> Convert:
    of_keys = TypeAdapter(dict[kind, int])

    def convert(text: str) -> tuple[dict[Any, int], str]:
        found = of_keys.validate_json(text)
        with warnings.catch_warnings():
            # Of complex keys, although they are written.
            warnings.simplefilter("ignore")
            return found, of_keys.dump_json(found).decode()

    return convert


def decoder(kind: Any) -> Convert:
    def convert(text: str) -> tuple[dict[Any, int], str]:
        found = msgspec.json.decode(text, type=dict[kind, int])
        return found, msgspec.json.encode(found).decode()

    return convert


def encoded_bytes(encoding: Any) -> Convert:
    class Keys(RootModel[dict[bytes, int]]):
        model_config = ConfigDict(val_json_bytes=encoding, ser_json_bytes=encoding)

    def convert(text: str) -> tuple[dict[Any, int], str]:
        found = Keys.model_validate_json(text)
        return found.root, found.model_dump_json()

    return convert


def cases() -> Iterator[tuple[dict[str, Any], Convert]]:
    canonical: dict[str, Any] = {"canonical": True}
    of_msgspec: dict[str, Any] = {"reader": "msgspec", **canonical}
    for convert in (adapter, decoder):
        yield {"language": "int"}, convert(int)
        yield {"language": "float"}, convert(float)
        yield {"language": "date"}, convert(dt.date)
        yield {"language": "decimal", **canonical}, convert(Decimal)
        yield {"language": "uuid", **canonical}, convert(uuid.UUID)
        yield {"language": "text", **canonical}, convert(str)
    for name, kind in (("datetime", dt.datetime), ("time", dt.time), ("duration", dt.timedelta)):
        yield {"language": name, **canonical}, adapter(kind)
        yield {"language": name, **of_msgspec}, decoder(kind)
    yield {"language": "duration", **canonical, "ge": -90.5, "lt": 3600}, adapter(dt.timedelta)
    yield {"language": "datetime", **canonical, "tz": 3600}, adapter(dt.datetime)
    yield {"language": "bool"}, adapter(bool)
    yield {"language": "fraction", **canonical}, adapter(Fraction)
    yield {"language": "complex", **canonical}, adapter(complex)
    yield {"language": "bytesize", **canonical}, adapter(pydantic.ByteSize)
    yield {"language": "email", **canonical}, adapter(pydantic.EmailStr)
    yield {"language": "path", **canonical}, adapter(pathlib.PurePosixPath)
    yield {"language": "bytes"}, adapter(bytes)
    yield {"language": "base64"}, decoder(bytes)
    for encoding in ("base64", "hex"):
        yield {"language": "bytes", "encoding": encoding, **canonical}, encoded_bytes(encoding)
    for case in ("lower", "upper"):
        changes: dict[str, Any] = {f"to_{case}": True, "strip_whitespace": True}
        kind = Annotated[str, StringConstraints(**changes)]
        yield {"language": "text", "case": case, "strip": True, **canonical}, adapter(kind)
    for kind in ("address", "interface", "network"):
        for version in (4, 6):
            spec = {"language": "ip", "kind": kind, "version": version, **canonical}
            yield spec, adapter(getattr(ipaddress, f"IPv{version}{kind.title()}"))
    for name in ("AnyUrl", "HttpUrl", "FileUrl", "RedisDsn", "MariaDBDsn", "PostgresDsn"):
        kind = getattr(networks, name)
        yield {**url_spec(kind), **canonical}, adapter(kind)


CASES = list(cases())


@pytest.mark.parametrize(
    ("spec", "convert"),
    CASES,
    ids=[f"{number}-{json.dumps(spec)}" for number, (spec, _) in enumerate(CASES)],
)
@examples(15)
@given(seed=st.integers(0, 2**32))
def test_keys_are_written_back(spec: dict[str, Any], convert: Convert, seed: int) -> None:
    random = Random(seed)
    drawn = (a_word(reader_language(spec), random, steps=25) for _ in range(8))
    words = {word for word in drawn if word is not None}
    found, written = convert(json.dumps(dict.fromkeys(words, 0)))
    assert len(found) == len(words)
    assert json.loads(written).keys() == words
