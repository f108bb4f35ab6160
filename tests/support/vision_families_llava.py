"""Small multimodal models of the LLaVA and Mistral families."""

from __future__ import annotations

from typing import Any

from vision_families import NORMALIZATION, VISION, WINDOW, Family, text_config
from vision_tokenizers import special_token_ids

__all__ = ["llava_next", "llava_onevision", "mistral3", "pixtral"]

_LLAVA_TOKENS = ("<unk>", "<s>", "</s>", "<pad>", "<image>", "<video>", "<|im_start|>")
_LLAVA_NAMED = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "image_token": "<image>",
}
_LLAVA_IDS = special_token_ids(_LLAVA_TOKENS)
_GRID = [[56, 112], [112, 56], [112, 112]]


def llava_next() -> Family:
    """A family that cuts an image into tiles and adds a token after each row."""
    clip = {
        **VISION,
        "model_type": "clip_vision_model",
        "num_hidden_layers": 3,
        "projection_dim": 32,
    }
    template = (
        "{{ bos_token }}{% for m in messages %}"
        "{% set image = '<image>\n' %}"
        "{{ '[INST] ' if m['role'] == 'user' else '' }}"
        "{% if m['content'] is string %}{{ m['content'] }}"
        "{% else %}{% for part in m['content'] if part['type'] == 'image' %}{{ image }}{% endfor %}"
        "{% for part in m['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
        "{% endif %}{{ ' [/INST]' if m['role'] == 'user' else '</s>' }}{% endfor %}"
    )
    return Family(
        config={
            "model_type": "llava_next",
            "vocab_size": len(_LLAVA_IDS) + min(_LLAVA_IDS.values()),
            "image_token_index": _LLAVA_IDS["<image>"],
            "image_grid_pinpoints": _GRID,
            "vision_feature_layer": -2,
            "vision_feature_select_strategy": "default",
            "eos_token_id": [_LLAVA_IDS["</s>"]],
            "text_config": text_config("mistral", _LLAVA_TOKENS),
            "vision_config": clip,
        },
        files={
            "preprocessor_config.json": {
                **NORMALIZATION,
                "image_processor_type": "LlavaNextImageProcessor",
                "do_center_crop": True,
                "do_convert_rgb": True,
                "crop_size": {"height": 56, "width": 56},
                "size": {"shortest_edge": 56},
                "image_grid_pinpoints": _GRID,
            },
            "processor_config.json": {
                "image_token": "<image>",
                "num_additional_image_tokens": 1,
                "patch_size": 14,
                "vision_feature_select_strategy": "default",
            },
        },
        special_tokens=_LLAVA_TOKENS,
        named_tokens=_LLAVA_NAMED,
        chat_template=template,
    )


def llava_onevision() -> Family:
    """A family that cuts an image into tiles, with Qwen2 as the language model."""
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }} "
        "{% if m['content'] is string %}{{ m['content'] }}"
        "{% else %}{% for part in m['content'] if part['type'] == 'image' %}<image>{% endfor %}\n"
        "{% for part in m['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
        "{% endif %}</s>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return Family(
        config={
            "model_type": "llava_onevision",
            "vocab_size": len(_LLAVA_IDS) + min(_LLAVA_IDS.values()),
            "image_token_index": _LLAVA_IDS["<image>"],
            "video_token_index": _LLAVA_IDS["<video>"],
            "image_grid_pinpoints": _GRID,
            "vision_aspect_ratio": "anyres_max_9",
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
            "eos_token_id": [_LLAVA_IDS["</s>"]],
            "text_config": text_config("qwen2", _LLAVA_TOKENS),
            "vision_config": {**VISION, "model_type": "siglip_vision_model"},
        },
        files={
            "preprocessor_config.json": {
                **NORMALIZATION,
                "image_processor_type": "LlavaOnevisionImageProcessor",
                "do_convert_rgb": True,
                "do_pad": True,
                "size": {"height": 56, "width": 56},
                "image_grid_pinpoints": _GRID,
            },
            "processor_config.json": {
                "image_token": "<image>",
                "num_image_tokens": 16,
                "vision_feature_select_strategy": "full",
            },
        },
        special_tokens=_LLAVA_TOKENS,
        named_tokens=_LLAVA_NAMED,
        chat_template=template,
    )


_MISTRAL_TOKENS = (
    *("<unk>", "<s>", "</s>", "<pad>", "[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"),
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
)
_MISTRAL_IDS = special_token_ids(_MISTRAL_TOKENS)
_MISTRAL_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% set start, end = ('[INST]', '[/INST]') if m['role'] == 'user' else ('', eos_token) %}"
    "{% if m['role'] == 'system' %}"
    "{% set start, end = '[SYSTEM_PROMPT]', '[/SYSTEM_PROMPT]' %}{% endif %}"
    "{{ start }}{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}[IMG]"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{{ end }}{% endfor %}"
)


def _mistral_family(config: dict[str, Any]) -> Family:
    patch_size = 14
    return Family(
        config={
            "vocab_size": len(_MISTRAL_IDS) + min(_MISTRAL_IDS.values()),
            "image_token_index": _MISTRAL_IDS["[IMG]"],
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
            "eos_token_id": [_MISTRAL_IDS["</s>"]],
            "vision_config": {
                **VISION,
                "model_type": "pixtral",
                "head_dim": 16,
                "image_size": 112,
                "rope_theta": 10000.0,
            },
            **config,
        },
        files={
            "preprocessor_config.json": {
                **NORMALIZATION,
                "image_processor_type": "PixtralImageProcessor",
                "do_convert_rgb": True,
                "patch_size": {"height": patch_size, "width": patch_size},
                "size": {"longest_edge": 112},
            },
            "processor_config.json": {
                "image_token": "[IMG]",
                "image_break_token": "[IMG_BREAK]",
                "image_end_token": "[IMG_END]",
                "patch_size": patch_size,
                "spatial_merge_size": config.get("spatial_merge_size", 1),
            },
        },
        special_tokens=_MISTRAL_TOKENS,
        named_tokens={
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
        },
        chat_template=_MISTRAL_TEMPLATE,
    )


def pixtral() -> Family:
    """A family with images of any size and a token after each row of patches."""
    return _mistral_family(
        {"model_type": "pixtral", "text_config": text_config("mistral", _MISTRAL_TOKENS)}
    )


def mistral3() -> Family:
    """A family that merges patches; its language model has sliding windows."""
    text = text_config(
        "ministral3",
        _MISTRAL_TOKENS,
        num_hidden_layers=4,
        sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "llama_4_scaling_beta": 0.1,
            "original_max_position_embeddings": 16,
        },
    )
    return _mistral_family({"model_type": "mistral3", "spatial_merge_size": 2, "text_config": text})
