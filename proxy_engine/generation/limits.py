"""Limits of a sequence: its tokens, its time, its parts, and values that repeat themselves."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Self

from state_machines import Vocabulary
from state_machines.repetition import RepetitionDetector
from state_machines.root import Part, Text

from .device_masks import DeviceMasks, Mask
from .restrictions import Limit, Restriction, only

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

    from .constraint import Constraint

_DEADLINE_RESERVE = 1.1
"""Factor by which future tokens may take longer than past ones."""


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

    def are_missing(self, text: Constraint) -> bool:
        """Whether the text has too few tokens to end."""
        return text.generated < self._min_tokens

    def mask(self, text: Constraint, allowed: Mask | None, generated: int) -> Mask | None:
        """Mask end tokens where the text may end and has too few tokens."""
        may_end = text.matcher is None or text.matcher.is_accepting
        if generated >= self._min_tokens or not may_end:
            return allowed
        return self._masks.without(allowed, text.end_token_ids, self._size)


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

    def copy(self, text: Constraint) -> Self:
        """Return a deadline of the same time. Drafted tokens do not count for the speed."""
        twin = self._twin()
        twin._timed = text.generated if self._timed is None else self._timed
        return twin

    def mask(self, text: Constraint, allowed: Mask | None, generated: int) -> Mask | None:
        """Bound the tokens left by the time left."""
        if text.grammar is not None:
            text.grammar.bound("max_seconds", self.tokens_left(generated))
        return allowed

    def end(self, text: Constraint) -> Limit | None:
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

    def copy(self, text: Constraint) -> Self:
        """Return limits in the same state."""
        return self._twin()

    def mask(self, text: Constraint, allowed: Mask | None, generated: int) -> Mask | None:
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

    def copy(self, text: Constraint) -> Self:
        """Return a restriction with a copy of the detector."""
        return type(self)(self._detector.copy())

    def mask(self, text: Constraint, allowed: Mask | None, generated: int) -> Mask | None:
        """Allow only the token that brings a value that repeats nearer to its end."""
        closing = self._detector.closing_token
        if allowed is None or closing is None or not allowed[closing]:
            return allowed
        return only(allowed, closing)

    def take(self, text: Constraint, token_id: int, form: bytes) -> None:
        """Look for repetition in the text with the token."""
        if text.grammar is not None:
            detector = self._detector
            detector.advance(form, text.grammar.matcher)
            if detector.unit is not None and text.cut is None:
                text.cut_off("repetition", detector.unit)


def end_token_ids(vocabulary: Vocabulary, tokenizer: TokenizerWrapper) -> tuple[int, ...]:
    """Return the end tokens, the tokenizer's own first."""
    preferred = tokenizer.eos_token_id
    ends = sorted(vocabulary.end_token_ids, key=lambda token_id: (token_id != preferred, token_id))
    return tuple(ends)
