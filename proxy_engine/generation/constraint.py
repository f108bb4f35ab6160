"""The constraint of a sequence: its grammar, its limits, and the mask of the next token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from state_machines import Matcher, Vocabulary
from state_machines.budgets import step_budget
from state_machines.completion import Guard
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.finite_choices import ChoiceOption, finite_choice
from state_machines.grammar.node import Node
from state_machines.repetition import RepetitionDetector
from state_machines.root import Part, RootMatcher

from .device_masks import SMALL_MASK_TOKENS, DeviceMasks, Mask
from .fast_forward import MASK_STEPS, FastForward, must_end
from .limits import PartLimits, SequenceOptions
from .tokens import Cut, TextEnd

SLOW_MASK_STEPS = 500
"""The same after a slow mask, since slow masks tend to follow each other."""

ADVANCE_STEPS = 20_000
"""Step budget for advancing by one token and planning the completion, about 0.1 s."""


class SlowMaskError(Exception):
    """The next mask is too slow for the model thread; see :meth:`Constraint.compute_slow`."""


class _Refused(NamedTuple):
    """What an output would continue with, had a limit not refused a token.

    Attributes:
        text: The text of the token, as far as it is not written, and what the grammar forces
            behind it.
        length: The length of the token's text in it.
        earlier: The cut before the token.
    """

    text: bytes
    length: int
    earlier: Cut | None


class Constraint:
    """The grammar and the limits of one sequence: a function of its tokens, and of time.

    :meth:`copy` returns an independent one in the same state.

    Args:
        options: Limits and end tokens.
        masks: Masks on the device.
        limits: Limits of parts and of time.
        guard: The grammar's matcher, kept completable within the limits; ``None`` for unconstrained
            text.
        part: The only part of an answer that is no composition.
        fast_forward: Tokenizes forced text; ``None``: every token is sampled.

    Attributes:
        guard: Takes the tokens.
        matcher: The grammar's matcher.
        has_grammar: Whether there is one. Without it, no token is refused or forced, and no mask
            takes time.
        options: Limits and end tokens.
        generated: Tokens taken so far.
        written: Length of the output so far, in bytes; special tokens by their names.
        forced_text: The text at the end of the output whose tokens had no alternative.
        cut: Where a limit first changed the output; ``None``: it has not.
    """

    def __init__(
        self,
        options: SequenceOptions,
        masks: DeviceMasks,
        limits: PartLimits,
        *,
        guard: Guard | None = None,
        part: Part | None = None,
        fast_forward: FastForward | None = None,
    ) -> None:
        self.options = options
        self.guard = guard
        self.has_grammar = guard is not None
        self.matcher: Matcher | None = None if guard is None else guard.matcher
        self.generated = 0
        self.written = 0
        self.forced_text = b""
        self.cut: Cut | None = None
        self._masks = masks
        self._limits = limits
        self._only_part = part
        self._fast_forward = None if options.samples_all else fast_forward
        # Masks leave out the tokens that the guard refuses. Not before it has refused a token that
        # was sampled: so it is known whether the limit has changed the text.
        self._follows_limit = False
        self._refused: _Refused | None = None
        self._last: tuple[Node, Mask] | None = None
        self._steps = MASK_STEPS
        self._planned: Mask | None = None
        self._script: tuple[int, ...] = ()
        self._repetition: RepetitionDetector | None = None
        if options.stop_repetition and self.matcher is not None:
            self._repetition = RepetitionDetector(self.matcher.vocabulary)

    def copy(self) -> Constraint:
        """Return an independent constraint in the same state."""
        # A fraction of the time of `copy.copy`: drafts copy a constraint for each token.
        twin = Constraint.__new__(Constraint)
        twin.__dict__.update(self.__dict__)
        twin._limits = self._limits.copy()
        if self.guard is not None:
            twin.guard = self.guard.copy()
            twin.matcher = twin.guard.matcher
        if self._repetition is not None:
            twin._repetition = self._repetition.copy()
        return twin

    def draft(self) -> Constraint:
        """Return a copy for tokens that are drafted: they do not count for the speed."""
        twin = self.copy()
        if twin._limits.timed_tokens is None:
            twin._limits.timed_tokens = self.generated
        return twin

    @property
    def part(self) -> Part | None:
        """The part of a composed answer that the next token most likely belongs to."""
        if isinstance(self.matcher, RootMatcher):
            return next(iter(self.matcher.parts), None)
        return self._only_part

    @property
    def part_name(self) -> str:
        """The name of :attr:`part`; empty if it has none."""
        return str(getattr(self.part, "name", ""))

    @property
    def temperature(self) -> float | None:
        """The temperature that a rule of the grammar gives the next token."""
        matcher = self.matcher
        return None if matcher is None or not matcher.temperatures else matcher.temperature

    @property
    def expects_fast_forward(self) -> bool:
        """Whether forced text is likely to follow the next token, by its mask."""
        if self._fast_forward is None or self._last is None or not self._is_small(self._last[1]):
            return False
        return self._fast_forward.may_follow(*self._last)

    @property
    def is_limited(self) -> bool:
        """Whether a limit has changed the output."""
        return self.cut is not None and self.cut.reason != "repetition"

    @property
    def is_scripted(self) -> bool:
        """Whether the next token is one of :meth:`restrict`, or brings a value that repeats nearer
        to its end.
        """
        if self._repetition is not None and self._repetition.closing_token is not None:
            return True
        return bool(self._script)

    @property
    def has_choice(self) -> bool:
        """Whether a finite choice comes next whose options have a distribution.

        Not while end tokens are masked: that distribution is defined for tokens only.
        """
        matcher = self.matcher
        if matcher is None or matcher.is_finished or self.is_scripted or self.missing_tokens:
            return False
        return finite_choice(matcher.state) is not None

    def begin_token(self) -> None:
        """Set the limits of the next token, before :meth:`accepts`; :meth:`mask` does it, too."""
        limits = self._limits
        ends_text = limits.has_any and limits.apply(self.part, self.generated, self.guard)
        if ends_text and not self.is_limited:
            self._cut(b"", is_late=False)

    # Masks.

    @property
    def missing_tokens(self) -> int:
        """Tokens before which end tokens are masked."""
        return max(0, self.options.min_tokens - self.generated)

    def mask(self, size: int, *, exact: bool = False, unread: int = 0) -> Mask | None:
        """Return the mask of the next token, bool, shape (size,); ``None``: all are allowed.

        Args:
            size: Size of the vocabulary.
            exact: Allow only tokens that :meth:`accepts` accepts.
            unread: Tokens in front of it that are not taken yet. Only without a grammar.

        Raises:
            SlowMaskError: The mask takes too long. The state is unchanged.
        """
        if self._limits.has_any:
            self.begin_token()
        allowed = self.options.usable_tokens
        if self.matcher is not None and self.guard is not None:
            if not exact or self._last is None or self._last[0] is not self.matcher.state:
                self._last = self.matcher.state, self._in_time(self.matcher)
            allowed = self._last[1]
            if exact or self._follows_limit:
                allowed = self.guard.mask(allowed, exact=exact)
        is_complete = self.matcher is None or self.matcher.is_accepting
        if is_complete and self.generated + unread < self.options.min_tokens:
            allowed = self._without_end_tokens(allowed, size)
        if self._repetition is not None and allowed is not None:
            closing = self._repetition.closing_token
            if closing is not None and allowed[closing]:
                allowed = _only(allowed, closing)
        if allowed is not None and self._script:
            allowed = self._scripted(allowed, exact=exact)
        return allowed

    def compute_slow(self) -> None:
        """Compute the mask that was too slow for the model thread, so that :meth:`mask` finds it.

        If it exceeds the step budget of masks, the next token is that of the guard's plan, which is
        always allowed. Callable on any thread while the sequence is not used otherwise.
        """
        if self.matcher is None:
            return
        try:
            self.matcher.allowed_tokens()
        except GrammarBudgetError:
            self.follow_plan()

    def follow_plan(self) -> None:
        """Let the next token be that of the completion plan, which is always accepted."""
        self._last = None
        if self.guard is not None:
            self._planned = self.guard.plan_mask()

    # Tokens.

    def accepts(self, token_id: int) -> bool:
        """Whether the text can still be completed in time after a token that the mask allows."""
        return self.guard is None or self.guard.accepts(token_id)

    def is_usable(self, token_id: int, size: int) -> bool:
        """Whether unconstrained text may contain a token; grammars check their own.

        Args:
            token_id: The token.
            size: Size of the vocabulary.
        """
        usable = self.options.usable_tokens
        return 0 <= token_id < size and (usable is None or bool(usable[token_id]))

    def advance(self, token_id: int, *, has_alternatives: bool) -> TextEnd | None:
        """Advance by a token.

        Args:
            token_id: The token.
            has_alternatives: Whether it had alternatives.

        Returns:
            Why the sequence ends with the token; ``None``: it does not. Between turns of one
            answer, end tokens do not end it.

        Raises:
            GrammarBudgetError: The state after the token exceeds the step budget.
        """
        if self.guard is not None:
            self._advance(self.guard, token_id, has_alternatives=has_alternatives)
        self.generated += 1
        matcher, limits = self.matcher, self._limits
        if token_id in self.options.end_token_ids and (matcher is None or matcher.is_finished):
            return "stop"
        is_full = self.generated >= self.options.max_tokens
        is_late = limits.has_any and limits.is_late and (matcher is None or matcher.is_accepting)
        if not (is_full or is_late):
            return None
        if not (self.is_limited or (matcher is not None and must_end(matcher.state))):
            self._cut(b"", is_late=not is_full)
        return "length"

    def forced_tokens(self, tokens: Sequence[int]) -> Iterator[int]:
        """Iterate over the tokens that need no sampling: forced text, and a forced end.

        Each has to be taken before the next one.

        Args:
            tokens: All tokens of the sequence so far.
        """
        matcher = self.matcher
        if matcher is None:
            return
        if self._fast_forward is not None:
            for token_id in self._fast_forward.tokens(matcher, tokens):
                if not self.accepts(token_id):
                    # The text needs a tokenization with fewer tokens than the tokenizer's.
                    break
                yield token_id
        if must_end(matcher.state) and not (matcher.is_finished or self.options.samples_all):
            yield self.options.end_token_ids[0]

    def restrict(self, state: Node, tokens: Sequence[int]) -> None:
        """Restrict the grammar to an option that was drawn.

        If every token is sampled, the option's tokens are the only ones that :meth:`mask` allows
        next, one after the other, as far as they are accepted.

        Args:
            state: The option.
            tokens: Its tokens.
        """
        if self.guard is not None:
            with step_budget(ADVANCE_STEPS):
                self.guard.restrict(state)
        if self._fast_forward is None:
            self._script = tuple(tokens)

    # Tokens that a limit refuses.

    def refuse(self, token_id: int) -> None:
        """Record a sampled token for which a limit leaves too few tokens.

        The limit has changed nothing if other tokens spell the same text, and text that the grammar
        forces behind it.
        """
        guard, matcher = self.guard, self.matcher
        if self.is_limited or guard is None or matcher is None:
            return
        state = guard.state_after(token_id)
        if state is None:
            return
        earlier, form = self.cut, _written(matcher.vocabulary.token_bytes[token_id])
        self._refuse(guard, state, 1, form)
        if self.is_limited:
            after = matcher.copy()
            with suppress(GrammarBudgetError), step_budget(ADVANCE_STEPS):
                after.advance(token_id)
                self._refused = _Refused(form + after.forced_bytes(), len(form), earlier)

    def refuse_option(self, option: ChoiceOption) -> None:
        """Record that an option would be drawn if it did not exceed a limit."""
        if self.guard is not None:
            self._refuse(self.guard, option.state, 0, option.text)

    def _refuse(self, guard: Guard, state: Node, used: int, refused: bytes) -> None:
        """Record that a limit refuses a text, if it does.

        Args:
            guard: The guard.
            state: A state behind the next tokens.
            used: The number of these tokens.
            refused: The text.
        """
        if guard.exceeds(state, guard.left - used):
            is_late = self._limits.is_bound_by_time and not guard.exceeds(state, guard.total - used)
            self._cut(_written(refused), is_late=is_late)

    def _cut(self, refused: bytes, *, is_late: bool) -> None:
        self.cut = Cut(self.written, refused, "max_seconds" if is_late else "max_tokens")
        self._follows_limit = True

    def _advance(self, guard: Guard, token_id: int, *, has_alternatives: bool) -> None:
        written = _written(guard.matcher.vocabulary.token_bytes[token_id])
        guard.advance(token_id)
        self.written += len(written)
        if self._refused is not None:
            self._compare(self._refused, written)
        self.forced_text = b"" if has_alternatives else self.forced_text + written
        if self._repetition is not None:
            self._repetition.advance(written, guard.matcher)
            if self.cut is None and self._repetition.unit is not None:
                self.cut = Cut(self.written, self._repetition.unit, "repetition")

    def _compare(self, refused: _Refused, written: bytes) -> None:
        """Withdraw :attr:`cut` once other tokens have spelled the text of the refused one."""
        self._refused = None
        if not refused.text.startswith(written):
            return
        left = refused.length - len(written)
        if left > 0:
            self._refused = _Refused(refused.text[len(written) :], left, refused.earlier)
        else:
            self.cut, self._follows_limit = refused.earlier, False

    def _in_time(self, matcher: Matcher) -> Mask:
        planned, self._planned = self._planned, None
        if planned is not None:
            return planned
        try:
            allowed = matcher.allowed_tokens(steps=self._steps)
        except GrammarBudgetError:
            self._steps = SLOW_MASK_STEPS
            raise SlowMaskError from None
        self._steps = MASK_STEPS
        return allowed

    def _scripted(self, allowed: Mask, *, exact: bool) -> Mask:
        """Return a mask of the next scripted token; if it is not accepted, the script ends."""
        token_id, *rest = self._script
        if exact or not allowed[token_id]:
            self._script = ()
            return allowed
        self._script = tuple(rest)
        return _only(allowed, token_id)

    def _without_end_tokens(self, allowed: Mask | None, size: int) -> Mask:
        """Mask end tokens, unless nothing else is allowed."""
        return self._masks.without(allowed, self.options.end_token_ids, size)

    def _is_small(self, allowed: Mask) -> bool:
        return self._masks.on_device(allowed).count <= SMALL_MASK_TOKENS


def _written(form: bytes | None) -> bytes:
    """Return the text of a token; special tokens by their names."""
    return (form or b"").replace(Vocabulary.SPECIAL_MARK, b"")


def _only(allowed: Mask, token_id: int) -> Mask:
    mask = np.zeros_like(allowed)
    mask[token_id] = True
    return mask
