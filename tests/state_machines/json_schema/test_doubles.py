"""Bounds and constants near which readers round a decimal to another double."""

from __future__ import annotations

import json
import math
import operator
import shutil
import struct
import subprocess
from fractions import Fraction
from random import Random
from typing import Annotated, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter
from schema_checks import assert_texts
from schema_strategies import examples

from state_machines import JsonSchemaStateMachine, UnsatisfiableSchemaError
from state_machines.grammar.node import EMPTY, leading_bytes
from state_machines.grammar.shortest import shortest_word

COMPARISONS = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}
OPPOSITES = {
    "minimum": "exclusiveMaximum",
    "exclusiveMinimum": "maximum",
    "maximum": "exclusiveMinimum",
    "exclusiveMaximum": "minimum",
}
PYDANTIC = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}

NEAR = [
    *(0.0, 5e-324, 1e-323, 2.2250738585072014e-308, 1e-300, 1e-10, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0),
    *(10.0, 99.99, 100.0, 1e5, 123456.789, 1e15, 1e22, 1e23, 1e100, 9.9e299),
    *(float(2**53 + k) for k in (-2, -1, 0, 2, 4)),
    *(2.0**n for n in (-1074, -1022, -30, -1, 30, 60, 900)),
]

_sizes = st.one_of(st.sampled_from(NEAR), st.floats(0, 1e300))
_ordinary = st.one_of(
    st.sampled_from([size for size in NEAR if not size or 1e-20 < size < 1e25]),
    st.floats(1e-20, 1e20),
)
ordinary_numbers = st.tuples(_ordinary, st.sampled_from([1, -1])).map(math.prod)
bounds = st.tuples(_sizes, st.sampled_from([1, -1])).map(math.prod)


def exact(number: float) -> Fraction:
    return Fraction(repr(number))


def plain(number: Fraction) -> str:
    """Return a decimal fraction without an exponent."""
    denominator, places = number.denominator, 0
    while 10**places % denominator:
        places += 1
    digits = str(int(abs(number) * 10**places)).zfill(places + 1)
    sign = "-" if number < 0 else ""
    whole = digits[: len(digits) - places]
    return f"{sign}{whole}.{digits[-places:]}" if places else f"{sign}{whole}"


def scientific(number: Fraction) -> str | None:
    """Return a number as a mantissa and a power of ten, if a grammar writes that power."""
    digits = plain(abs(number)).replace(".", "").lstrip("0").rstrip("0")
    if not digits:
        return None
    power = math.floor(math.log10(abs(number))) if abs(number) > Fraction(1, 10**300) else -300
    while abs(number) < Fraction(10) ** power:
        power -= 1
    while abs(number) >= Fraction(10) ** (power + 1):
        power += 1
    if not -324 <= power <= 307:
        return None
    sign = "-" if number < 0 else ""
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{fraction}e{power}"


@st.composite
def texts_near(draw: st.DrawFn, bound: float) -> str:
    """Draw decimals half-way between doubles near a number, or beside these."""
    for _ in range(draw(st.integers(0, 2))):
        bound = math.nextafter(bound, math.inf)
    for _ in range(draw(st.integers(0, 2))):
        bound = math.nextafter(bound, -math.inf)
    neighbour = math.nextafter(bound, draw(st.sampled_from([math.inf, -math.inf])))
    number = draw(
        st.sampled_from(
            [
                exact(bound),
                Fraction(bound),
                (Fraction(bound) + Fraction(neighbour)) / 2,
                (Fraction(bound) + Fraction(neighbour)) / 2,
            ]
        )
    )
    places = len(plain(number).partition(".")[2])
    number += draw(st.sampled_from([0, 0, 1, -1])) * Fraction(1, 10 ** (places + 2))
    text = scientific(number) if draw(st.booleans()) else None
    if text is None:
        text = plain(number)
    if "." not in text and "e" not in text and draw(st.booleans()):
        text += "." + "0" * draw(st.integers(1, 3))
    return text


def satisfies(keyword: str, bound: float, text: str) -> bool:
    """Return whether a text satisfies a bound for every reader.

    A closed bound is compared exactly from 2**53 on, and on its side towards zero.
    """
    compare, number = COMPARISONS[keyword], Fraction(text)
    is_rounded = (keyword == "maximum" and 0 < bound < 2**53) or (
        keyword == "minimum" and 0 > bound > -(2**53)
    )
    is_satisfied: bool = compare(float(text), bound) and (
        is_rounded or compare(number, exact(bound))
    )
    return is_satisfied


