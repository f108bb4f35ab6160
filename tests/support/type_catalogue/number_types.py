"""Booleans, integers, floats, Decimals, and other numbers of pydantic."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

import annotated_types as at
import pydantic
from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, Strict

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


def number(base: Any, **constraints: Any) -> Any:
    """Return a number with constraints."""
    return Annotated[base, Field(**constraints)]


class StrictNumbers(BaseModel):
    """Numbers of a strict model."""

    model_config = ConfigDict(strict=True)
    a: int
    b: float
    c: bool
    d: Decimal


class Finite(BaseModel):
    """Floats of a model without infinities."""

    model_config = ConfigDict(allow_inf_nan=False)
    a: float
    b: Decimal


class Infinite(BaseModel):
    """Floats whose defaults are no JSON."""

    low: float = float("-inf")
    high: float = float("inf")
    mean: float = float("nan")


LONG = "9" * 4300

ENTRIES = (
    entry("bool", bool, ["true", "false"], ['"maybe"', "2"]),
    entry("StrictBool", pydantic.StrictBool, ["true"], ["1", '"true"']),
    entry("int", int, ["0", "-12", "9007199254740993"], ["1.5", '"a"', "1e20"]),
    entry("int of 4300 digits", int, [LONG], [LONG + "9"]),
    entry("StrictInt", pydantic.StrictInt, ["7"], ["1.0", '"1"']),
    entry("int, gt and lt", number(int, gt=-3, lt=300), ["-2", "299"], ["-3", "300"]),
    entry("int, ge and le", number(int, ge=10, le=99), ["10", "99"], ["9", "100"]),
    entry("int, bounds beyond 64 bits", number(int, ge=2**64, le=2**70), [str(2**64)], ["1"]),
    entry("int, multiple of 7", number(int, multiple_of=7), ["0", "-14", "49"], ["8"]),
    entry("int, multiple of 3 between", number(int, multiple_of=3, ge=10, lt=20), ["12"], ["9"]),
    entry("conint", pydantic.conint(gt=3, multiple_of=2), ["4", "1000"], ["2", "5"]),
    entry("PositiveInt", pydantic.PositiveInt, ["1"], ["0"]),
    entry("NegativeInt", pydantic.NegativeInt, ["-1"], ["0"]),
    entry("NonNegativeInt", pydantic.NonNegativeInt, ["0"], ["-1"]),
    entry("NonPositiveInt", pydantic.NonPositiveInt, ["0"], ["1"]),
    entry("int, annotated_types.Interval", Annotated[int, at.Interval(gt=1, le=5)], ["5"], ["1"]),
    entry("int, annotated_types.MultipleOf", Annotated[int, at.MultipleOf(5)], ["10"], ["3"]),
    entry("int, annotated_types.Ge and Lt", Annotated[int, at.Ge(0), at.Lt(8)], ["7"], ["8"]),
    entry("int, strict field", Annotated[int, Strict()], ["3"], ['"3"']),
    entry("int, predicate", Annotated[int, at.Predicate(lambda n: n % 2 == 0)], ["2"], ["1"], "code"),
    entry("float", float, ["0.0", "-1.5", "1e-07", "1.7976931348623157e+308"], ['"a"']),
    entry("FiniteFloat", pydantic.FiniteFloat, ["1.5"], ["1e999", '"inf"']),
    entry("StrictFloat", pydantic.StrictFloat, ["1.5", "2"], ['"1.5"']),
    entry("float, no infinity", Annotated[float, AllowInfNan(False)], ["0.5"], ["-1e400"]),
    entry("float, gt 0", number(float, gt=0), ["5e-324", "0.1"], ["0", "1e-324", "0.0"]),
    entry("float, ge 0", number(float, ge=0), ["0", "0.5"], ["-1"]),
    entry("float, lt 0", number(float, lt=0), ["-5e-324", "-1"], ["0", "-1e-400"]),
    entry("float, lt 0.1", number(float, lt=0.1), ["0.09", "-3"], ["0.1", "0.09999999999999999999999"]),
    entry("float, gt 0.1", number(float, gt=0.1), ["0.2"], ["0.1", "0.1000000000000000001"]),
    entry("float, ge 0.1 and le 0.3", number(float, ge=0.1, le=0.3), ["0.1", "0.3"], ["0.31"]),
    entry("float, lt 1", number(float, ge=0, lt=1), ["0.5", "0"], ["1", "0.99999999999999999999"]),
    entry("float, tiny bounds", number(float, gt=1e-320, lt=1e-310), ["1e-315"], ["0", "1e-320"]),
    entry("float, huge bounds", number(float, ge=1e300, lt=1e308), ["1e+300"], ["1e299", "1e308"]),
    entry("float, bounds beyond 2**53", number(float, gt=2**53, lt=2**53 + 8), ["9007199254740994"], ["9007199254740993"]),
    entry("float, integer bounds", number(float, ge=-5, le=5), ["-5", "5", "4.25"], ["5.1"]),
    entry("float, le infinity", number(float, le=float("inf")), ["1.5"], ['"a"'], "a bound that is no JSON"),
    entry("float, Decimal bound", number(float, ge=Decimal("0.5")), ["0.5", "1.0"], ["0.4"]),
    entry("float, multiple of 0.1", number(float, multiple_of=0.1), ["0.3", "1", "0"], ["0.25"]),
    entry("float, multiple of 0.01 between", number(float, multiple_of=0.01, ge=0, le=1), ["0.29", "1"], ["0.005"]),
    entry("float, multiple of 0.5", number(float, multiple_of=0.5), ["1.5", "-2"], ["0.3"]),
    entry("float, multiple of 3", number(float, multiple_of=3), ["3", "9.0", "-6"], ["1.5"]),
    entry("PositiveFloat", pydantic.PositiveFloat, ["0.5"], ["0"]),
    entry("NonPositiveFloat", pydantic.NonPositiveFloat, ["0", "-1.5"], ["0.5"]),
    entry("confloat", pydantic.confloat(ge=0, lt=100, allow_inf_nan=False), ["99.9"], ["100"]),
    entry("list of unit floats", list[number(float, gt=0, lt=1)], ["[0.5, 0.25]", "[]"], ["[1]"]),
    entry("Decimal", Decimal, ['"1.5"', "1.5", '"-0.50"', "3"], ['"a"', "true"]),
    entry("Decimal, ge 0", number(Decimal, ge=0), ["0", "1.5"], ["-1"]),
    entry("Decimal, gt and lt", number(Decimal, gt=Decimal("0"), lt=Decimal("1")), ["0.5"], ["0", "1"]),
    entry("Decimal, two places", number(Decimal, decimal_places=2), ['"1.25"', "1.25"], ['"1.255"']),
    entry("Decimal, price", number(Decimal, max_digits=6, decimal_places=2, ge=0), ["999.99", "0"], ["-1"]),
    entry("Decimal, four digits", number(Decimal, max_digits=4), ['"12.34"', '"0.1234"'], ['"12345"']),
    entry("Decimal, digits equal places", number(Decimal, max_digits=3, decimal_places=3), ['"0.125"'], ['"1.5"']),
    entry("Decimal, multiple of 0.05", number(Decimal, multiple_of=Decimal("0.05")), ["1.05"], ["1.01"]),
    entry(
        "Decimal, multiple of 0.25 with places",
        number(Decimal, multiple_of=Decimal("0.25"), max_digits=4, decimal_places=2),
        ["1.25"],
        ["1.30"],
    ),
    entry("Decimal, infinite", Annotated[Decimal, AllowInfNan(True)], ['"1.5"'], ['"a"']),
    entry("condecimal", pydantic.condecimal(gt=0, max_digits=5, decimal_places=2), ["1.25"], ["0"]),
    entry("Decimal, strict", Annotated[Decimal, Strict()], ["1.5", '"1.5"'], ["true"]),
    entry("Decimal, huge bound", number(Decimal, le=Decimal("1e30")), ["1.5"], ["1e31"]),
    entry("complex", complex, ['"1+2j"', '"3j"'], ['"a"']),
    entry("Fraction", Fraction, ['"1/3"', '"5"'], ['"a"', '"1/0"']),
    entry("ByteSize", pydantic.ByteSize, ["1024", '"1 KB"', '"3MiB"'], ['"1 a"', '"KB"']),
    entry("ByteSize, bounds", Annotated[pydantic.ByteSize, Field(ge=10)], ["1024"], ["1"]),
    entry(
        "strict model of numbers",
        StrictNumbers,
        ['{"a": 1, "b": 1.5, "c": true, "d": "1.5"}'],
        ['{"a": 1.0, "b": 1, "c": true, "d": "1"}'],
    ),
    entry("model without infinities", Finite, ['{"a": 1.5, "b": "1.5"}'], ['{"a": 1e999, "b": 1}']),
    entry("defaults that are no JSON", Infinite, ['{"low": 0.5, "high": 2, "mean": 1}'], ['{"low": "a"}']),
    entry("numbers as strings", Annotated[int, pydantic.BeforeValidator(str)], ["12"], ['"a"'], "code"),
)  # fmt: skip
