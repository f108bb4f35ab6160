"""Small random models of the families that have draft heads, and random heads for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import mlx.core as mx
from architectures import randomized, small_model
from mlx.nn.layers.base import Module

VOCABULARY = 320


def target(architecture: str, **options: Any) -> Any:
    """A model whose prompts may describe tools, with as few layers as heads read."""
    return small_model(architecture, **{"max_position_embeddings": 4096, **options})


def head_of(package: str, config: dict[str, Any], seed: int = 3) -> Module:
    """A random head of a package of mlx-vlm."""
    module = importlib.import_module(f"mlx_vlm.speculative.drafters.{package}")
    head: Module = module.Model(module.ModelConfig.from_dict(config))
    head.eval()
    return randomized(head, seed)


def _qwen3_5(**options: Any) -> tuple[Module, Module]:
    model = target("qwen3_5", num_hidden_layers=2, full_attention_interval=2, **options)
    text = {**vars(model.language_model.args), "model_type": "qwen3_5_text"}
    config = {"model_type": "qwen3_5_mtp", "text_config": {**text, "mtp_num_hidden_layers": 1}}
    return model, head_of("qwen3_5_mtp", config)


def _nemotron_h() -> tuple[Module, Module]:
    model = target("nemotron_h", num_hidden_layers=3, hybrid_override_pattern="M*E")
    extra = {"mtp_hybrid_override_pattern": "*E", "num_nextn_predict_layers": 1}
    config = {"model_type": "nemotron_h_mtp", "text_config": {**vars(model.args), **extra}}
    return model, head_of("nemotron_h_mtp", config)


def _eagle3(architecture: str, vocabulary: int) -> tuple[Module, Module]:
    model = target(architecture, num_hidden_layers=3, layer_types=["full_attention"] * 3)
    layers = {
        "hidden_size": model.args.hidden_size,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCABULARY,
    }
    config = {
        "transformer_layer_config": layers,
        "draft_vocab_size": vocabulary,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
    }
    head = head_of("eagle3", config)
    if vocabulary < VOCABULARY:
        # Token i of the head is token 2 i of the model.
        head.d2t = mx.arange(vocabulary, dtype=mx.int32)
        mx.eval(head.d2t)
    return model, head


def _glm_moe_dsa() -> tuple[Module, Module]:
    model = target("glm_moe_dsa", num_hidden_layers=2)
    return model, head_of(
        "glm_moe_dsa_mtp", {"model_type": "glm_moe_dsa_mtp", "text_config": vars(model.args)}
    )


def _gemma4_assistant(**options: Any) -> tuple[Module, Module]:
    model = target("gemma4_text")
    text = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "intermediate_size": 24,
        "num_attention_heads": 2,
        "head_dim": 8,
        "global_head_dim": 8,
        "num_key_value_heads": 2,
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 0,
        "use_double_wide_mlp": False,
        "sliding_window": model.args.sliding_window,
        "layer_types": ["sliding_attention", "full_attention"],
        "vocab_size": VOCABULARY,
    }
    config = {"backbone_hidden_size": model.args.hidden_size, "text_config": text, **options}
    return model, head_of("gemma4_assistant", config)


_BLOCK: dict[str, Any] = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "block_size": 6,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "rope_parameters": None,
}
_DFLASH = {"mask_token_id": VOCABULARY - 1, "target_layer_ids": [0, 1], "num_target_layers": 2}


def _block(
    package: str, architecture: str = "qwen3", dflash: dict[str, Any] | None = None, **options: Any
) -> tuple[Module, Module]:
    layers = {} if architecture == "gemma4_text" else {"num_hidden_layers": 2}
    model = target(architecture, **layers)
    config = {**vars(model.args), "layer_types": [], **_BLOCK, **options}
    return model, head_of(package, {**config, "dflash_config": {**_DFLASH, **(dflash or {})}})


_WINDOW = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 6}
_MARKOV = {"markov_rank": 8, "projector_type": "dspark"}
_SELECTOR = {"conv_kernel_size": 2, "conv_group_size": 8, "selector_rank": 8, "selector_top_k": 16}
_GEMMA4_BLOCK = {
    "global_head_dim": 8,
    "num_global_key_value_heads": 2,
    "layer_types": ["full_attention"] * 2,
    "rope_parameters": {"full_attention": {"rope_theta": 10000.0}},
}


FAMILIES: dict[str, Callable[[], tuple[Module, Module]]] = {
    "qwen3_5_mtp": lambda: _qwen3_5(num_experts=0),
    "qwen3_5_mtp with experts": _qwen3_5,
    "nemotron_h_mtp": _nemotron_h,
    "eagle3": lambda: _eagle3("llama", VOCABULARY),
    "eagle3 with half of the tokens": lambda: _eagle3("qwen3", VOCABULARY // 2),
    "glm_moe_dsa_mtp": _glm_moe_dsa,
    "gemma4_assistant": _gemma4_assistant,
    "qwen3_dflash": lambda: _block("qwen3_dflash"),
    "qwen3_dflash with a window": lambda: _block("qwen3_dflash", **_WINDOW),
    "gemma4_dflash": lambda: _block("gemma4_dflash", "gemma4_text"),
    "dflash2": lambda: _block("dflash2", dflash=_SELECTOR),
    "dspark": lambda: _block("dspark", dflash=_MARKOV),
    "gemma4_dspark": lambda: _block("gemma4_dspark", "gemma4_text", _MARKOV, **_GEMMA4_BLOCK),
}
"""A model and its head, by the family of the head."""

BATCHED = tuple(
    family for family in FAMILIES if family not in ("glm_moe_dsa_mtp", "nemotron_h_mtp")
)
"""Families whose models draft in batches: rows of their caches can drop tokens, and mlx-lm computes
padded rows correctly."""
