"""Keeps a text completable within ``max_tokens``.

**Invariant.** Before every token the guard holds a plan: allowed tokens that complete the text, no
more of them than are left.

* *It holds at the start*, or the guard is not constructed.
* *It is preserved.* A token is accepted only if the state after it has a plan that fits into the
  tokens left then, or if it is the first token of the plan, whose remainder is such a plan.
* *There is always an accepted token:* the first token of the plan, or an end token if the plan is
  empty, because the text is complete then.

So no step depends on how good a plan is: a longer plan only makes the guard bring the text to its
end earlier. And a token for which no plan is found in time may be refused without a dead end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from state_machines.budgets import step_budget
from state_machines.completion.completion import Completion
from state_machines.completion.texts import COMPLETE, Plan
from state_machines.errors import (
    GrammarBudgetError,
    MaxTokensTooSmallError,
    TokenRejectedError,
    UnwritableTextError,
)
from state_machines.grammar.node import Node
from state_machines.limits import LIMITS

if TYPE_CHECKING:
    from state_machines.explanation import TokenExplanation
    from state_machines.matcher import Matcher

Mask = npt.NDArray[np.bool_]

_After = tuple[Node | None, Plan]
"""The state after an accepted token (``None`` after an end token), and a plan for it."""

MARGIN = 48
"""Spare tokens from which on masks are not restricted."""

FAR_OFF = 4096
"""Lower bound on the tokens of an output above which the exact number is not searched for."""


class Guard:
    """Allows only tokens after which the text can be completed within ``max_tokens`` tokens.

    End tokens are not counted. The guard takes the tokens in place of the matcher::

        guard = Guard(machine.matcher(vocabulary), max_tokens=100)
        while True:
            token_id = choose(guard.mask(matcher.allowed_tokens()))
            if not guard.accepts(token_id):     # rare, and only far from the limit
                token_id = choose(guard.mask(matcher.allowed_tokens(), exact=True))
            guard.advance(token_id)

    While :data:`MARGIN` tokens or more are left beyond those needed, :meth:`mask` returns the mask
    unchanged. A token that begins something longer than what is left is then refused by
    :meth:`accepts`. With ``exact=True`` the mask is always restricted.

    The first plan may take ``LIMITS.plan_steps`` steps, a plan during generation
    ``LIMITS.token_plan_steps``. The first plan through a part, such as the arguments of a tool, can
    take more: all plans of a text share a reserve of ``LIMITS.plan_reserve_steps``.

    Args:
        matcher: The matcher of the text. Only the guard may advance it.
        max_tokens: Number of tokens that may still be generated.
        completion: Source of plans; by default the one of the matcher's vocabulary.

    Raises:
        MaxTokensTooSmallError: No text of the language fits.
        GrammarBudgetError: No plan was found in time.
    """

    def __init__(
        self,
        matcher: Matcher,
        max_tokens: int,
        *,
        completion: Completion | None = None,
    ) -> None:
        self.matcher = matcher
        self.total = max_tokens
        """Tokens that are left in all."""
        self.left = max_tokens
        """Tokens that may be used: ``total``, or fewer after :meth:`limit`."""
        self._completion = completion or matcher.completion
        # Steps that are left. Each copy counts its own: drafts and other answers take none.
        self._reserve = LIMITS.plan_reserve_steps
        with step_budget(LIMITS.plan_steps):
            self._plan = self._first_plan(max_tokens)
        self._checked: tuple[int, Node, _After | None] | None = None
        """The token that was asked about last, the state before it, and what follows it."""

    def _first_plan(self, max_tokens: int) -> Plan:
        state, completion = self.matcher.state, self._completion
        least = completion.lower_bound(state)
        if least > max(max_tokens, FAR_OFF):
            # Computing the exact number would take too long.
            raise MaxTokensTooSmallError(
                f"the shortest output takes at least {least} tokens; max_tokens is {max_tokens}",
                needed=least,
                given=max_tokens,
                is_exact=False,
                hint=f"Give max_tokens={least} or more, or require a shorter output",
            )
        try:
            plan = completion.plan(state)
        except GrammarBudgetError as error:
            raise GrammarBudgetError(
                f"no completion of the output was found within {error.budget:,} steps",
                budget=error.budget,
                hint="Simplify the schema or grammar, or require a shorter output",
            ) from error
        if plan.length <= max_tokens:
            return plan
        # The search uses the steps that are left, and returns the best plan that it has found.
        plan, is_exact = completion.shortest(state, at_most=max_tokens)
        if plan.length > max_tokens:
            shortest = "the shortest output" if is_exact else "the shortest output found"
            raise MaxTokensTooSmallError(
                f"{shortest} takes {plan.length} tokens; max_tokens is {max_tokens}",
                needed=plan.length,
                given=max_tokens,
                is_exact=is_exact,
                hint=f"Give max_tokens={plan.length} or more, or require a shorter output",
            )
        return plan

    def copy(self) -> Guard:
        """Return an independent guard in the same state, with a copy of the matcher."""
        # A fraction of the time of `copy.copy`: drafts copy a guard for each token.
        twin = Guard.__new__(Guard)
        twin.__dict__.update(self.__dict__)
        twin.matcher = self.matcher.copy()
        return twin

    @property
    def needed(self) -> int:
        """Length of the plan: tokens that are enough to complete the text; at most ``left``."""
        return self._plan.length

    @property
    def plan(self) -> Plan:
        """The plan that completes the text."""
        return self._plan

    @property
    def is_tight(self) -> bool:
        """Whether masks are restricted: fewer than :data:`MARGIN` tokens are spare."""
        return self.left - self.needed < MARGIN

    def accepts(self, token_id: int) -> bool:
        """Whether the matcher takes a token and the text can still be completed in time."""
        return self._checked_after(token_id) is not None

    def advance(self, token_id: int) -> None:
        """Take a token. If this raises, the guard and its matcher are unchanged.

        Raises:
            TokenRejectedError: The guard does not accept the token.
            GrammarBudgetError: The text is too ambiguous; see :meth:`Matcher.advance`.
        """
        after = self._checked_after(token_id)
        if after is None:
            # The matcher's own reasons come first.
            self.matcher.copy().advance(token_id)
            raise TokenRejectedError(
                f"after token {token_id} the text could not be completed within "
                f"{self.left - 1} tokens",
                token_id=token_id,
            )
        state, plan = after
        self.matcher.move(token_id, state)
        if state is not None:
            self.total -= 1
            self.left -= 1
        self._plan = plan
        self._checked = None

    def state_after(self, token_id: int) -> Node | None:
        """Return the state after a token; ``None`` if it is refused, or not found in time."""
        try:
            return self.matcher.state_after(token_id, steps=LIMITS.token_advance_steps)
        except (GrammarBudgetError, TokenRejectedError):
            return None

    def exceeds(self, state: Node, max_tokens: int) -> bool:
        """Whether the plan for a state takes more tokens; ``False`` if none is found in time."""
        plan = self._planned(state)
        return plan is not None and plan.length > max_tokens

    def explain(self, token_id: int) -> TokenExplanation:
        """Explain why a token is accepted, or why not; see :meth:`Matcher.explain`.

        A token that the grammar allows is refused if the text could not be completed within
        ``max_tokens`` after it.
        """
        # Deferred: few programs explain masks.
        from state_machines.explanation import refused  # noqa: PLC0415

        found = self.matcher.explain(token_id)
        if not found.is_allowed or self.accepts(token_id):
            return found
        state = self.state_after(token_id)
        plan = None if state is None else self._planned(state)
        needed = (
            "no completion was found in time"
            if plan is None
            else f"the text would take {plan.length} more tokens"
        )
        left = max(self.left - 1, 0)
        return refused(
            found,
            f"the grammar allows it, but {needed} after it, and only {left} are left",
            "Raise max_tokens",
        )

    def limit(self, max_tokens: int | None) -> None:
        """Bound the tokens left, but not below the plan; ``None`` removes the bound."""
        bound = self.total if max_tokens is None else max(max_tokens, self.needed)
        left = min(self.total, bound)
        if left != self.left:
            self.left, self._checked = left, None

    def fits(self, state: Node) -> bool:
        """Whether a plan for a state is found that fits into the tokens left.

        Where none is found in time, :meth:`accepts` refuses the tokens that lead there as well.
        """
        plan = self._planned(state)
        return plan is not None and plan.length <= self.left

    def replan(self) -> None:
        """Make the plan again, after the matcher was moved to a state that :meth:`fits`."""
        self._plan, self._checked = self._completion.plan(self.matcher.state), None

    def restrict(self, state: Node) -> None:
        """Restrict the language to a subset that :meth:`fits`; see :meth:`Matcher.restrict`.

        Raises:
            GrammarBudgetError: No plan was found in time. The guard is unchanged.
        """
        plan = self._completion.plan(state)
        self.matcher.restrict(state)
        self._plan, self._checked = plan, None

    def mask(self, allowed: Mask, *, exact: bool = False) -> Mask:
        """Return the allowed tokens that the guard accepts.

        Args:
            allowed: The matcher's mask: bool, shape (vocabulary size,).
            exact: Narrow the mask even far from the limit.

        Returns:
            A mask of the same shape; ``allowed`` itself if it is not restricted.
        """
        if not (exact or self.is_tight):
            return allowed
        if self.left < 1:
            ends = np.zeros_like(allowed)
            ids = list(self.matcher.vocabulary.end_token_ids)
            ends[ids] = allowed[ids]
            return ends
        if not self.is_tight and self._completion.keeps_all(
            self.matcher.state, allowed, self.left - 1
        ):
            return allowed
        restricted = self._completion.within(
            self.matcher.state, allowed, self.left - 1, steps=LIMITS.restriction_steps
        )
        first = self._plan.first
        if first is not None:
            restricted[first] = True
        return restricted

    def plan_mask(self) -> Mask:
        """Return a mask of the plan's first token, or of the end tokens if the text is complete.

        All its tokens are allowed. Bool, shape (vocabulary size,).
        """
        vocabulary = self.matcher.vocabulary
        mask = np.zeros(vocabulary.size, np.bool_)
        first = self._plan.first
        mask[list(vocabulary.end_token_ids) if first is None else first] = True
        return mask

    def _checked_after(self, token_id: int) -> _After | None:
        checked, state = self._checked, self.matcher.state
        if checked is None or checked[0] != token_id or checked[1] is not state:
            checked = self._checked = token_id, state, self._after(token_id)
        return checked[2]

    def _after(self, token_id: int) -> _After | None:
        """Return what follows a token; ``None`` if the token is not accepted."""
        matcher, plan, left = self.matcher, self._plan, self.left
        if matcher.state.nullable and token_id in matcher.vocabulary.end_token_ids:
            return None if matcher.is_finished else (None, COMPLETE)
        state: Node | None = None
        found: Plan | None = None
        try:
            if left > 0:
                state = matcher.state_after(token_id, steps=LIMITS.token_advance_steps)
            if state is not None:
                found = self._planned(state)
        except (GrammarBudgetError, TokenRejectedError):
            # No state: the token is refused. No plan: it is, unless it is the first of the plan.
            pass
        if state is None:
            return None
        if found is not None and found.length >= left:
            found = None
        # The rest of a searched plan can be shorter than the plan that is made for the state.
        is_shorter = found is None or (plan.length <= found.length and plan.listed is not None)
        if is_shorter and token_id == plan.first:
            found = plan.rest
        return None if found is None else (state, found)

    def _planned(self, state: Node) -> Plan | None:
        """Return a plan for a state; ``None`` if the search exceeds the budget and the reserve."""
        try:
            return self._completion.plan(state, steps=LIMITS.token_plan_steps)
        except UnwritableTextError:
            return None
        except GrammarBudgetError:
            left = self._reserve
        # The search continues with the results so far, which are cached.
        budget = step_budget(left)
        try:
            with budget:
                return self._completion.plan(state, steps=left)
        except (GrammarBudgetError, UnwritableTextError):
            return None
        finally:
            self._reserve = max(0, left - budget.steps_taken)
