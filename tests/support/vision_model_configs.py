"""Configurations, processors' files, special tokens and chat templates of small multimodal models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vision_tokenizers import special_token_ids, vocabulary_size

__all__ = ["FAMILIES", "Family"]

_WINDOW = 24


@dataclass(frozen=True, slots=True)
class Family:
    """What a checkpoint consists of, beside its weights.

    Attributes:
        config: Content of ``config.json``.
        files: Contents of further JSON files by name, such as ``preprocessor_config.json``.
        special_tokens: In the order of their ids.
        named_tokens: Special tokens by the name of a tokenizer's argument or attribute.
        tied_output: The output layer has the weights of the embeddings.
    """

    config: Mapping[str, Any]
    files: Mapping[str, Any]
    special_tokens: Sequence[str]
    named_tokens: Mapping[str, str]
    chat_template: str
    seed: int = 0
    tied_output: bool = False


_TEXT: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
_VISION: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "num_attention_heads": 2,
    "patch_size": 14,
    "image_size": 56,
    "num_channels": 3,
}
_NORMALIZATION: dict[str, Any] = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "rescale_factor": 1 / 255,
    "resample": 3,
}

# Qwen2-VL


_QWEN_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_QWEN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _qwen2_vl() -> Family:
    ids = special_token_ids(_QWEN_TOKENS)
    return Family(
        config={
            **_TEXT,
            "model_type": "qwen2_vl",
            "vocab_size": vocabulary_size(_QWEN_TOKENS),
            "rope_scaling": {"type": "mrope", "mrope_section": [2, 2, 2]},
            "image_token_id": ids["<|image_pad|>"],
            "video_token_id": ids["<|video_pad|>"],
            "vision_start_token_id": ids["<|vision_start|>"],
            "vision_end_token_id": ids["<|vision_end|>"],
            "eos_token_id": [ids["<|im_end|>"]],
            "vision_config": {
                "model_type": "qwen2_vl",
                "depth": 2,
                "embed_dim": 32,
                "hidden_size": _TEXT["hidden_size"],
                "num_heads": 2,
                "mlp_ratio": 2,
            },
        },
        files={
            "preprocessor_config.json": {
                **_NORMALIZATION,
                "image_processor_type": "Qwen2VLImageProcessor",
                "min_pixels": 56 * 56,
                "max_pixels": 112 * 112,
                "patch_size": 14,
                "merge_size": 2,
                "temporal_patch_size": 2,
                "processor_class": "Qwen2VLProcessor",
            }
        },
        special_tokens=_QWEN_TOKENS,
        named_tokens={"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
        chat_template=_QWEN_TEMPLATE,
    )


_GEMMA3_TOKENS = (
    "<pad>",
    "<eos>",
    "<bos>",
    "<unk>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
)
_GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% set role = 'model' if m['role'] == 'assistant' else m['role'] %}"
    "<start_of_turn>{{ role }}\n"
    "{% if m['content'] is string %}{{ m['content'] | trim }}"
    "{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}<start_of_image>"
    "{% elif part['type'] == 'text' %}{{ part['text'] | trim }}{% endif %}{% endfor %}{% endif %}"
    "<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def _gemma3() -> Family:
    ids = special_token_ids(_GEMMA3_TOKENS)
    return Family(
        config={
            "model_type": "gemma3",
            "vocab_size": vocabulary_size(_GEMMA3_TOKENS),
            "hidden_size": _TEXT["hidden_size"],
            "image_token_index": ids["<image_soft_token>"],
            "boi_token_index": ids["<start_of_image>"],
            "eoi_token_index": ids["<end_of_image>"],
            "mm_tokens_per_image": 4,
            "pad_token_id": ids["<pad>"],
            "eos_token_id": [ids["<eos>"], ids["<end_of_turn>"]],
            "text_config": {
                **_TEXT,
                "model_type": "gemma3_text",
                "vocab_size": vocabulary_size(_GEMMA3_TOKENS),
                "num_hidden_layers": 4,
                "query_pre_attn_scalar": 12,
                "sliding_window": _WINDOW,
                "sliding_window_pattern": 2,
                "mm_tokens_per_image": 4,
            },
            "vision_config": {**_VISION, "model_type": "siglip_vision_model"},
        },
        files={
            "preprocessor_config.json": {
                **_NORMALIZATION,
                "image_processor_type": "Gemma3ImageProcessor",
                "do_pan_and_scan": None,
                "image_seq_length": 4,
                "processor_class": "Gemma3Processor",
                "size": {"height": 56, "width": 56},
            },
            "processor_config.json": {
                "image_seq_length": 4,
                "processor_class": "Gemma3Processor",
            },
        },
        special_tokens=_GEMMA3_TOKENS,
        named_tokens={
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        chat_template=_GEMMA_TEMPLATE,
        tied_output=True,
    )


_SMOLVLM_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<end_of_utterance>",
    "<fake_token_around_image>",
    "<global-img>",
    "<image>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)),
)
_SMOLVLM_TEMPLATE = (
    "<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}"
    "{% if m['content'] is not string and m['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}"
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif part['type'] == 'image' %}<image>{% endif %}{% endfor %}{% endif %}"
    "<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)


def _smolvlm() -> Family:
    ids = special_token_ids(_SMOLVLM_TOKENS)
    return Family(
        config={
            "model_type": "smolvlm",
            "vocab_size": vocabulary_size(_SMOLVLM_TOKENS),
            "image_token_id": ids["<image>"],
            "scale_factor": 2,
            "eos_token_id": [ids["<end_of_utterance>"]],
            "text_config": {
                **_TEXT,
                "model_type": "llama",
                "vocab_size": vocabulary_size(_SMOLVLM_TOKENS),
            },
            "vision_config": {**_VISION, "model_type": "smolvlm_vision"},
        },
        files={
            "preprocessor_config.json": {
                **_NORMALIZATION,
                "image_processor_type": "SmolVLMImageProcessor",
                "do_convert_rgb": True,
                "do_image_splitting": True,
                "do_pad": True,
                "max_image_size": {"longest_edge": 56},
                "size": {"longest_edge": 112},
                "processor_class": "SmolVLMProcessor",
            },
            "processor_config.json": {"image_seq_len": 4, "processor_class": "SmolVLMProcessor"},
        },
        special_tokens=_SMOLVLM_TOKENS,
        named_tokens={
            "bos_token": "<|im_start|>",
            "eos_token": "<end_of_utterance>",
            "pad_token": "<|endoftext|>",
            "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
            "image_token": "<image>",
            "end_of_utterance_token": "<end_of_utterance>",
        },
        chat_template=_SMOLVLM_TEMPLATE,
    )


FAMILIES: dict[str, Family] = {
    "qwen2_vl": _qwen2_vl(),
    "gemma3": _gemma3(),
    "smolvlm": _smolvlm(),
}
