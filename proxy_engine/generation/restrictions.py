"""Restrictions of a sequence: each masks the next token, takes the tokens, and may end the text.

They are asked in the order of the list, each about the tokens that those before it leave: bounds of
the tokens left (:class:`Deadline`, :class:`PartLimits`), what is written (:class:`GuardedGrammar`),
and what is left out of it (:class:`MinTokens`, :class:`RepetitionStop`, :class:`Script`).

Two hold a plan of the next tokens, and this is why the grammar comes before the script:

* The plan of the grammar's guard completes the text within the tokens left, whatever comes next. So
  one of its tokens is always allowed.
* The plan of the script is the text that comes next. Whether it fits, it does not know.

So a token of the script comes only if the grammar leaves it. Otherwise the script ends, and the
text is completed without it. The other way round, the script would prescribe a token that the guard
refuses, and nothing could come next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import numpy as np

from state_machines import Matcher, Vocabulary
from state_machines.budgets import step_budget
from state_machines.completion import Guard
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import Node
from state_machines.root import RootMatcher

from .device_masks import Mask
from .fast_forward import MASK_STEPS, FastForward, must_end

if TYPE_CHECKING:
    from .constraint import Constraint

SLOW_MASK_STEPS = 500
"""Step budget of a mask after a slow one, since slow masks tend to follow each other."""

ADVANCE_STEPS = 20_000
"""Step budget for advancing by one token and planning the completion, about 0.1 s."""

Limit: TypeAlias = Literal["max_tokens", "max_seconds"]


class SlowMaskError(Exception):
    """The next mask is too slow for the model thread; see :meth:`Constraint.compute_slow`."""


class Restriction:
    """Restricts the tokens of a text, or ends it. This one does neither.

    ``text`` is always the constraint whose list it is in.

    """

    @property
    def is_decided(self) -> bool:
        """Whether it leaves one token that may come next."""
        return False

    def copy(self, text: Constraint) -> Self:
        """Return an independent restriction in the same state, for tokens that are drafted.

        One without a state returns itself.
        """
        return self

    def mask(self, text: Constraint, allowed: Mask | None, generated: int) -> Mask | None:
        """Return which tokens may come next. Repeatable: other tokens may be asked for instead.

        Args:
            text: The constraint.
            allowed: The tokens that the restrictions before this one leave: bool, shape
                (vocabulary,), not to be changed; ``None``: all.
            generated: Number of generated tokens in front of the next one.
        """
        return allowed

    def take(self, text: Constraint, token_id: int, form: bytes) -> None:
        """Take a token, sampled or forced.

        Args:
            text: The constraint.
            token_id: The token.
            form: Its text, where there is a grammar; special tokens by their names.
        """

    def end(self, text: Constraint) -> Limit | None:
        """Return the limit that ends the text behind the token taken last."""
        return None

    def _twin(self) -> Self:
        # A fraction of the time of `copy.copy`: drafts copy restrictions for each token.
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


class GuardedGrammar(Restriction):
    """The grammar, kept completable within the tokens left.

    Masks leave out the tokens that the guard refuses once a limit has changed the text. Not before
    it has refused a token that was sampled: so it is known whether the limit has changed it.

    Args:
        guard: Takes the tokens.

    Attributes:
        guard: Takes the tokens.
        matcher: Its matcher.
        is_exact: Whether masks leave out these tokens until the next one is taken.
        masked: The last state whose mask was computed, with its mask.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.matcher: Matcher = guard.matcher
        self.is_exact = False
        self.masked: tuple[Node, Mask] | None = None
        self._steps = MASK_STEPS
        self._planned: Mask | None = None
        self._bounds: dict[Limit, float] = {}

    def copy(self, text: Constraint) -> Self:
        """Return a restriction with a copy of the guard and its matcher."""
        twin = self._twin()
        twin.guard = self.guard.copy()
        twin.matcher = twin.guard.matcher
        twin._bounds = self._bounds.copy()
        return twin

    def mask(self, text: Constraint, allowed: Mask | None, generated: int) -> Mask:
        """Return the grammar's mask, without what the guard refuses if that is to be left out."""
        state, masked, planned = self.matcher.state, self.masked, self._planned
        if planned is not None:
            self._planned = self.masked = None
            own = planned
        elif masked is not None and masked[0] is state:
            own = masked[1]
        else:
            own = self.compute()
            self.masked = state, own
        if self.is_exact or (text.cut is not None and text.is_limited):
            return self.guard.mask(own, exact=self.is_exact)
        return own

    def compute(self) -> Mask:
        """Return the grammar's own mask.

        Raises:
            SlowMaskError: It takes too long. The state is unchanged.
        """
        try:
            allowed = self.matcher.allowed_tokens(steps=self._steps)
        except GrammarBudgetError:
            self._steps = SLOW_MASK_STEPS
            raise SlowMaskError from None
        self._steps = MASK_STEPS
        return allowed

    def compute_slow(self) -> None:
        """Compute the mask that was too slow; see :meth:`Constraint.compute_slow`."""
        try:
            self.matcher.allowed_tokens()
        except GrammarBudgetError:
            self.follow_plan()

    def take(self, text: Constraint, token_id: int, form: bytes) -> None:
        """Advance the guard."""
        if isinstance(self.matcher, RootMatcher):
            with step_budget(ADVANCE_STEPS):
                self.guard.advance(token_id)
        else:
            self.guard.advance(token_id)
        self.is_exact = False

    def follow_plan(self) -> None:
        """Let the next mask be that of the guard's plan."""
        self._planned, self.is_exact = self.guard.plan_mask(), False

    def bound(self, limit: Limit, tokens: int | None) -> None:
        """Bound the tokens left by a limit, until it bounds them again; ``None``: it does not."""
        self._bounds[limit] = math.inf if tokens is None else tokens
        least = min(self._bounds.values())
        self.guard.limit(None if least == math.inf else int(least))

    def exceeded_limit(self, state: Node, used: int) -> Limit | None:
        """Return the limit that a text through a state exceeds, if it does.

        Args:
            state: A state behind the next tokens.
            used: The number of these tokens.
        """
        guard, bounds = self.guard, self._bounds
        if not guard.exceeds(state, guard.left - used):
            return None
        in_time = bounds.get("max_seconds", math.inf)
        is_by_time = in_time < math.inf and in_time <= bounds.get("max_tokens", math.inf)
        is_late = is_by_time and not guard.exceeds(state, guard.total - used)
        return "max_seconds" if is_late else "max_tokens"

    def end_texts(self) -> bool:
        """End free text of the answer, unless what follows it would not fit into the tokens left.

        Returns:
            Whether it could go on.
        """
        matcher = self.matcher
        if not isinstance(matcher, RootMatcher):
            return False
        ended = matcher.copy()
        ended.end_texts()
        if not self.guard.fits(ended.state):
            return False
        could_go_on = ended.state is not matcher.state
        matcher.end_texts()
        self.guard.replan()
        return could_go_on


