"""Small random models, one for each kind of cache that mlx-lm's models have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models import falcon_h1, gemma3_text, lfm2, llama, llama4, mamba, qwen2
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.prompt_cache import PromptCaches

VOCABULARY = 64
WINDOW = 12


def randomized(model: Module, seed: int = 0) -> Module:
    """Give every weight a random value; the same ones for the same seed."""
    key = mx.random.key(seed)
    weights = []
    for name, weight in tree_flatten(model.parameters()):
        key, own = mx.random.split(key)
        weights.append((name, mx.random.normal(weight.shape, key=own) * 0.3))
    model.load_weights(weights)
    mx.eval(model.parameters())
    return model


def random_llama(vocabulary: int = VOCABULARY) -> Module:
    """Return a llama model whose heads are wide enough for quantized caches."""
    return randomized(_llama(vocabulary))


def _llama(vocabulary: int = VOCABULARY) -> Module:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocabulary,
    }
    return llama.Model(llama.ModelArgs.from_dict(config))


def _default() -> Module:
    config = {
        "model_type": "qwen2",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCABULARY,
    }
    return qwen2.Model(qwen2.ModelArgs.from_dict(config))


def _sliding() -> Module:
    config = {
        "model_type": "gemma3_text",
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "head_dim": 16,
        "vocab_size": VOCABULARY,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 16,
        "sliding_window": WINDOW,
        "sliding_window_pattern": 3,
    }
    return gemma3_text.Model(gemma3_text.ModelArgs.from_dict(config))


def _recurrent() -> Module:
    config = {
        "model_type": "mamba",
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "state_size": 8,
        "num_hidden_layers": 2,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 4,
    }
    return mamba.Model(mamba.ModelArgs.from_dict(config))


def _mixed() -> Module:
    config = {
        "model_type": "lfm2",
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 512,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 32,
        "block_ff_dim": 64,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "full_attn_idxs": [1],
    }
    return lfm2.Model(lfm2.ModelArgs.from_dict(config))


def _listed() -> Module:
    config = {
        "model_type": "falcon_h1",
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "head_dim": 16,
        "intermediate_size": 64,
        "mamba_d_conv": 4,
        "mamba_d_head": 16,
        "mamba_d_ssm": 32,
        "mamba_d_state": 8,
        "mamba_n_heads": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    return falcon_h1.Model(falcon_h1.ModelArgs.from_dict(config))


def _chunked() -> Module:
    config = {
        "attention_bias": False,
        "attention_chunk_size": WINDOW,
        "head_dim": 16,
        "hidden_size": 32,
        "interleave_moe_layer_step": 2,
        "intermediate_size": 64,
        "intermediate_size_mlp": 64,
        "max_position_embeddings": 512,
        "model_type": "llama4",
        "num_attention_heads": 2,
        "num_experts_per_tok": 1,
        "num_hidden_layers": 4,
        "num_key_value_heads": 1,
        "num_local_experts": 2,
        "rms_norm_eps": 1e-5,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "use_qk_norm": False,
        "vocab_size": VOCABULARY,
    }
    return llama4.Model(llama4.ModelArgs.from_dict({"model_type": "llama4", "text_config": config}))


_MAKERS: dict[str, Callable[[], Module]] = {
    "plain": _llama,
    # Without a say in what its caches are.
    "default": _default,
    "sliding": _sliding,
    "recurrent": _recurrent,
    "mixed": _mixed,
    "listed": _listed,
    "chunked": _chunked,
}
KINDS = tuple(_MAKERS)


@functools.cache
def model_of(kind: str) -> Module:
    """Return the model of a kind. Its weights must not be changed."""
    return randomized(_MAKERS[kind]())


def fresh_model(kind: str, seed: int = 0) -> Module:
    """A model of a kind that may be changed."""
    return randomized(_MAKERS[kind](), seed)


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