keywords = st.sampled_from([*COMPARISONS])


@examples(150)
@given(keywords, bounds, st.data())
def test_bounds_compare_numbers_as_doubles(keyword: str, bound: float, data: st.DataObject) -> None:
    machine = JsonSchemaStateMachine({"type": "number", keyword: bound})
    opposite = JsonSchemaStateMachine({"type": "number", "not": {keyword: bound}})
    for text in data.draw(st.lists(texts_near(bound), min_size=6, max_size=6)):
        assert machine.matches(text) == satisfies(keyword, bound, text), text
        assert opposite.matches(text) == satisfies(OPPOSITES[keyword], bound, text), text


@examples(30)
@given(st.lists(bounds, min_size=1, max_size=3), st.data())
def test_excluded_numbers_are_those_of_equal_doubles(
    excluded: list[float], data: st.DataObject
) -> None:
    machine = JsonSchemaStateMachine({"type": "number", "not": {"enum": excluded}})
    for number in excluded:
        for text in data.draw(st.lists(texts_near(number), min_size=5, max_size=5)):
            assert machine.matches(text) == (float(text) not in excluded), text


@examples(15)
@given(ordinary_numbers, st.data())
def test_unique_items_are_different_doubles(number: float, data: st.DataObject) -> None:
    schema = {"type": "array", "items": {"type": "number"}, "uniqueItems": True}
    machine = JsonSchemaStateMachine(schema)
    nested = JsonSchemaStateMachine({"type": "array", "uniqueItems": True})
    first = plain(exact(number))
    for text in data.draw(st.lists(texts_near(number), min_size=3, max_size=3)):
        is_other = float(text) != number
        assert machine.matches(f"[{first}, {text}]") == is_other
        assert machine.matches(f"[{text}, {first}]") == is_other
        assert nested.matches(f"[[{first}], [{text}]]") == is_other


@examples(60)
@given(bounds, st.integers(0, 3), st.booleans(), st.booleans(), st.data())
def test_few_doubles_between_two_bounds(
    low: float, count: int, low_open: bool, high_open: bool, data: st.DataObject
) -> None:
    high, between = low, [low]
    for _ in range(count):
        high = math.nextafter(high, math.inf)
        between.append(high)
    lower = "exclusiveMinimum" if low_open else "minimum"
    upper = "exclusiveMaximum" if high_open else "maximum"
    between = [
        number
        for number in between
        if COMPARISONS[lower](number, low) and COMPARISONS[upper](number, high)
    ]
    schema = {"type": "number", lower: low, upper: high}
    if not between:
        with pytest.raises(UnsatisfiableSchemaError):
            JsonSchemaStateMachine(schema)
        return
    machine = JsonSchemaStateMachine(schema)
    for number in between:
        assert machine.matches(plain(exact(number)))
    if len(between) > 1:
        for text in data.draw(st.lists(texts_near(low), min_size=5, max_size=5)):
            expected = satisfies(lower, low, text) and satisfies(upper, high, text)
            assert machine.matches(text) == expected, text
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine({**schema, "not": {"enum": between}})


