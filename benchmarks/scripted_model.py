"""A model that runs its normal forward pass and then makes every stack write a given text.

The logit of the next token of the text is raised far above all others, at every position of a pass,
so every stack samples it under its own masks and samplers. The tokens that a stack feeds to the
model decide the next token: a stack with another tokenisation of the text continues from its own
tokens.

Progress is kept in one more layer of the prompt cache. It holds, for each token, the bytes of the
answer that were written up to it, and a hash of the first tokens of the prompt, which selects one
of several scripts. Operations on the cache, such as trimming, merging, padding and copying rows,
therefore apply to the progress, too.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import KVCache, make_prompt_cache

__all__ = ["Script", "ScriptedModel", "script_of"]

# Above whatever logits there are, and finite in half precision.
_BY_FAR = 30_000.0

_HASHED_TOKENS = 8
"""First tokens of a prompt that identify it; each prompt begins with a number of its own."""


class Script:
    """A text as the token to write after each number of its bytes; the last one is an end token.

    ``next_ids`` and ``boosts`` have shape (bytes + 1). A boost is added to the logit of the token.
    """

    def __init__(
        self,
        text: bytes,
        next_ids: Sequence[int],
        tokens: int,
        boosts: Sequence[float] | None = None,
    ) -> None:
        self.text = text
        self.tokens = tokens
        self.next_ids = mx.array(list(next_ids), dtype=mx.int32)
        self.boosts = mx.array(boosts or [_BY_FAR] * len(next_ids), dtype=mx.float32)
        mx.eval(self.next_ids, self.boosts)

    def deviating(self, agreement: float, seed: int) -> Script:
        """Return a script that writes another token at some positions, as a draft model would.

        The logit of the token is lowered there, so that a sampler takes the best other token that
        its mask allows, if there is one.

        Args:
            agreement: The probability that the token of a position is that of this script.
            seed: Seed of the positions.
        """
        draw = random.Random(seed)
        boosts = [
            _BY_FAR if draw.random() < agreement else -_BY_FAR for _ in range(self.next_ids.size)
        ]
        return Script(self.text, self.next_ids.tolist(), self.tokens, boosts)


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
    """``inner``, with scripts or without.

    ``token_lengths``: how many bytes each token writes; 0 for tokens that are no text.
    """

    def __init__(self, inner: Module, token_lengths: Sequence[int]) -> None:
        super().__init__()
        self.inner = inner
        self.token_lengths = tuple(token_lengths)
        # Names with an underscore are no parameters of a module.
        self._lengths = mx.array(list(token_lengths), dtype=mx.uint32)
        self._codes = _Codes(self._lengths.size)
        mx.eval(self._lengths)
        self._scripts: _Script | _Scripts | None = None

    def follow(self, script: Script | None, prompt_ids: Sequence[int] = ()) -> None:
        """Write ``script`` after a prompt; ``None`` generates freely."""
        self._scripts = None
        if script is not None:
            self._scripts = _Script(script, len(prompt_ids), self._lengths, self._codes)

    def follow_all(self, scripts: Sequence[tuple[Sequence[int], Script]]) -> None:
        """Write a script after each of several prompts, which differ in their first tokens."""
        self._scripts = _Scripts(scripts, self._lengths, self._codes)

    @property
    def args(self) -> Any:
        """The inner model's arguments."""
        return self.inner.args

    @property
    def layers(self) -> Any:
        """The inner model's layers."""
        return self.inner.layers

    def make_cache(self) -> list[Any]:
        """Return the inner model's cache, and a layer for the progress."""
        cache: list[Any] = make_prompt_cache(self.inner)
        return [*cache, KVCache()]

    def __call__(self, inputs: mx.array, cache: Any = None, **keywords: Any) -> mx.array:
        """Return logits, shape (rows, tokens, width)."""
        if cache is None:
            free: mx.array = self.inner(inputs, **keywords)
            return free
        *inner_cache, layer = cache
        logits: mx.array = self.inner(inputs, cache=inner_cache, **keywords)
        if self._scripts is None:
            _append(layer, mx.zeros((*inputs.shape, 2), mx.uint32))
            # Evaluates the layer together with the logits, so that its graph does not grow.
            return mx.depends([logits], [layer.keys])[0]
        progress, next_ids, boosts = self._scripts.after(inputs, layer)
        _append(layer, progress)
        rows = mx.arange(inputs.shape[0])[:, None]
        columns = mx.arange(inputs.shape[1])[None]
        return logits.at[rows, columns, next_ids].add(boosts.astype(logits.dtype))


class _Codes:
    """Hashes of the first tokens of prompts: a sum of random codes of tokens and positions."""

    def __init__(self, tokens: int) -> None:
        codes = np.random.default_rng(0).integers(1 << 32, size=tokens)
        self._codes = mx.array(codes.astype(np.uint32))
        mx.eval(self._codes)

    def of(self, prompt_ids: Sequence[int], length: int) -> mx.array:
        """Return the hash of the first ``length`` tokens of a prompt."""
        factors = (2 * mx.arange(length) + 1).astype(mx.uint32)
        return (self._codes[mx.array(list(prompt_ids[:length]))] * factors).sum()

    def after(
        self, inputs: mx.array, positions: mx.array, before: mx.array, length: int
    ) -> mx.array:
        """Return the hash at each token, shape (rows, tokens), given that before the pass."""
        is_hashed = (positions >= 0) & (positions < length)
        factors = mx.where(is_hashed, 2 * positions + 1, 0).astype(mx.uint32)
        # A row whose first token is at position 0 can have padding before it.
        before = mx.where(positions[:, :1] > 0, before, 0)
        return before + mx.cumsum(self._codes[inputs] * factors, axis=1)


