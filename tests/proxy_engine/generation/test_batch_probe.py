"""Batches are used only with models that compute the same logits as alone."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from architectures import small_model
from cached_models import KINDS, fresh_model, model_of
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine import InferenceEngine
from proxy_engine.generation import Batch
from proxy_engine.generation.batch_probe import BatchProbe


@pytest.mark.parametrize("kind", KINDS)
def test_probe_accepts_models_that_run_in_batches(kind: str) -> None:
    probe = BatchProbe(model_of(kind))
    assert probe.can_decode == (kind != "chunked")
    # mlx-lm's recurrent layers process padding as tokens, except those that mask it.
    assert probe.can_pad == (kind not in ("chunked", "recurrent"))


@pytest.mark.parametrize("architecture", ["afm7", "gemma2", "gpt_bigcode"])
def test_probe_rejects_models_with_wrong_batches(architecture: str) -> None:
    model = small_model(architecture)
    probe = BatchProbe(model)
    assert not probe.can_decode
    assert not probe.can_pad
    batch = Batch(model)
    batch.add(_row(), make_prompt_cache(model))
    assert not batch.can_add(make_prompt_cache(model))


def _row() -> Any:
    return object()


class Rounded(Module):
    """A model whose logits differ by noise in a pass of several rows."""

    def __init__(self, inner: Module, noise: float) -> None:
        super().__init__()
        self.inner = inner
        self._noise = noise

    @property
    def layers(self) -> Any:
        return self.inner.layers

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        logits: mx.array = self.inner(inputs, cache=cache)
        if inputs.shape[0] > 1:
            logits = logits + self._noise * mx.random.normal(logits.shape, key=mx.random.key(0))
        return logits


@pytest.mark.parametrize(("noise", "expected"), [(1e-4, True), (0.02, True), (3.0, False)])
def test_probe_tolerates_rounding(noise: float, expected: bool) -> None:
    assert BatchProbe(Rounded(fresh_model("default"), noise)).can_decode == expected


def test_probe_runs_once_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh_model("default")
    probe = BatchProbe(model)
    for _ in range(2):
        batch = Batch(model, probe=probe)
        batch.add(_row(), make_prompt_cache(model))
        assert batch.can_add(make_prompt_cache(model))
        monkeypatch.setattr("proxy_engine.generation.batch_probe._after_merging", None)


@pytest.mark.parametrize("architecture", ["afm7", "gemma2"])
def test_models_with_wrong_batches_run_one_request_at_a_time(
    architecture: str, tiny_tokenizer: Any
) -> None:
    prompts = ["a", "hello world " * 4, "xyz"]
    options: Any = {"max_tokens": 8, "min_tokens": 8, "temperature": 0.0}
    with InferenceEngine(small_model(architecture), tiny_tokenizer) as engine:
        alone = [engine.generate(prompt, **options).token_ids for prompt in prompts]
        together = engine.generate_batch(prompts, **options)
    assert [result.token_ids for result in together] == alone
