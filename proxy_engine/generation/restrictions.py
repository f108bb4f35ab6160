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
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import numpy as np

from state_machines import Matcher
from state_machines.budgets import step_budget
from state_machines.completion import Guard
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import Node
from state_machines.repetition import RepetitionDetector
from state_machines.root import Part, RootMatcher, Text

from .sampling import DeviceMasks, Mask

MASK_STEPS = 5_000
"""Step budget of one mask on the model thread, about 25 ms."""

SLOW_MASK_STEPS = 500
"""Step budget directly after a slow mask: the next mask is likely to be slow as well."""

ADVANCE_STEPS = 20_000
"""Step budget for advancing by one token and planning the completion, about 0.1 s."""

_DEADLINE_RESERVE = 1.1
"""Factor by which future tokens may take longer than past ones."""

Limit: TypeAlias = Literal["max_tokens", "max_seconds"]


class SlowMaskError(Exception):
    """The next mask is too slow for the model thread; see :meth:`Constraint.compute_slow`."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a limit first changed an output, or a value that repeated was ended.

    Attributes:
        offset: Length of the output before it, in bytes; special tokens by their names.
        refused: The text that follows without the limit; empty if it is not known.
        reason: The limit.
    """

    offset: int
    refused: bytes
    reason: Literal[Limit, "repetition"]


class RestrictedText:
    """A text as its restrictions see it, and a record of what limits have changed.

    Args:
        end_token_ids: Tokens that end the text.
        part: The only part of an answer that is no composition.

    Attributes:
        end_token_ids: Tokens that end the text.
        grammar: The restriction by the grammar; ``None``: unconstrained text.
        matcher: The grammar's matcher.
        generated: Tokens taken so far.
        written: Length of the output so far, in bytes; special tokens by their names.
        cut: Where a limit first changed the output; ``None``: it has not.
        is_limited: Whether a limit has changed the output, rather than the end of a repetition.
    """

    def __init__(self, end_token_ids: tuple[int, ...], part: Part | None) -> None:
        self.end_token_ids = end_token_ids
        self.grammar: GuardedGrammar | None = None
        self.matcher: Matcher | None = None
        self.generated = 0
        self.written = 0
        self.cut: Cut | None = None
        self.is_limited = False
        self._part = part

    @property
    def part(self) -> Part | None:
        """The part of a composed answer that the next token most likely belongs to."""
        if isinstance(self.matcher, RootMatcher):
            return next(iter(self.matcher.parts), None)
        return self._part

    @property
    def part_name(self) -> str:
        """The name of :attr:`part`; empty if it has none."""
        return str(getattr(self.part, "name", ""))

    def cut_off(self, reason: Literal[Limit, "repetition"], refused: bytes = b"") -> None:
        """Record that the output is another from here on.

        Args:
            reason: The limit.
            refused: The text that follows without it, if it is known.
        """
        self.cut = Cut(self.written, refused, reason)
        self.is_limited = reason != "repetition"


class Restriction:
    """Restricts the tokens of a text, or ends it. This one does neither.

    ``text`` is always the constraint whose list it is in.
    """

    @property
    def is_decided(self) -> bool:
        """Whether it leaves one token that may come next."""
        return False

    def copy(self, text: RestrictedText) -> Self:
        """Return an independent restriction in the same state, for tokens that are drafted.

        One without a state returns itself.
        """
        return self

    def mask(self, text: RestrictedText, allowed: Mask | None, generated: int) -> Mask | None:
        """Return which tokens may come next. Repeatable: other tokens may be asked for instead.

        Args:
            text: The constraint.
            allowed: The tokens that the restrictions before this one leave: bool, shape
                (vocabulary,), not to be changed; ``None``: all.
            generated: Number of generated tokens in front of the next one.
        """
        return allowed

    def take(self, text: RestrictedText, token_id: int, form: bytes) -> None:
        """Take a token, sampled or forced.

        Args:
            text: The constraint.
            token_id: The token.
            form: Its text, where there is a grammar; special tokens by their names.
        """

    def end(self, text: RestrictedText) -> Limit | None:
        """Return the limit that ends the text behind the token taken last."""
        return None

    def _twin(self) -> Self:
        # A fraction of the time of `copy.copy`: drafts copy restrictions for each token.
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


class Deadline(Restriction):
    """A time by which the text should be complete.

    Args:
        at: The time, by the clock of ``time.perf_counter``.
    """

    def __init__(self, at: float) -> None:
        self._at = at
        # When the first token was there.
        self._first: float | None = None
        # Tokens that give the speed, where later ones are a draft; `None`: all.
        self._timed: int | None = None

    def copy(self, text: RestrictedText) -> Self:
        """Return a deadline of the same time. Drafted tokens do not count for the speed."""
        twin = self._twin()
        twin._timed = text.generated if self._timed is None else self._timed
        return twin

    def mask(self, text: RestrictedText, allowed: Mask | None, generated: int) -> Mask | None:
        """Bound the tokens left by the time left."""
        if text.grammar is not None:
            text.grammar.bound("max_seconds", self.tokens_left(generated))
        return allowed

    def end(self, text: RestrictedText) -> Limit | None:
        """End a complete text once the time is over."""
        may_end = text.matcher is None or text.matcher.is_accepting
        return "max_seconds" if may_end and time.perf_counter() >= self._at else None

    def tokens_left(self, generated: int) -> int | None:
        """Estimate how many tokens fit into the time left, from the speed so far.

        Args:
            generated: Number of generated tokens.

        Returns:
            ``None`` while the speed is unknown.
        """
        now, timed = time.perf_counter(), generated if self._timed is None else self._timed
        if self._first is None and timed:
            self._first = now
        elif self._first is not None and timed > 1:
            each = _DEADLINE_RESERVE * (now - self._first) / (timed - 1)
            left = math.floor((self._at - now) / each) if each > 0 else None
            return None if left is None else max(0, left - (generated - timed))
        return 0 if now >= self._at else None


