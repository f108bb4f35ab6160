"""Types of pydantic that combine two kinds: keys, sets, aliases, validators and schemas."""

from __future__ import annotations

import ipaddress
import math
import pathlib
from collections.abc import Hashable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import pydantic
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    StringConstraints,
)

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]

INDIA = timezone(timedelta(hours=5, minutes=30))


class Number(RootModel[int]):
    """A frozen root model."""

    model_config = ConfigDict(frozen=True)


class Within(BaseModel):
    """A path into the value of another field."""

    counts: dict[str, int]
    total: int = Field(validation_alias=AliasPath("counts", "total"))


class ByName(BaseModel):
    """A path into the value of another field, which may be read by its name."""

    model_config = ConfigDict(validate_by_name=True)
    size: int = Field(validation_alias=AliasPath("box", "size"))
    box: int = 0


class Choices(BaseModel):
    """Choices of which some are in the way of others."""

    first: int = Field(validation_alias=AliasChoices(AliasPath("p", 0), AliasPath("q", "r")))
    second: int = Field(3, validation_alias=AliasChoices("p", "second"))


class Shared(BaseModel):
    """Two fields with an alias."""

    low: Annotated[int, Field(ge=0)] = Field(alias="value")
    high: Annotated[float, Field(le=10)] = Field(alias="value")


class Hidden(BaseModel):
    """A private attribute."""

    shown: int
    _hidden: int = PrivateAttr(3)


