"""Tokens per pass with a draft head of a known agreement."""

from __future__ import annotations

import draft_heads
import pytest


@pytest.mark.model
def test_head_that_always_agrees_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here and in mlx-vlm's loop, whose text the benchmark compares with that of single passes."""
    monkeypatch.setattr(draft_heads, "TEXT_TOKENS", 16)
    monkeypatch.setattr(draft_heads, "KINDS", {"free text": {"max_tokens": 16, "min_tokens": 16}})
    peer, ours = draft_heads.measure(1, [1.0])
    # The last draft ends behind the answer.
    assert ours["accepted of drafted"] > 0.7
    assert ours["tokens per pass"] > 3
    assert peer["tokens per pass"] > 3


@pytest.mark.model
def test_schema_takes_as_many_passes_as_free_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_heads, "TEXT_TOKENS", 40)
    monkeypatch.setattr(draft_heads, "ROWS", 2)
    free, free_together, schema, together = draft_heads.beside_free([1.0])
    assert free["tokens"] == schema["tokens"] == 80
    assert together["passes"] == schema["passes"] == free["passes"] == free_together["passes"]
    assert schema["valid"] == together["valid"] == together["equal"] == 2
