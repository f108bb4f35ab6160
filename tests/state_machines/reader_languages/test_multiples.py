"""Multiples of floating-point steps, compared with the libraries that read them."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter
from schema_strategies import examples

from state_machines import JsonSchemaStateMachine
from state_machines.reader_languages.multiples import (
    multiples_by_remainder,
    multiples_within_tolerance,
)

STEPS = [0.1, 0.01, 0.3, 0.7, 7.7, 1e-5, 0.5, 0.25, 2.5, 3.0, 100.0, 1e22, 1e-300, 5e-324, 1e308]

steps = st.one_of(st.sampled_from(STEPS), st.floats(1e-12, 1e12))


def decimal_text(number: Fraction) -> str:
    """Return a decimal fraction without an exponent."""
    places = next(n for n in range(400) if (number * 10**n).denominator == 1)
    digits = str(abs(number) * 10**places).zfill(places + 1)
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[: len(digits) - places]}.{digits[len(digits) - places :]}0"


@examples(80)
@given(steps, st.randoms(use_true_random=False))
def test_multiples_by_remainder_have_none(step: float, random: Random) -> None:
    accepted = multiples_by_remainder(step)
    numbers = accepted.values
    if numbers is None:
        last = int(Fraction(accepted.limit) / Fraction(step))
        factors = [0, 1, -1, last, -last, *(random.randrange(-last, last + 1) for _ in range(20))]
        numbers = tuple(float(Fraction(repr(step)) * factor) for factor in factors)
    assert all(math.fmod(number, step) == 0 for number in numbers)


@pytest.mark.parametrize("step", STEPS)
def test_msgspec_reads_multiples_by_remainder(step: float) -> None:
    msgspec = pytest.importorskip("msgspec")
    decoder = msgspec.json.Decoder(Annotated[float, msgspec.Meta(multiple_of=step)])
    accepted = multiples_by_remainder(step)
    machine = JsonSchemaStateMachine({"type": "number", **accepted.schema()})
    last = int(Fraction(accepted.limit) / Fraction(step))
    numbers: list[float] = [*(accepted.values or ())]
    written = Fraction(repr(step))
    texts = [decimal_text(Fraction(repr(number))) for number in numbers if abs(number) < 1e300]
    random = Random(1)
    for factor in (*range(-20, 21), last, *(random.randrange(last + 1) for _ in range(50))):
        texts.append(decimal_text(written * factor) if last < 10**300 else "0")
    admitted = [text for text in texts if machine.matches(text.removesuffix(".0"))]
    assert len(admitted) >= min(len(numbers) // 2, 20)
    for text in admitted:
        decoder.decode(text)


def test_multiples_by_remainder_of_rounded_steps_are_few() -> None:
    accepted = multiples_by_remainder(0.1, 0, 100)
    assert accepted.values == (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2)
    assert multiples_by_remainder(0.1, -1, -0.3).values == (-0.8, -0.4)
    assert multiples_by_remainder(0.1, 0.25, 0.35).values == ()
    assert len(multiples_by_remainder(0.1).values or ()) == 64
    assert multiples_by_remainder(0.25).values is None


@examples(40)
@given(steps.filter(lambda step: step < 1e290), st.randoms(use_true_random=False))
def test_pydantic_reads_multiples_within_its_tolerance(step: float, random: Random) -> None:
    adapter = TypeAdapter(Annotated[float, Field(multiple_of=step)])
    accepted = multiples_within_tolerance(step)
    last = int(Fraction(accepted.limit) / Fraction(repr(step)))
    for _ in range(40):
        bound = min(10 ** random.randrange(1, 20), last)
        factor = random.choice([random.randrange(bound + 1), max(last - random.randrange(9), 0)])
        text = decimal_text(random.choice([1, -1]) * factor * Fraction(repr(step)))
        assert adapter.validate_json(text) == float(text)


@pytest.mark.parametrize("step", [0.0, -1.0, math.inf, math.nan])
def test_steps_are_positive_and_finite(step: float) -> None:
    for multiples in (multiples_by_remainder, multiples_within_tolerance):
        with pytest.raises(ValueError, match="positive"):
            multiples(step)
