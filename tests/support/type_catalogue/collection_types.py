"""Lists, sets, tuples, and other collections of pydantic."""

from __future__ import annotations

import collections
import enum
from collections import deque
from collections.abc import Generator, Iterable, MutableSequence, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv6Address
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import annotated_types as at
import pydantic
from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    GetPydanticSchema,
    OnErrorOmit,
    StringConstraints,
)
from pydantic_core import core_schema

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


class Level(enum.IntEnum):
    """Integers."""

    LOW = 1
    HIGH = 2


class Colour(enum.Enum):
    """Strings."""

    RED = "red"
    BLUE = "blue"


class Key(BaseModel):
    """A hashable model."""

    model_config = ConfigDict(frozen=True)
    a: int
    b: str = "x"


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Basket(BaseModel):
    """A model of sets."""

    tags: Annotated[
        set[Annotated[str, StringConstraints(strip_whitespace=True)]], Field(min_length=2)
    ]
    sizes: Annotated[frozenset[float], Field(min_length=1, max_length=2)] = frozenset({1.0})


class StrictLists(BaseModel):
    """A strict model of collections."""

    model_config = ConfigDict(strict=True)
    a: list[int]
    b: set[int]
    c: tuple[int, str]
    d: frozenset[str] = frozenset()


def sized(base: Any, **lengths: int) -> Any:
    """Return a collection with a bounded length."""
    return Annotated[base, Field(**lengths)]


VARIADIC = core_schema.tuple_schema(
    [core_schema.int_schema(), core_schema.str_schema(), core_schema.bool_schema()],
    variadic_item_index=1,
)

