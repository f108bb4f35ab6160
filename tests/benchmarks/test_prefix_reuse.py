"""Conversations of models whose caches cannot be trimmed."""

from __future__ import annotations

import prefix_reuse
import pytest


@pytest.mark.model
@pytest.mark.parametrize("family", ["qwen3_next", "nemotron_h"])
def test_turn_processes_its_new_messages_alone(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "reasoning, then schema"
    monkeypatch.setattr(prefix_reuse, "KINDS", {kind: prefix_reuse.KINDS[kind]})
    (figure,) = prefix_reuse.measure([family], 3)
    # The last token of a prompt is processed for its logits.
    assert figure["most_again"] <= 1
    assert figure["equal"] == figure["answers"] == 3
