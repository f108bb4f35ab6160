"""The benchmark of faithful sampling: simulated particle systems, tables and plots."""

from __future__ import annotations

from typing import Any

import pytest
from distributions import frequencies, total_variation
from faithfulness_cases import CASES
from faithfulness_distance import measure_case
from faithfulness_gain import log_likelihoods
from faithfulness_simulation import simulated_texts
from faithfulness_tables import render

from proxy_engine import InferenceEngine


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


def test_tables_and_plot_show_each_case(case: dict[str, Any]) -> None:
    report = {"distance": [case], "animals": [{**case, "case": "animals"}]}
    tables = render(report)
    assert "| bits | 17 | 0.866 |" in tables
    assert "| animals | 17 | 0.866 |" in tables
    pytest.importorskip("matplotlib")
    from faithfulness_plot import draw_faithfulness  # noqa: PLC0415, it needs the extra

    assert len(draw_faithfulness(report).axes) == 2


def test_likelihood_is_the_sum_of_log_probabilities(tiny_engine: InferenceEngine) -> None:
    result = tiny_engine.generate("hi", temperature=1.0, seed=1, max_tokens=6, logprobs=0)
    prompt = tiny_engine._core.preparation.request("hi", None, {}).prompt.token_ids
    found = log_likelihoods(tiny_engine, prompt, [result.token_ids, result.token_ids[:2]])
    each = [one.chosen.before_mask for one in result.logprobs or ()]
    assert found == pytest.approx([sum(each), sum(each[:2])], abs=1e-3)
