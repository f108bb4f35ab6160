"""Small random models, one for each kind of cache that mlx-lm's models have."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from architectures import WINDOW, small_model
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.prompt_cache.prompt_caches import PromptCaches

__all__ = [
    "KINDS",
    "VOCABULARY",
    "WINDOW",
    "ask",
    "cold",
    "fresh_model",
    "is_close",
    "model_of",
    "random_llama",
    "read",
]

VOCABULARY = 64


_ROOMY: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "intermediate_size": 64,
    "layer_types": None,
}
"""A llama whose heads are wide enough for quantized caches."""

_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("llama", _ROOMY),
    # Without a say in what its caches are.
    "default": ("qwen2", {}),
    "sliding": ("gemma3_text", {}),
    "recurrent": ("mamba", {}),
    "mixed": ("lfm2", {}),
    "listed": ("falcon_h1", {}),
    "gated": ("qwen3_next", {}),
    "hybrid": ("nemotron_h", {}),
    "chunked": ("llama4", {}),
}
KINDS = tuple(_KINDS)


def random_llama(vocabulary: int = VOCABULARY) -> Module:
    """Return a llama model whose heads are wide enough for quantized caches."""
    return small_model("llama", vocab_size=vocabulary, **_ROOMY)


@functools.cache
def model_of(kind: str) -> Module:
    """Return the model of a kind. Its weights must not be changed."""
    return fresh_model(kind)


def fresh_model(kind: str, seed: int = 0) -> Module:
    """A model of a kind that may be changed."""
    architecture, options = _KINDS[kind]
    return small_model(architecture, seed, vocab_size=VOCABULARY, **options)


def read(model: Module, token_ids: Sequence[int], cache: list[Any]) -> npt.NDArray[np.float32]:
    """The logits after the last of ``token_ids``, shape (vocabulary,), computed."""
    logits = model(mx.array([list(token_ids)], dtype=mx.int32), cache=cache)[0, -1]
    mx.eval(logits, [layer.state for layer in cache])
    return np.array(logits.astype(mx.float32))


def cold(model: Module, token_ids: Sequence[int]) -> npt.NDArray[np.float32]:
    """The logits after a text that is read from its beginning."""
    return read(model, token_ids, make_prompt_cache(model))


def is_close(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> bool:
    """Whether logits are equal but for rounding: up to 1e-4 of the largest of them."""
    return bool(np.abs(left - right).max() <= 1e-4 * np.abs(right).max())


def ask(
    caches: PromptCaches,
    model: Module,
    prompt_ids: Sequence[int],
    *,
    count: int = 0,
    boundaries: Sequence[int] = (),
    step: int = 1000,
) -> tuple[int, npt.NDArray[np.float32], list[int]]:
    """A request as an engine's loop runs it, with ``count`` tokens of answer, greedily chosen.

    The prompt is read in passes of ``step`` tokens. Returns how many tokens were cached, the logits after the prompt, and the answer. The last
    token of the answer is not fed to the model.
    """
    started = caches.fetch(prompt_ids)
    cache, done = started.cache, started.cached_tokens
    stops = caches.checkpoint_lengths(prompt_ids, boundaries, max_tokens=count)
    for stop in (*(s for s in stops if s > done), len(prompt_ids) - 1):
        while done < stop:
            chunk = prompt_ids[done : min(done + step, stop)]
            read(model, chunk, cache)
            caches.quantize(cache)
            done += len(chunk)
        if stop in stops:
            caches.insert_copy(prompt_ids[:stop], cache)
    logits = first = read(model, prompt_ids[done:], cache)
    answer: list[int] = []
    for index in range(count):
        caches.quantize(cache)
        answer.append(int(logits.argmax()))
        if index < count - 1:
            logits = read(model, answer[-1:], cache)
    run = len(prompt_ids) + max(count - 1, 0)
    caches.insert([*prompt_ids, *answer], cache, processed=run)
    return started.cached_tokens, first, answer
