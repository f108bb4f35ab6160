"""Masks of llguidance for calls in Hermes's format, as a logits processor of mlx-lm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import mlx.core as mx
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from mlx_lm.tokenizer_utils import TokenizerWrapper
from stacks.bits import apply_bits

__all__ = ["CallMasks"]

_TOKENIZERS: dict[int, LLTokenizer] = {}
"""Tokenizers by the identity of mlx-lm's, since one takes a second to build."""


class CallMasks:
    """The masks of an answer that consists of calls, at least one.

    Args:
        tokenizer: The model's tokenizer, as mlx-lm loads it.
        tools: The tools, in the form of OpenAI's chat API.
        is_forced: Whether a call is required; otherwise, text can stand in front of calls.
    """

    def __init__(
        self,
        tokenizer: TokenizerWrapper,
        tools: Sequence[Mapping[str, Any]],
        *,
        is_forced: bool = True,
    ) -> None:
        key = id(tokenizer)
        if key not in _TOKENIZERS:
            ends = sorted(tokenizer.eos_token_ids)
            _TOKENIZERS[key] = from_tokenizer(tokenizer._tokenizer, eos_token=ends)
        native = _TOKENIZERS[key]
        begin = tokenizer.encode("<tool_call>", add_special_tokens=False)
        opening, closing = (
            ("<tool_call>", "</tool_call>")
            if len(begin) == 1
            else ('"<tool_call>"', '"</tool_call>"')
        )
        schema = json.dumps({"anyOf": [_call(tool["function"]) for tool in tools]})
        # The same calls as those of the engine: white space can follow the last one.
        grammar = (
            f"start: {'calls' if is_forced else 'TEXT calls?'}\n"
            'calls: (call "\\n"?)+\n'
            "TEXT: /(.|\\n)*/\n"
            f'call: {opening} "\\n" json "\\n" {closing}\n'
            f"json: %json {schema}\n"
        )
        self._matcher = LLMatcher(native, LLMatcher.grammar_from_lark(grammar), log_level=0)
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())
        self._bits = allocate_token_bitmask(1, native.vocab_size)
        self._is_first = True

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Return the logits of the next token, without those of excluded tokens."""
        if self._is_first:
            self._is_first = False
        elif not self._matcher.is_stopped():
            self._matcher.consume_token(cast(int, tokens[-1].item()))
        fill_next_token_bitmask(self._matcher, self._bits)
        return apply_bits(logits, self._bits)


def _call(function: Mapping[str, Any]) -> dict[str, Any]:
    members = {"name": {"const": function["name"]}, "arguments": function["parameters"]}
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }
