"""Small multimodal models of the Qwen families, whose positions have three axes (mRoPE)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from vision_families import HIDDEN_SIZE, NORMALIZATION, Family, text_config
from vision_tokenizers import special_token_ids

__all__ = ["qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_vl"]

_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_IDS = special_token_ids(_TOKENS)
_NAMED = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TOKEN_IDS: dict[str, Any] = {
    "image_token_id": _IDS["<|image_pad|>"],
    "video_token_id": _IDS["<|video_pad|>"],
    "vision_start_token_id": _IDS["<|vision_start|>"],
    "vision_end_token_id": _IDS["<|vision_end|>"],
    "eos_token_id": [_IDS["<|im_end|>"]],
}


def _files(patch_size: int) -> dict[str, Any]:
    size = {"shortest_edge": (4 * patch_size) ** 2, "longest_edge": (8 * patch_size) ** 2}
    return {
        "preprocessor_config.json": {
            **NORMALIZATION,
            "image_processor_type": "Qwen2VLImageProcessor",
            "min_pixels": size["shortest_edge"],
            "max_pixels": size["longest_edge"],
            "size": size,
            "patch_size": patch_size,
            "merge_size": 2,
            "temporal_patch_size": 2,
        }
    }


def _family(
    config: dict[str, Any],
    patch_size: int,
    seed: int = 0,
    gains: Mapping[str, float] = MappingProxyType({}),
) -> Family:
    return Family(
        config={**_TOKEN_IDS, **config},
        files=_files(patch_size),
        special_tokens=_TOKENS,
        named_tokens=_NAMED,
        chat_template=_TEMPLATE,
        seed=seed,
        gains=gains,
    )


def qwen2_vl() -> Family:
    rope = {"type": "mrope", "mrope_section": [2, 2, 2]}
    vision = {
        "model_type": "qwen2_vl",
        "depth": 2,
        "embed_dim": 32,
        "hidden_size": HIDDEN_SIZE,
        "num_heads": 2,
        "mlp_ratio": 2,
    }
    return _family(
        {**text_config("qwen2_vl", _TOKENS, rope_scaling=rope), "vision_config": vision}, 14
    )


def qwen2_5_vl() -> Family:
    """A family whose vision tower attends within windows."""
    rope = {"type": "mrope", "mrope_section": [2, 2, 2]}
    vision = {
        "model_type": "qwen2_5_vl",
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "out_hidden_size": HIDDEN_SIZE,
        "num_heads": 2,
        "window_size": 56,
        "fullatt_block_indexes": [1],
    }
    return _family(
        {**text_config("qwen2_5_vl", _TOKENS, rope_scaling=rope), "vision_config": vision}, 14
    )


def _qwen3_vision(model_type: str, **options: Any) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "out_hidden_size": HIDDEN_SIZE,
        "num_heads": 2,
        "patch_size": 16,
        "num_position_embeddings": 16,
        **options,
    }


def qwen3_vl() -> Family:
    """A family whose vision tower adds to the hidden states of several layers (deepstack)."""
    text = text_config(
        "qwen3_vl_text",
        _TOKENS,
        rope_scaling={
            "rope_type": "default",
            "mrope_section": [2, 2, 2],
            "mrope_interleaved": True,
        },
    )
    vision = _qwen3_vision("qwen3_vl", deepstack_visual_indexes=[0, 1])
    config = {"model_type": "qwen3_vl", "text_config": text, "vision_config": vision}
    return _family(config, 16, seed=1, gains={"o_proj": 2.0})


def qwen3_5() -> Family:
    """A hybrid family: recurrent layers between layers with attention."""
    text = text_config(
        "qwen3_5_text",
        _TOKENS,
        num_hidden_layers=4,
        full_attention_interval=2,
        head_dim=16,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_conv_kernel_dim=4,
        eos_token_id=_IDS["<|im_end|>"],
        rope_parameters={
            "rope_type": "default",
            "mrope_section": [2, 1, 1],
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_interleaved": True,
        },
    )
    vision = _qwen3_vision("qwen3_5", deepstack_visual_indexes=[])
    config = {"model_type": "qwen3_5", "text_config": text, "vision_config": vision}
    return _family(config, 16, seed=2, gains={"o_proj": 2.0})