class Extended(BaseModel):
    """Annotations in the JSON Schema."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"count": 1}]})
    count: int = Field(json_schema_extra={"x-unit": "pieces"})


class ShortTexts(BaseModel):
    """Texts that are measured before they are read."""

    model_config = ConfigDict(str_max_length=15, str_strip_whitespace=True)
    email: pydantic.EmailStr
    data: pydantic.Base64Str
    size: pydantic.ByteSize


def at_least_two(base: Any) -> Any:
    """Return a set or a dict with two members or more."""
    return Annotated[base, Field(min_length=2)]


ENTRIES = (
    entry("keys, checked", dict[Annotated[int, AfterValidator(abs)], int], ['{"1": 2}']),
    entry("keys, RootModel", dict[Number, int], ['{"1": 2}'], ['{"a": 2}']),
    entry("keys, ByteSize", dict[pydantic.ByteSize, int], ['{"1000": 2}'], ['{"a": 2}']),
    entry("keys, two addresses", at_least_two(dict[pydantic.IPvAnyAddress, int])),
    entry("keys, two of int and float", at_least_two(dict[int | float, int]), ['{"1.0": 2, "2.5": 3}'], ['{"1": 2, "1.0": 3}']),
    entry(
        "keys, two of date and datetime",
        at_least_two(dict[date | datetime, int]),
        ['{"2024-01-01": 1, "2024-01-02": 2}'],
        ['{"2024-01-01": 1, "2024-01-01T00:00:00": 2}'],
    ),
    entry("set, two of IPv6", at_least_two(set[ipaddress.IPv6Address]), ['["::1", "::2"]']),
    entry("set, two networks", at_least_two(set[ipaddress.IPv4Network])),
    entry("set, two paths", at_least_two(set[pathlib.PurePosixPath]), ['["a", "a/b"]'], ['["a", "a/"]']),
    entry("set, two addresses", at_least_two(set[pydantic.EmailStr])),
    entry("set, two sizes", at_least_two(set[pydantic.ByteSize]), ['["1000", "2000"]']),
    entry("set, two of Json", at_least_two(set[pydantic.Json[int]]), ['["1", "2"]'], ['["0", "-0"]']),
    entry("set, two of int and Json of int", at_least_two(set[int | pydantic.Json[int]]), ["[1, 2]"], ['[1, "1"]']),
    entry("set, two of float and Fraction", at_least_two(set[float | Fraction]), ["[1.5, 2.5]"], ['[1, "1"]']),
    entry("set, two of sizes and int", at_least_two(set[pydantic.ByteSize | int]), ["[1, 2]"], ['[1, "1"]']),
    entry("keys, two of complex and int", at_least_two(dict[complex | int, int]), ['{"1": 1, "2": 2}'], ['{"1": 1, "1+0j": 2}']),
    entry("set, two of Literal and int", at_least_two(set[Literal["a"] | int]), ['["a", 1]']),
    entry("Hashable", Hashable, ["1", '"a"'], ["[]", "{}"]),
    entry("alias within another", Within, ['{"counts": {"total": 1}}'], ['{"counts": {}}']),
    entry("alias within another, by name", ByName, ['{"size": 1, "box": 2}'], ['{"box": {"size": 1}}']),
    entry("aliases of choices", Choices, ['{"q": {"r": 1}, "p": 2}'], ['{"p": [1]}']),
    entry("alias of two fields", Shared, ['{"value": 5}'], ['{"value": 11}', '{"value": -1}']),
    entry("private attribute", Hidden, ['{"shown": 1}']),
    entry("json_schema_extra, annotations", Extended, ['{"count": 1}']),
    entry("complex, strict", Annotated[complex, Field(strict=True)], ['"1j"'], ["1"]),
    entry(
        "Base64Str, bounds",
        Annotated[pydantic.Base64Str, Field(min_length=3, max_length=4)],
        ['"YWJj"'],
        ['"YWI="', '"w6nDqQ=="'],
    ),
    entry("Decimal, four digits alone", Annotated[Decimal, Field(max_digits=4)], ["1.5", '"12.34"']),
    entry(
        "datetime, offset of a bound",
        Annotated[datetime, Field(ge=datetime(2024, 1, 1, tzinfo=INDIA))],
        ['"2024-01-01T00:00:00+05:30"', '"2023-12-31T18:30:00Z"'],
        ['"2023-12-31T23:59:59+05:30"'],
    ),
    entry(
        "time, offset of a bound",
        Annotated[time, Field(ge=time(8, tzinfo=INDIA), lt=time(17, tzinfo=UTC))],
        ['"10:30:00+05:30"'],
    ),
    entry(
        "keys, two stripped in upper case",
        at_least_two(
            dict[Annotated[str, StringConstraints(strip_whitespace=True, to_upper=True)], int]
        ),
        ['{"A": 1, "B": 2}'],
    ),
    entry(
        "float, two doubles",
        Annotated[float, Field(gt=0.1, lt=math.nextafter(math.nextafter(0.1, 1), 1))],
        ["0.10000000000000002"],
        ["0.1"],
    ),
    entry("int, open bounds beyond 64 bits", Annotated[int, Field(gt=2**63, lt=2**63 + 3)], [str(2**63 + 1), str(2**63 + 2)], [str(2**63), str(2**63 + 3)]),
    entry("keys, float, multiple of 0.3", dict[Annotated[float, Field(multiple_of=0.3)], int], ['{"0.9": 1}'], ['{"10900000000000.8": 1}']),
    entry("bool, ge", Annotated[bool, Field(ge=1)], ["true"], ["false"]),
    entry("bool or int, lt", Annotated[bool | int, Field(lt=1)], ["false", "0", "-5"], ["true", "1"]),
    entry(
        "ByteSize, three bounds",
        Annotated[pydantic.ByteSize, Field(ge=1000), Field(lt=Decimal(2000)), Field(multiple_of=2)],
        ["1500"],
        ["999", "2000", "1501"],
    ),
    entry("tuple, min_length below its items", Annotated[tuple[int, int], Field(min_length=1)], ["[1, 2]"], ["[1]"]),
    entry("tuple, max_length above its items", Annotated[tuple[int, int], Field(max_length=5)], ["[1, 2]"], ["[1, 2, 3]"]),
    entry(
        "union of lists, lengths",
        Annotated[list[int] | list[str], Field(min_length=1, max_length=2)],
        ["[1]", '["a", "b"]'],
        ["[]", "[1, 2, 3]"],
    ),
    entry("Json of int, bounds", Annotated[pydantic.Json[int], Field(gt=2), Field(le=9)], ['"9"'], ['"2"', '"10"']),
    entry("Json of list, lengths", Annotated[pydantic.Json[list[int]], Field(min_length=1)], ['"[1]"'], ['"[]"']),
    entry(
        "Json of stripped str, length",
        Annotated[
            pydantic.Json[Annotated[str, StringConstraints(strip_whitespace=True)]],
            Field(min_length=2),
        ],
        [r'"\"ab\""'],
        [r'"\"a \""'],
    ),
    entry(
        "Base64Str, two lengths",
        Annotated[pydantic.Base64Str, Field(min_length=2), Field(min_length=1)],
        ['"YWI="'],
        ['"YQ=="'],
    ),
    entry(
        "addresses and data, str_max_length",
        ShortTexts,
        ['{"email": "a@b.org", "data": "YWI=", "size": "1 KB"}'],
        ['{"email": "abcdefghij@cde.org", "data": "YWI=", "size": "1 KB"}'],
    ),
)  # fmt: skip
