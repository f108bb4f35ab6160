"""Drafts are shorter for models that may have to process accepted tokens again."""

from __future__ import annotations

import pytest
from architectures import small_model
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.generation import device_pass_cost, pass_cost
from proxy_engine.generation.speculation.draft_length import draft_length


@pytest.mark.parametrize("architecture", ["mamba", "falcon_h1", "lfm2", "deepseek_v41"])
def test_recurrent_states_make_drafts_shorter(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a CPU without a fast BLAS, no draft pays anyway.
    monkeypatch.setattr(pass_cost, "has_fast_blas", lambda: True)
    cost = device_pass_cost(make_prompt_cache(small_model(architecture)))
    assert 0 < cost.base < device_pass_cost().base
    assert draft_length(0.9, cost, 16) <= draft_length(0.9, device_pass_cost(), 16)


@pytest.mark.parametrize("architecture", ["qwen3", "gemma3_text", "llama4"])
def test_caches_that_drop_tokens_leave_drafts_as_long(architecture: str) -> None:
    cost = device_pass_cost(make_prompt_cache(small_model(architecture)))
    assert cost == device_pass_cost()
