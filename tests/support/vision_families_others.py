"""Small multimodal models of further families."""

from __future__ import annotations

from vision_families import HIDDEN_SIZE, NORMALIZATION, VISION, Family, text_config
from vision_tokenizers import special_token_ids, vocabulary_size

__all__ = ["idefics3", "internvl_chat", "lfm2_vl", "smolvlm"]

_SMOLVLM_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>"),
    *("<global-img>", "<image>"),
    *(f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)),
)
_SMOLVLM_TEMPLATE = (
    "<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}:"
    "{% if m['content'] is string %} {{ m['content'] }}"
    "{% else %}{{ '' if m['content'][0]['type'] == 'image' else ' ' }}"
    "{% for part in m['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif part['type'] == 'image' %}<image>{% endif %}{% endfor %}{% endif %}"
    "<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)


def _idefics_like(model_type: str, image_processor: str) -> Family:
    ids = special_token_ids(_SMOLVLM_TOKENS)
    return Family(
        config={
            "model_type": model_type,
            "vocab_size": vocabulary_size(_SMOLVLM_TOKENS),
            "image_token_id": ids["<image>"],
            "scale_factor": 2,
            "eos_token_id": [ids["<end_of_utterance>"]],
            "text_config": text_config("llama", _SMOLVLM_TOKENS),
            "vision_config": {**VISION, "model_type": f"{model_type}_vision"},
        },
        files={
            "preprocessor_config.json": {
                **NORMALIZATION,
                "image_processor_type": image_processor,
                "do_convert_rgb": True,
                "do_image_splitting": True,
                "do_pad": True,
                "max_image_size": {"longest_edge": 56},
                "size": {"longest_edge": 112},
            },
            "processor_config.json": {"image_seq_len": 4},
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


def smolvlm() -> Family:
    """A family that cuts an image into tiles with text between them."""
    return _idefics_like("smolvlm", "SmolVLMImageProcessor")


def idefics3() -> Family:
    """The family that SmolVLM is derived from."""
    return _idefics_like("idefics3", "Idefics3ImageProcessor")


_INTERNVL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>")
_INTERNVL_TOKENS += ("<IMG_CONTEXT>",)


def internvl_chat() -> Family:
    """A family that cuts an image into tiles."""
    ids = special_token_ids(_INTERNVL_TOKENS)
    return Family(
        config={
            "model_type": "internvl_chat",
            "vocab_size": vocabulary_size(_INTERNVL_TOKENS),
            "image_token_index": ids["<IMG_CONTEXT>"],
            "force_image_size": 56,
            "max_dynamic_patch": 2,
            "min_dynamic_patch": 1,
            "use_thumbnail": True,
            "downsample_ratio": 0.5,
            "eos_token_id": [ids["<|im_end|>"]],
            "llm_config": text_config("qwen2", _INTERNVL_TOKENS),
            "vision_config": {**VISION, "model_type": "intern_vit_6b"},
        },
        files={
            "preprocessor_config.json": {
                **NORMALIZATION,
                "image_processor_type": "CLIPImageProcessor",
            }
        },
        special_tokens=_INTERNVL_TOKENS,
        named_tokens={"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
        chat_template=(
            "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
            "{% if m['content'] is string %}{{ m['content'] }}"
            "{% else %}{% for part in m['content'] %}"
            "{{ '<image>\n' if part['type'] == 'image' else part['text'] }}"
            "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        ),
    )


_LFM2_TOKENS = (
    *("<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>"),
    *("<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"),
    *(f"<|img_row_{row}_col_{column}|>" for row in range(1, 4) for column in range(1, 4)),
)


def lfm2_vl() -> Family:
    """A hybrid family: convolutions between layers with attention."""
    ids = special_token_ids(_LFM2_TOKENS)
    text = text_config(
        "lfm2",
        _LFM2_TOKENS,
        num_hidden_layers=4,
        layer_types=["conv", "full_attention"] * 2,
        block_dim=HIDDEN_SIZE,
        block_ff_dim=64,
        block_multiple_of=8,
        block_auto_adjust_ff_dim=False,
        conv_dim=HIDDEN_SIZE,
        conv_dim_out=HIDDEN_SIZE,
        num_heads=4,
        eos_token_id=ids["<|im_end|>"],
        tie_word_embeddings=True,
    )
    return Family(
        config={
            "model_type": "lfm2_vl",
            "image_token_id": ids["<image>"],
            "downsample_factor": 2,
            "encoder_patch_size": 8,
            "tile_size": 32,
            "max_image_tokens": 8,
            "min_image_tokens": 4,
            "projector_hidden_size": 64,
            "eos_token_id": ids["<|im_end|>"],
            "text_config": text,
            "vision_config": {
                **VISION,
                "model_type": "siglip2_vision_model",
                "patch_size": 8,
                "num_patches": 16,
            },
        },
        files={
            "preprocessor_config.json": {
                **NORMALIZATION,
                "image_processor_type": "Lfm2VlImageProcessor",
                "downsample_factor": 2,
                "encoder_patch_size": 8,
                "tile_size": 32,
                "max_image_tokens": 8,
                "min_image_tokens": 4,
            }
        },
        special_tokens=_LFM2_TOKENS,
        named_tokens={
            "bos_token": "<|startoftext|>",
            "eos_token": "<|im_end|>",
            "pad_token": "<|pad|>",
            "image_token": "<image>",
            "image_start_token": "<|image_start|>",
            "image_end_token": "<|image_end|>",
            "image_thumbnail": "<|img_thumbnail|>",
        },
        chat_template=(
            "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
            "{% if m['content'] is string %}{{ m['content'] }}"
            "{% else %}{% for part in m['content'] %}"
            "{{ '<image>' if part['type'] == 'image' else part['text'] }}"
            "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        ),
        tied_output=True,
        seed=1,
        gains={"self_attn.out_proj": 4.0},
    )
