"""The sampler and the length limits of each next token, by part of the answer and by rule."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypeAlias

import mlx.core as mx

from samplers import Sampler, SamplingParameters, make_sampler
from state_machines import Matcher
from state_machines.completion import Guard
from state_machines.root import Part, RootMatcher, Text

from ..options.generation import GenerationOptions, PartOptions
from .custom_sampler import CustomSampler, SamplingHooks

_MAX_END_BOOST = 20.0
"""Boost of end-bringing tokens at ``max_tokens``, in nats. A factor of ``e^20`` outweighs nearly
any preference of the model."""

_DEADLINE_RESERVE = 1.1
"""Factor by which future tokens may take longer than past ones."""

_NO_OPTIONS = PartOptions()

RandomState: TypeAlias = Mapping[SamplingParameters, mx.array]
"""The next random keys of a sequence's samplers."""


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


def end_boost(generated: int, soft_max_tokens: int, max_tokens: int) -> float:
    """Return the boost, in nats, for the logits of tokens that bring the end nearer.

    The boost is 0 below ``soft_max_tokens`` and grows linearly from there to ``max_tokens``.
    """
    if generated < soft_max_tokens:
        return 0.0
    used = (generated + 1 - soft_max_tokens) / max(1, max_tokens - soft_max_tokens)
    return _MAX_END_BOOST * min(1.0, used)


