"""A joint prefill computes the logits and caches of single prefills."""

from __future__ import annotations

import random
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from cached_models import VOCABULARY, is_close, model_of, read
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.generation import ForwardPass, Prefill, Timings
from proxy_engine.generation.batch_rows import CachedText
from proxy_engine.generation.cache_layers import extract_kv_row
from proxy_engine.generation.prefill import (
    can_join_prefill,
    is_joint_prefill_worthwhile,
    joint_prefill_tokens,
    prefill_together,
)


class ReadText(CachedText):
    """A text whose prompt is read."""

    def __init__(self, tokens: list[int], processed: int) -> None:
        super().__init__(tokens, processed)
        self.prompt_tokens = len(tokens)
        self.logits: Any = None
        self.timings = Timings()


def prefill_of(model: Module, tokens: list[int], known: int, **more: Any) -> Prefill:
    """Return the prefill of a prompt whose first ``known`` tokens are cached."""
    cache = make_prompt_cache(model)
    if known:
        read(model, tokens[:known], cache)
    sequence: Any = ReadText(tokens, known)
    return Prefill(sequence, ForwardPass(model), cache, 128, **more)


@pytest.mark.parametrize("longest", [20, 120])
@pytest.mark.parametrize("kind", ["plain", "default"])
def test_joint_prefill_computes_the_logits_and_caches_of_single_prefills(
    kind: str, longest: int
) -> None:
    model = model_of(kind)
    draw = random.Random(longest)
    for _ in range(4):
        texts = [
            [draw.randrange(VOCABULARY) for _ in range(draw.randint(1, longest))]
            for _ in range(draw.randint(2, 6))
        ]
        known = [draw.choice((0, draw.randint(0, len(text) - 1))) for text in texts]
        prefills = [prefill_of(model, *pair) for pair in zip(texts, known, strict=True)]
        assert all(map(can_join_prefill, prefills))
        layers = prefill_together(prefills)
        for index, (text, prefill) in enumerate(zip(texts, prefills, strict=True)):
            cache = make_prompt_cache(model)
            expected = read(model, text, cache)
            sequence: Any = prefill.sequence
            assert is_close(np.array(sequence.logits.all()[0].astype(mx.float32)), expected)
            assert sequence.processed == len(sequence.tokens)
            assert prefill.left == 0
            own = extract_kv_row(layers, index, len(text))
            after = [draw.randrange(VOCABULARY)]
            assert is_close(read(model, after, own), read(model, after, cache))


def test_only_prompts_of_one_pass_with_plain_caches_are_joined() -> None:
    model = model_of("plain")
    assert can_join_prefill(prefill_of(model, [1] * 128, 0))
    assert not can_join_prefill(prefill_of(model, [1] * 129, 0))
    assert can_join_prefill(prefill_of(model, [1] * 129, 1))
    assert not can_join_prefill(prefill_of(model, [1, 2], 0, quantize=lambda cache: None))
    assert not can_join_prefill(prefill_of(model, [1, 2, 3], 0, checkpoints={2: lambda: None}))
    for kind in ("sliding", "recurrent", "mixed", "chunked"):
        assert not can_join_prefill(prefill_of(model_of(kind), [1], 0))


def test_padding_is_bounded() -> None:
    assert is_joint_prefill_worthwhile([10, 10], 20)
    assert not is_joint_prefill_worthwhile([10, 10], 19)
    assert is_joint_prefill_worthwhile([10, 5], 1000)
    assert not is_joint_prefill_worthwhile([10, 1], 1000)


def test_tokens_of_a_joint_pass_depend_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy_engine.generation.prefill.has_fast_blas", lambda: False)
    assert joint_prefill_tokens(16, others_wait=False) == 0
    monkeypatch.setattr("proxy_engine.generation.prefill.has_fast_blas", lambda: True)
    assert joint_prefill_tokens(128, others_wait=False) == 128
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.DeviceType.gpu, 0))
    assert joint_prefill_tokens(512, others_wait=False) == 2048
    assert joint_prefill_tokens(512, others_wait=True) == 512
