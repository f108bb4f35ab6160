"""mlx-lm with llguidance's mask as a logits processor, which is how it is used with MLX."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from time import perf_counter
from typing import cast

import mlx.core as mx
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from llguidance.mlx import apply_token_bitmask
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

from stacks.base import RefusedRequestError, Request, Setting, Written, parsed_schema
from stacks.bits import apply_bits
from stacks.streaming import Processor, first_of, responses, written_by

__all__ = ["make_stack"]


class _LLGuidance:
    def __init__(self, setting: Setting) -> None:
        self.version = version("llguidance")
        self._setting = setting
        inner = setting.tokenizer._tokenizer
        ends = sorted(setting.tokenizer.eos_token_ids)
        self._tokenizer = from_tokenizer(inner, eos_token=ends, slices=LLTokenizer.json_slices())
        self._bits = allocate_token_bitmask(1, self._tokenizer.vocab_size)
        self._apply = apply_token_bitmask if mx.metal.is_available() else apply_bits
        self._compiled: dict[str, LLMatcher] = {}

    def write(self, request: Request) -> Written:
        started = perf_counter()
        return written_by(
            request, responses(self._setting, request, self.processor(request)), started
        )

    def first_token(self, request: Request) -> float:
        started = perf_counter()
        return first_of(responses(self._setting, request, self.processor(request)), started)

    def can_write(self, request: Request, token_ids: Sequence[int]) -> bool:
        try:
            matcher = self._matcher(request)
        except RefusedRequestError:
            return False
        if matcher.validate_tokens(list(token_ids)) < len(token_ids):
            return False
        matcher.consume_tokens(list(token_ids))
        return bool(matcher.is_accepting())

    def forget(self) -> None:
        self._compiled.clear()

    def close(self) -> None:
        self.forget()

    def processor(self, request: Request) -> Processor:
        """Return a logits processor for one generation."""
        matcher = self._matcher(request)
        is_first = True

        def process(tokens: mx.array, logits: mx.array) -> mx.array:
            nonlocal is_first
            if is_first:
                is_first = False
            elif not matcher.is_stopped():
                matcher.consume_token(cast(int, tokens[-1].item()))
            fill_next_token_bitmask(matcher, self._bits)
            return self._apply(logits, self._bits)

        return process

    def _matcher(self, request: Request) -> LLMatcher:
        key = request.schema or "{}"
        if key not in self._compiled:
            try:
                grammar = LLMatcher.grammar_from_json_schema(parsed_schema(request) or {})
            except ValueError as error:
                raise RefusedRequestError(str(error)) from error
            matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
            if matcher.is_error():
                raise RefusedRequestError(matcher.get_error())
            self._compiled[key] = matcher
        return self._compiled[key].deep_copy()


def make_stack(setting: Setting) -> _LLGuidance:
    """Set up the stack."""
    return _LLGuidance(setting)
