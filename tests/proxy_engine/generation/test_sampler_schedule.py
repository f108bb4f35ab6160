"""Limits by sub-state, as the loop asks for samplers."""

from __future__ import annotations

import pytest

from proxy_engine import GenerationOptions, PartOptions
from proxy_engine.generation import SamplerSchedule
from state_machines.root import Text


def test_a_choice_that_is_made_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    options = GenerationOptions(parts={"text": PartOptions(max_tokens=3)})
    sampler_schedule = SamplerSchedule(options, None, Text())
    ended: list[int] = []
    monkeypatch.setattr(sampler_schedule, "_end_texts", lambda: ended.append(written))
    # Tokens that are refused are chosen again, and forced ones not at all.
    for written in (0, 0, 0, 1, 1, 2, 2, 4):
        sampler_schedule.next_sampler(written)
    assert ended == [4]
