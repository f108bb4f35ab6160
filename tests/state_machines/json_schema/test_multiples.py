"""Numbers under several keywords: multiples, excluded multiples, bounds, single numbers."""

from __future__ import annotations

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
from small_vocabulary import small_vocabulary

from state_machines import JsonSchemaStateMachine, UnsatisfiableSchemaError
from state_machines.budgets import step_budget
from state_machines.grammar.node import EMPTY, leading_bytes
from state_machines.grammar.shortest import shortest_word
from state_machines.reader_languages.numbers.intervals import exact

VOCABULARY = small_vocabulary()

STEPS = [1, 2, 3, 7, 11, 0.5, 0.1, 0.7, 1.3, 2.5, 0.01, 12, 100, 1000000007, 12.34]
BOUNDS = [0, 1, -1, 7, 9.99, 10, -10, 10.01, 0.05, -0.5, 99, 100, 105, 1e30, -1e30, 123456789]

_step = st.sampled_from(STEPS).map(lambda step: {"multipleOf": step})
_bound = st.tuples(
    st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
    st.sampled_from(BOUNDS),
).map(lambda pair: {pair[0]: pair[1]})
_few = st.lists(st.sampled_from([*BOUNDS, *STEPS, 3, 4, 14, 7.7]), min_size=1, max_size=4).map(
    lambda numbers: {"enum": numbers}
)
_either = st.one_of(_step, _bound, st.just({"type": "integer"}))
_keywords = st.one_of(
    _either,
    _step.map(lambda schema: {"not": schema}),
    st.one_of(_few, _bound).map(lambda schema: {"not": schema}),
    st.tuples(_either, _few).map(lambda pair: {"anyOf": list(pair)}),
    st.tuples(_either, _either).map(lambda pair: {"oneOf": list(pair)}),
)
schemas = st.lists(_keywords, min_size=1, max_size=4).map(
    lambda parts: {"type": "number", "allOf": parts}
)

TEXTS = [
    *(f"{'-' if n < 0 else ''}{abs(n) // 10}.{abs(n) % 10}" for n in range(-130, 131, 3) if n % 10),
    *map(str, (*range(-30, 50), *range(95, 130))),
    "10.01",
    "10.02",
    "9.98",
    "0.04",
    "0.06",
    "-0.49",
    "0.05",
    "123456789",
    "123456790",
    "1000000007",
    "2000000014",
    str(10**30),
    str(-(10**30)),
    str(10**30 + 10**15),
    str(10**300 + 2),
]


def holds(schema: Any, number: Fraction) -> bool:
    """Return whether a number satisfies a schema of the keywords used here."""
    tests = {
        "type": lambda name: name == "number" or number.denominator == 1,
        "multipleOf": lambda step: (number / exact(step)).denominator == 1,
        "minimum": lambda bound: number >= exact(bound),
        "maximum": lambda bound: number <= exact(bound),
        "exclusiveMinimum": lambda bound: number > exact(bound),
        "exclusiveMaximum": lambda bound: number < exact(bound),
        "enum": lambda numbers: number in map(exact, numbers),
        "not": lambda inner: not holds(inner, number),
        "allOf": lambda parts: all(holds(part, number) for part in parts),
        "anyOf": lambda parts: any(holds(part, number) for part in parts),
        "oneOf": lambda parts: sum(holds(part, number) for part in parts) == 1,
    }
    return all(tests[keyword](value) for keyword, value in schema.items())


def compile_or_none(schema: Any) -> JsonSchemaStateMachine | None:
    try:
        return JsonSchemaStateMachine(schema)
    except UnsatisfiableSchemaError:
        return None


@examples(30)
@given(schemas, st.data())
def test_conjunctions_agree_with_fractions(schema: Any, data: st.DataObject) -> None:
    machine = compile_or_none(schema)
    for text in TEXTS:
        assert (machine is not None and machine.matches(text)) == holds(schema, Fraction(text)), (
            text
        )
    judge = Judge(schema)
    for text in data.draw(st.lists(st.sampled_from(TEXTS), min_size=5, max_size=5)):
        assert judge.admits_text(text) == holds(schema, Fraction(text)), text


@examples(50)
@given(schemas, st.randoms(use_true_random=False))
def test_every_state_can_be_completed(schema: Any, random: Random) -> None:
    """Also checks that ``min_length`` is a lower bound, and that the number is admitted."""
    machine = compile_or_none(schema)
    if machine is None:
        return
    for _ in range(4):
        state, text = machine.start, b""
        for _ in range(random.randrange(12)):
            following = leading_bytes(state)
            assert following or state.nullable, text
            if not following:
                break
            byte = random.choice(following)
            text += bytes((byte,))
            state = state.derivative(byte)
            assert state is not EMPTY, text
        rest = shortest_word(state)
        assert rest is not None, text
        assert len(rest) >= state.min_length, text
        assert holds(schema, Fraction((text + rest).decode())), text + rest