class _Script:
    """One script, for prompts of ``prompt_tokens`` tokens."""

    def __init__(
        self, script: Script, prompt_tokens: int, token_lengths: mx.array, codes: _Codes
    ) -> None:
        self._script = script
        self._prompt_tokens = prompt_tokens
        self._token_lengths = token_lengths
        self._codes = codes

    def after(self, inputs: mx.array, layer: Any) -> tuple[mx.array, mx.array, mx.array]:
        """Return the progress at each token, the next token and its boost."""
        script, prompt_tokens = self._script, self._prompt_tokens
        lengths = self._token_lengths[inputs]
        last = _last(layer)
        if isinstance(layer.offset, int) and layer.offset > prompt_tokens:
            # Most passes. Hashes of answers are not needed.
            counts = codes = last[..., 1] + _running_sum(lengths)
            written = mx.minimum(counts, len(script.text))
            boosts = script.boosts[written]
        else:
            positions = _positions(inputs, layer)
            hashed = min(_HASHED_TOKENS, prompt_tokens)
            codes = self._codes.after(inputs, positions, last[..., 0], hashed)
            # A prompt can share cached tokens with an earlier prompt and its answer.
            before = mx.where(positions[:, :1] > prompt_tokens, last[..., 1], 0)
            counts = before + _running_sum(mx.where(positions >= prompt_tokens, lengths, 0))
            written = mx.minimum(counts, len(script.text))
            # Behind the last token of the prompt, the first token of the answer follows.
            boosts = mx.where(positions >= prompt_tokens - 1, script.boosts[written], 0)
        return mx.stack([codes, counts], axis=-1), script.next_ids[written], boosts


class _Scripts:
    """Scripts by the hash of the first tokens of their prompts."""

    def __init__(
        self,
        scripts: Sequence[tuple[Sequence[int], Script]],
        token_lengths: mx.array,
        codes: _Codes,
    ) -> None:
        size = max(script.next_ids.size for _, script in scripts)

        def padded(array: mx.array) -> mx.array:
            return mx.pad(array, (0, size - array.size))

        self._token_lengths = token_lengths
        self._codes = codes
        self._hashed = min([_HASHED_TOKENS, *(len(prompt) for prompt, _ in scripts)])
        self._by_script = mx.stack([codes.of(prompt, self._hashed) for prompt, _ in scripts])
        self._prompt_tokens = mx.array([len(prompt) for prompt, _ in scripts])
        self._lengths = mx.array([len(script.text) for _, script in scripts], dtype=mx.uint32)
        self._next_ids = mx.stack([padded(script.next_ids) for _, script in scripts])
        self._boosts = mx.stack([padded(script.boosts) for _, script in scripts])
        mx.eval(self._by_script, self._prompt_tokens, self._lengths)
        mx.eval(self._next_ids, self._boosts)

    def after(self, inputs: mx.array, layer: Any) -> tuple[mx.array, mx.array, mx.array]:
        """Return the progress at each token, the next token and its boost."""
        positions = _positions(inputs, layer)
        last = _last(layer)
        codes = self._codes.after(inputs, positions, last[..., 0], self._hashed)
        matches = codes[..., None] == self._by_script
        number = mx.argmax(matches, axis=-1)
        is_known = mx.any(matches, axis=-1)
        prompt_tokens = self._prompt_tokens[number]
        count = mx.where(positions[:, :1] > prompt_tokens[:, :1], last[..., 1], 0)
        is_answer = is_known & (positions >= prompt_tokens)
        counts = count + mx.cumsum(mx.where(is_answer, self._token_lengths[inputs], 0), axis=1)
        written = mx.minimum(counts, self._lengths[number])
        has_next = is_known & (positions >= prompt_tokens - 1)
        boosts = mx.where(has_next, self._boosts[number, written], 0)
        return mx.stack([codes, counts], axis=-1), self._next_ids[number, written], boosts


def _positions(inputs: mx.array, layer: Any) -> mx.array:
    """Return the positions of tokens, shape (rows or 1, tokens); below 0 in left padding."""
    return mx.array(layer.offset).reshape(-1, 1) + mx.arange(inputs.shape[1])[None]


def _running_sum(values: mx.array) -> mx.array:
    return values if values.shape[1] == 1 else mx.cumsum(values, axis=1)


def _append(layer: Any, progress: mx.array) -> None:
    """Append the progress at some tokens, shape (rows, tokens, 2), to the cache."""
    layer.update_and_fetch(progress[:, None], progress[:, None])
    # One array is read and therefore evaluated; the other would be a growing graph.
    layer.values = layer.keys


def _last(layer: Any) -> mx.array:
    """Return the progress at the last token, shape (rows, 1, 2).

    The tokens of all rows end in the same column.
    """
    column = layer.size() - 1
    if column < 0:
        return mx.zeros((1, 1, 2), mx.uint32)
    last: mx.array = layer.keys[:, 0, column : column + 1]
    return last
