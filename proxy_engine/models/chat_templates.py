"""Replacing the chat template of a tokenizer in memory."""

from __future__ import annotations

import copy
import importlib
from typing import Any

from mlx_lm import tokenizer_utils
from mlx_lm.tokenizer_utils import TokenizerWrapper

_FROM_TEMPLATE = ("chat_template", "chat_template_type", "tool_parser_type")
"""Entries of a tokenizer's configuration that name its template, or derive from it."""


def with_chat_template(tokenizer: TokenizerWrapper, template: str) -> TokenizerWrapper:
    """Return a tokenizer with another chat template. The given one is unchanged.

    mlx-lm's parser of tool calls is that of the new template, as after loading.
    """
    inner = copy.copy(tokenizer._tokenizer)
    inner.chat_template = template
    settings = getattr(inner, "init_kwargs", {})
    inner.init_kwargs = {key: settings[key] for key in settings if key not in _FROM_TEMPLATE}
    return TokenizerWrapper(
        inner, eos_token_ids=tokenizer.eos_token_ids, **_tool_parser_arguments(inner)
    )


def _tool_parser_arguments(tokenizer: Any) -> dict[str, Any]:
    parser = tokenizer_utils._infer_tool_parser(tokenizer)
    if parser is None:
        return {}
    module = importlib.import_module(f"mlx_lm.tool_parsers.{parser}")
    return {
        "tool_parser": module.parse_tool_call,
        "tool_call_start": module.tool_call_start,
        "tool_call_end": module.tool_call_end,
    }
