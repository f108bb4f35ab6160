"""The loop: prompt ids in, one token after another out, each under a mask.

A step has two halves that run at the same time. The forward pass for the next token is handed to
the device as soon as the last token is *described*, before anyone knows which one it is; while
the device works on it, the token is read, the matcher advances, and the next mask is computed on
the CPU. Only then is the mask laid over the logits, and sampling added to the work in flight. A
logits processor inside mlx-lm's own loop cannot do this: there the mask is asked for between two
passes, when the device has nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from samplers import apply_mask
from state_machines import Matcher

from .events import PromptProgress
from .steering import Sampler

__all__ = ["Token", "generate_steps"]

_STEPS_BETWEEN_CACHE_CLEARINGS = 256


@dataclass(frozen=True, slots=True)
class Token:
    """A generated token. The last one of a request has a finish reason."""

    token_id: int
    finish_reason: Literal["stop", "length"] | None


def generate_steps(
    model: Module,
    prompt_ids: Sequence[int],
    *,
    matcher: Matcher | None,
    next_sampler: Callable[[], Sampler],
    end_token_ids: Collection[int],
    usable_tokens: npt.NDArray[np.bool_] | None = None,
    max_tokens: int,
    prefill_step_size: int,
) -> Iterator[PromptProgress | Token]:
    """Read the prompt, then generate until an end token, or ``max_tokens`` tokens.

    Without a ``matcher`` the text is free, but for ``usable_tokens``: a bool array of the width
    of the logits, which keeps out ids that are no tokens (``None``: all are). ``next_sampler`` is
    asked before each mask for what chooses the token. Everything runs on
    the calling thread's default stream, and no state outlives the iterator: to cancel a request,
    stop iterating.
    """
    cache = make_prompt_cache(model)
    tokens = list(prompt_ids)
    static_mask = None if usable_tokens is None or usable_tokens.all() else mx.array(usable_tokens)

    ends = np.array(sorted(end_token_ids), dtype=np.intp)

    def choose(logits: mx.array) -> tuple[mx.array, bool]:
        """Sampling, described but not evaluated, and whether it must give an end token."""
        sampler = next_sampler()
        if matcher is None:
            masked = logits if static_mask is None else apply_mask(logits, static_mask)
            return sampler(masked, tokens).reshape(1), False
        allowed = matcher.allowed_tokens()
        must_end = np.count_nonzero(allowed) == np.count_nonzero(allowed[ends])
        return sampler(apply_mask(logits, mx.array(allowed)), tokens).reshape(1), must_end

    yield from _prefill(model, prompt_ids[:-1], cache, prefill_step_size, len(prompt_ids))
    logits = _forward(model, mx.array(list(prompt_ids[-1:])), cache)
    mx.async_eval(logits)
    chosen, must_end = choose(logits)
    for count in range(1, max_tokens + 1):
        is_last = count == max_tokens
        if is_last or must_end:
            mx.async_eval(chosen)
        else:
            logits = _forward(model, chosen, cache)
            mx.async_eval(chosen, logits)
        token_id = cast(int, chosen.item())
        tokens.append(token_id)
        if matcher is not None:
            matcher.advance(token_id)
        is_end = token_id in end_token_ids
        if is_end or is_last:
            yield Token(token_id, "stop" if is_end else "length")
            return
        yield Token(token_id, None)
        chosen, must_end = choose(logits)
        if count % _STEPS_BETWEEN_CACHE_CLEARINGS == 0:
            mx.clear_cache()


def _prefill(
    model: Module, prompt_ids: Sequence[int], cache: list[Any], step_size: int, total: int
) -> Iterator[PromptProgress]:
    """Fill the cache with ``prompt_ids``, evaluating after every ``step_size`` tokens.

    The prompt's last token is left to the first step, which needs its logits.
    """
    yield PromptProgress(processed=0, total=total)
    for start in range(0, len(prompt_ids), step_size):
        chunk = mx.array(list(prompt_ids[start : start + step_size]))
        model(chunk[None], cache=cache)
        mx.eval([layer.state for layer in cache])
        mx.clear_cache()
        yield PromptProgress(processed=start + chunk.size, total=total)


def _forward(model: Module, token_ids: mx.array, cache: list[Any]) -> mx.array:
    """The logits after the last of ``token_ids``, shape (1, vocabulary), unevaluated."""
    logits: mx.array = model(token_ids[None], cache=cache)
    return logits[:, -1, :]
