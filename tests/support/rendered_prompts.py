"""Prompts as token ids, as requests without media have them."""

from __future__ import annotations

from typing import Any

from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine.conversation.prompts import Prompt, PromptStyle, template_messages


def encode_prompt(prompt: Prompt, tokenizer: TokenizerWrapper, **style: Any) -> list[int]:
    """Return the token ids of a prompt; ``style`` are fields of ``PromptStyle``."""
    return PromptStyle(**style).encode(template_messages(prompt).messages, tokenizer)
