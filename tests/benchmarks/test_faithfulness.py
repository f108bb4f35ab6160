"""The benchmark of faithful sampling: simulated particle systems, tables and plots."""

from __future__ import annotations

from typing import Any

import pytest
from distributions import frequencies, total_variation
from faithfulness_cases import CASES
from faithfulness_distance import measure_case
from faithfulness_simulation import simulated_texts


@pytest.fixture(scope="module")
def case() -> dict[str, Any]:
    return measure_case(CASES[0], counts=(1, 32), draws=300, engine_counts=(1, 4), engine_draws=10)


def test_simulated_particles_approach_the_exact_distribution(case: dict[str, Any]) -> None:
    one, many = case["simulated"]
    assert one["distance"] == pytest.approx(case["masking"], abs=0.05)
    assert one["p_value"] < 0.001
    assert many["distance"] < 1.5 * case["noise"]
    assert many["evidence"] == pytest.approx(1, abs=4 * many["evidence_error"])


def test_simulated_masking_draws_from_its_enumerated_distribution() -> None:
    with CASES[1].engine(1) as engine:
        exact = CASES[1].exact(engine)
    texts = [text for text, _ in simulated_texts(exact, 1, 2000)]
    assert total_variation(frequencies(texts), exact.masked_by_text) < 0.05
