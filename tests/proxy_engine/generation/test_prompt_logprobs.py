"""Log-probabilities of the tokens of a prompt."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
from engine_parts import core_of

from proxy_engine import InferenceEngine
from proxy_engine.errors import PromptError


@pytest.mark.parametrize("step", [3, 128])
def test_logprobs_are_those_of_one_pass(
    roomy_engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr("proxy_engine.engine.generation_engine.PASS_TOKENS", step)
    ids = list(roomy_engine.tokenizer.encode("Hello there, who are you?"))
    found = roomy_engine.prompt_logprobs(ids, 2)

    def expected() -> list[list[float]]:
        logits = core_of(roomy_engine).loaded.model(mx.array([ids]))[0].astype(mx.float32)
        return np.array(logits - mx.logsumexp(logits, axis=1, keepdims=True)).tolist()

    rows = core_of(roomy_engine).run_in_turn(expected)
    assert [token.chosen.token_id for token in found] == ids
    assert (found[0].chosen.before_mask, found[0].top_before_mask) == (0, ())
    for token, row in zip(found[1:], rows, strict=False):
        assert math.isclose(token.chosen.before_mask, row[token.chosen.token_id], abs_tol=1e-4)
        best = sorted(row, reverse=True)[:2]
        assert [top.before_mask for top in token.top_before_mask] == pytest.approx(best, abs=1e-4)


def test_single_token_has_nothing_before_it(roomy_engine: InferenceEngine) -> None:
    assert len(roomy_engine.prompt_logprobs([5], 3)) == 1
    with pytest.raises(PromptError):
        roomy_engine.prompt_logprobs("")
