"""Configurations of small models: sizes that all share, and what an architecture needs besides.

Most architectures agree on the names of their options. Sliding windows, chunks and sparse attention
are shorter than the texts of tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VOCABULARY = 320
WINDOW = 12

_SIZES: dict[str, Any] = {
    **dict.fromkeys(["hidden_size", "hidden_dim", "n_embd", "d_model", "model_dim"], 32),
    **dict.fromkeys(["num_hidden_layers", "num_layers", "n_layer", "n_layers"], 4),
    **dict.fromkeys(["intermediate_size", "intermediate_size_mlp", "dense_intermediate_size"], 48),
    **dict.fromkeys(["n_inner", "ffn_hidden_size", "ff_intermediate_size"], 48),
    **dict.fromkeys(["num_attention_heads", "num_heads", "n_head", "n_heads"], 4),
    **dict.fromkeys(["num_key_value_heads", "num_kv_heads", "n_kv_heads"], 2),
    **dict.fromkeys(["rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_eps"], 1e-5),
    **dict.fromkeys(["layernorm_epsilon", "norm_epsilon", "post_norm_eps"], 1e-5),
    **dict.fromkeys(["max_position_embeddings", "n_positions", "n_ctx", "model_max_length"], 512),
    "head_dim": 8,
    "vocab_size": VOCABULARY,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "partial_rotary_factor": 0.5,
    "tie_word_embeddings": False,
    **dict.fromkeys(["attention_bias", "mlp_bias", "use_bias", "post_norm"], False),
    **dict.fromkeys(["use_conv_bias", "qk_norm", "use_qk_norm"], True),
}
_WINDOWS: dict[str, Any] = {
    **dict.fromkeys(["sliding_window", "attention_window_size", "sliding_window_size"], WINDOW),
    **dict.fromkeys(["window_size", "loop_window_size", "attention_chunk_size"], WINDOW),
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
_EXPERTS: dict[str, Any] = {
    **dict.fromkeys(["num_experts", "n_routed_experts", "num_local_experts"], 4),
    "moe_num_experts": 4,
    **dict.fromkeys(["num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"], 2),
    **dict.fromkeys(["n_shared_experts", "num_shared_experts", "num_shared_expert"], 1),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size"], 16),
    **dict.fromkeys(["expert_ffn_hidden_size", "shared_intermediate_size"], 16),
    **dict.fromkeys(["first_k_dense_replace", "moe_layer_freq", "decoder_sparse_step"], 1),
    "mlp_only_layers": [],
    "norm_topk_prob": True,
    **dict.fromkeys(["n_group", "topk_group"], 1),
    "routed_scaling_factor": 1.0,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
}
_LATENT_ATTENTION: dict[str, Any] = {
    **dict.fromkeys(["kv_lora_rank", "q_lora_rank"], 16),
    **dict.fromkeys(["qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "index_head_dim"], 8),
    "index_n_heads": 2,
    "index_topk": 8,
}
_RECURRENCE: dict[str, Any] = {
    **dict.fromkeys(["linear_num_value_heads", "time_step_rank", "mamba_n_heads"], 4),
    "linear_num_key_heads": 2,
    **dict.fromkeys(["linear_key_head_dim", "linear_value_head_dim", "mamba_d_head"], 8),
    **dict.fromkeys(["state_size", "ssm_state_size", "mamba_d_state"], 8),
    **dict.fromkeys(["linear_conv_kernel_dim", "conv_kernel", "mamba_d_conv"], 4),
    "mamba_d_ssm": 32,
    **dict.fromkeys(["n_groups", "mamba_n_groups"], 1),
    **dict.fromkeys(["group_norm_size", "layer_group_size"], 2),
}
_SCALES: dict[str, Any] = {
    **dict.fromkeys(["logits_scaling", "embedding_multiplier", "residual_multiplier"], 1.0),
    "attention_multiplier": 0.25,
    "scale_depth": 1.4,
    "scale_emb": 1.0,
    "dim_model_base": 32,
}
COMMON = _SIZES | _WINDOWS | _EXPERTS | _LATENT_ATTENTION | _RECURRENCE | _SCALES

_FILE = Path(__file__).parents[1] / "data" / "architectures.json"
ADDITIONS: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
"""Options by architecture. Those of ``lille-130m`` are wider: the inner size is a multiple of 256,
rounded down to 0 for narrower models."""
