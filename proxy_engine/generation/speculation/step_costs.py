"""The cost of passes, measured while a model generates.

How much a draft costs depends on the model, the device and the work of the CPU at each drafted
position. For a small model that work takes longer than the pass, so that few drafts pay, however
many of their tokens are accepted. The cost is therefore the time of whole steps: what a step with
drafts takes beyond one without, for each of its tokens. Medians are used, since other processes
interrupt some of the steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from ..cache_layers import must_replay
from .draft_length import device_pass_cost

_PLAIN_STEPS = 15
_DRAFTED_STEPS = 7
"""The last steps without and with drafts, whose medians are used."""

_ASSUMED_EVIDENCE = 0.01
"""Weight of the cost that is assumed for the device, in steps with drafts."""

_FORGETTING = 0.99
"""Factor of the evidence of drafts after each step without one. Once it is forgotten, after some
hundred steps, a draft is tried again."""

STEPS_BETWEEN_UPDATES = 8
"""Steps without drafts after which the cost is computed again."""

_MAX_BASE = 32.0

_REPLAY_SHARE = 0.25
"""Share of the constant time that is left to drafts where accepted tokens may be processed again.

Simulated with acceptance rates up to 0.95 and a constant time of 5 to 32 tokens: drafts of this
length are at most 5% slower than the best ones, and never slower than none."""


class StepCosts:
    """Measures the cost of passes of one model. To be used on the model thread.

    Args:
        cache: A prompt cache of the model.

    Attributes:
        cost: The cost of passes. Before steps with and without drafts are measured, it is the one
            that is assumed for the device.
    """

    def __init__(self, cache: Sequence[Any] = ()) -> None:
        self._assumed = device_pass_cost()
        self._share = _REPLAY_SHARE if must_replay(cache) else 1.0
        self.cost = replace(self._assumed, base=self._share * self._assumed.base)
        # Tokens and seconds of steps without drafts.
        self._plain: deque[tuple[int, float]] = deque(maxlen=_PLAIN_STEPS)
        # Seconds for each token that drafts add to a step.
        self._added: deque[float] = deque(maxlen=_DRAFTED_STEPS)
        self._evidence = 0.0
        self._has_drafted = False
        self._steps = 0

    def record(self, tokens: int, seconds: float, *, is_drafted: bool) -> None:
        """Record a step.

        Args:
            tokens: Tokens of its pass, padding included.
            seconds: Its time, with the work of the CPU.
            is_drafted: Whether the pass has drafts.
        """
        if not is_drafted:
            self._plain.append((tokens, seconds))
            self._evidence *= _FORGETTING
        elif not self._has_drafted:
            # The first draft does work that later ones find done.
            self._has_drafted = True
        elif self._plain:
            few = median(count for count, _ in self._plain)
            if tokens > few:
                self._added.append((seconds - self._plain_seconds) / (tokens - few))
                self._evidence = min(self._evidence + 1, _DRAFTED_STEPS)
        self._steps += 1
        if self._evidence and (is_drafted or self._steps % STEPS_BETWEEN_UPDATES == 0):
            weight = self._evidence / (self._evidence + _ASSUMED_EVIDENCE)
            base = weight * self._measured_base() + (1 - weight) * self._assumed.base
            self.cost = replace(self._assumed, base=self._share * base)

    @property
    def _plain_seconds(self) -> float:
        return median(seconds for _, seconds in self._plain)

    def _measured_base(self) -> float:
        """Return the constant time of a step, in the time of one token."""
        per_token = median(self._added)
        if per_token <= 0:
            return _MAX_BASE
        few = median(count for count, _ in self._plain)
        return min(max(self._plain_seconds / per_token - few, 0.0), _MAX_BASE)
