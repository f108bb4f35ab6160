"""Values of msgspec: numbers, texts, times, keys, and collections."""

# ruff: noqa: UP007, UP045 - these spellings of types are tested

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, NewType, Optional, Union
from uuid import UUID

import msgspec
from msgspec import Meta

from type_catalogue.entry import in_msgspec as entry

__all__ = ["ENTRIES"]


class Colour(enum.Enum):
    """Strings."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """Integers."""

    LOW = 1
    HIGH = 2


class Fruit(enum.StrEnum):
    """A StrEnum."""

    APPLE = "apple"
    PEAR = "pear"


class Rights(enum.IntFlag):
    """Flags."""

    READ = 1
    WRITE = 2


class Huge(enum.IntEnum):
    """Integers beyond 32 bits."""

    LOW = -(2**40)
    HIGH = 2**62


UserId = NewType("UserId", int)
Score = Annotated[int, Meta(ge=0, le=100)]


def meta(base: Any, **constraints: Any) -> Any:
    """Return a type with constraints."""
    return Annotated[base, Meta(**constraints)]


ENTRIES = (
    entry("bool", bool, ["true", "false"], ["1", '"true"']),
    entry("None", None, ["null"], ["0"]),
    entry("int", int, ["0", "-5", "18446744073709551615", "-7", "18446744073709551616"], ["1.5", '"1"', "1.0", "1e2"]),
    entry("int, ge and le", meta(int, ge=10, le=99), ["10", "99"], ["9", "100"]),
    entry("int, gt and lt", meta(int, gt=0, lt=5), ["1", "4"], ["0", "5"]),
    entry("int, multiple_of", meta(int, multiple_of=3), ["0", "-9", "3541774862152233910272"], ["4"]),
    entry("int, large bounds", meta(int, ge=-(2**62), le=2**62), ["4611686018427387904"], ["4611686018427387905"]),
    entry("int, float bounds are ints", meta(int, ge=-3), ["-3"], ["-4"]),
    entry("float", float, ["1.5", "0", "1e+300", "1", "-1.5", "1e-5", "0.1"], ['"a"', "1e999", "1e400", '"1"']),
    entry("float, gt 0", meta(float, gt=0), ["0.5", "5e-324"], ["0.0", "1e-324"]),
    entry("float, ge 0", meta(float, ge=0), ["0", "0.5"], ["-1"]),
    entry("float, lt 0.1", meta(float, lt=0.1), ["0.09"], ["0.1", "0.09999999999999999999999"]),
    entry("float, lt 1", meta(float, ge=0, lt=1), ["0", "0.5"], ["1.0", "0.99999999999999999999", "1", "-0.5"]),
    entry("float, multiple of 0.5", meta(float, multiple_of=0.5), ["1.5", "-2.0"], ["0.3"]),
    entry("float, multiple of 0.1", meta(float, multiple_of=0.1), ["0.1", "0.2", "-0.8"], ["0.25", "1.0", "0.3"]),
    entry("float, multiple of 3", meta(float, multiple_of=3), ["9.0", "3"], ["1.5"]),
    entry("Decimal", Decimal, ['"1.5"', "1.5", "3", '"1.50"', '"-0.001"'], ['"a"', "true", '""', "null"]),
    entry("int | float", int | float, ["1", "1.5"], ['"a"']),
    entry("str", str, ['"a"', '"é"', '""', '"\\u00e9"'], ["1"]),
    entry("str, lengths", meta(str, min_length=1, max_length=3), ['"abc"', '"😀é"'], ['""', '"abcd"']),
    entry("str, pattern", meta(str, pattern="^[a-z]{2,3}$"), ['"ab"'], ['"a"', '"AB"']),
    entry("str, pattern is searched", meta(str, pattern="ab"), ['"xaby"'], ['"a"']),
    entry("str, pattern with \\d", meta(str, pattern=r"^\d+$"), ['"12"'], ['"a"']),
    entry("str, pattern with \\w", meta(str, pattern=r"^\w+$"), ['"é1"'], ['"-"']),
    entry("str, pattern with \\W", meta(str, pattern=r"^\W+$"), ['"--"'], ['"é"']),
    entry("str, pattern with \\s", meta(str, pattern=r"^\S\s$"), ['"a "'], ['"ab"']),
    entry("str, pattern with \\b", meta(str, pattern=r"^\bab\b.*$"), ['"ab c"'], ['"abé"']),
    entry("str, pattern with \\Z", meta(str, pattern=r"^a+\Z"), ['"aa"'], ['"ab"']),
    entry("str, pattern with a flag", meta(str, pattern="(?i)^ab$"), ['"aB"'], ['"ac"']),
    entry("str, pattern with (?x)", meta(str, pattern="(?x)^ a b # c\n$"), ['"ab"'], ['"a b"']),
    entry("str, pattern with (?s)", meta(str, pattern="(?s)^a.b$"), ['"a\\nb"'], ['"ab"']),
    entry("str, pattern with a class of Rust", meta(str, pattern="^[a&b]+$"), ['"a&"'], ['"c"']),
    entry("str, pattern with look-ahead", meta(str, pattern=r"^(?=.*\d)\w{2,4}$"), ['"a1"'], ['"ab"']),
    entry("str, pattern and lengths", meta(str, pattern="^a+$", min_length=2, max_length=4), ['"aa"'], ['"a"', '"aaaaa"']),
    entry("bytes", bytes, ['"YWI="', '""', '"YQ=="'], ['"a"', '"YQ"', '"-_-_"', '"YQ=="x']),
    entry("bytes, lengths", meta(bytes, min_length=2, max_length=3), ['"YWI="'], ['"YQ=="', '"YWJjZA=="']),
    entry("bytearray", bytearray, ['"YWI="'], ['"a"']),
    entry("memoryview", memoryview, ['"YWI="'], ['"a"']),
    entry("UUID", UUID, ['"12345678-1234-5678-1234-567812345678"'], ['"a"', '"urn:uuid:12345678-1234-5678-1234-567812345678"']),
    entry("date", date, ['"2024-02-29"', '"9999-12-31"'], ['"2023-02-29"', '"0000-01-01"', '"20240101"']),
    entry(
        "datetime",
        datetime,
        ['"2024-01-02T03:04:05Z"', '"2024-01-02T03:04:05.123456+02:00"', '"2024-01-02T03:04:05.5Z"', '"2024-01-02 03:04:05-0130"'],
        ['"a"', '"2024-01-02T03:04:60Z"', '"2024-01-02"', '"2024-01-02T03:04"', '"2016-12-31T23:59:60Z"'],
    ),
    entry("datetime, without offset", datetime, ['"2024-01-02T03:04:05"'], ['"2024-13-02T03:04:05"']),
    entry("datetime, tz", meta(datetime, tz=True), ['"2024-01-02T03:04:05Z"', '"2024-01-02T03:04:05+01:00"'], ['"2024-01-02T03:04:05"']),
    entry("datetime, no tz", meta(datetime, tz=False), ['"2024-01-02T03:04:05"'], ['"2024-01-02T03:04:05Z"']),
    entry("time", time, ['"12:30:00"', '"23:59:59.5Z"', '"03:04:05"', '"03:04:05.25Z"'], ['"24:00:00"', '"23:59:60"', '"03:04"']),
    entry("time, tz", meta(time, tz=True), ['"12:30:00Z"'], ['"12:30:00"']),
    entry("time, no tz", meta(time, tz=False), ['"12:30:00"', '"03:04:05"'], ['"12:30:00Z"', '"03:04:05Z"']),
    entry("timedelta", timedelta, ['"P1DT2H"', '"PT0.5S"', '"-PT1S"', '"-PT0.5S"', '"PT90M"'], ['"a"', '"P1000000000D"', '"P1W"', '"P1Y"', '"PT"']),
    entry("Enum of str", Colour, ['"red"'], ['"RED"']),
    entry("IntEnum", Level, ["1"], ["3"]),
    entry("StrEnum", Fruit, ['"apple"'], ['"plum"']),
    entry("IntFlag", Rights, ["1", "2"], ['"a"']),
    entry("IntEnum of large values", Huge, ["4611686018427387904"], ["1"]),
    entry("Literal of str", Literal["a", "b"], ['"a"'], ['"c"']),
    entry("Literal of int", Literal[1, 2], ["2"], ["3"]),
    entry("Literal of several types", Literal["a", 1, None], ['"a"', "1", "null"], ["2", '"1"', "true", "1.0"]),
    entry("Any", Any, ["null", '{"a": [1]}', '{"a": [null]}'], ["1e400"]),
    entry("NewType", UserId, ["1"], ['"a"']),
    entry("Final", Final[int], ["1"], ['"a"']),
    entry("Raw", msgspec.Raw, ["1", '{"a": 2}'], []),
    entry("Optional", Optional[int], ["null", "1"], ['"a"']),
    entry("Union", Union[int, str, list[int]], ["1", '"a"', "[1]"], ["null"]),
    entry("Union of constrained types", meta(int, ge=0) | meta(str, max_length=2), ["1", '"ab"'], ["-1", '"abc"']),
    entry("Union with a bool", bool | int | None, ["true", "1", "null"], ['"a"']),
    entry("Union of date and None", date | None, ['"2024-01-02"', "null"], ['"a"']),
    entry("Union of float and str", float | str, ["1", '"a"'], ["null"]),
    entry("list", list[int], ["[1, 2]", "[]"], ['["a"]']),
    entry("list, lengths", meta(list[int], min_length=1, max_length=2), ["[1]"], ["[]", "[1, 2, 3]", '["a"]']),
    entry("list of scores", list[Score], ["[100]"], ["[101]"]),
    entry("set", set[int], ["[1, 2]"], ['["a"]']),
    entry("set, min_length", meta(set[int], min_length=2), ["[1, 2]"], ["[1]", "[1, 1]"]),
    entry("set of float, min_length", meta(set[float], min_length=2), ["[1.5, 2]"], ["[1]", "[1, 1.0]", "[0, 1e-400]"]),
    entry("set of str, max_length", meta(set[str], max_length=1), ['["a"]'], ['["a", "b"]']),
    entry("frozenset", frozenset[str], ['["a"]', '["a", "b"]'], ["[1]"]),
    entry("frozenset of dates, min_length", meta(frozenset[date], min_length=2), ['["2024-01-01", "2024-01-02"]'], ["[]"]),
    entry("set of tuples", set[tuple[int, str]], ['[[1, "a"]]'], ["[1]"]),
    entry("tuple", tuple[int, str], ['[1, "a"]'], ["[1]", '[1, "a", 2]']),
    entry("tuple of any length", tuple[int, ...], ["[]", "[1, 2]"], ['["a"]']),
    entry("tuple, lengths", meta(tuple[int, ...], min_length=1), ["[1]"], ["[]"]),
    entry("tuple, empty", tuple[()], ["[]"], ["[1]"]),
    entry("Sequence", Sequence[int], ["[1]"], ['["a"]']),
    entry("MutableSequence", MutableSequence[int], ["[1]"], ['["a"]']),
    entry("Collection", Collection[int], ["[1]"], ['["a"]']),
    entry("AbstractSet", AbstractSet[int], ["[1]"], ['["a"]']),
    entry("dict", dict[str, int], ['{"a": 1}', "{}", '{"a": 1, "1": 1}'], ['{"a": "b"}']),
    entry("dict, lengths", meta(dict[str, int], min_length=1, max_length=2), ['{"a": 1}'], ["{}"]),
    entry("dict, bare", dict, ['{"a": null}', '{"a": 1}'], ["[]"]),
    entry("Mapping", Mapping[str, int], ['{"a": 1}'], ['{"a": "b"}']),
    entry("MutableMapping", MutableMapping[str, int], ['{"a": 1}'], ['{"a": "b"}']),
    entry("keys, int", dict[int, str], ['{"1": "a", "-2": "b"}'], ['{"x": "a"}', '{"1.5": "a"}']),
    entry("keys, int with min_length", meta(dict[int, int], min_length=2), ['{"1": 1, "2": 2}'], ['{"1": 1}']),
    entry("keys, bounded int", dict[meta(int, ge=1, le=12), str], ['{"12": "a"}'], ['{"13": "a"}']),
    entry("keys, float", dict[float, int], ['{"1.5": 1}'], ['{"x": 1}']),
    entry("keys, Decimal", dict[Decimal, int], ['{"1.5": 1}'], ['{"x": 1}', '{"a": 1}']),
    entry("keys, date", dict[date, int], ['{"2024-02-29": 1}', '{"2024-01-02": 1}'], ['{"a": 1}', '{"20240102": 1}']),
    entry("keys, datetime", dict[datetime, int], ['{"2024-01-02T03:04:05Z": 1}'], ['{"a": 1}']),
    entry("keys, time", dict[time, int], ['{"12:30:00": 1}'], ['{"a": 1}']),
    entry("keys, timedelta", dict[timedelta, int], ['{"PT3600S": 1}'], ['{"a": 1}']),
    entry("keys, UUID", dict[UUID, int], ['{"12345678-1234-5678-1234-567812345678": 1}'], ['{"a": 1}']),
    entry("keys, Enum", dict[Colour, int], ['{"red": 1}'], ['{"green": 1}']),
    entry("keys, IntEnum", dict[Level, int], ['{"1": 1}'], ['{"3": 1}', '{"x": 1}']),
    entry("keys, Literal", dict[Literal["a", "b"], int], ['{"a": 1}'], ['{"c": 1}']),
    entry("keys, Literal of int", dict[Literal[1, 2], int], ['{"1": 1}'], ['{"3": 1}']),
    entry("keys, pattern", dict[meta(str, pattern="^[a-z]+$"), int], ['{"ab": 1}'], ['{"A": 1}']),
    entry("keys, length", dict[meta(str, max_length=2), int], ['{"ab": 1}'], ['{"abc": 1}']),
    entry("keys, bytes", dict[bytes, int], ['{"YWI=": 1}', '{"YQ==": 1}'], ['{"a": 1}', '{"YQ": 1}']),
    entry("keys, int or str", dict[int | str, int], ['{"1": 1, "a": 2}'], ['{"a": "b"}']),
    entry("bounded int or float", meta(int, ge=0) | float, ["3", "-1.5"], ["-1"]),
    entry("IntEnum or Decimal", Level | Decimal, ["1", "1.5", '"3"'], ["3"]),
    entry("bounded float or Decimal", meta(float, gt=5) | Decimal, ["6.5", '"1.5"'], ["1.5"]),
    entry("set, two of int or Decimal", meta(set[int | Decimal], min_length=2), ["[1, 2]"], ['[1, "1"]']),
    entry("keys, bounded int or short str", dict[meta(int, ge=0) | meta(str, max_length=1), int], ['{"5": 1, "a": 1}'], ['{"55": 1}']),
    entry("keys, bounded int or Decimal", dict[meta(int, ge=0) | Decimal, int], ['{"5": 1, "-1.5": 1}'], ['{"-1": 1}']),
    entry("keys, bounded float or Decimal", dict[meta(float, gt=5) | Decimal, int], ['{"6.5": 1}'], ['{"1.5": 1}']),
    entry("int, open bounds beyond 2**53", meta(int, gt=2**62, lt=2**62 + 2), [str(2**62 + 1)], [str(2**62), str(2**62 + 2)]),
    entry(
        "keys, two of int and float",
        meta(dict[int | float, int], min_length=2),
        ['{"1.0": 1, "2.5": 1}'],
        ['{"1": 1, "1.0": 1}'],
    ),
    entry("keys, NewType", dict[UserId, int], ['{"1": 1}', '{"-1": 1}'], ['{"a": 1}', '{"01": 1}', '{"1.0": 1}']),
)  # fmt: skip
