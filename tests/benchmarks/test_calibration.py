"""Figures of calibration on values whose calibration is known, and values of a small model."""

from __future__ import annotations

import random

import calibration
import pytest
from calibration_figures import Judged, calibration_error, figures, reliability
from hypothesis import given
from hypothesis import strategies as st
from numpy import array

from proxy_engine import InferenceEngine

CONFIDENCES = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40)


def judged(pairs: list[tuple[float, bool]]) -> list[Judged]:
    return [Judged("t", number, "/a", "enum", *pair) for number, pair in enumerate(pairs)]


def drawn(random_numbers: random.Random, count: int, sharpness: float) -> list[Judged]:
    """Values that are right with their probability, and confidences that exaggerate it."""
    pairs = []
    for _ in range(count):
        probability = random_numbers.random()
        stated = probability**sharpness / (probability**sharpness + (1 - probability) ** sharpness)
        pairs.append((stated, random_numbers.random() < probability))
    return judged(pairs)


@given(CONFIDENCES)
def test_calibration_error_is_the_mean_gap_of_the_bins(pairs: list[tuple[float, bool]]) -> None:
    found = reliability(judged(pairs))
    expected = sum(each.count * abs(each.accuracy - each.confidence) for each in found) / len(pairs)
    confidence, is_right = (array(column, float) for column in zip(*pairs, strict=True))
    assert calibration_error(confidence, is_right) == pytest.approx(expected, abs=1e-9)


def test_calibrated_values_have_a_small_error_and_exaggerated_ones_a_large_one() -> None:
    calibrated, exaggerated = (
        figures(drawn(random.Random(5), 1500, sharpness), resamples=200) for sharpness in (1.0, 5.0)
    )
    assert calibrated["calibration_error"][0] < 0.04
    assert exaggerated["calibration_error"][0] > 0.12
    assert calibrated["brier_score"][0] < exaggerated["brier_score"][0]
    for found in (calibrated, exaggerated):
        for name in ("accuracy", "calibration_error", "top_half_accuracy"):
            value, low, high = found[name]
            assert 0 <= low <= high <= 1
            assert low - 0.05 <= value <= high + 0.05
        assert found["top_half_accuracy"][0] > found["accuracy"][0] + 0.15


def test_token_confidence_is_the_product_over_the_tokens_of_the_value(
    tiny_engine: InferenceEngine,
) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["red", "blue"]}, "b": {"type": "boolean"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    result = tiny_engine.generate("Hi", response_format=schema, max_tokens=64, logprobs=0)
    stated = [calibration.token_confidence(tiny_engine, result, f"/{name}") for name in "ab"]
    assert all(one is not None and 0 < one < 1 for one in stated)
    # All other tokens are forced.
    assert result.logprobs is not None
    whole = sum(entry.chosen.after_mask for entry in result.logprobs)
    assert calibration.token_confidence(tiny_engine, result, "") == pytest.approx(
        2.718281828**whole
    )
    plain = tiny_engine.generate("Hi", response_format=schema, max_tokens=64)
    assert calibration.token_confidence(tiny_engine, plain, "/a") is None
