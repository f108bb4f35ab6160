"""Small random models of architectures with unusual behaviour in mlx-lm.

``gemma3n``, ``kimi_k3`` and ``plamo3`` keep arrays of their first pass. ``afm7`` and ``gemma2`` give
wrong logits for rows of different lengths in one batch; ``gpt_bigcode`` does not take a batch.
"""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

VOCABULARY = 320

_SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
}
_GEMMA3N: dict[str, Any] = {
    **_SIZES,
    "model_type": "gemma3n",
    "num_kv_shared_layers": 2,
    "vocab_size_per_layer_input": VOCABULARY,
    "sliding_window": 12,
    "rope_local_base_freq": 10000.0,
    "final_logit_softcapping": 30.0,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
    "hidden_size_per_layer_input": 8,
    "altup_num_inputs": 2,
    "altup_coef_clip": 120.0,
    "altup_correct_scale": True,
    "altup_active_idx": 0,
    "laurel_rank": 4,
}
_KIMI_K3: dict[str, Any] = {
    **_SIZES,
    "model_type": "kimi_k3",
    "num_key_value_heads": 4,
    "linear_attn_config": {
        "kda_layers": [1, 3],
        "full_attn_layers": [2, 4],
        "num_heads": 4,
        "head_dim": 16,
        "short_conv_kernel_size": 4,
    },
    "num_experts": 4,
    "num_experts_per_token": 2,
    "moe_intermediate_size": 32,
    "num_shared_experts": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "first_k_dense_replace": 1,
    "attn_res_block_size": 2,
}
_CONFIGS: dict[str, dict[str, Any]] = {
    "afm7": {
        "vocab_size": VOCABULARY,
        "hidden_dim": 64,
        "num_layers": 4,
        "num_kv_reuse_layers": 2,
        "num_heads": 4,
        "num_kv_heads": 2,
    },
    "gemma2": {**_SIZES, "query_pre_attn_scalar": 16},
    "gemma3n": {"text_config": _GEMMA3N},
    "gpt_bigcode": {
        "n_embd": 64,
        "n_layer": 2,
        "n_inner": 64,
        "n_head": 4,
        "n_positions": 512,
        "layer_norm_epsilon": 1e-5,
        "vocab_size": VOCABULARY,
    },
    "kimi_k3": {"text_config": _KIMI_K3},
    "plamo3": {**_SIZES, "sliding_window": 12, "sliding_window_pattern": 2},
}


def unusual_model(architecture: str) -> Module:
    """Return a model as ``mlx_lm.load`` does: set to inference, its weights evaluated."""
    module = importlib.import_module(f"mlx_lm.models.{architecture}")
    config = {"model_type": architecture, **_CONFIGS[architecture]}
    model: Module = module.Model(module.ModelArgs.from_dict(config))
    key = mx.random.key(0)
    weights = []
    for name, weight in tree_flatten(model.parameters()):
        key, own = mx.random.split(key)
        weights.append((name, mx.random.normal(weight.shape, key=own) * 0.3))
    model.load_weights(weights)
    model.eval()
    mx.eval(model.parameters())
    return model
