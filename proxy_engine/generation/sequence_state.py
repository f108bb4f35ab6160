"""One text that is being written: what may come next, what was chosen, and when it is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from samplers import Sampler, apply_lean, apply_mask
from state_machines import Matcher
from state_machines.budgets import step_budget
from state_machines.completion import Guard
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import Node
from state_machines.root import Part, RootMatcher

from .device_masks import MANY_TOKENS, DeviceMasks
from .forcing import ForcedTokens
from .limits import Deadline, end_boost
from .sampled_token import SampledToken
from .tokens import Timings, Token

__all__ = ["SequenceOptions", "SequenceState", "SlowMaskError"]

MASK_STEPS = 5_000
"""Steps of one mask on the model thread, some 25 ms."""

SLOW_MASK_STEPS = 500
"""The same after a slow mask: the next one is mostly slow, too."""

TAKE_STEPS = 20_000
"""Steps for advancing by one token and planning the rest, some 0.1 s."""


class SlowMaskError(Exception):
    """The next mask is too slow for the model thread; see :meth:`SequenceState.compute_mask`."""


@dataclass(frozen=True, slots=True)
class SequenceOptions:
    """How one text is to be written.

    The first of ``end_token_ids`` is written where the end must come, and none of them before
    ``min_tokens`` tokens, if others may come. From ``soft_max_tokens`` on, tokens that bring the
    end nearer are made likelier. With ``logprobs``, so many likeliest tokens are told of. Without
    a matcher the text is free, but for ``usable_tokens``: a bool array of the width of the logits,
    which keeps out ids that are no tokens (``None``: all are).
    """

    end_token_ids: Sequence[int]
    max_tokens: int
    min_tokens: int = 0
    soft_max_tokens: int | None = None
    logprobs: int | None = None
    usable_tokens: npt.NDArray[np.bool_] | None = None


class SequenceState:
    """A text, as far as it is written. It knows no model: logits come in, tokens go out.

    ``next_sampler`` is asked before each mask for what chooses the token, given how many were
    written. ``guard`` sees to it that what the matcher admits is complete within ``max_tokens``.
    ``forced`` cuts text that must come next into tokens; ``None``: everything is sampled.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        options: SequenceOptions,
        *,
        matcher: Matcher | None,
        next_sampler: Callable[[int], Sampler],
        masks: DeviceMasks,
        guard: Guard | None = None,
        forced: ForcedTokens | None = None,
        deadline: Deadline | None = None,
        timings: Timings | None = None,
    ) -> None:
        self.tokens = list(prompt_ids)
        """Prompt and answer so far."""
        self.prompt_tokens = len(self.tokens)
        self.pending: list[int] = []
        """The last of the tokens, which the model has not been given yet."""
        self.logits: mx.array | None = None
        """What the next token is chosen from, shape (1, vocabulary); not evaluated."""
        self.finished = False
        self.expects_forced = False
        """Whether text that is forced is likely to follow the next token."""
        self.timings = timings or Timings()
        self.guard = guard
        self._options = options
        self._matcher = matcher
        self._next_sampler = next_sampler
        self._masks = masks
        self._forced = forced if options.logprobs is None else None
        self._deadline = deadline
        self._mask_steps = MASK_STEPS
        self._planned: npt.NDArray[np.bool_] | None = None

    @property
    def written(self) -> int:
        """How many tokens the answer has."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def fed(self) -> int:
        """How many of its tokens the model was given."""
        return len(self.tokens) - len(self.pending)

    @property
    def may_be_refused(self) -> bool:
        """Whether a token may be chosen that is not taken; see :meth:`accepts`."""
        return self.guard is not None

    @property
    def is_at_limit(self) -> bool:
        """Whether the next token is the last one in any case."""
        return self.written + 1 >= self._options.max_tokens

    def choose(self, logits: mx.array, *, exact: bool = False) -> SampledToken:
        """Describe the choice of the next token from its logits, shape (1, vocabulary).

        ``exact``: under a mask of those alone after which the text can be completed in time. Raises
        ``SlowMaskError`` where the mask takes long; the row is as before.
        """
        with self.timings.during("mask"):
            sampler = self._next_sampler(self.written)
            allowed = self._allowed(logits.shape[-1], exact=exact)
            lean = self._lean(allowed)
        with self.timings.during("sample"):
            leaned = logits if lean is None else apply_lean(logits, *lean)
            wants_all = self._options.logprobs is not None
            if allowed is None:
                chosen = sampler(leaned, self.tokens, prompt_tokens=self.prompt_tokens)
                masked = logits
            else:
                placed = self._masks.on_device(allowed)
                among = placed.ids
                # With probabilities, too: by another way the same seed would choose others.
                given = apply_mask(leaned, placed.mask) if among is None else leaned
                chosen = sampler(given, self.tokens, among, prompt_tokens=self.prompt_tokens)
                masked = apply_mask(logits, placed.mask) if wants_all else logits
            chosen = chosen.reshape(1)
            if self._options.logprobs is None:
                return SampledToken(chosen)
            return SampledToken.with_logprobs(chosen, logits, masked, self._options.logprobs)

    def compute_mask(self) -> None:
        """Compute the mask that was too slow for the model thread, within the masks' own bound.

        On any thread, while nothing else is asked of the row. ``choose`` then finds it. Where the
        mask takes more work than a mask may, the next token is that of the plan, which is allowed.

        Raises:
            GrammarBudgetError: The same, where there is no plan.
        """
        if self._matcher is None:
            return
        try:
            self._matcher.allowed_tokens()
        except GrammarBudgetError:
            if self.guard is None:
                raise
            self._planned = self.guard.planned()

    def accepts(self, token_id: int) -> bool:
        """Whether a token that was chosen can be taken; else it has to be chosen exactly.

        It cannot, where what it begins would take more tokens than there are.
        """
        return self.guard is None or self.guard.accepts(token_id)

    def take(self, choice: SampledToken, token_id: int) -> Token:
        """Take a token that was sampled; the model is yet to be given it.

        Raises:
            GrammarBudgetError: The state after the token takes too much work.
        """
        with step_budget(TAKE_STEPS):
            return self._take(token_id, is_forced=False, choice=choice)

    def take_forced(self) -> list[Token]:
        """Take what needs no sampling: forced text, and a forced end."""
        if self._matcher is None or self.finished:
            return []
        taken: list[Token] = []
        if self._forced is not None:
            for token_id in self._forced.after(self._matcher, self.tokens):
                if not self.accepts(token_id):
                    # It has to be cut into fewer tokens than the tokenizer would.
                    break
                taken.append(self._take(token_id, is_forced=True))
                if self.finished:
                    return taken
        if _must_end(self._matcher.state) and self._options.logprobs is None:
            taken.append(self._take(self._options.end_token_ids[0], is_forced=True))
        return taken

    def _take(self, token_id: int, *, is_forced: bool, choice: SampledToken | None = None) -> Token:
        part = self._part()
        self.tokens.append(token_id)
        self.pending.append(token_id)
        if self.guard is not None:
            self.guard.advance(token_id)
        elif self._matcher is not None:
            self._matcher.advance(token_id)
        is_end = token_id in self._options.end_token_ids
        is_last = not is_end and (
            self.written >= self._options.max_tokens or (self._is_late() and self._may_stop())
        )
        self.finished = is_end or is_last
        return Token(
            token_id,
            "stop" if is_end else "length" if is_last else None,
            is_forced,
            part,
            None if choice is None else choice.logprobs(),
        )

    def _part(self) -> Part | None:
        if isinstance(self._matcher, RootMatcher):
            return next(iter(self._matcher.parts), None)
        return None

    def _is_late(self) -> bool:
        return self._deadline is not None and self._deadline.is_over

    def _may_stop(self) -> bool:
        return self._matcher is None or self._matcher.is_accepting

    def _allowed(self, size: int, *, exact: bool) -> npt.NDArray[np.bool_] | None:
        """Return what may come next; ``None``: anything."""
        allowed = self._options.usable_tokens
        self.expects_forced = False
        if self._matcher is not None:
            allowed = self._mask_in_time(self._matcher)
            self.expects_forced = self._forced is not None and self._may_force(allowed)
            if self.guard is not None:
                allowed = self.guard.mask(allowed, exact=exact)
        if self.written < self._options.min_tokens:
            allowed = self._without_ends(allowed, size)
        return allowed

    def _mask_in_time(self, matcher: Matcher) -> npt.NDArray[np.bool_]:
        planned, self._planned = self._planned, None
        if planned is not None:
            return planned
        try:
            with step_budget(self._mask_steps):
                allowed = matcher.allowed_tokens()
        except GrammarBudgetError:
            self._mask_steps = SLOW_MASK_STEPS
            raise SlowMaskError from None
        self._mask_steps = MASK_STEPS
        return allowed

    def _without_ends(
        self, allowed: npt.NDArray[np.bool_] | None, size: int
    ) -> npt.NDArray[np.bool_]:
        """Return what may come if the text is not to end yet; all of it, if it must."""
        others = np.ones(size, np.bool_) if allowed is None else allowed.copy()
        others[list(self._options.end_token_ids)] = False
        return others if allowed is None or others.any() else allowed

    def _lean(self, allowed: npt.NDArray[np.bool_] | None) -> tuple[mx.array, float] | None:
        """Return which tokens are made likelier, and by how much; ``None``: none are."""
        soft = self._options.soft_max_tokens
        if soft is None or self.written < max(soft, self._options.min_tokens):
            return None
        if self.guard is None or allowed is None:
            nearer = np.array(sorted(self._options.end_token_ids))
        else:
            nearer = self.guard.closeness(allowed)
        if not len(nearer):
            return None
        lean = end_boost(self.written, soft, self._options.max_tokens)
        return mx.array(nearer.astype(np.int32)), lean

    def _may_force(self, allowed: npt.NDArray[np.bool_]) -> bool:
        """Whether one of the tokens that may come next leaves nothing to be sampled after it."""
        if self._matcher is None or self._masks.on_device(allowed).count > MANY_TOKENS:
            return False
        try:
            with step_budget(MASK_STEPS):
                return self._forces_after_any(self._matcher, allowed)
        except GrammarBudgetError:
            # No more than a hint for how the next pass is run.
            return False

    def _forces_after_any(self, matcher: Matcher, allowed: npt.NDArray[np.bool_]) -> bool:
        forms = matcher.vocabulary.token_bytes
        for token_id in np.flatnonzero(allowed).tolist():
            form = forms[token_id]
            if form is None or token_id in self._options.end_token_ids:
                continue
            state = matcher.state.word_derivative(form)
            first = state.first_bytes
            if _must_end(state) or (not state.nullable and not first & (first - 1)):
                return True
        return False


def _must_end(state: Node) -> bool:
    """Whether a text is complete, and nothing can be added to it."""
    return state.nullable and not state.first_bytes