@pytest.mark.parametrize(
    ("schema", "admitted", "refused"),
    [
        (
            {"exclusiveMinimum": 0},
            ["5e-324", "3e-324", "0." + "0" * 323 + "3", "1"],
            ["1e-324", "0." + "0" * 330 + "1", "0", "2e-324"],
        ),
        (
            {"exclusiveMaximum": 0.1},
            ["0.09999999999999999", "0", "-1", "9.9e-2"],
            ["0.09999999999999999999", "9.9999999999999999999e-2", "0.1", "0.10"],
        ),
        (
            {"maximum": 0.1},
            ["0.1", "0.1000000000000000001", "1.000000000000000001e-1"],
            ["0.10000000000000002", "0.11"],
        ),
        ({"minimum": 0}, ["0", "0.0"], ["-0.0", "-0." + "0" * 330 + "1"]),
        ({"minimum": 18}, ["18", "18.0"], ["17.99999999999999999999", "17"]),
        ({"type": "integer", "exclusiveMinimum": 2**53}, [str(2**53 + 2)], [str(2**53 + 1)]),
        (
            {"type": "integer", "exclusiveMinimum": 2**53, "allOf": [{"minimum": 2**53 + 1}]},
            [str(2**53 + 2)],
            [str(2**53 + 1)],
        ),
        ({"type": "integer", "maximum": 2**63 - 1}, [str(2**63 - 1)], [str(2**63)]),
        ({"minimum": 0.1, "maximum": 0.1}, ["0.1", "0.100"], ["0.10000000000000000001", "1e-1"]),
        (
            {"not": {"const": 0}},
            ["1", "-3e-324", "0.1"],
            ["0", "-0", "1e-324", "-0." + "0" * 330 + "1"],
        ),
        ({"not": {"const": 2**60 + 1}}, [str(2**60 + 256)], [str(2**60), str(2**60 + 1)]),
    ],
    ids=lambda value: None,
)
def test_numbers_that_are_rounded_to_a_bound(
    schema: Any, admitted: list[str], refused: list[str]
) -> None:
    assert_texts({"type": "number", **schema}, admitted, refused, judged=False)


def test_array_of_few_doubles_has_that_many_unique_items() -> None:
    items = {"type": "number", "minimum": 0.1, "maximum": math.nextafter(0.1, 1)}
    schema = {"type": "array", "items": items, "uniqueItems": True, "minItems": 2}
    assert JsonSchemaStateMachine(schema).matches("[0.1, 0.10000000000000002]")
    with pytest.raises(Exception, match="different items"):
        JsonSchemaStateMachine({**schema, "minItems": 3})


def test_unique_items_are_integers_beyond_two_to_the_53() -> None:
    items = {"type": "integer", "minimum": 2**60, "maximum": 2**60 + 600}
    schema = {"type": "array", "items": items, "uniqueItems": True}
    machine = JsonSchemaStateMachine(schema)
    assert machine.matches(f"[{2**60}, {2**60 + 256}]")
    assert not machine.matches(f"[{2**60}, {2**60 + 1}]")


def walks(count: int, seed: int) -> list[tuple[str, float, str]]:
    """Return bounds with texts that a grammar admits, most of them close to the bound."""
    random, found = Random(seed), []
    while len(found) < count:
        keyword = random.choice([*COMPARISONS])
        bound = random.choice(NEAR) * random.choice([1, -1])
        if random.random() < 0.3:
            bound = struct.unpack("<d", random.randbytes(8))[0]
            if not abs(bound) < 1e307:
                continue
        state = JsonSchemaStateMachine({"type": "number", keyword: bound}).start
        near = (Fraction(bound) + Fraction(math.nextafter(bound, random.choice([-9e9, 9e9])))) / 2
        written = bytearray()
        for byte in plain(near).encode():
            following = state.derivative(byte)
            if following is EMPTY or random.random() < 0.01:
                break
            state = following
            written.append(byte)
        for _ in range(random.randrange(25)):
            choices = leading_bytes(state)
            if not choices or (state.nullable and random.random() < 0.1):
                break
            written.append(random.choice(choices))
            state = state.derivative(written[-1])
        rest = shortest_word(state)
        assert rest is not None
        found.append((keyword, bound, (bytes(written) + rest).decode()))
    return found


def test_python_validators_accept_numbers_near_bounds() -> None:
    for keyword, bound, text in walks(400, 1):
        field: Any = Field(**{PYDANTIC[keyword]: bound})
        assert TypeAdapter(Annotated[float, field]).validate_json(text) == float(text)
        jsonschema.validate(json.loads(text), {"type": "number", keyword: bound})


SCRIPT = """
const compare = {
  minimum: (a, b) => a >= b, exclusiveMinimum: (a, b) => a > b,
  maximum: (a, b) => a <= b, exclusiveMaximum: (a, b) => a < b,
};
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
const wrong = cases.filter(
  ([keyword, bound, text]) => !compare[keyword](JSON.parse(text), JSON.parse(bound)));
console.log(JSON.stringify(wrong));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_javascript_accepts_numbers_near_bounds() -> None:
    cases = [(keyword, repr(bound), text) for keyword, bound, text in walks(400, 2)]
    finished = subprocess.run(
        ["node", "-e", SCRIPT], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    assert json.loads(finished.stdout) == []
