"""Qwen2.5-VL models with random weights: as much work as is asked for, and nothing to download."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx_vlm.utils
import numpy as np
from mlx.utils import tree_flatten
from PIL import Image
from random_models import Size
from transformers import PreTrainedTokenizerFast

from proxy_engine.models.embedded import embedded_model

__all__ = ["IMAGE_TOKEN_PIXELS", "picture", "save_random_vision_model"]

_HEAD = 64
_PATCH = 14
_MERGED = 2
IMAGE_TOKEN_PIXELS = (_PATCH * _MERGED) ** 2
"""Pixels of an image for each of its tokens in the prompt."""

_VISION_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def picture(seed: int, side: int) -> Image.Image:
    """Return a square RGB image of coloured tiles; the same one for the same seed.

    Args:
        seed: Selects the colours.
        side: Width and height in pixels.
    """
    tiles = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    return Image.fromarray(tiles).resize((side, side), Image.Resampling.BICUBIC)


def save_random_vision_model(text: Size, vision: Size, directory: Path) -> None:
    """Write a model with the embedded model's vocabulary, as a directory that mlx-vlm loads.

    Args:
        text: Layers and width of the language model.
        vision: Layers and width of the vision tower.
        directory: Exists.
    """
    tokenizer = _save_tokenizer(directory)
    config = _config(text, vision, tokenizer)
    preprocessor = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "min_pixels": IMAGE_TOKEN_PIXELS,
        "max_pixels": 4096 * IMAGE_TOKEN_PIXELS,
        "patch_size": _PATCH,
        "merge_size": _MERGED,
        "temporal_patch_size": 2,
    }
    for name, content in (("config", config), ("preprocessor_config", preprocessor)):
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    weights = _weights(config, len(tokenizer.all_special_ids))
    mx.save_safetensors(str(directory / "model.safetensors"), weights, {"format": "mlx"})


def _save_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(embedded_model()))
    tokenizer.add_tokens(list(_VISION_TOKENS), special_tokens=True)
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(str(directory))
    return tokenizer


def _config(text: Size, vision: Size, tokenizer: Any) -> dict[str, Any]:
    ids = dict(
        zip(_VISION_TOKENS, tokenizer.convert_tokens_to_ids(list(_VISION_TOKENS)), strict=True)
    )
    sixteenth = _HEAD // 16
    return {
        "model_type": "qwen2_5_vl",
        "hidden_size": text.width,
        "num_hidden_layers": text.layers,
        "intermediate_size": 3 * text.width,
        "num_attention_heads": text.width // _HEAD,
        "num_key_value_heads": text.width // _HEAD,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "rope_scaling": {
            "type": "mrope",
            "mrope_section": [2 * sixteenth, 3 * sixteenth, 3 * sixteenth],
        },
        "max_position_embeddings": 8192,
        "vocab_size": len(tokenizer),
        "tie_word_embeddings": True,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": [tokenizer.eos_token_id],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_config": {
            "model_type": "qwen2_5_vl",
            "depth": vision.layers,
            "hidden_size": vision.width,
            "intermediate_size": 3 * vision.width,
            "out_hidden_size": text.width,
            "num_heads": vision.width // _HEAD,
            "fullatt_block_indexes": list(range(3, vision.layers, 4)),
        },
    }


def _weights(config: dict[str, Any], special_tokens: int) -> dict[str, mx.array]:
    """Return weights that keep the size of activations, with small logits of special tokens."""
    module, _ = mlx_vlm.utils.get_model_and_args(config=dict(config))
    copied = json.loads(json.dumps(config))
    model_config = module.ModelConfig.from_dict(copied)
    model_config = mlx_vlm.utils.update_module_configs(
        model_config, module, copied, ["text", "vision"]
    )
    model = module.Model(model_config)
    key = mx.random.key(0)
    kind = mx.float32 if mx.default_device().type == mx.DeviceType.cpu else mx.float16
    weights = {}
    for name, weight in cast("list[tuple[str, mx.array]]", tree_flatten(model.parameters())):
        key, own = mx.random.split(key)
        noise = mx.random.normal(weight.shape, key=own)
        if weight.ndim < 2:
            made = weight + 0.1 * noise
        else:
            made = noise / math.sqrt(math.prod(weight.shape[1:]))
        if name.endswith("embed_tokens.weight"):
            made = mx.concatenate([made[:-special_tokens], 0.1 * made[-special_tokens:]])
            made = mx.concatenate([0.1 * made[:special_tokens], made[special_tokens:]])
        weights[name] = made.astype(kind)
    mx.eval(weights)
    return weights
