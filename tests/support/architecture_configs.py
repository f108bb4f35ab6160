"""Configurations of small models: sizes that all share, and what an architecture needs besides.

Most architectures agree on the names of their options. Sliding windows, chunks and sparse attention
are shorter than the texts of tests.
"""

from __future__ import annotations

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

_ROPE: dict[str, Any] = {"rope_theta": 10000.0, "rope_type": "default"}
_ROPE_BY_TYPE = {"full_attention": _ROPE, "sliding_attention": _ROPE}
_YARN: dict[str, Any] = {
    "type": "yarn",
    "rope_type": "yarn",
    "factor": 2.0,
    "original_max_position_embeddings": 256,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "beta_fast": 32,
    "beta_slow": 1,
    "rope_theta": 10000.0,
}
_DELTA_ATTENTION: dict[str, Any] = {
    "num_key_value_heads": 4,
    "linear_attn_config": {
        "kda_layers": [1, 3],
        "full_attn_layers": [2, 4],
        "num_heads": 4,
        "head_dim": 8,
        "short_conv_kernel_size": 4,
    },
}
_CONVOLUTION: dict[str, Any] = {
    "conv_bias": False,
    "conv_L_cache": 3,
    "block_dim": 32,
    "block_multiple_of": 8,
    "block_ff_dim": 48,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": False,
    "full_attn_idxs": [1, 3],
    "layer_types": ["conv", "full_attention"] * 2,
}
_GEMMA3: dict[str, Any] = {"sliding_window_pattern": 2, "query_pre_attn_scalar": 8}
_GEMMA4: dict[str, Any] = {
    "global_head_dim": 8,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": VOCABULARY,
}
_ZERO_EXPERTS: dict[str, Any] = {
    "zero_expert_num": 2,
    "mla_scale_q_lora": True,
    "mla_scale_kv_lora": True,
}


def _nas_block(attention: dict[str, Any], ffn: dict[str, Any]) -> dict[str, Any]:
    return {
        "attention": {"no_op": False, "replace_with_linear": False, **attention},
        "ffn": {"no_op": False, "replace_with_linear": False, "ffn_mult": 1.5, **ffn},
    }