@examples(30)
@given(st.lists(st.one_of(_bound, _few.map(lambda s: {"not": s})), max_size=3), st.data())
def test_exponents_agree_with_fractions(parts: list[Any], data: st.DataObject) -> None:
    schema = {"type": "number", "allOf": parts} if parts else {"type": "number"}
    machine = compile_or_none(schema)
    for _ in range(20):
        mantissa = data.draw(
            st.sampled_from(["1", "1.0", "9.99", "1.05", "5", "5.0", "-1", "-9.9"])
        )
        exponent = data.draw(
            st.sampled_from(["e0", "E+00", "e1", "e2", "e-2", "e-1", "e30", "e+29"])
        )
        number, near = Fraction(mantissa + exponent), Fraction(1, 10**9)
        if not any(holds(schema, number + beside) for beside in (near, -near)):
            # An isolated number is written without an exponent.
            continue
        expected = holds(schema, number)
        assert (machine is not None and machine.matches(mantissa + exponent)) == expected


MANY_NOTS = {
    "three": [0.7, 1.3, 11],
    "primes": [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47],
    "decimals": [0.123, 4.567, 8.9, 12.34, 0.0007],
    "large": [10**18 + 9, 10**17 + 3, 123456789.123456789],
}


@pytest.mark.parametrize("steps", MANY_NOTS.values(), ids=MANY_NOTS)
@pytest.mark.parametrize("kind", ["number", "integer"])
def test_multiples_of_many_steps_are_excluded(steps: list[Any], kind: str) -> None:
    schema = {"type": kind, "allOf": [{"not": {"multipleOf": step}} for step in steps]}
    machine = JsonSchemaStateMachine(schema)
    for text in TEXTS:
        assert machine.matches(text) == holds(schema, Fraction(text)) or (
            kind == "integer" and "." in text
        )
    with step_budget(60_000):
        matcher = machine.matcher(VOCABULARY)
        for byte in b"-123":
            assert matcher.allowed_tokens()[byte]
            matcher.advance(byte)


@pytest.mark.parametrize(
    ("schema", "admitted", "refused"),
    [
        (
            {"multipleOf": 10**18 + 9, "minimum": 10**200},
            [str((10**18 + 9) * 10**183), str((10**18 + 9) * 10**182 * 123) + ".0"],
            [str(10**200), str((10**18 + 9) * 10**180)],
        ),
        (
            {"multipleOf": 123456789.125},
            ["123456789.125", "0", "987654313", "-246913578.250"],
            ["123456789", "1", "123456789.1"],
        ),
        (
            {"type": "integer", "minimum": 10**300, "maximum": 10**300 + 5, "multipleOf": 4},
            [str(10**300), str(10**300 + 4)],
            [str(10**300 + 2), str(10**300 + 8), "4"],
        ),
        (
            {"type": "integer", "minimum": 3, "maximum": 8, "not": {"enum": [3, 4, 5.0, 8]}},
            ["6", "7", "7.0"],
            ["3", "4", "5", "5.0", "8", "9", "66"],
        ),
        (
            {"type": "number", "not": {"enum": [0, 1.5, -20]}},
            ["1", "1.51", "1.5001", "-2", "-200", "2e1", "0.1", "-0.1"],
            ["0", "-0", "0.0", "1.5", "1.50", "15e-1", "1.5e0", "-20", "-20.0", "-2e1"],
        ),
        ({"multipleOf": 7, "minimum": 10, "maximum": 30}, ["14.00", "21"], ["7", "14.01"]),
    ],
    ids=lambda value: None,
)
def test_large_steps_and_excluded_numbers(
    schema: Any, admitted: list[str], refused: list[str]
) -> None:
    assert_texts(schema, admitted, refused, judged=False)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 0, "maximum": 3, "not": {"enum": [0, 1, 2, 3]}},
        {"type": "integer", "not": {"multipleOf": 0.5}},
        {"type": "number", "multipleOf": 0.4, "allOf": [{"not": {"multipleOf": 0.2}}]},
        {"multipleOf": 6, "type": "number", "minimum": 1, "maximum": 17, "not": {"multipleOf": 4}}
        | {"allOf": [{"not": {"const": 6}}]},
        {"type": "number", "minimum": sys.float_info.max, "multipleOf": 7, "not": {"const": 1}},
    ],
    ids=lambda value: None,
)
def test_excluding_all_numbers_is_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(schema)


def test_integers_of_draft_4_have_no_point() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}
    assert_texts(schema | {"multipleOf": 2}, ["4", "-2"], ["4.0", "3"], judged=False)
    assert_texts(schema | {"minimum": 2, "maximum": 5}, ["4"], ["4.0", "6"], judged=False)


def test_enum_of_twenty_thousand_numbers() -> None:
    numbers = list(range(20_000))
    texts = [f"w{number:x}" for number in numbers]
    both = {"enum": [*numbers, *texts, None, [1], 0.5]}
    assert_texts(
        both, ["0", "19999", "19999.0", '"w0"', '"w4e1f"', "null", "[1]", "0.50"],
        ["20000", "-1", '"w"', '"w4e20"', "1.5"], judged=False,
    )  # fmt: skip
    left = {"type": "integer", "enum": numbers, "not": {"enum": numbers[1000:]}}
    assert_texts(left, ["0", "999"], ["1000", "19999"], judged=False)
