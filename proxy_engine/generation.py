"""The loop: prompt ids in, one token after another out, each under a mask.

A step has two halves that run at the same time. The forward pass for the next token is handed to
the device as soon as the last token is *described*, before anyone knows which one it is; while
the device works on it, the token is read, the matcher advances, and the next mask is computed on
the CPU. Only then is the mask laid over the logits, and sampling added to the work in flight. A
logits processor inside mlx-lm's own loop cannot do this: there the mask is asked for between two
passes, when the device has nothing to do.

Text that the grammar forces is not sampled at all: its tokens are run in one pass. Where it is
likely that some follows, the pass waits for the last token to be read, so that both go together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache

from samplers import apply_mask
from state_machines import Matcher
from state_machines.completion import Guard
from state_machines.grammar.node import Node

from .device_masks import DeviceMasks
from .events import PromptProgress
from .forcing import ForcedTokens
from .steering import Sampler

__all__ = ["Decoding", "Timings", "Token"]

_STEPS_BETWEEN_CACHE_CLEARINGS = 256

_FEW_TOKENS = 64
"""Allowed tokens up to which forced text is likely to follow the next one."""


@dataclass(frozen=True, slots=True)
class Token:
    """A generated token. The last one of a request has a finish reason.

    ``is_forced``: it was the only way to go on, and was not sampled.
    """

    token_id: int
    finish_reason: Literal["stop", "length"] | None = None
    is_forced: bool = False


@dataclass(slots=True)
class Timings:
    """Seconds of wall-clock time of one request, by phase.

    ``prompt``: until the first token is there. ``mask``: matchers and masks, on the CPU, while the
    device works. ``wait``: for the device, forward passes and sampling, after the first token.
    """

    prompt: float = 0.0
    mask: float = 0.0
    wait: float = 0.0


@dataclass(slots=True)
class Decoding:
    """What is decoded, and how. Everything runs on the calling thread's default stream.

    No end token is chosen before ``min_tokens`` tokens, if others may come. Without a ``matcher``
    the text is free, but for ``usable_tokens``: a bool array of the width of
    the logits, which keeps out ids that are no tokens (``None``: all are). ``next_sampler`` is
    asked before each mask for what chooses the token. ``guard`` sees to it that what the matcher
    admits is complete within ``max_tokens``. ``forced`` cuts text that must come next into tokens;
    ``None``: everything is sampled. ``cache`` is the model's, and is filled; it has read
    ``cached_tokens`` of the prompt already, ``max_kv_size`` bounds it as mlx-lm does, and
    ``quantize`` is called with it after every pass.
    The first of ``end_token_ids`` is written where the end must come.
    """

    model: Module
    cache: list[Any]
    matcher: Matcher | None
    next_sampler: Callable[[], Sampler]
    end_token_ids: Sequence[int]
    max_tokens: int
    prefill_step_size: int
    min_tokens: int = 0
    usable_tokens: npt.NDArray[np.bool_] | None = None
    guard: Guard | None = None
    forced: ForcedTokens | None = None
    cached_tokens: int = 0
    max_kv_size: int | None = None
    quantize: Callable[[list[Any]], None] | None = None
    checkpoints: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    """What is to be called when so many tokens of the prompt have been read."""
    timings: Timings = field(default_factory=Timings)
    _tokens: list[int] = field(default_factory=list, init=False)
    _count: int = field(default=0, init=False)
    _masks: DeviceMasks = field(default_factory=DeviceMasks, init=False)
    _expects_forced: bool = field(default=False, init=False)
    _fed: int = field(default=0, init=False)

    @property
    def tokens(self) -> list[int]:
        """Prompt and answer so far."""
        return self._tokens

    @property
    def fed(self) -> int:
        """How many tokens the model has read; one more than there are while it reads ahead."""
        return self._fed

    def run(self, prompt_ids: Sequence[int]) -> Iterator[PromptProgress | Token]:
        """Read the prompt, then generate until an end token, or ``max_tokens`` tokens.

        No state outlives the iterator: to cancel a request, stop iterating.
        """
        started = time.perf_counter()
        self._tokens = list(prompt_ids)
        yield from self._prefill(prompt_ids[:-1], self.cached_tokens, len(prompt_ids))
        # What must come first is read together with the prompt's last token.
        opening: list[int] = []
        if (yield from self._forced_steps(opening)):
            return
        logits = self._forward(mx.array([*prompt_ids[-1:], *opening]))
        mx.async_eval(logits)
        while True:
            chosen = self._choose(logits)
            runs_ahead = not self._expects_forced and self._count + 1 < self.max_tokens
            before = logits
            if runs_ahead:
                logits = self._forward(chosen)
                mx.async_eval(chosen, logits)
            else:
                mx.async_eval(chosen)
            token_id = self._read(chosen, started)
            if self.guard is not None and not self.guard.accepts(token_id):
                # What it begins would take more tokens than there are.
                if runs_ahead:
                    self._step_back()
                runs_ahead = False
                token_id = self._read(self._choose(before, exact=True), started)
            self._take(token_id)
            if token_id in self.end_token_ids:
                yield Token(token_id, "stop")
                return
            is_last = self._count == self.max_tokens
            yield Token(token_id, "length" if is_last else None)
            if is_last:
                return
            following = [] if runs_ahead else [token_id]
            if (yield from self._forced_steps(following)):
                return
            if following:
                logits = self._forward(mx.array(following))
                mx.async_eval(logits)
            if self._count % _STEPS_BETWEEN_CACHE_CLEARINGS == 0:
                mx.clear_cache()

    def _choose(self, logits: mx.array, *, exact: bool = False) -> mx.array:
        """Return the next token, described but not evaluated: shape (1,).

        ``exact``: under a mask of those alone after which the text can be completed in time.
        """
        started = time.perf_counter()
        sampler = self.next_sampler()
        self._expects_forced = False
        allowed = self.usable_tokens
        if self.matcher is not None:
            allowed = self.matcher.allowed_tokens()
            self._expects_forced = self._may_force(allowed)
            if self.guard is not None:
                allowed = self.guard.mask(allowed, exact=exact)
        if self._count < self.min_tokens:
            allowed = self._without_ends(allowed, logits.shape[-1])
        if allowed is not None:
            logits = apply_mask(logits, self._masks.on_device(allowed))
        self.timings.mask += time.perf_counter() - started
        return sampler(logits, self._tokens).reshape(1)

    def _without_ends(
        self, allowed: npt.NDArray[np.bool_] | None, size: int
    ) -> npt.NDArray[np.bool_]:
        """Return what may come if the text is not to end yet; all of it, if it must."""
        others = np.ones(size, np.bool_) if allowed is None else allowed.copy()
        others[list(self.end_token_ids)] = False
        return others if allowed is None or others.any() else allowed

    def _read(self, chosen: mx.array, started: float) -> int:
        """Wait for a token."""
        waiting = time.perf_counter()
        token_id = cast(int, chosen.item())
        now = time.perf_counter()
        if self.timings.prompt:
            self.timings.wait += now - waiting
        else:
            self.timings.prompt = now - started
        return token_id

    def _take(self, token_id: int) -> None:
        started = time.perf_counter()
        self._tokens.append(token_id)
        self._count += 1
        if self.guard is not None:
            self.guard.advance(token_id)
        elif self.matcher is not None:
            self.matcher.advance(token_id)
        self.timings.mask += time.perf_counter() - started

    def _step_back(self) -> None:
        """Let the model forget the token that was run last, and was not taken."""
        self._fed -= 1
        if can_trim_prompt_cache(self.cache):
            trim_prompt_cache(self.cache, 1)
            return
        # Rare enough to read everything anew.
        self.cache[:] = make_prompt_cache(self.model, self.max_kv_size)
        for _ in self._prefill(self._tokens, 0, len(self._tokens)):
            pass

    def _forced_steps(self, following: list[int]) -> Generator[Token, None, bool]:
        """Take what needs no sampling: forced text, put into ``following``, and a forced end.

        Returns whether that is all of the output.
        """
        if self.matcher is None:
            return False
        for token_id in self._forced_tokens():
            if self.guard is not None and not self.guard.accepts(token_id):
                # It has to be cut into fewer tokens than the tokenizer would.
                break
            self._take(token_id)
            following.append(token_id)
            is_last = self._count == self.max_tokens
            yield Token(token_id, "length" if is_last else None, is_forced=True)
            if is_last:
                return True
        if not _must_end(self.matcher.state):
            return False
        self._take(self.end_token_ids[0])
        yield Token(self.end_token_ids[0], "stop", is_forced=True)
        return True

    def _forced_tokens(self) -> tuple[int, ...]:
        if self.forced is None or self.matcher is None:
            return ()
        started = time.perf_counter()
        tokens = self.forced.after(self.matcher, self._tokens)
        self.timings.mask += time.perf_counter() - started
        return tokens

    def _may_force(self, allowed: npt.NDArray[np.bool_]) -> bool:
        """Whether one of the tokens that may come next leaves nothing to be sampled after it."""
        if self.matcher is None or np.count_nonzero(allowed) > _FEW_TOKENS:
            return False
        forms = self.matcher.vocabulary.token_bytes
        for token_id in np.flatnonzero(allowed).tolist():
            form = forms[token_id]
            if form is None or token_id in self.end_token_ids:
                continue
            state = self.matcher.state.follow(form)
            first = state.first_bytes
            if _must_end(state) or (not state.nullable and not first & (first - 1)):
                return True
        return False

    def _prefill(
        self, token_ids: Sequence[int], start: int, total: int
    ) -> Iterator[PromptProgress]:
        """Read tokens from a place on, evaluating after every few of them.

        The prompt's last token is left to the first step, which needs its logits.
        """
        yield PromptProgress(processed=start, total=total)
        stops = sorted(length for length in self.checkpoints if start < length <= len(token_ids))
        while start < len(token_ids):
            end = min([start + self.prefill_step_size, len(token_ids), *stops[:1]])
            self.model(mx.array(list(token_ids[start:end]))[None], cache=self.cache)
            mx.eval([layer.state for layer in self.cache])
            if self.quantize is not None:
                self.quantize(self.cache)
            mx.clear_cache()
            start = self._fed = end
            if stops[:1] == [end]:
                self.checkpoints[stops.pop(0)]()
            yield PromptProgress(processed=end, total=total)
        self._fed = len(token_ids)

    def _forward(self, token_ids: mx.array) -> mx.array:
        """Return the logits after the last of ``token_ids``, shape (1, vocabulary), unevaluated."""
        logits: mx.array = self.model(token_ids[None], cache=self.cache)
        self._fed += token_ids.size
        if self.quantize is not None:
            self.quantize(self.cache)
        return logits[:, -1, :]


def _must_end(state: Node) -> bool:
    """Whether a text is complete, and nothing can be added to it."""
    return state.nullable and not state.first_bytes
