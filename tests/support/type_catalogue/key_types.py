"""Dicts of pydantic, by the type of their keys."""

from __future__ import annotations

import enum
import ipaddress
import pathlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping, MutableMapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pydantic
from pydantic import BaseModel, Field, StringConstraints

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


class Colour(enum.Enum):
    """An enum of strings."""

    RED = "red"
    BLUE = "blue"


class Fruit(enum.StrEnum):
    """A StrEnum."""

    APPLE = "apple"
    PEAR = "pear"


class Level(enum.IntEnum):
    """An IntEnum."""

    LOW = 1
    HIGH = 2


class Ratio(enum.Enum):
    """An enum of floats."""

    HALF = 0.5
    FULL = 1.0


class Prices(BaseModel):
    """A model with dicts by numbers."""

    by_id: dict[int, float]
    by_day: dict[date, Decimal] = {}


def sized(base: Any, **lengths: int) -> Any:
    """Return a dict with a bounded number of members."""
    return Annotated[base, Field(**lengths)]


ENTRIES = (
    entry("keys, str", dict[str, int], ['{"a": 1, "": 2}', "{}"], ['{"a": "b"}']),
    entry("keys, int", dict[int, str], ['{"1": "a", "-20": "b"}', "{}"], ['{"x": "a"}', '{"1.5": "a"}']),
    entry("keys, int with min_length", sized(dict[int, int], min_length=2), ['{"1": 1, "2": 2}'], ['{"1": 1, "01": 2}']),
    entry("keys, bounded int", dict[Annotated[int, Field(ge=1, le=12)], str], ['{"12": "a"}'], ['{"13": "a"}']),
    entry("keys, positive int", dict[pydantic.PositiveInt, bool], ['{"7": true}'], ['{"0": true}', '{"-1": true}']),
    entry("keys, multiple of 5", dict[Annotated[int, Field(multiple_of=5)], int], ['{"10": 1}'], ['{"3": 1}']),
    entry("keys, strict int", dict[Annotated[int, Field(strict=True)], int], ['{"1": 1}'], ['{"a": 1}']),
    entry("keys, float", dict[float, str], ['{"1.5": "a", "2.0": "b"}'], ['{"x": "a"}']),
    entry("keys, bounded float", dict[Annotated[float, Field(ge=0, le=1)], str], ['{"0.5": "a"}'], ['{"1.5": "a"}']),
    entry("keys, finite float", dict[pydantic.FiniteFloat, int], ['{"0.5": 1}'], ['{"inf": 1}']),
    entry("keys, bool", dict[bool, int], ['{"true": 1, "false": 2}'], ['{"x": 1}']),
    entry("keys, Decimal", dict[Decimal, int], ['{"1.5": 1}'], ['{"x": 1}']),
    entry(
        "keys, bounded Decimal",
        dict[Annotated[Decimal, Field(ge=0, max_digits=3, decimal_places=1)], int],
        ['{"1.5": 1}'],
        ['{"-1": 1}'],
    ),
    entry("keys, date", dict[date, int], ['{"2024-02-29": 1}'], ['{"a": 1}', '{"2023-02-29": 1}']),
    entry(
        "keys, bounded date",
        dict[Annotated[date, Field(ge=date(2024, 1, 1))], int],
        ['{"2024-01-01": 1}'],
        ['{"2023-12-31": 1}'],
    ),
    entry("keys, datetime", dict[datetime, int], ['{"2024-01-02T03:04:05Z": 1}'], ['{"a": 1}']),
    entry(
        "keys, aware datetime with min_length",
        sized(dict[pydantic.AwareDatetime, int], min_length=2),
        ['{"2024-01-02T03:04:05Z": 1, "2024-01-02T03:04:06Z": 1}'],
        ['{"2024-01-02T03:04:05Z": 1, "2024-01-02T04:04:05+01:00": 1}'],
    ),
    entry("keys, time", dict[time, str], ['{"12:30:00": "a"}'], ['{"a": "a"}']),
    entry("keys, timedelta", dict[timedelta, str], ['{"PT1H": "a"}'], ['{"a": "a"}']),
    entry("keys, UUID", dict[UUID, int], ['{"12345678-1234-5678-1234-567812345678": 1}'], ['{"a": 1}']),
    entry(
        "keys, UUID with min_length",
        sized(dict[UUID, int], min_length=1),
        ['{"12345678-1234-5678-1234-567812345678": 1}'],
        ["{}"],
    ),
    entry("keys, Enum", dict[Colour, int], ['{"red": 1, "blue": 2}', "{}"], ['{"green": 1}']),
    entry("keys, Enum with min_length", sized(dict[Colour, int], min_length=2), ['{"red": 1, "blue": 2}'], ['{"red": 1}']),
    entry("keys, StrEnum", dict[Fruit, str], ['{"apple": "a"}'], ['{"plum": "a"}']),
    entry("keys, IntEnum", dict[Level, str], ['{"1": "a", "2": "b"}', "{}"], ['{"3": "a"}', '{"x": "a"}']),
    entry("keys, IntEnum with min_length", sized(dict[Level, str], min_length=1), ['{"1": "a"}'], ["{}"]),
    entry("keys, Enum of floats", dict[Ratio, int], ["{}"], ['{"0.5": 1}', '{"2": 1}']),
    entry("keys, Literal of str", dict[Literal["a", "b"], int], ['{"a": 1, "b": 2}'], ['{"c": 1}']),
    entry("keys, Literal of int", dict[Literal[1, 2], int], ["{}"], ['{"3": 1}']),
    entry("keys, Literal of an Enum member", dict[Literal[Fruit.APPLE], int], ['{"apple": 1}'], ['{"pear": 1}']),
    entry("keys, pattern", dict[Annotated[str, Field(pattern="^[a-z]+$")], int], ['{"ab": 1}'], ['{"A": 1}']),
    entry("keys, Rust's pattern", dict[Annotated[str, Field(pattern="^[[:upper:]]+$")], int], ['{"AB": 1}'], ['{"a": 1}']),
    entry(
        "keys, length",
        dict[Annotated[str, Field(min_length=1, max_length=3)], int],
        ['{"abc": 1}'],
        ['{"": 1}', '{"abcd": 1}'],
    ),
    entry(
        "keys, stripped",
        sized(dict[Annotated[str, StringConstraints(strip_whitespace=True)], int], min_length=2),
        ['{"a": 1, "b": 2}'],
        ['{"a": 1, " a": 2}'],
    ),
    entry(
        "keys, lowered",
        sized(dict[Annotated[str, StringConstraints(to_lower=True)], int], min_length=2),
        ['{"a": 1, "b": 2}'],
        ['{"a": 1, "A": 2}'],
    ),
    entry("keys, bytes", dict[bytes, int], ['{"a": 1}'], ['{"a": "x"}']),
    entry("keys, int or str", dict[int | str, int], ['{"1": 1, "a": 2}'], ['{"1": "x"}']),
    entry("keys, int or None", dict[int | None, int], ['{"1": 1}'], ['{"x": 1}']),
    entry("keys, date or Literal", dict[date | Literal["never"], int], ['{"2024-01-02": 1, "never": 2}'], ['{"x": 1}']),
    entry("keys, None", dict[None, int], ["{}"], ['{"a": 1}']),
    entry("keys, tuple", dict[tuple[int, int], int], ["{}"], ['{"1,2": 1}']),
    entry("keys, frozenset", dict[frozenset[int], int], ["{}"], ['{"1": 1}']),
    entry("keys, email", dict[pydantic.EmailStr, int], ['{"ada@example.org": 1}'], ['{"a": 1}']),
    entry("keys, IPv4Address", dict[ipaddress.IPv4Address, int], ['{"127.0.0.1": 1}'], ['{"a": 1}']),
    entry("keys, HttpUrl", dict[pydantic.HttpUrl, int], ['{"https://example.org/": 1}'], ['{"a": 1}']),
    entry("keys, Path", dict[pathlib.PurePosixPath, int], ['{"a/b": 1}'], ['{"a": "x"}']),
    entry("keys, Any", dict[Any, int], ['{"a": 1}'], ['{"a": "x"}']),
    entry("keys, Json", dict[pydantic.Json[int], int], ['{"1": 1}'], ['{"a": 1}']),
    entry("keys, nested", dict[int, dict[bool, list[int]]], ['{"1": {"true": [2]}}'], ['{"1": {"x": []}}']),
    entry(
        "dict, bounds",
        sized(dict[str, int], min_length=1, max_length=2),
        ['{"a": 1, "b": 2}'],
        ["{}", '{"a": 1, "b": 2, "c": 3}'],
    ),
    entry("dict, bare", dict, ['{"a": null}', "{}"], ["[]"]),
    entry("Mapping by int", Mapping[int, str], ['{"1": "a"}'], ['{"a": "a"}']),
    entry("MutableMapping", MutableMapping[str, int], ['{"a": 1}'], ['{"a": "x"}']),
    entry("OrderedDict by date", OrderedDict[date, int], ['{"2024-01-02": 1}'], ['{"a": 1}']),
    entry("defaultdict by int", defaultdict[int, list[int]], ['{"1": [2]}'], ['{"a": [2]}']),
    entry("Counter", Counter[str], ['{"a": 1}'], ['{"a": "x"}', '{"a": 1.5}']),
    entry("Counter by Enum", Counter[Colour], ['{"red": 3}'], ['{"green": 1}']),
    entry(
        "model of dicts by numbers",
        Prices,
        ['{"by_id": {"1": 2.5}, "by_day": {"2024-01-02": "1.5"}}'],
        ['{"by_id": {"x": 1}}'],
    ),
)  # fmt: skip