class SamplerSchedule:
    """Chooses the sampler of each token, and enforces the token limits of parts.

    Where the next token may belong to several parts, the options of the preferred part apply. The
    temperature of a grammar's rule takes the place of the part's (:attr:`Matcher.temperature`).

    Args:
        options: The request's options; ``parts`` overrides them by part.
        matcher: The answer's matcher; ``None`` for unconstrained text.
        part: The only part of an answer that is no composition.
        guard: Bounds the answer's length.
        deadline: Bounds the answer's time, as a token budget of ``guard``.
        stream: Random stream of the samplers, see :class:`samplers.Sampler`.
        hooks: The caller's functions, which take part in the choice of every token.
        xtc_special_tokens: Tokens that XTC never excludes.
    """

    def __init__(
        self,
        options: GenerationOptions,
        matcher: Matcher | None,
        part: Part | None,
        guard: Guard | None = None,
        deadline: Deadline | None = None,
        stream: int = 0,
        hooks: SamplingHooks | None = None,
        xtc_special_tokens: Sequence[int] = (),
    ) -> None:
        self._hooks = hooks or SamplingHooks()
        self._xtc_special_tokens = xtc_special_tokens
        self._options = options
        self._follow(matcher)
        self._only_part = part
        self._guard = guard
        self._deadline = deadline
        self._stream = stream
        self._samplers: dict[tuple[str, float | None], Sampler] = {}
        self._samplers_by_parameters: dict[SamplingParameters, Sampler] = {}
        self._streams = _streams(options, () if matcher is None else matcher.temperatures)
        self._read: int | None = None
        self._part: Part | None = None
        self._part_start = 0
        self._name = ""
        self._left_at_entry = 0 if guard is None else guard.total
        self.is_bound_by_time = deadline is not None
        """Whether the time that is left bounds the next tokens, rather than a part's limit."""

    def next_sampler(self, generated: int) -> Sampler | CustomSampler:
        """Update the guard's limits and return the sampler of the next token.

        To be called before each mask is computed.

        Args:
            generated: Tokens generated so far.
        """
        in_time = self._tokens_in_time(generated)
        if not self._options.parts:
            if self._guard is not None and self._deadline is not None:
                self._guard.restrict(in_time)
            return self._hooks.customized(self._sampler(""))
        part = self._next_part()
        name = _name(part)
        own = self._options.parts.get(name, _NO_OPTIONS)
        if part is not self._part:
            self._part, self._part_start = part, generated
        limit = own.max_tokens
        if limit is not None and generated - self._part_start >= limit and isinstance(part, Text):
            self._end_texts()
        if self._guard is not None:
            bound = None if isinstance(part, Text) else limit
            self._restrict(self._guard, name, bound, in_time)
        return self._hooks.customized(self._sampler(name))

    def current_sampler(self) -> Sampler:
        """Return the sampler of the part that comes next, and change nothing."""
        return self._sampler(_name(self._next_part()) if self._options.parts else "")

    @property
    def random_state(self) -> RandomState:
        """The samplers' random keys."""
        return {
            parameters: sampler.random_state
            for parameters, sampler in self._samplers_by_parameters.items()
        }

    @random_state.setter
    def random_state(self, state: RandomState) -> None:
        for parameters in list(self._samplers_by_parameters):
            if parameters in state:
                self._samplers_by_parameters[parameters].random_state = state[parameters]
            else:
                # It did not exist yet in that state.
                del self._samplers_by_parameters[parameters]
        known = list(self._samplers_by_parameters.values())
        for key in [key for key, sampler in self._samplers.items() if sampler not in known]:
            del self._samplers[key]

    def fork(self, matcher: Matcher | None, guard: Guard | None, stream: int) -> SamplerSchedule:
        """Return a schedule in the same state for a copy of the sequence.

        Args:
            matcher: The copy's matcher.
            guard: The copy's guard.
            stream: The copy's random stream.
        """
        twin = copy(self)
        twin._follow(matcher)
        twin._guard = guard
        twin._stream = stream
        twin._samplers = {}
        twin._samplers_by_parameters = {}
        return twin

    def ahead(
        self, matcher: Matcher | None, guard: Guard | None, generated: int
    ) -> SamplerSchedule:
        """Return a schedule for a copy of the sequence that is ahead of it by a draft.

        It has the same samplers, and so draws the same random numbers.

        Args:
            matcher: The copy's matcher.
            guard: The copy's guard.
            generated: Tokens that this schedule's sequence has generated.
        """
        twin = copy(self)
        twin._follow(matcher)
        twin._guard = guard
        twin._read = generated if self._read is None else self._read
        return twin

    def _follow(self, matcher: Matcher | None) -> None:
        """Take parts from a matcher that has them, and temperatures from one whose rules do."""
        self._matcher = matcher if isinstance(matcher, RootMatcher) else None
        self._rules = matcher if matcher is not None and matcher.temperatures else None

    def _tokens_in_time(self, generated: int) -> int | None:
        """Return how many more tokens fit before the deadline; ``None``: no limit is known."""
        if self._deadline is None:
            return None
        read = generated if self._read is None else self._read
        left = self._deadline.tokens_left(read)
        return None if left is None else max(0, left - (generated - read))

    def _next_part(self) -> Part | None:
        if self._matcher is None:
            return self._only_part
        return next(iter(self._matcher.parts), None)

    def _restrict(self, guard: Guard, name: str, limit: int | None, in_time: int | None) -> None:
        """Bound the tokens of a structured part; the guard completes it within them."""
        if self._name and name != self._name:
            self._left_at_entry = guard.total
        self._name = name
        of_part = None if limit is None else limit - (self._left_at_entry - guard.total)
        bounds = [bound for bound in (of_part, in_time) if bound is not None]
        least = min(bounds, default=None)
        self.is_bound_by_time = in_time is not None and in_time == least
        guard.restrict(least)

    def _end_texts(self) -> None:
        """End free text, unless the answer behind it would not fit into the tokens left."""
        if self._matcher is None:
            return
        if self._guard is not None:
            ended = self._matcher.copy()
            ended.end_texts()
            if not self._guard.fits(ended.state):
                return
        self._matcher.end_texts()
        if self._guard is not None:
            self._guard.replan()

    def _sampler(self, part: str) -> Sampler:
        """Return the sampler of a part and of the rule that comes next.

        Parts and rules with equal parameters share one.
        """
        temperature = None if self._rules is None else self._rules.temperature
        sampler = self._samplers.get((part, temperature))
        if sampler is None:
            parameters = _at_temperature(self._options.sampling(part), temperature)
            sampler = self._samplers_by_parameters.get(parameters)
            # With equal keys, the tokens of one part would depend on those of another.
            stream = (self._stream, self._streams[parameters])
            sampler = sampler or make_sampler(parameters, stream, self._xtc_special_tokens)
            self._samplers[part, temperature] = sampler
            self._samplers_by_parameters[parameters] = sampler
        return sampler


def _streams(
    options: GenerationOptions, temperatures: Sequence[float]
) -> dict[SamplingParameters, int]:
    """Number the different sampling parameters, whatever part of the answer comes first."""
    parameters = list(map(options.sampling, ("", *options.parts)))
    of_rules = [_at_temperature(one, each) for each in temperatures for one in parameters]
    return {one: number for number, one in enumerate(dict.fromkeys([*parameters, *of_rules]))}


def _at_temperature(
    parameters: SamplingParameters, temperature: float | None
) -> SamplingParameters:
    if temperature is None:
        return parameters
    return parameters.model_copy(update={"temperature": temperature})


def _name(part: Part | None) -> str:
    return str(getattr(part, "name", ""))
