"""Enums and Literals of pydantic."""

from __future__ import annotations

import enum
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from type_catalogue.entry import entry

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
    """Strings of a StrEnum."""

    APPLE = "apple"
    PEAR = "pear"


class Rights(enum.IntFlag):
    """Flags."""

    READ = 1
    WRITE = 2


class Ratio(float, enum.Enum):
    """Floats."""

    HALF = 0.5
    FULL = 1.0


class Mixed(enum.Enum):
    """Values of several types."""

    NUMBER = 1
    TEXT = "one"
    NOTHING = None
    YES = True
    FLOAT = 1.5


class Points(enum.Enum):
    """Tuples."""

    ORIGIN = (0, 0)
    UNIT = (1, 1)


class SomePoints(enum.Enum):
    """A tuple among strings."""

    ORIGIN = (0, 0)
    CENTRE = "centre"


class Days(enum.Enum):
    """Dates."""

    FIRST = date(2024, 1, 1)
    LAST = date(2024, 12, 31)


class Prices(enum.Enum):
    """Decimals."""

    LOW = Decimal("1.5")
    HIGH = Decimal("2.5")


class Raw(enum.Enum):
    """Bytes."""

    A = b"a"
    B = b"b"


class SomeRaw(enum.Enum):
    """Bytes among strings."""

    A = b"a"
    B = "b"


class Lists(enum.Enum):
    """Lists and dicts."""

    A = [1, 2]  # noqa: RUF012
    B = {"x": 1}  # noqa: RUF012


class Lenient(enum.Enum):
    """An enum that finds members for other values."""

    A = "a"
    B = "b"

    @classmethod
    def _missing_(cls, value: object) -> Lenient | None:
        return cls.A if str(value).lower() == "a" else None


class Aliases(enum.Enum):
    """A name for an earlier member."""

    FIRST = 1
    ALSO_FIRST = 1  # noqa: PIE796
    SECOND = 2


class Single(enum.Enum):
    """One member."""

    ONLY = "only"


class Bare(enum.Enum):
    """Values of ``auto``."""

    A = enum.auto()
    B = enum.auto()


class Escaped(enum.Enum):
    """Characters that JSON escapes."""

    QUOTE = '"'
    TAB = "\t"
    FACE = "😀"


class ByValue(BaseModel):
    """A model that stores the values of enums."""

    model_config = ConfigDict(use_enum_values=True, validate_default=True)
    a: Colour
    b: Level = Level.LOW


class StrictEnums(BaseModel):
    """A strict model of enums."""

    model_config = ConfigDict(strict=True)
    a: Colour
    b: Level
    c: Literal["x", 1]


class WithTuple(BaseModel):
    """A model with an enum of which a member is no JSON."""

    a: SomePoints
    b: Literal[Colour.RED] | None = None


ENTRIES = (
    entry("Enum of str", Colour, ['"red"', '"blue"'], ['"green"', '"RED"']),
    entry("IntEnum", Level, ["1", "2"], ["3"]),
    entry("StrEnum", Fruit, ['"apple"'], ['"plum"']),
    entry("IntFlag", Rights, ["1", "2"], ['"a"']),
    entry("Enum of float", Ratio, ["0.5"], ["2"]),
    entry("Enum of several types", Mixed, ['"one"', "null", "1.5", "1"], ['"x"']),
    entry("Enum of tuples and str", SomePoints, ['"centre"'], ["[0, 1]", '"ORIGIN"']),
    entry("Enum of tuples", Points, [], ['"ORIGIN"', "0"]),
    entry("Enum of dates", Days, [], ['"x"']),
    entry("Enum of Decimals", Prices, [], ['"x"']),
    entry("Enum of bytes", Raw, [], ['"x"']),
    entry("Enum of bytes and str", SomeRaw, ['"b"'], ['"x"']),
    entry("Enum of lists and dicts", Lists, ["[1, 2]", '{"x": 1}'], ["[1]"]),
    entry("Enum with _missing_", Lenient, ['"a"', '"b"'], ['"x"'], "code"),
    entry("Enum with aliases", Aliases, ["1", "2"], ["3"]),
    entry("Enum of a single member", Single, ['"only"'], ['"x"']),
    entry("Enum of auto", Bare, ["1", "2"], ["0"]),
    entry("Enum of escaped characters", Escaped, ['"\\""', '"\\t"', '"😀"'], ['"t"']),
    entry("Enum, strict", Annotated[Colour, Strict()], ['"red"'], ["1"]),
    entry("list of enums", list[Level], ["[1, 2]"], ["[3]"]),
    entry("Enum or None", Colour | None, ['"red"', "null"], ["1"]),
    entry("model that stores values", ByValue, ['{"a": "red", "b": 2}'], ['{"a": "x", "b": 1}']),
    entry("strict model of enums", StrictEnums, ['{"a": "red", "b": 1, "c": "x"}'], ['{"a": "red", "b": "1", "c": 1}']),
    entry("model with a tuple among an enum", WithTuple, ['{"a": "centre", "b": null}'], ['{"a": "x"}']),
    entry("Literal of str", Literal["a", "b"], ['"a"'], ['"c"']),
    entry("Literal of several types", Literal["a", 1, None], ['"a"', "1", "null"], ["2"]),
    entry("Literal of 1 and True", Literal[1, True], ["1", "true"], ["2"]),
    entry("Literal of 0 and False", Literal[False, 0], ["false", "0"], ["1"]),
    entry("Literal of 1", Literal[1], ["1"], ["2"]),
    entry("Literal of True", Literal[True], ["true"], ["false"]),
    entry("Literal of a StrEnum member", Literal[Fruit.APPLE], ['"apple"'], ['"pear"']),
    entry("Literal of an IntEnum member", Literal[Level.HIGH], ["2"], ["1"]),
    entry("Literal of Enum members", Literal[Colour.RED, Colour.BLUE], [], ['"x"']),
    entry("Literal of an Enum member and str", Literal[Colour.RED, "x"], ['"x"'], ['"y"']),
    entry("Literal of bytes", Literal[b"a"], [], ['"b"']),
    entry("Literal of bytes and str", Literal[b"a", "b"], ['"b"'], ['"c"']),
    entry("Literal of huge ints", Literal[2**70, -(2**65)], [str(2**70)], ["1"]),
    entry("Literal of escaped characters", Literal["\\", "\u2028", "a\nb"], ['"\\\\"', '"a\\nb"'], ['"a"']),
    entry("nested Literal", Literal["a", "b", 3], ['"a"', "3"], ['"c"']),
    entry("Literal with a default", Annotated[Literal["a", "b"], Field(default="a")], ['"a"'], ['"c"']),
    entry("list of Literals", list[Literal["a", 1, True]], ['["a", 1, true]'], ["[2]"]),
    entry("tuple of Literals", tuple[Literal["x"], Literal[1, 2]], ['["x", 2]'], ['["x", 3]']),
    entry("Any", Any, ["null", '{"a": [1]}'], []),
    entry("object", object, ["1"], []),
    entry("None", None, ["null"], ["0"]),
)  # fmt: skip
