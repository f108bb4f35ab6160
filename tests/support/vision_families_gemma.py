"""Small multimodal models of the Gemma families."""

from __future__ import annotations

from typing import Any

from vision_families import HIDDEN_SIZE, NORMALIZATION, VISION, WINDOW, Family, text_config
from vision_tokenizers import special_token_ids, vocabulary_size

__all__ = ["gemma3", "gemma4", "paligemma"]

_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% set role = 'model' if m['role'] == 'assistant' else m['role'] %}"
    "START{{ role }}\n"
    "{% if m['content'] is string %}{{ m['content'] | trim }}"
    "{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}IMAGE"
    "{% elif part['type'] == 'audio' %}<|audio|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] | trim }}{% endif %}{% endfor %}{% endif %}"
    "END\n{% endfor %}"
    "{% if add_generation_prompt %}STARTmodel\n{% endif %}"
)
_NAMED = {
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
}


def _template(start: str, end: str, image: str) -> str:
    return _TEMPLATE.replace("START", start).replace("END", end).replace("IMAGE", image)


_GEMMA3_TOKENS = (
    *("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"),
    *("<start_of_image>", "<end_of_image>", "<image_soft_token>"),
)


def gemma3() -> Family:
    """A family with sliding windows, which scales input embeddings in place."""
    ids = special_token_ids(_GEMMA3_TOKENS)
    text = text_config(
        "gemma3_text",
        _GEMMA3_TOKENS,
        num_hidden_layers=4,
        query_pre_attn_scalar=12,
        sliding_window=WINDOW,
        sliding_window_pattern=2,
        mm_tokens_per_image=4,
    )
    return Family(
        config={
            "model_type": "gemma3",
            "vocab_size": text["vocab_size"],
            "hidden_size": HIDDEN_SIZE,
            "image_token_index": ids["<image_soft_token>"],
            "boi_token_index": ids["<start_of_image>"],
            "eoi_token_index": ids["<end_of_image>"],
            "mm_tokens_per_image": 4,
            "pad_token_id": ids["<pad>"],
            "eos_token_id": [ids["<eos>"], ids["<end_of_turn>"]],
            "text_config": text,
            "vision_config": {**VISION, "model_type": "siglip_vision_model"},
        },
        files={
            "preprocessor_config.json": {
                **NORMALIZATION,
                "image_processor_type": "Gemma3ImageProcessor",
                "do_pan_and_scan": None,
                "image_seq_length": 4,
                "size": {"height": 56, "width": 56},
            },
            "processor_config.json": {"image_seq_length": 4},
        },
        special_tokens=_GEMMA3_TOKENS,
        named_tokens={
            **_NAMED,
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        chat_template=_template("<start_of_turn>", "<end_of_turn>", "<start_of_image>"),
        tied_output=True,
        gains={"embed_tokens.weight": 0.3},
    )


_GEMMA4_TOKENS = (
    *("<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"),
    *("<|image>", "<image|>", "<|image|>", "<|audio>", "<audio|>", "<|audio|>", "<|video|>"),
)


def _gemma4_text() -> dict[str, Any]:
    return text_config(
        "gemma4_text",
        _GEMMA4_TOKENS,
        num_hidden_layers=4,
        head_dim=16,
        global_head_dim=16,
        num_kv_shared_layers=2,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=vocabulary_size(_GEMMA4_TOKENS),
        sliding_window=WINDOW,
        sliding_window_pattern=2,
        layer_types=["sliding_attention", "full_attention"] * 2,
        tie_word_embeddings=True,
    )


def gemma4() -> Family:
    """A family with inputs of each layer and shared caches, which reads audio as well."""
    ids = special_token_ids(_GEMMA4_TOKENS)
    return Family(
        config={
            "model_type": "gemma4",
            "vocab_size": vocabulary_size(_GEMMA4_TOKENS),
            "hidden_size": HIDDEN_SIZE,
            "image_token_id": ids["<|image|>"],
            "audio_token_id": ids["<|audio|>"],
            "video_token_id": ids["<|video|>"],
            "boi_token_id": ids["<|image>"],
            "eoi_token_id": ids["<image|>"],
            "boa_token_id": ids["<|audio>"],
            "eoa_token_id": ids["<audio|>"],
            "pad_token_id": ids["<pad>"],
            "eos_token_id": [ids["<eos>"], ids["<turn|>"]],
            "vision_soft_tokens_per_image": 8,
            "text_config": _gemma4_text(),
            "vision_config": {
                "model_type": "gemma4_vision",
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "global_head_dim": 16,
                "patch_size": 8,
                "pooling_kernel_size": 2,
                "default_output_length": 8,
                "position_embedding_size": 64,
            },
            "audio_config": {
                "hidden_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "subsampling_conv_channels": [8, 4],
                "output_proj_dims": 32,
            },
        },
        files={
            "processor_config.json": {
                "image_processor": {
                    **NORMALIZATION,
                    "do_normalize": False,
                    "patch_size": 8,
                    "max_soft_tokens": 8,
                    "pooling_kernel_size": 2,
                },
            },
        },
        special_tokens=_GEMMA4_TOKENS,
        named_tokens={
            **_NAMED,
            "boi_token": "<|image>",
            "eoi_token": "<image|>",
            "image_token": "<|image|>",
            "boa_token": "<|audio>",
            "eoa_token": "<audio|>",
            "audio_token": "<|audio|>",
        },
        chat_template=_template("<|turn>", "<turn|>", "<|image|>"),
        tied_output=True,
        gains={"embed_tokens.weight": 0.1},
        reads_audio=True,
    )


_PALIGEMMA_TOKENS = (
    *("<pad>", "<eos>", "<bos>", "<unk>", "<image>"),
    *(f"<loc{index:0>4}>" for index in range(1024)),
    *(f"<seg{index:0>3}>" for index in range(128)),
)


def paligemma() -> Family:
    """A family with one turn, whose prompt is read with attention in both directions."""
    ids = special_token_ids(_PALIGEMMA_TOKENS)
    text = text_config("gemma", _PALIGEMMA_TOKENS, tie_word_embeddings=True)
    return Family(
        config={
            "model_type": "paligemma",
            "vocab_size": text["vocab_size"],
            "hidden_size": HIDDEN_SIZE,
            "projection_dim": HIDDEN_SIZE,
            "image_token_index": ids["<image>"],
            "pad_token_id": ids["<pad>"],
            "eos_token_id": [ids["<eos>"]],
            "text_config": text,
            "vision_config": {
                **VISION,
                "model_type": "siglip_vision_model",
                "projection_dim": HIDDEN_SIZE,
            },
        },
        files={
            "preprocessor_config.json": {
                **NORMALIZATION,
                "image_processor_type": "SiglipImageProcessor",
                "image_seq_length": 16,
                "size": {"height": 56, "width": 56},
            },
        },
        special_tokens=_PALIGEMMA_TOKENS,
        named_tokens={**_NAMED, "image_token": "<image>"},
        chat_template=None,
        max_images=1,
        reuses_prompts=False,
        tied_output=True,
        gains={"embed_tokens.weight": 0.3},
    )
