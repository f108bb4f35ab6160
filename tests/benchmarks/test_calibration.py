"""Figures of calibration on values whose calibration is known, and values of a small model."""

from __future__ import annotations

import random

import calibration
import pytest
from calibration_figures import Judged, auroc, calibration_error, figures, reliability
from hypothesis import given
from hypothesis import strategies as st
from numpy import array
from quality_tasks import make_records

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
        for name in ("accuracy", "calibration_error", "auroc"):
            value, low, high = found[name]
            assert 0 <= low <= high <= 1
            assert low - 0.05 <= value <= high + 0.05
        assert found["auroc"][0] > 0.8


@given(CONFIDENCES)
def test_auroc_is_the_share_of_pairs_in_order(pairs: list[tuple[float, bool]]) -> None:
    right = [stated for stated, is_right in pairs if is_right]
    wrong = [stated for stated, is_right in pairs if not is_right]
    found = auroc(*(array(column, float) for column in zip(*pairs, strict=True)))
    if not right or not wrong:
        assert figures(judged(pairs), resamples=1)["auroc"] is None
        return
    order = [(high > low) + (high == low) / 2 for high in right for low in wrong]
    assert found == pytest.approx(sum(order) / len(order))


def test_values_of_a_small_model_have_confidences_by_kind(tiny_engine: InferenceEngine) -> None:
    records = make_records("extraction", 0, 2)
    method = calibration.METHODS["values"]
    results = calibration.answers(tiny_engine, method, records, seed=0)
    found = calibration.judged_values(method, records, results)
    assert len(found) == sum(len(record.gold) for record in records)
    assert all(0 < each.confidence <= 1 for each in found)
    assert {each.kind for each in found} <= {"string", "number", "integer", "boolean", "enum"}
