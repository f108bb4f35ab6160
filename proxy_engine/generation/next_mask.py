"""The mask of a sequence's next token: grammar, token budget, lengths, and a drawn option."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import copy

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from state_machines import Matcher
from state_machines.budgets import step_budget
from state_machines.completion import Guard
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import Node

from .device_masks import SMALL_MASK_TOKENS, DeviceMasks
from .fast_forward import forces_after_any
from .sampler_schedule import end_boost
from .sequence_options import SequenceOptions

MASK_STEPS = 5_000
"""Step budget of one mask on the model thread, about 25 ms."""

SLOW_MASK_STEPS = 500
"""The same after a slow mask, since slow masks tend to follow each other."""

Mask = npt.NDArray[np.bool_]


class SlowMaskError(Exception):
    """The next mask is too slow for the model thread; see :meth:`NextMask.compute_slow`."""


class NextMask:
    """Computes the masks of one sequence.

    Args:
        options: Limits and end tokens.
        matcher: The grammar's matcher; ``None`` for unconstrained text.
        guard: Keeps the answer completable within ``max_tokens``.
        masks: Masks on the device.
        forces: Whether forced text is appended without sampling.

    Attributes:
        expects_fast_forward: Whether forced text is likely to follow the next token.
        follows_limit: Whether masks leave out the tokens that the guard refuses. Not before it has
            refused a token that was sampled: so it is known whether the limit has changed the text.
        closing_token: The token that brings a value that repeats nearer to its end.
        without_limit: The last mask with the tokens that the guard refuses, if it left any out.
            Only for weighted sequences, whose masks leave them out always.
    """

    def __init__(
        self,
        options: SequenceOptions,
        matcher: Matcher | None,
        guard: Guard | None,
        masks: DeviceMasks,
        *,
        forces: bool,
    ) -> None:
        self.expects_fast_forward = False
        self.follows_limit = False
        self.closing_token: int | None = None
        self.without_limit: Mask | None = None
        self._last: tuple[Node, Mask] | None = None
        self._options = options
        self._matcher = matcher
        self._guard = guard
        self._masks = masks
        self._forces = forces
        self._steps = MASK_STEPS
        self._planned: Mask | None = None
        self._scripted: deque[int] = deque()

    @property
    def is_scripted(self) -> bool:
        """Whether the next token is one of :meth:`script`, or the closing token."""
        return bool(self._scripted) or self.closing_token is not None

    def script(self, tokens: Sequence[int]) -> None:
        """Allow only these tokens next, one after the other, as far as they are accepted."""
        self._scripted.extend(tokens)

    def allowed(self, generated: int, size: int, *, exact: bool) -> Mask | None:
        """Return the mask of the next token, bool, shape (size,); ``None``: all are allowed.

        Args:
            generated: Tokens generated so far.
            size: Size of the vocabulary.
            exact: Allow only tokens that the guard accepts.

        Raises:
            SlowMaskError: The mask takes too long. The state is unchanged.
        """
        allowed = self._options.usable_tokens
        self.expects_fast_forward = False
        if self._matcher is not None:
            if not exact or self._last is None or self._last[0] is not self._matcher.state:
                self._last = self._matcher.state, self._in_time(self._matcher)
            allowed = self._last[1]
            self.expects_fast_forward = self._forces and self._may_force(self._matcher, allowed)
            if self._guard is not None:
                allowed = self._within_limit(self._guard, allowed, generated, exact=exact)
        if generated < self._options.min_tokens:
            allowed = self._without_end_tokens(allowed, size)
        closing = self.closing_token
        if allowed is not None and closing is not None and allowed[closing]:
            allowed = _only(allowed, closing)
        if allowed is not None and self._scripted:
            allowed = self._scripted_mask(allowed, exact=exact)
        return allowed

    def _within_limit(self, guard: Guard, allowed: Mask, generated: int, *, exact: bool) -> Mask:
        """Return the allowed tokens; where needed, without the tokens that the guard refuses."""
        self.without_limit = None
        if not self._options.weighs:
            is_narrowed = exact or self.follows_limit
            return guard.mask(allowed, exact=exact) if is_narrowed else allowed
        # A refused token costs a weighted sequence its weight.
        within = guard.mask(allowed, exact=exact or self._is_small(allowed))
        is_known = exact or self.follows_limit or self._scripted
        if not (is_known or within is allowed or np.array_equal(within, allowed)):
            self.without_limit = allowed
            if generated < self._options.min_tokens:
                self.without_limit = self._without_end_tokens(allowed, len(allowed))
        return within

    def compute_slow(self) -> None:
        """Compute the mask that was too slow for the model thread, so that it is known.

        If the mask exceeds the step budget of masks, the next token is that of the guard's plan,
        which is always allowed.

        Raises:
            GrammarBudgetError: The mask exceeds the step budget, and there is no guard.
        """
        if self._matcher is None:
            return
        try:
            self._matcher.allowed_tokens()
        except GrammarBudgetError:
            if self._guard is None:
                raise
            self.follow_plan()

    def follow_plan(self) -> None:
        """Allow only the next token of the guard's plan, next."""
        self._last = None
        if self._guard is not None:
            self._planned = self._guard.plan_mask()

    def end_boost(self, generated: int, allowed: Mask | None) -> tuple[mx.array, float] | None:
        """Return the tokens that are boosted and the boost; ``None``: no tokens are."""
        soft = self._options.soft_max_tokens
        if soft is None or generated < max(soft, self._options.min_tokens):
            return None
        if self._guard is None or allowed is None:
            nearer = np.array(sorted(self._options.end_token_ids))
        else:
            nearer = self._guard.closer_tokens(allowed)
        if not len(nearer):
            return None
        boost = end_boost(generated, soft, self._options.max_tokens)
        return mx.array(nearer.astype(np.int32)), boost

    def fork(self, matcher: Matcher | None, guard: Guard | None) -> NextMask:
        """Return a copy for a copy of the sequence."""
        twin = copy(self)
        twin._matcher, twin._guard = matcher, guard
        twin._scripted = self._scripted.copy()
        return twin

    def _in_time(self, matcher: Matcher) -> Mask:
        planned, self._planned = self._planned, None
        if planned is not None:
            return planned
        try:
            with step_budget(self._steps):
                allowed = matcher.allowed_tokens()
        except GrammarBudgetError:
            self._steps = SLOW_MASK_STEPS
            raise SlowMaskError from None
        self._steps = MASK_STEPS
        return allowed

    def _scripted_mask(self, allowed: Mask, *, exact: bool) -> Mask:
        """Return a mask of the next scripted token; if it is not accepted, the script ends."""
        token_id = self._scripted.popleft()
        if exact or not allowed[token_id]:
            self._scripted.clear()
            return allowed
        return _only(allowed, token_id)

    def _without_end_tokens(self, allowed: Mask | None, size: int) -> Mask:
        """Mask end tokens, unless nothing else is allowed."""
        others = np.ones(size, np.bool_) if allowed is None else allowed.copy()
        others[list(self._options.end_token_ids)] = False
        return others if allowed is None or others.any() else allowed

    def _may_force(self, matcher: Matcher, allowed: Mask) -> bool:
        """Whether forced text follows one of the allowed tokens: a hint for the next pass."""
        if not self._is_small(allowed):
            return False
        try:
            with step_budget(MASK_STEPS):
                return forces_after_any(matcher, allowed, self._options.end_token_ids)
        except GrammarBudgetError:
            return False

    def _is_small(self, allowed: Mask) -> bool:
        return self._masks.on_device(allowed).count <= SMALL_MASK_TOKENS


def _only(allowed: Mask, token_id: int) -> Mask:
    mask = np.zeros_like(allowed)
    mask[token_id] = True
    return mask