class PartLimits(Restriction):
    """Limits of the tokens of parts. Free text ends at its limit, a structured part is completed.

    Args:
        limits: The maximum number of tokens by the name of a part.
        max_tokens: Maximum number of generated tokens.
        budgets: Names of free texts whose limit cuts no answer, since the answer follows them.
    """

    def __init__(
        self, limits: Mapping[str, int], max_tokens: int, *, budgets: Collection[str] = ()
    ) -> None:
        self._limits = limits
        self._budgets = budgets
        self._part: Part | None = None
        self._part_start = 0
        self._name = ""
        self._left_at_entry = max_tokens

    def copy(self, text: RestrictedText) -> Self:
        """Return limits in the same state."""
        return self._twin()

    def mask(self, text: RestrictedText, allowed: Mask | None, generated: int) -> Mask | None:
        """Bound the tokens left by the limit of the part that the next token belongs to.

        Tokens that are sampled again count once, and forced tokens at the start of a free text do
        not count.
        """
        part, name, grammar = text.part, text.part_name, text.grammar
        if grammar is None:
            return allowed
        limit = self._limits.get(name)
        if part is not self._part:
            self._part, self._part_start = part, generated
        if isinstance(part, Text):
            is_full = limit is not None and generated - self._part_start >= limit
            is_cut = is_full and grammar.end_texts() and name not in self._budgets
            if is_cut and not text.is_limited:
                text.cut_off("max_tokens")
            limit = None
        left = grammar.guard.total
        if self._name and name != self._name:
            self._left_at_entry = left
        self._name = name
        of_part = None if limit is None else limit - (self._left_at_entry - left)
        grammar.bound("max_tokens", of_part)
        return allowed


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

    def copy(self, text: RestrictedText) -> Self:
        """Return a restriction with a copy of the guard and its matcher."""
        twin = self._twin()
        twin.guard = self.guard.copy()
        twin.matcher = twin.guard.matcher
        twin._bounds = self._bounds.copy()
        return twin

    def mask(self, text: RestrictedText, allowed: Mask | None, generated: int) -> Mask:
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
        if self.is_exact or text.is_limited:
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

    def take(self, text: RestrictedText, token_id: int, form: bytes) -> None:
        """Advance the guard."""
        # A composition also attributes the token to its parts. A plain matcher only moves to the
        # state that the guard has computed, within the guard's own budget.
        if isinstance(self.matcher, RootMatcher):
            with step_budget(ADVANCE_STEPS):
                self.guard.advance(token_id)
        else:
            self.guard.advance(token_id)
        self.is_exact = False

    def follow_plan(self) -> None:
        """Allow only the first token of the guard's plan next."""
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


class MinTokens(Restriction):
    """Masks end tokens in the first tokens, unless nothing else is allowed.

    Args:
        min_tokens: Number of tokens before which an end token may not come.
        masks: Masks on the device.
        size: Size of the vocabulary.
    """

    def __init__(self, min_tokens: int, masks: DeviceMasks, size: int) -> None:
        self._min_tokens = min_tokens
        self._masks = masks
        self._size = size
        # The last mask, and the same without end tokens.
        self._reduced: tuple[Mask | None, Mask] | None = None

    def are_missing(self, text: RestrictedText) -> bool:
        """Whether the text has too few tokens to end."""
        return text.generated < self._min_tokens

    def mask(self, text: RestrictedText, allowed: Mask | None, generated: int) -> Mask | None:
        """Mask end tokens where the text may end and has too few tokens."""
        may_end = text.matcher is None or text.matcher.is_accepting
        if generated >= self._min_tokens or not may_end:
            return allowed
        known = self._reduced
        if known is None or known[0] is not allowed:
            reduced = self._masks.without(allowed, text.end_token_ids, self._size)
            known = self._reduced = allowed, reduced
        return known[1]


class RepetitionStop(Restriction):
    """Ends arrays and strings of JSON that repeat themselves and have no bound.

    Args:
        detector: Finds them.
    """

    def __init__(self, detector: RepetitionDetector) -> None:
        self._detector = detector

    @property
    def is_decided(self) -> bool:
        """Whether a value is being ended."""
        return self._detector.closing_token is not None

    def copy(self, text: RestrictedText) -> Self:
        """Return a restriction with a copy of the detector."""
        return type(self)(self._detector.copy())

    def mask(self, text: RestrictedText, allowed: Mask | None, generated: int) -> Mask | None:
        """Allow only the token that brings a value that repeats nearer to its end."""
        closing = self._detector.closing_token
        if allowed is None or closing is None or not allowed[closing]:
            return allowed
        return only(allowed, closing)

    def take(self, text: RestrictedText, token_id: int, form: bytes) -> None:
        """Look for repetition in the text with the token."""
        if text.grammar is not None:
            detector = self._detector
            detector.advance(form, text.grammar.matcher)
            if detector.unit is not None and text.cut is None:
                text.cut_off("repetition", detector.unit)


def only(allowed: Mask, token_id: int) -> Mask:
    """Return a mask of one token, of the shape of ``allowed``."""
    mask = np.zeros_like(allowed)
    mask[token_id] = True
    return mask