ADDITIONS: dict[str, dict[str, Any]] = {
    "afm7": {"num_kv_reuse_layers": 2},
    "baichuan_m1": {"sliding_window_layers": [0, 2], "conv_window": 2},
    "dbrx": {
        "ffn_config": {"ffn_hidden_size": 16, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
    },
    "deepseek_v2": {"rope_scaling": _YARN},
    "deepseek_v41": {
        "head_dim": 16,
        "o_groups": 2,
        "o_lora_rank": 8,
        "hc_mult": 2,
        "hc_sinkhorn_iters": 3,
        "compress_ratios": [0, 2, 2, 2],
        "kv_source_layer_ids": [1],
        "index_source_layer_ids": [1, 3],
        "index_topk": 4,
        "scoring_func": "sqrtsoftplus",
        "rms_norm_eps": 1e-6,
    },
    "exaone4": {"sliding_window_pattern": "LG"},
    "exaone_moe": {"is_moe_layer": [False, True] * 2},
    "gemma2": {"query_pre_attn_scalar": 8},
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma3n": {
        "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": VOCABULARY,
        "rope_local_base_freq": 10000.0,
        "final_logit_softcapping": 30.0,
        "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
        "hidden_size_per_layer_input": 8,
        "altup_num_inputs": 2,
        "altup_coef_clip": 120.0,
        "altup_correct_scale": True,
        "altup_active_idx": 0,
        "laurel_rank": 4,
    },
    "gemma4": _GEMMA4,
    "gemma4_text": _GEMMA4,
    "glm_moe_dsa": {"rope_parameters": _ROPE},
    "gpt_neox": {"rotary_emb_base": 10000, "rotary_pct": 0.5},
    "gptj": {"rotary_dim": 8},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"] * 2,
        "mamba_d_head": 16,
        "mamba_proj_bias": False,
        "mamba_conv_bias": True,
        "position_embedding_type": "rope",
    },
    "hunyuan": {
        "use_mixed_mlp_moe": True,
        "use_cla": True,
        "cla_share_factor": 2,
        "rope_scaling": {"alpha": 1000.0, "factor": 1.0, "type": "dynamic"},
    },
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_expand": 2,
    },
    "kimi_k3": {**_DELTA_ATTENTION, "attn_res_block_size": 2},
    "kimi_linear": _DELTA_ATTENTION,
    "lfm2-vl": _CONVOLUTION,
    "lfm2": _CONVOLUTION,
    "lfm2_moe": {**_CONVOLUTION, "use_expert_bias": True, "num_dense_layers": 1},
    # The inner size is a multiple of 256, rounded down to 0 for narrower models.
    "lille-130m": {"n_embd": 96, "block_size": 512},
    "llama4": {"num_experts_per_tok": 1, "interleave_moe_layer_step": 2},
    "llama4_text": {"no_rope_layers": [1, 0] * 2},
    "longcat_flash": {
        **_ZERO_EXPERTS,
        "attention_method": "MLA",
        "zero_expert_type": "identity",
    },
    "longcat_flash_ngram": _ZERO_EXPERTS,
    "mamba2": {"time_step_limit": (0.0, 10.0), "head_dim": 16, "intermediate_size": 64},
    "mellum": {"rope_parameters": _ROPE_BY_TYPE},
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [1, 0] * 2,
        "moe_layer_freq": [0, 1] * 2,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "swa_rope_theta": 10000.0,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 8,
        "swa_v_head_dim": 8,
    },
    "minicpm3": {
        "rope_scaling": {
            "long_factor": [1.0] * 4,
            "short_factor": [1.0] * 4,
            "original_max_position_embeddings": 512,
            "type": "longrope",
        }
    },
    "minimax": {"rotary_dim": 4},
    "minimax_m3_vl": {
        "moe_layer_freq": [0, 1, 1, 1],
        "index_block_size": 4,
        "index_topk_blocks": 2,
        "layer_types": ["full_attention", "sparse"] * 2,
        "rotary_dim": 4,
    },
    "ministral3": {
        "rope_parameters": {
            **_ROPE,
            "llama_4_scaling_beta": 0.1,
            "original_max_position_embeddings": 256,
        }
    },
    "mistral4": {"rope_parameters": {**_YARN, "llama_4_scaling_beta": 0.1}},
    "nemotron": {"hidden_act": "relu2"},
    "nemotron-nas": {
        "block_configs": [
            _nas_block({"n_heads_in_group": 2}, {}),
            _nas_block({"no_op": True}, {}),
            _nas_block({"n_heads_in_group": 4}, {"no_op": True}),
            _nas_block({"replace_with_linear": True}, {"replace_with_linear": True}),
        ]
    },
    "nemotron_h": {
        "mamba_num_heads": 4,
        "mamba_head_dim": 8,
        "mamba_proj_bias": False,
        "hybrid_override_pattern": "M*-E",
        "moe_shared_expert_intermediate_size": 16,
    },
    "olmo_hybrid": {
        "linear_allow_neg_eigval": True,
        "layer_types": ["linear_attention", "full_attention"] * 2,
    },
    "openelm": {
        "num_transformer_layers": 3,
        "ffn_dim_divisor": 8,
        "num_query_heads": [4, 4, 4],
        "num_kv_heads": [2, 2, 2],
        "ffn_multipliers": [1.0, 1.5, 2.0],
    },
    "phi3small": {
        "dense_attention_every_n_layers": 2,
        "gegelu_limit": 20.0,
        "blocksparse_block_size": 32,
        "blocksparse_num_local_blocks": 2,
        "blocksparse_vert_stride": 2,
    },
    "phixtral": {"num_vocab": VOCABULARY, "rotary_dim": 4},
    "plamo": {"n_shared_head": 2},
    "plamo2": {"mamba_num_heads": 4, "hidden_size_per_head": 8, "mamba_step": 2},
    "plamo3": {"sliding_window_pattern": 2},
    "qwen": {"kv_channels": 8},
    "recurrent_gemma": {
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "block_types": ["recurrent", "attention"],
    },
    "rwkv7": dict.fromkeys(
        ["a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim", "decay_low_rank_dim"], 8
    ),
    "spark2_5": {"rope_parameters": _ROPE_BY_TYPE},
    "stablelm": {"use_qkv_bias": False},
    "step3p5": {
        "num_attention_groups": 2,
        "moe_top_k": 2,
        "share_expert_dim": 16,
        "moe_layers_enum": "1,2,3",
        "attention_other_setting": {
            "attention_type": "sliding_attention",
            "num_attention_heads": 4,
            "num_attention_groups": 2,
            "head_dim": 8,
        },
    },
}
