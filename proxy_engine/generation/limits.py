"""Limits of a sequence that depend on time and on the part of the answer."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from state_machines import Vocabulary
from state_machines.completion import Guard
from state_machines.root import Part, RootMatcher, Text

from ..options.generation import PartOptions

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

_DEADLINE_RESERVE = 1.1
"""Factor by which future tokens may take longer than past ones."""

_NO_OPTIONS = PartOptions()


@dataclass(slots=True)
class Deadline:
    """A time by which an answer should be complete.

    Attributes:
        end: The deadline, by the clock of ``time.perf_counter``.
        first: When the first token was generated; ``None`` before that.
    """

    end: float
    first: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() >= self.end

    def tokens_left(self, generated: int) -> int | None:
        """Estimate the remaining token budget from the current speed.

        Args:
            generated: Tokens generated so far.

        Returns:
            How many more tokens fit; ``None`` while the speed is unknown.
        """
        now = time.perf_counter()
        if self.first is None:
            self.first = now if generated else None
            return 0 if now >= self.end else None
        if generated < 2:
            return 0 if now >= self.end else None
        each = _DEADLINE_RESERVE * (now - self.first) / (generated - 1)
        return max(0, math.floor((self.end - now) / each)) if each > 0 else None


class PartLimits:
    """The token limits of parts, and a deadline, as token budgets of a guard.

    Args:
        parts: Options by the name of a part.
        deadline: When to stop.
        max_tokens: Maximum number of generated tokens.
        budgets: Names of free texts whose limit cuts no answer, since the answer follows them.

    Attributes:
        has_any: Whether there is a limit.
        is_bound_by_time: Whether the time that is left bounds the next tokens, rather than a
            part's limit.
        timed_tokens: Tokens that give the speed, where later ones are a draft; ``None``: all.
    """

    def __init__(
        self,
        parts: Mapping[str, PartOptions],
        deadline: Deadline | None,
        max_tokens: int,
        *,
        budgets: Collection[str] = (),
    ) -> None:
        self.has_any = deadline is not None or bool(parts)
        self.is_bound_by_time = deadline is not None
        self._parts = parts
        self._budgets = budgets
        self._deadline = deadline
        self.timed_tokens: int | None = None
        self._part: Part | None = None
        self._part_start = 0
        self._name = ""
        self._left_at_entry = max_tokens

    def copy(self) -> PartLimits:
        """Return independent limits in the same state."""
        twin = PartLimits.__new__(PartLimits)
        twin.__dict__.update(self.__dict__)
        return twin

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self._deadline is not None and self._deadline.is_over

    def apply(self, part: Part | None, generated: int, guard: Guard | None) -> bool:
        """Set the limits of the next token. Return whether they end a free text of the answer.

        Args:
            part: The part of the answer that it belongs to.
            generated: Tokens generated so far.
            guard: Keeps the answer within the limits.
        """
        in_time = self._tokens_in_time(generated)
        if not self._parts:
            if guard is not None and self._deadline is not None:
                guard.limit(in_time)
            return False
        name = str(getattr(part, "name", ""))
        limit = self._parts.get(name, _NO_OPTIONS).max_tokens
        if part is not self._part:
            self._part, self._part_start = part, generated
        is_text = isinstance(part, Text)
        is_full = limit is not None and is_text and generated - self._part_start >= limit
        is_ended = is_full and _end_texts(guard)
        if guard is not None:
            self._restrict(guard, name, None if is_text else limit, in_time)
        return is_ended and name not in self._budgets

    def _tokens_in_time(self, generated: int) -> int | None:
        """Return how many more tokens fit before the deadline; ``None``: no limit is known."""
        if self._deadline is None:
            return None
        timed = generated if self.timed_tokens is None else self.timed_tokens
        left = self._deadline.tokens_left(timed)
        return None if left is None else max(0, left - (generated - timed))

    def _restrict(self, guard: Guard, name: str, limit: int | None, in_time: int | None) -> None:
        """Bound the tokens of a structured part; the guard completes it within them."""
        if self._name and name != self._name:
            self._left_at_entry = guard.total
        self._name = name
        of_part = None if limit is None else limit - (self._left_at_entry - guard.total)
        bounds = [bound for bound in (of_part, in_time) if bound is not None]
        least = min(bounds, default=None)
        self.is_bound_by_time = in_time is not None and in_time == least
        guard.limit(least)


def _end_texts(guard: Guard | None) -> bool:
    """End free text, unless the answer behind it would not fit into the tokens left.

    Returns:
        Whether it could go on.
    """
    if guard is None or not isinstance(guard.matcher, RootMatcher):
        return False
    ended = guard.matcher.copy()
    ended.end_texts()
    if not guard.fits(ended.state):
        return False
    could_go_on = ended.state is not guard.matcher.state
    guard.matcher.end_texts()
    guard.replan()
    return could_go_on


@dataclass(frozen=True, slots=True)
class SequenceOptions:
    """Options of one sequence.

    Attributes:
        end_token_ids: Tokens that end the sequence. The first of them is used for a forced end.
        max_tokens: Maximum number of generated tokens.
        min_tokens: End tokens are masked before this many tokens, if other tokens are allowed.
        logprobs: Number of most likely tokens that are reported; ``None``: no log-probabilities.
        logprob_vectors: Report the log-probabilities of all tokens.
        confidence: Record the log-probabilities of sampled tokens.
        usable_tokens: Mask of unconstrained text, bool, shape (vocabulary,): excludes ids that are
            no tokens. ``None``: all tokens are usable.
        stop_repetition: End arrays and strings of JSON that repeat themselves and have no bound.
    """

    end_token_ids: tuple[int, ...]
    max_tokens: int
    min_tokens: int = 0
    logprobs: int | None = None
    logprob_vectors: bool = False
    confidence: bool = False
    usable_tokens: npt.NDArray[np.bool_] | None = None
    stop_repetition: bool = False

    @property
    def samples_all(self) -> bool:
        """Whether forced tokens are sampled, too, since their logits are needed under a mask."""
        return self.logprobs is not None or self.logprob_vectors


def end_token_ids(vocabulary: Vocabulary, tokenizer: TokenizerWrapper) -> tuple[int, ...]:
    """Return the end tokens, the tokenizer's own first."""
    preferred = tokenizer.eos_token_id
    ends = sorted(vocabulary.end_token_ids, key=lambda token_id: (token_id != preferred, token_id))
    return tuple(ends)


def xtc_special_tokens(vocabulary: Vocabulary) -> tuple[int, ...]:
    """Return the tokens that XTC never excludes: line feeds and end tokens, as in mlx-lm."""
    line_feeds = (i for i, form in enumerate(vocabulary.token_bytes) if form == b"\n")
    return (*line_feeds, *sorted(vocabulary.end_token_ids))
