"""The families of small multimodal models, by model type."""

from __future__ import annotations

from vision_families import Family
from vision_families_gemma import gemma3, gemma4, paligemma
from vision_families_llava import llava_next, llava_onevision, mistral3, pixtral
from vision_families_others import idefics3, internvl_chat, lfm2_vl, smolvlm
from vision_families_qwen import qwen2_5_vl, qwen2_vl, qwen3_5, qwen3_vl

__all__ = ["FAMILIES", "UNSUPPORTED_FAMILIES"]

FAMILIES: dict[str, Family] = {
    "qwen2_vl": qwen2_vl(),
    "qwen2_5_vl": qwen2_5_vl(),
    "qwen3_vl": qwen3_vl(),
    "qwen3_5": qwen3_5(),
    "gemma3": gemma3(),
    "gemma4": gemma4(),
    "paligemma": paligemma(),
    "smolvlm": smolvlm(),
    "idefics3": idefics3(),
    "llava_onevision": llava_onevision(),
    "pixtral": pixtral(),
    "mistral3": mistral3(),
    "internvl_chat": internvl_chat(),
    "lfm2_vl": lfm2_vl(),
}

UNSUPPORTED_FAMILIES: dict[str, Family] = {"llava_next": llava_next()}
"""Families whose images mlx-vlm embeds as another number of tokens than its processor writes."""