ENTRIES = (
    entry("list of int", list[int], ["[1, -2]", "[]"], ["[1.5]", "{}"]),
    entry("list, bare", list, ['[1, "a", null]', "[]"], ["{}"]),
    entry("list, lengths", sized(list[int], min_length=1, max_length=3), ["[1]", "[1, 1, 1]"], ["[]"]),
    entry("list, Len", Annotated[list[int], at.Len(2, 2)], ["[1, 2]"], ["[1]"]),
    entry("list of lists", list[list[bool]], ["[[true], []]"], ["[1]"]),
    entry("list, FailFast", Annotated[list[int], FailFast()], ["[1]"], ['["a"]']),
    entry("list, OnErrorOmit", list[OnErrorOmit[int]], ["[1, 2]"], ["{}"]),
    entry("conlist", pydantic.conlist(int, min_length=1, max_length=2), ["[1]"], ["[]"]),
    entry("list of bounded strings", list[Annotated[str, Field(min_length=1)]], ['["a"]'], ['[""]']),
    entry("set of int", set[int], ["[1, 2]", "[]"], ['["a"]']),
    entry("set of int, min_length", sized(set[int], min_length=2), ["[1, 2]"], ["[1, 1]", "[1, 1.0]"]),
    entry("set of int, both lengths", sized(set[int], min_length=2, max_length=3), ["[1, 2, 3]"], ["[1, 2, 3, 4]"]),
    entry("set of float, min_length", sized(set[float], min_length=2), ["[1.5, 2]"], ["[1, 1.0]", "[0.0, -0.0]"]),
    entry("set of int or float, min_length", sized(set[int | float], min_length=2), ["[1, 2.5]"], ["[1, 1.0]"]),
    entry("set of int or bool, min_length", sized(set[bool | int], min_length=2), ["[1, 2]", "[true, false]"], ["[1, true]"]),
    entry("set of Any, min_length", sized(set[Any], min_length=2), ['[1, "a"]'], ["[1, true]", "[[]]"]),
    entry("set of Literals, min_length", sized(set[Literal[1, True, "a"]], min_length=2), ['[1, "a"]'], ["[1, true]"]),
    entry("set of str, min_length", sized(set[str], min_length=2), ['["a", "b"]'], ['["a", "a"]']),
    entry(
        "set of stripped str, min_length",
        sized(set[Annotated[str, StringConstraints(strip_whitespace=True)]], min_length=2),
        ['["a", "b"]'],
        ['["a", " a"]'],
    ),
    entry(
        "set of lowered str, min_length",
        sized(set[Annotated[str, StringConstraints(to_lower=True)]], min_length=2),
        ['["a", "b"]'],
        ['["a", "A"]'],
    ),
    entry(
        "set of date, min_length",
        sized(set[date], min_length=2),
        ['["2024-01-01", "2024-01-02"]'],
        ['["2024-01-01", "2024-01-01"]'],
    ),
    entry(
        "set of datetime, min_length",
        sized(set[datetime], min_length=2),
        ['["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"]'],
        ['["2024-01-01T00:00:00Z", "2024-01-01T01:00:00+01:00"]'],
    ),
    entry(
        "set of time, min_length",
        sized(set[time], min_length=2),
        ['["10:00:00", "11:00:00"]'],
        ['["10:00:00", "10:00:00.0"]'],
    ),
    entry("set of timedelta, min_length", sized(set[timedelta], min_length=2), ['["PT1H", "PT2H"]'], ['["PT1H", "PT60M"]']),
    entry("set of Enum, min_length", sized(set[Colour], min_length=2), ['["red", "blue"]'], ['["red", "red"]']),
    entry("set of IntEnum, min_length", sized(set[Level], min_length=2), ["[1, 2]"], ["[1, 1.0]"]),
    entry(
        "set of Decimal, min_length",
        sized(set[Decimal], min_length=2),
        ['["1.5", "2.5"]'],
        ['["1.5", "1.50"]', '[1.5, "1.5"]'],
    ),
    entry("set of Fraction, min_length", sized(set[Fraction], min_length=2), ['["1/2", "1/3"]'], ['["1/2", "2/4"]']),
    entry(
        "set of UUID, min_length",
        sized(set[UUID], min_length=2),
        ['["12345678-1234-5678-1234-567812345678", "12345678-1234-5678-1234-567812345679"]'],
        ['["abcdef00-1234-5678-1234-567812345678", "ABCDEF00-1234-5678-1234-567812345678"]'],
    ),
    entry("set of bytes, min_length", sized(set[bytes], min_length=2), ['["a", "b"]'], ['["a", "a"]']),
    entry("set of bool, min_length", sized(set[bool], min_length=2), ["[true, false]"], ["[true, true]"]),
    entry(
        "set of tuple, min_length",
        sized(set[tuple[int, bool]], min_length=2),
        ["[[1, true], [2, true]]"],
        ["[[1, true], [1, true]]"],
    ),
    entry("set of tuple of float, min_length", sized(set[tuple[float, ...]], min_length=2), ["[[1.5], []]"], ["[[1], [1.0]]"]),
    entry("set of NamedTuple, min_length", sized(set[Point], min_length=2), ["[[1, 2.5], [2, 2.5]]"], ["[[1, 0], [1, 0.0]]"]),
    entry(
        "set of model, min_length",
        sized(set[Key], min_length=2),
        ['[{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]'],
        ['[{"a": 1}, {"a": 1, "b": "x"}]'],
    ),
    entry("set of frozenset, min_length", sized(set[frozenset[int]], min_length=2), ["[[1], [2]]"], ["[[1, 2], [2, 1]]"]),
    entry(
        "set of URLs, min_length",
        sized(set[pydantic.HttpUrl], min_length=2),
        ['["https://a.org/", "https://b.org/"]'],
        ['["https://a.org", "https://a.org/"]'],
    ),
    entry(
        "set of IPv6Address, min_length",
        sized(set[IPv6Address], min_length=2),
        ['["::1", "2001:db8::1"]'],
        ['["::1", "0:0::1"]'],
    ),
    entry(
        "set of IPvAnyNetwork, min_length",
        sized(set[pydantic.IPvAnyNetwork], min_length=2),
        ['["10.0.0.0/8", "::/16"]'],
        ['["::/16", "0::/16"]'],
    ),
    entry("set of paths, min_length", sized(set[PurePosixPath], min_length=2), ['["a/b", "/a/.b"]'], ['["a/b", "a//b/"]']),
    entry(
        "set of e-mail addresses, min_length",
        sized(set[pydantic.EmailStr], min_length=2),
        ['["a@example.org", "b@example.org"]'],
        ['["a@example.org", "a@EXAMPLE.org"]'],
    ),
    entry("set of ByteSize, min_length", sized(set[pydantic.ByteSize], min_length=2), ['["1000", "1024"]'], ['[1000, "1KB"]']),
    entry("conset", pydantic.conset(Level, min_length=1), ["[1]"], ["[]"]),
    entry("frozenset", frozenset[str], ['["a"]', "[]"], ["[1]"]),
    entry("frozenset, lengths", sized(frozenset[int], min_length=1, max_length=2), ["[1, 2]"], ["[]", "[1, 2, 3]"]),
    entry("confrozenset", pydantic.confrozenset(str, max_length=2), ['["a"]'], ['["a", "b", "c"]']),
    entry("AbstractSet", AbstractSet[int], ["[1]"], ['["a"]']),
    entry("MutableSet", MutableSet[int], ["[1]"], ['["a"]']),
    entry("set, bare", set, ["[1]", '["a", 1]'], ["{}", "[[]]"]),
    entry("frozenset, bare", frozenset, ["[1]"], ["[{}]"]),
    entry("dict with sets", dict[str, set[int]], ['{"a": [1, 2]}'], ['{"a": ["x"]}']),
    entry("tuple", tuple[int, str, bool], ['[1, "a", true]'], ["[1]", '[1, "a", true, 2]']),
    entry("tuple of any length", tuple[int, ...], ["[1, 2]", "[]"], ['["a"]']),
    entry("tuple of any length, lengths", sized(tuple[int, ...], min_length=1, max_length=2), ["[1]", "[1, 2]"], ["[]"]),
    entry("tuple, empty", tuple[()], ["[]"], ["[1]"]),
    entry("tuple, bare", tuple, ["[1]"], ["{}"]),
    entry(
        "tuple of constrained items",
        tuple[Annotated[int, Field(ge=0)], Annotated[str, Field(max_length=1)]],
        ['[0, "a"]'],
        ['[-1, "a"]'],
    ),
    entry(
        "tuple with an unpacked tuple",
        tuple[int, *tuple[str, ...], bool],
        ['[1, ["a"], true]'],
        ["[1, true]"],
        "read as a nested tuple",
    ),
    entry(
        "tuple with a variadic part",
        Annotated[Any, GetPydanticSchema(lambda kind, handler: VARIADIC)],
        ["[1, true]", '[1, "a", "b", true]'],
        ["[1]", "[1, 2, true]"],
    ),
    entry(
        "tuple with a variadic part and lengths",
        Annotated[
            Any,
            GetPydanticSchema(lambda kind, handler: {**VARIADIC, "min_length": 3, "max_length": 3}),
        ],
        ['[1, "a", true]'],
        ["[1, true]"],
    ),
    entry("NamedTuple", Point, ["[1, 2.5]"], ["[]", '["a"]']),
    entry("namedtuple of collections", collections.namedtuple("Pair", ["left", "right"]), ["[1, 2]"], ["[1]"]),
    entry("deque", deque[int], ["[1, 2]"], ['["a"]']),
    entry("deque, max_length", sized(deque[int], max_length=2), ["[1, 2]"], ["[1, 2, 3]"]),
    entry("deque, min_length", sized(deque[str], min_length=1), ['["a"]'], ["[]"]),
    entry("Sequence", Sequence[float], ["[1.5]"], ['["a"]']),
    entry("Sequence of str", Sequence[str], ['["a"]'], ['"a"']),
    entry("Sequence, min_length", sized(Sequence[int], min_length=2), ["[1, 1]"], ["[1]"]),
    entry("MutableSequence", MutableSequence[int], ["[1]"], ['["a"]']),
    entry("Iterable", Iterable[int], ["[1]"], ["1"], "items are validated when they are taken"),
    entry("Iterable, lengths", sized(Iterable[int], min_length=1), ["[1]"], ["1"]),
    entry("Generator", Generator[int, None, None], ["[1]"], ["1"]),
    entry("basket", Basket, ['{"tags": ["a", "b"], "sizes": [1.5]}'], ['{"tags": ["a", "a "], "sizes": [1]}']),
    entry(
        "strict collections",
        StrictLists,
        ['{"a": [1], "b": [1], "c": [1, "a"], "d": []}'],
        ['{"a": ["1"], "b": [], "c": [1, "a"]}'],
    ),
)  # fmt: skip