class Script(Restriction):
    """Tokens that are known before they are sampled: forced text, and an option that was drawn.

    They are not sampled, or sampled under masks of one token.

    Args:
        fast_forward: Tokenizes forced text; ``None``: its tokens are sampled.
        samples_end: Whether a forced end is sampled, too.
    """

    def __init__(
        self, fast_forward: FastForward | None = None, *, samples_end: bool = False
    ) -> None:
        self._fast_forward = fast_forward
        self._samples_end = samples_end
        self._tokens: Sequence[int] = ()

    @property
    def is_decided(self) -> bool:
        """Whether a token is to be sampled under a mask of one token."""
        return bool(self._tokens)

    def copy(self, text: Constraint) -> Self:
        """Return a script in the same state."""
        return self._twin() if self._tokens else self

    def write(self, tokens: Sequence[int]) -> None:
        """Let tokens follow each other whose text the grammar forces, if they are sampled."""
        if self._fast_forward is None:
            self._tokens = tokens

    def mask(self, text: Constraint, allowed: Mask | None, generated: int) -> Mask | None:
        """Allow the next token of the script alone, unless it is refused."""
        if allowed is None or not self._tokens or not allowed[self._tokens[0]]:
            return allowed
        return only(allowed, self._tokens[0])

    def take(self, text: Constraint, token_id: int, form: bytes) -> None:
        """Go on behind the token; another one than the script's ends it."""
        if self._tokens:
            self._tokens = self._tokens[1:] if token_id == self._tokens[0] else ()

    def forced_tokens(self, text: Constraint, tokens: Sequence[int]) -> Iterator[int]:
        """Iterate over the tokens that need no sampling; see :meth:`Constraint.forced_tokens`."""
        grammar = text.grammar
        if grammar is None:
            return
        if self._fast_forward is not None:
            for token_id in self._fast_forward.tokens(grammar.matcher, tokens):
                if not grammar.guard.accepts(token_id):
                    # The text needs a tokenization with fewer tokens than the tokenizer's.
                    break
                yield token_id
        matcher = grammar.matcher
        if not self._samples_end and must_end(matcher.state) and not matcher.is_finished:
            yield text.end_token_ids[0]

    def expects_text(self, text: Constraint) -> bool:
        """Whether forced text is likely to follow the next token, whose mask is small."""
        masked = None if text.grammar is None else text.grammar.masked
        if self._fast_forward is None or masked is None:
            return False
        return self._fast_forward.may_follow(*masked)


def only(allowed: Mask, token_id: int) -> Mask:
    """Return a mask of one token, of the shape of ``allowed``."""
    mask = np.zeros_like(allowed)
    mask[token_id] = True
    return mask


def plain_form(vocabulary: Vocabulary, token_id: int) -> bytes:
    """Return the text of a token; special tokens by their names."""
    return (vocabulary.token_bytes[token_id] or b"").replace(Vocabulary.SPECIAL_MARK, b"")
