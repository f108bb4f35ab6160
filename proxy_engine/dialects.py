"""The way in which a model writes tool calls and reasoning, as its tokenizer tells."""

from __future__ import annotations

from collections.abc import Sequence

from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines.tools import Delimiters, ToolFormat, format_named

__all__ = ["dialect_of", "is_reasoning_open", "reasoning_delimiters"]


def dialect_of(tokenizer: TokenizerWrapper, explicit: str | None) -> ToolFormat:
    """Return the format of a model."""
    return format_named(explicit or "hermes")


def reasoning_delimiters(tokenizer: TokenizerWrapper) -> Delimiters | None:
    """Return the markers around reasoning."""
    if not tokenizer.has_thinking:
        return None
    return Delimiters(tokenizer.think_start, tokenizer.think_end)


def is_reasoning_open(tokenizer: TokenizerWrapper, prompt_ids: Sequence[int]) -> bool:
    """Whether a prompt ends within reasoning."""
    if not tokenizer.has_thinking:
        return False
    ids = list(prompt_ids)
    return bool(tokenizer.rfind_think_start(ids) > tokenizer.rfind_think_end(ids))
