"""What differs between sub-states while an answer is written: sampling, and how long it may be."""

from __future__ import annotations

from samplers import Sampler, SamplingParameters, make_sampler
from state_machines import Matcher
from state_machines.completion import Guard
from state_machines.root import Part, RootMatcher, Text

from ..options import GenerationOptions, PartOptions
from .limits import Deadline

__all__ = ["SamplerSchedule"]


_NO_OPTIONS = PartOptions()


class SamplerSchedule:
    """The samplers of one request, by sub-state. To be asked before each mask.

    Where the next token may belong to several sub-states, the options of the preferred one hold.
    ``part`` writes all of the answer where it is no composition; ``guard`` watches its length, and
    lets it take no longer than there is time until ``deadline``.
    """

    def __init__(
        self,
        options: GenerationOptions,
        matcher: Matcher | None,
        part: Part | None,
        guard: Guard | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self._options = options
        self._matcher = matcher if isinstance(matcher, RootMatcher) else None
        self._part = part
        self._guard = guard
        self._deadline = deadline
        self._samplers: dict[SamplingParameters, Sampler] = {}
        self._last: Part | None = None
        self._begun = 0
        self._identifier = ""
        self._entered = 0 if guard is None else guard.total

    def next_sampler(self, written: int) -> Sampler:
        """Return what chooses the next token; first see to the limits of what is being written.

        ``written`` says how many tokens the answer has.
        """
        in_time = None if self._deadline is None else self._deadline.tokens_left(written)
        if not self._options.parts:
            if self._guard is not None and self._deadline is not None:
                self._guard.restrict(in_time)
            return self._sampler(self._options.sampling)
        part = self._part
        if self._matcher is not None:
            part = next(iter(self._matcher.parts), None)
        identifier = str(getattr(part, "name", ""))
        state = self._options.parts.get(identifier, _NO_OPTIONS)
        if part is not self._last:
            self._last, self._begun = part, written
        limit = state.max_tokens
        if limit is not None and written - self._begun >= limit and isinstance(part, Text):
            self._end_texts()
        if self._guard is not None:
            bound = None if isinstance(part, Text) else limit
            self._restrict(self._guard, identifier, bound, in_time)
        return self._sampler(state.sampling or self._options.sampling)

    def _restrict(
        self, guard: Guard, identifier: str, limit: int | None, in_time: int | None
    ) -> None:
        """Bound what has an end of its own: it is completed in time, as the whole answer is."""
        if self._identifier and identifier != self._identifier:
            self._entered = guard.total
        self._identifier = identifier
        own = None if limit is None else limit - (self._entered - guard.total)
        bounds = [bound for bound in (own, in_time) if bound is not None]
        guard.restrict(min(bounds, default=None))

    def _end_texts(self) -> None:
        if self._matcher is None:
            return
        if self._guard is not None:
            ended = self._matcher.copy()
            ended.end_texts()
            if not self._guard.fits(ended.state):
                return
        self._matcher.end_texts()
        if self._guard is not None:
            self._guard.look_again()

    def _sampler(self, parameters: SamplingParameters) -> Sampler:
        sampler = self._samplers.get(parameters)
        if sampler is None:
            sampler = self._samplers[parameters] = make_sampler(parameters)
        return sampler
