"""A model that writes given answers, for what happens around answers that make sense.

It runs through the whole engine: it keeps the tokens in mlx-lm's KV cache, in place of keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import KVCache
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tiny_models import TINY_CONFIG

_LIKELY = 30.0


class ScriptedModel(Module):
    """A model for the tiny tokenizer that answers a conversation by its number of messages.

    Where the grammar permits no token of the answer, it writes anything.

    Args:
        tokenizer: The tiny tokenizer.
        answers: Answers in ASCII by the number of messages before them.

    Attributes:
        largest_batch: Largest number of rows of a forward pass.
    """

    def __init__(self, tokenizer: TokenizerWrapper, answers: Mapping[int, str]) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._answers = dict(answers)
        self.largest_batch = 0
        self._start = tokenizer.convert_tokens_to_ids("<|start|>")
        self._header = tokenizer.encode("assistant\n", add_special_tokens=False)
        self._end = tokenizer.convert_tokens_to_ids("<|end|>")

    @property
    def layers(self) -> list[None]:
        """One layer."""
        return [None]

    def make_cache(self) -> list[Any]:
        """Return an empty cache."""
        return [KVCache()]

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        """Return logits, shape (rows, tokens, vocabulary)."""
        self.largest_batch = max(self.largest_batch, inputs.shape[0])
        layer = KVCache() if cache is None else cache[0]
        tokens = inputs[:, None, :, None]
        kept, _ = layer.update_and_fetch(tokens, tokens)
        rows = np.array(kept[:, 0, :, 0])
        logits = np.zeros((*inputs.shape, int(str(TINY_CONFIG["vocab_size"]))), np.float32)
        before = rows.shape[1] - inputs.shape[1]
        for row, known in enumerate(rows.tolist()):
            messages = known.count(self._start) - 1
            if messages < 0:
                continue
            # Nothing is sampled before the last message, which is the answer's.
            begin = len(known) - known[::-1].index(self._start) + len(self._header)
            if known[begin - len(self._header) : begin] != self._header:
                continue
            answer = self.answer(messages, known[:begin])
            for end in range(max(begin, before + 1), len(known) + 1):
                next_token = self._next(answer, known[begin:end])
                if next_token is not None:
                    logits[row, end - 1 - before, next_token] = _LIKELY
        return mx.array(logits)

    def answer(self, messages: int, prompt: list[int]) -> str:
        """Return the answer to a prompt, which has a number of messages."""
        return self._answers.get(messages, "")

    def _next(self, answer: str, tokens: list[int]) -> int | None:
        """Return the token of the answer after what is written of it."""
        written = self._tokenizer.decode(tokens)
        if not answer.startswith(written):
            return None
        rest = self._tokenizer.encode(answer[len(written) :], add_special_tokens=False)
        return rest[0] if rest else self._end
