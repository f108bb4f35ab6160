"""A text that is complete when its tokens are used up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from state_machines.budgets import step_budget
from state_machines.completion.completion import Completion
from state_machines.completion.plan import COMPLETE, Plan
from state_machines.errors import (
    GrammarBudgetError,
    MaxTokensTooSmallError,
    TokenRejectedError,
    UnwritableTextError,
)
from state_machines.grammar.node import EMPTY, Node
from state_machines.limits import LIMITS
from state_machines.matcher import Matcher

__all__ = ["Guard"]

Mask = npt.NDArray[np.bool_]

MARGIN = 48
"""Tokens more than are needed, from which on no mask is narrowed."""

FAR_OFF = 4096
"""Tokens that an answer takes at least, from which on the exact number is not asked for."""


class Guard:
    """Allows only tokens after which the text can be completed within ``max_tokens`` tokens.

    End tokens are not counted: a text of ``max_tokens`` tokens is complete without one. The guard
    takes the tokens in the matcher's stead::

        guard = Guard(machine.matcher(vocabulary), max_tokens=100)
        while True:
            token_id = choose(guard.mask(matcher.allowed_tokens()))
            if not guard.accepts(token_id):     # only far from the limit, and seldom
                token_id = choose(guard.mask(matcher.allowed_tokens(), exact=True))
            guard.advance(token_id)

    While more than ``margin`` tokens are left beyond those that are needed, a mask is handed back
    as it is; a token that begins something longer than all that is left is then rejected by
    :meth:`accepts`. With ``exact=True`` a mask is always narrowed.

    The guard always holds a plan that completes the text in the tokens that are left. The first
    plan may take ``LIMITS.plan_steps`` steps. During generation, planning is bounded to
    ``LIMITS.token_plan_steps`` steps a token: a token after which no plan is found in time is
    accepted only if it is the next one of the plan that the guard holds.

    Raises:
        MaxTokensTooSmallError: Nothing fits; names the least number of tokens that was found, see
            :meth:`Completion.shortest`, or that is proven to be too few.
        GrammarBudgetError: No plan was found in time, so nothing could be promised.
    """

    def __init__(
        self,
        matcher: Matcher,
        max_tokens: int,
        *,
        completion: Completion | None = None,
        margin: int = MARGIN,
    ) -> None:
        self.matcher = matcher
        self.total = max_tokens
        """The tokens that are left in all."""
        self.left = max_tokens
        """The tokens that may be used, all that are left or fewer; see :meth:`restrict`."""
        self._completion = completion or Completion.of(matcher.vocabulary)
        self._margin = margin
        with step_budget(LIMITS.plan_steps):
            self._way = self._first_way(max_tokens)
        self._looked: tuple[Node, int, int, Plan, Plan | None] | None = None

    def _first_way(self, max_tokens: int) -> Plan:
        state, completion = self.matcher.state, self._completion
        least = completion.least(state)
        if least > max(max_tokens, FAR_OFF):
            # To find out how many it takes would take very long.
            raise MaxTokensTooSmallError(
                f"the shortest output takes {least} tokens or more, and {max_tokens} are given",
                needed=least,
                given=max_tokens,
                is_exact=False,
                hint="Ask for less, or give more tokens.",
            )
        try:
            way = completion.way(state)
        except GrammarBudgetError as error:
            raise GrammarBudgetError(
                f"no way to complete the output was found within {error.budget:,} steps",
                budget=error.budget,
                hint="Simplify what must be written, or require less",
            ) from error
        if way.length <= max_tokens:
            return way
        # The search may take the steps that are left, and ends with the best that it has found.
        shortest = completion.shortest(state, at_most=max_tokens)
        if shortest.length > max_tokens:
            raise _too_small(shortest.length, max_tokens, shortest.is_exact)
        return shortest.plan

    @property
    def needed(self) -> int:
        """How many tokens are enough to complete the text; never more than are left."""
        return self._way.length

    @property
    def plan(self) -> tuple[int, ...]:
        """Tokens that complete the text, ``needed`` of them."""
        return self._way.tokens

    @property
    def is_tight(self) -> bool:
        """Whether masks are narrowed: little more is left than is needed."""
        return self.left - self.needed < self._margin

    def accepts(self, token_id: int) -> bool:
        """Whether the matcher takes a token and the text can still be completed in time."""
        matcher = self.matcher
        if matcher.is_finished:
            return False
        if token_id in matcher.vocabulary.end_token_ids:
            return matcher.is_accepting
        return self._after(token_id) is not None

    def advance(self, token_id: int) -> None:
        """Take a token. Whatever it raises, the guard and its matcher are unchanged then.

        Raises:
            TokenRejectedError: :meth:`accepts` says no.
            GrammarBudgetError: The grammar reads the text in too many ways.
        """
        matcher = self.matcher
        if matcher.is_finished or token_id in matcher.vocabulary.end_token_ids:
            matcher.advance(token_id)
            self._way = COMPLETE
            return
        way = self._after(token_id)
        if way is None:
            # The matcher's own reasons come first.
            matcher.copy().advance(token_id)
            raise TokenRejectedError(
                f"after token {token_id} the text could not be completed within "
                f"{self.left - 1} tokens",
                token_id=token_id,
            )
        matcher.advance(token_id)
        self.total -= 1
        self.left -= 1
        self._way = way

    def restrict(self, most: int | None) -> None:
        """Let the rest take so many tokens, or as few as it can; ``None``: all there are."""
        self.left = self.total if most is None else min(self.total, max(most, self.needed))

    def fits(self, state: Node) -> bool:
        """Whether a plan for a state was found that fits into the remaining tokens."""
        way = self._planned(state)
        return way is not None and way.length <= self.left

    def look_again(self) -> None:
        """Take note that the matcher's state was changed, to one that :meth:`fits`."""
        self._way = self._completion.way(self.matcher.state)

    def mask(self, allowed: Mask, *, exact: bool = False) -> Mask:
        """Return which of the allowed tokens keep the text within the tokens that are left.

        ``allowed`` is the matcher's mask: bool, shape (vocabulary size,). It is returned itself
        where nothing has to be left out, or nothing is looked at, see above.
        """
        if not (exact or self.is_tight):
            return allowed
        if self.left < 1:
            ends = np.zeros_like(allowed)
            ids = list(self.matcher.vocabulary.end_token_ids)
            ends[ids] = allowed[ids]
            return ends
        return self._within(allowed, self.left - 1)

    def planned(self) -> Mask:
        """Return the mask of the plan's next token, or of the end tokens if the text is complete.

        Each is allowed; the mask leaves out what else is. Bool, shape (vocabulary size,).
        """
        vocabulary = self.matcher.vocabulary
        mask = np.zeros(vocabulary.size, np.bool_)
        mask[[self.plan[0]] if self.needed else list(vocabulary.end_token_ids)] = True
        return mask

    def forced(self) -> int | None:
        """Return the token that must come now; ``None`` if several may.

        Asked where as many tokens are needed as are left; ``None`` elsewhere.
        """
        if not self.needed or self.needed < self.left:
            return None
        ids = np.flatnonzero(self.mask(self.matcher.allowed_tokens(), exact=True))
        return int(ids[0]) if len(ids) == 1 else None

    def closeness(self, allowed: Mask) -> npt.NDArray[np.intp]:
        """Return the ids of allowed tokens that bring the end nearer, by one token at least.

        Where the text is complete these are the end tokens. Ascending.
        """
        if not self.needed:
            ids = sorted(self.matcher.vocabulary.end_token_ids)
            return np.array([i for i in ids if allowed[i]], np.intp)
        return np.flatnonzero(self._within(allowed, self.needed - 1))

    def _within(self, allowed: Mask, most: int) -> Mask:
        """Return the allowed tokens after which ``most`` tokens are enough, the plan's included."""
        state, first = self.matcher.state, self._way.first
        narrowed = self._completion.within(state, allowed, most, steps=LIMITS.narrowing_steps)
        if first is not None:
            narrowed[first] = True
        return narrowed

    def _after(self, token_id: int) -> Plan | None:
        """Return a plan for the text after a token; ``None`` if the token is not accepted."""
        state, left, way = self.matcher.state, self.left, self._way
        looked = self._looked
        if looked is None or looked[0] is not state or looked[1:4] != (token_id, left, way):
            after = self._way_after(token_id)
            self._looked = looked = (state, token_id, left, way, after)
        return looked[4]

    def _way_after(self, token_id: int) -> Plan | None:
        vocabulary, way = self.matcher.vocabulary, self._way
        if self.left < 1 or not 0 <= token_id < vocabulary.size:
            return None
        form = vocabulary.token_bytes[token_id]
        if form is None:
            return None
        state = self._followed(token_id, form)
        if state is None or state is EMPTY:
            return None
        found = self._planned(state)
        if found is not None and found.length >= self.left:
            found = None
        # A plan whose tokens are known may be shorter than the one that is found without it.
        is_shorter = found is None or (way.is_listed and way.length <= found.length)
        return way.rest if is_shorter and token_id == way.first else found

    def _followed(self, token_id: int, form: bytes) -> Node | None:
        """Return the state after a token; ``None`` if that is not found in time."""
        try:
            with step_budget(LIMITS.token_advance_steps):
                try:
                    return self.matcher.state.word_derivative(form)
                except RecursionError:
                    # The matcher knows what to do about states that are nested too deeply.
                    twin = self.matcher.copy()
                    twin.advance(token_id)
                    return twin.state
        except (GrammarBudgetError, TokenRejectedError):
            return None

    def _planned(self, state: Node) -> Plan | None:
        """Return a plan for a state, if one is found in the time there is for a token."""
        try:
            return self._completion.way(state, steps=LIMITS.token_plan_steps)
        except (GrammarBudgetError, UnwritableTextError):
            return None


def _too_small(needed: int, given: int, is_exact: bool) -> MaxTokensTooSmallError:
    least = "takes" if is_exact else "that was found takes"
    return MaxTokensTooSmallError(
        f"the shortest output {least} {needed} tokens, and {given} are given",
        needed=needed,
        given=given,
        is_exact=is_exact,
        hint=f"Give max_tokens={needed} or more",
    )
