"""A text that is complete when its tokens are used up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from state_machines.completion.completion import Completion
from state_machines.errors import (
    BudgetTooSmallError,
    GrammarBudgetError,
    TokenRejectedError,
)
from state_machines.grammar.node import EMPTY, Node
from state_machines.matcher import Matcher

__all__ = ["Guard"]

Mask = npt.NDArray[np.bool_]

MARGIN = 48
"""Tokens more than are needed, from which on no mask is narrowed."""

FAR_OFF = 4096
"""Tokens that an answer takes at least, from which on the exact number is not asked for."""


class Guard:
    """Sees to it that what a matcher admits can be completed within ``max_tokens`` tokens.

    End tokens are not counted: a text of ``max_tokens`` tokens is complete without one. The guard
    takes the tokens in the matcher's stead::

        guard = Guard(machine.matcher(vocabulary), max_tokens=100)
        while True:
            token_id = choose(guard.mask(matcher.allowed_tokens()))
            if not guard.accepts(token_id):     # only far from the limit, and seldom
                token_id = choose(guard.mask(matcher.allowed_tokens(), exact=True))
            guard.advance(token_id)

    While more than ``margin`` tokens are left beyond those that are needed, a mask is handed back
    as it is; a token that begins something longer than all that is left is then told by
    :meth:`accepts`. With ``exact=True`` a mask is always narrowed.

    Grammars can be so involved that no way to their end is found in time; the guard then
    :attr:`is_lost`, and lets everything pass.

    Raises :class:`~state_machines.errors.BudgetTooSmallError` if nothing fits, with the least
    number of tokens that does; see :meth:`Completion.shortest`.
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
        self._plan: tuple[int, ...] | None = None
        self.is_lost = False
        """Whether no way to the end was found in time: from there on nothing is guarded."""
        least = self._completion.least(matcher.state)
        if least > max(max_tokens, FAR_OFF):
            # To find out how many it takes would take very long.
            raise BudgetTooSmallError(
                f"the shortest output takes {least} tokens or more, and {max_tokens} are given",
                needed=least,
                given=max_tokens,
                is_exact=False,
                hint="Ask for less, or give more tokens.",
            )
        self._needed = self._length(matcher.state)
        if self._needed > max_tokens:
            shortest = self._completion.shortest(matcher.state, at_most=max_tokens)
            if len(shortest.tokens) > max_tokens:
                raise _too_small(len(shortest.tokens), max_tokens, shortest.is_exact)
            self._plan = shortest.tokens
            self._needed = len(shortest.tokens)

    @property
    def needed(self) -> int:
        """How many tokens are enough to complete the text; never more than are left."""
        return self._needed

    @property
    def plan(self) -> tuple[int, ...]:
        """Tokens that complete the text, ``needed`` of them."""
        if self._plan is None:
            self._plan = self._completion.plan(self.matcher.state)
        return self._plan

    @property
    def is_tight(self) -> bool:
        """Whether masks are narrowed: little more is left than is needed."""
        return self.left - self._needed < self._margin

    def accepts(self, token_id: int) -> bool:
        """Whether the matcher takes a token and the text can still be completed in time."""
        matcher = self.matcher
        if matcher.is_finished:
            return False
        if token_id in matcher.vocabulary.end_token_ids:
            return matcher.is_accepting
        if self.left < 1 or not 0 <= token_id < matcher.vocabulary.size:
            return False
        form = matcher.vocabulary.token_bytes[token_id]
        state = EMPTY if form is None else matcher.state.follow(form)
        if state is EMPTY:
            return False
        if self.is_lost or self._length(state) < self.left:
            return True
        return self._needed > 0 and token_id == self.plan[0]

    def advance(self, token_id: int) -> None:
        """Take a token.

        Raises :class:`~state_machines.errors.TokenRejectedError` if :meth:`accepts` says no; the
        state is unchanged then.
        """
        matcher = self.matcher
        if not self.accepts(token_id):
            # The matcher's own reasons come first.
            matcher.copy().advance(token_id)
            raise TokenRejectedError(
                f"after token {token_id} the text could not be completed within "
                f"{self.left - 1} tokens",
                token_id=token_id,
            )
        plan, left = self._plan, self._needed - 1
        matcher.advance(token_id)
        if matcher.is_finished:
            self._plan, self._needed = (), 0
            return
        self.total -= 1
        self.left -= 1
        self._needed = 0 if self.is_lost else self._length(matcher.state)
        if plan and plan[0] == token_id and left < self._needed:
            self._plan, self._needed = plan[1:], left
        else:
            self._plan = None

    def restrict(self, most: int | None) -> None:
        """Let the rest take so many tokens, or as few as it can; ``None``: all there are."""
        self.left = self.total if most is None else min(self.total, max(most, self._needed))

    def fits(self, state: Node) -> bool:
        """Whether what a state leaves to be written fits into the tokens that are left."""
        return self.is_lost or self._length(state) <= self.left

    def look_again(self) -> None:
        """Take note that the matcher's state was changed, to one that is part of what it was."""
        self._plan = None
        self._needed = 0 if self.is_lost else self._length(self.matcher.state)

    def mask(self, allowed: Mask, *, exact: bool = False) -> Mask:
        """Return which of the allowed tokens keep the text within the tokens that are left.

        ``allowed`` is the matcher's mask: bool, shape (vocabulary size,). It is returned itself
        where nothing has to be left out, or nothing is looked at, see above.
        """
        if self.is_lost or not (exact or self.is_tight):
            return allowed
        if self.left < 1:
            ends = np.zeros_like(allowed)
            ids = list(self.matcher.vocabulary.end_token_ids)
            ends[ids] = allowed[ids]
            return ends
        narrowed = self._completion.within(self.matcher.state, allowed, self.left - 1)
        if self._needed:
            narrowed[self.plan[0]] = True
        return narrowed

    def forced(self) -> int | None:
        """Return the token that must come now; ``None`` if several may.

        Asked where as many tokens are needed as are left; ``None`` elsewhere.
        """
        if not self._needed or self._needed < self.left:
            return None
        ids = np.flatnonzero(self.mask(self.matcher.allowed_tokens(), exact=True))
        return int(ids[0]) if len(ids) == 1 else None

    def closeness(self, allowed: Mask) -> npt.NDArray[np.intp]:
        """Return the ids of allowed tokens that bring the end nearer, by one token at least.

        Where the text is complete these are the end tokens. Ascending.
        """
        if not self._needed:
            ids = sorted(self.matcher.vocabulary.end_token_ids)
            return np.array([i for i in ids if allowed[i]], np.intp)
        nearer = self._completion.within(self.matcher.state, allowed, self._needed - 1)
        nearer[self.plan[0]] = True
        return np.flatnonzero(nearer)

    def _length(self, state: Node) -> int:
        try:
            return self._completion.length(state)
        except GrammarBudgetError:
            self.is_lost = True
            return 0


def _too_small(needed: int, given: int, is_exact: bool) -> BudgetTooSmallError:
    least = "takes" if is_exact else "that was found takes"
    return BudgetTooSmallError(
        f"the shortest output {least} {needed} tokens, and {given} are given",
        needed=needed,
        given=given,
        is_exact=is_exact,
        hint=f"Give max_tokens={needed} or more",
    )
