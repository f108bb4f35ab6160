"""Numbers: bounds, integers, multiples, and spellings."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import Judge
from schema_checks import assert_texts
from schema_strategies import examples

from state_machines import (
    JsonSchemaStateMachine,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
)
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.symbols import bytes_in
from state_machines.reader_languages.numbers.intervals import MAX_INTEGER_DIGITS, Interval
from state_machines.reader_languages.numbers.number_sets import NumberSet
from state_machines.reader_languages.numbers.number_text import number_language

NOT_SPELLED = ["01", "00", "+1", ".5", "1.", "-", "--1", "1.5.2", "0x1", "NaN", "Infinity"]


@pytest.mark.parametrize("schema", [{}, {"type": "number"}, {"type": "integer"}, {"minimum": -1}])
def test_malformed_numbers_are_refused(schema: Any) -> None:
    assert_texts(schema, ["0", "7"], NOT_SPELLED)


def test_numbers_may_have_exponents() -> None:
    texts = ["1e5", "1E5", "1e+16", "1.5e-07", "-2.25E+300", "5e-324", "1e+05"]
    assert_texts(
        {"type": "number"}, texts, ["1e", "1e+", "12e5", "1e400", "e5", "1e5.5"], judged=False
    )
    assert_texts(True, texts, ["12e5"], judged=False)


@pytest.mark.parametrize("number", [1e16, 1.5e-7, -2.5e300, 5e-324, 9.9e307, 1e22])
def test_numbers_are_admitted_as_json_dumps_writes_them(number: float) -> None:
    assert_texts({"type": "number"}, [json.dumps(number)], [])


def test_numbers_are_finite_as_doubles() -> None:
    machine = JsonSchemaStateMachine({"type": "number"})
    longest = "9" * MAX_INTEGER_DIGITS
    assert machine.matches(longest)
    assert float(longest) < float("inf")
    assert not machine.matches(longest + "0")
    assert not machine.matches("9" * 400)


def test_minus_zero_needs_negative_numbers() -> None:
    assert_texts({"type": "integer"}, ["-0", "0"], [], judged=False)
    assert_texts({"minimum": 0}, ["0", "0.0"], ["-0", "-0.0"], judged=False)
    assert_texts({"minimum": -1}, ["0", "-0", "-0.0"], [], judged=False)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number", "minimum": 3, "exclusiveMaximum": 3},
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"type": "integer", "minimum": 0.1, "maximum": 0.9},
        {"type": "number", "minimum": 1, "maximum": 2, "multipleOf": 5},
        {"allOf": [{"const": 1}, {"const": 2}]},
        {"type": "number", "enum": [1, 2], "not": {"type": "integer"}},
    ],
)
def test_empty_ranges_are_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(schema)


def test_many_ranges_may_be_excluded() -> None:
    ranges = [{"minimum": 3 * number, "maximum": 3 * number + 1} for number in range(1000)]
    schema = {"type": "number", "not": {"anyOf": ranges}}
    assert_texts(schema, ["2", "1.5", "2999", "-1"], ["0", "1", "3", "2998"])


def test_many_numbers_in_many_ranges_are_within_the_budget() -> None:
    ranges = [{"minimum": 7 * number, "maximum": 7 * number + 2} for number in range(50)]
    with pytest.raises(UnsupportedSchemaError):
        JsonSchemaStateMachine({"enum": list(range(100_000)), "anyOf": ranges})


decimals = st.builds(
    lambda whole, places: Fraction(whole, 10**places),
    st.one_of(st.integers(-120, 120), st.integers(-(10**6), 10**6)),
    st.integers(0, 4),
)


@st.composite
def decimal_texts(draw: st.DrawFn, near: list[Fraction]) -> str:
    """Draw plain decimals, often equal or close to a given number."""
    if near and draw(st.booleans()):
        number = draw(st.sampled_from(near)) + Fraction(draw(st.integers(-2, 2)), 10**5)
    else:
        number = draw(decimals)
    sign = "-" if number < 0 or (number == 0 and draw(st.booleans())) else ""
    whole, rest = divmod(abs(number), 1)
    fraction = f"{int(rest * 10**5):05d}".rstrip("0")
    fraction += "0" * draw(st.integers(0, 2))
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


intervals = st.builds(
    Interval,
    low=st.none() | decimals,
    high=st.none() | decimals,
    low_open=st.booleans(),
    high_open=st.booleans(),
)
steps = st.sampled_from([Fraction(1), Fraction(2), Fraction(3, 2), Fraction(1, 10), Fraction(7)])


@examples(60)
@given(st.lists(st.tuples(intervals, st.none() | steps), min_size=1, max_size=2), st.data())
def test_sets_of_numbers_agree_with_fractions(parts: Any, data: st.DataObject) -> None:
    """Unions, complements and multiples; integers with at most one zero after the point."""
    union = NumberSet.of(
        interval & Interval(step=step) if step else interval for interval, step in parts
    )
    numbers = ~union if data.draw(st.booleans()) else union
    language = encoded(number_language(numbers), RAW) if not numbers.is_empty else None
    near = [b for i, _ in parts for b in (i.low, i.high) if b is not None]
    for _ in range(6):
        text = data.draw(decimal_texts(near))
        number = Fraction(text)
        if text.endswith("0") and "." in text:
            text = text.rstrip("0").rstrip(".")
        if not number:
            text = "0"
        assert (number in union) == any(
            number in interval and (step is None or (number / step).denominator == 1)
            for interval, step in parts
        )
        assert (number in ~union) == (number not in union)
        assert (language is not None and language.matches(text.encode())) == (number in numbers)


LARGEST = sys.float_info.max

FAR = [1e307, 9.9e307, 1e308, 1.5e308, LARGEST, 10**308, int(LARGEST), 5e-324, 1e-320, 1e-300, 1]


@st.composite
def far_bounds(draw: st.DrawFn) -> dict[str, Any]:
    """Draw schemas with bounds and steps near the limits of doubles."""
    schema: dict[str, Any] = {"type": draw(st.sampled_from(["number", "integer"]))}
    far = st.sampled_from(FAR).flatmap(lambda n: st.sampled_from([n, -n]))
    for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        if draw(st.integers(0, 2)) == 0:
            schema[keyword] = draw(far)
    if draw(st.integers(0, 3)) == 0:
        schema["multipleOf"] = draw(st.sampled_from([7, 1e300, 5e307, 1.5e308, 10**400, 1e-300]))
    if draw(st.integers(0, 3)) == 0:
        schema["not"] = {"enum": draw(st.lists(far, min_size=1, max_size=3))}
    return schema


@given(far_bounds(), st.randoms(use_true_random=False))
@examples(30)
def test_numbers_near_the_limits_of_doubles_can_be_completed(schema: Any, random: Random) -> None:
    try:
        node = JsonSchemaStateMachine(schema).start
    except UnsatisfiableSchemaError:
        return
    text = bytearray()
    while not node.nullable or (len(text) < 30 and node.transitions and random.random() < 0.9):
        assert node.transitions, "a dead end"
        transitions = node.transitions
        if len(text) >= 30:
            transitions = [min(node.transitions, key=lambda pair: pair[1].min_length or 0)]
        symbols, node = random.choice(transitions)
        text.append(random.choice(bytes_in(symbols)))
    # Bounds hold for the double that a reader makes of the text.
    read = json.loads(text)
    assert math.isfinite(read)
    assert Judge(schema).admits_text(json.dumps(read))


@pytest.mark.parametrize(
    ("schema", "admitted", "refused"),
    [
        ({"minimum": 1e308}, ["1e308", "1.5E+308", repr(LARGEST)], ["9e307", "1.8e308", "2e308"]),
        ({"maximum": -1e308}, ["-1e308", "-1.5E+308", repr(-LARGEST)], ["-9e307", "-1.8e308"]),
        ({"type": "integer", "minimum": 1e308}, ["1" + "0" * 308], ["9" * 309, "1e308"]),
        ({"const": 1e308}, ["1" + "0" * 308], ["1" + "0" * 309]),
        ({"enum": [10**400, 1]}, ["1"], []),
        ({"exclusiveMinimum": 0, "maximum": 1e-320}, ["1e-320", "5e-324"], ["0", "2e-320"]),
    ],
)
def test_numbers_up_to_the_largest_double_are_admitted(
    schema: Any, admitted: list[str], refused: list[str]
) -> None:
    assert_texts({"type": "number", **schema}, admitted, refused, judged=False)


@pytest.mark.parametrize(
    "schema",
    [
        {"exclusiveMinimum": LARGEST},
        {"minimum": 10**309},
        {"maximum": -(10**309)},
        {"const": 10**400},
        {"multipleOf": 10**400, "minimum": 1},
        {"allOf": [{"multipleOf": 7e300}, {"multipleOf": 1.3e308}], "minimum": 1},
    ],
)
def test_schemas_of_infinite_doubles_are_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine({"type": "number", **schema})


@pytest.mark.parametrize(
    ("wrap", "text"),
    [
        (lambda schema: {"properties": {"p": schema}}, '{"p": 1e+308}'),
        (lambda schema: {"items": schema, "type": "array"}, "[1e+308, 1.5e308]"),
        (lambda schema: {"additionalProperties": schema}, '{"a": 1e+308}'),
    ],
)
def test_numbers_of_309_digits_are_admitted_in_containers(wrap: Any, text: str) -> None:
    assert JsonSchemaStateMachine(wrap({"type": "number", "minimum": 1e308})).matches(text)
    machine = JsonSchemaStateMachine(wrap({"type": "number", "maximum": -1e308}))
    assert machine.matches(text.replace("1", "-1", 1).replace(" 1.5", " -1.5"))
