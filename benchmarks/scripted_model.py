"""A model that runs its normal forward pass and then makes every stack write a given text.

The logit of the next token of the text is raised far above all others, so every stack samples it
under its own masks and samplers. The tokens that a stack feeds to the model decide the next token:
a stack with another tokenisation of the text continues from its own tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

__all__ = ["Script", "ScriptedModel", "script_of"]

# Above whatever logits there are, and finite in half precision.
_BY_FAR = 30_000.0


class Script:
    """A text as the token to write after each number of its bytes; the last one is an end token.

    ``next_ids`` has shape (bytes + 1).
    """

    def __init__(self, text: bytes, next_ids: Sequence[int], tokens: int) -> None:
        self.text = text
        self.tokens = tokens
        self.next_ids = mx.array(list(next_ids), dtype=mx.int32)
        mx.eval(self.next_ids)


def script_of(
    text: bytes, token_ids: Sequence[int], token_bytes: Sequence[bytes | None], end_id: int
) -> Script:
    """Return the script of a text, given as the tokens that a tokenizer cuts it into.

    Within these tokens, where only a stack that cuts otherwise gets to, the longest token that
    fits is next. Raises ``ValueError`` where the tokens do not spell the text, or none fits.
    """
    by_form: dict[bytes, int] = {}
    for token_id, form in enumerate(token_bytes):
        if form is not None:
            by_form.setdefault(form, token_id)
    next_ids = [_longest(text, at, by_form) for at in range(len(text))] + [end_id]
    at = 0
    for token_id in token_ids:
        form = token_bytes[token_id] or b""
        if not form or not text.startswith(form, at):
            raise ValueError(f"token {token_id} does not go on with the text at byte {at}")
        next_ids[at] = token_id
        at += len(form)
    if at != len(text):
        raise ValueError(f"the tokens end at byte {at} of {len(text)}")
    return Script(text, next_ids, len(token_ids) + 1)


def _longest(text: bytes, at: int, by_form: Mapping[bytes, int]) -> int:
    for length in range(min(32, len(text) - at), 0, -1):
        token_id = by_form.get(text[at : at + length])
        if token_id is not None:
            return token_id
    raise ValueError(f"no token spells byte {at} of the text")


class ScriptedModel(Module):
    """``inner``, with a script or without.

    ``token_lengths``: how many bytes each token writes; 0 for tokens that are no text.
    """

    def __init__(self, inner: Module, token_lengths: Sequence[int]) -> None:
        super().__init__()
        self.inner = inner
        # Names with an underscore are no parameters of a module.
        self._lengths = mx.array(list(token_lengths), dtype=mx.int32)
        mx.eval(self._lengths)
        self._script: Script | None = None
        self._prompt_tokens = 0
        self._written: dict[int, mx.array] = {}

    def follow(self, script: Script | None, prompt_tokens: int = 0) -> None:
        """Write ``script`` after prompts of ``prompt_tokens`` tokens; ``None`` generates freely."""
        self._script = script
        self._prompt_tokens = prompt_tokens
        self._written = {}

    @property
    def args(self) -> Any:
        """The inner model's arguments."""
        return self.inner.args

    @property
    def layers(self) -> Any:
        """The inner model's layers."""
        return self.inner.layers

    def make_cache(self) -> list[Any]:
        """Return the inner model's cache."""
        cache: list[Any] = make_prompt_cache(self.inner)
        return cache

    def __call__(self, inputs: mx.array, cache: Any = None, **keywords: Any) -> mx.array:
        """Return logits, shape (rows, tokens, width)."""
        script, prompt_tokens = self._script, self._prompt_tokens
        if script is None or cache is None or inputs.shape[0] != 1:
            logits: mx.array = self.inner(inputs, cache=cache, **keywords)
            return logits
        begin = cache[0].offset
        logits = self.inner(inputs, cache=cache, **keywords)
        end = begin + inputs.shape[1]
        if end < prompt_tokens:
            return logits
        if end == prompt_tokens:
            # Another request, or the same one again.
            self._written = {end: mx.array(0)}
        else:
            answer = inputs[0, max(0, prompt_tokens - begin) :]
            before = self._written.get(max(begin, prompt_tokens), mx.array(0))
            counts = before + mx.cumsum(self._lengths[answer])
            # Of every token: a stack may take some of them back.
            for number in range(answer.size):
                self._written[end - answer.size + 1 + number] = counts[number]
        written = mx.minimum(self._written[end], len(script.text))
        width = logits.shape[-1]
        raised = mx.where(mx.arange(width) == script.next_ids[written], _BY_FAR, 0)
        last = logits[:, -1:, :] + raised.astype(logits.dtype)
        return last if logits.shape[1] == 1 else mx.concatenate([logits[:, :-1, :], last], axis=1)
