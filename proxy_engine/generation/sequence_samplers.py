"""The samplers of one sequence, by part of the answer and by temperature of a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import mlx.core as mx

from samplers import Sampler, SamplingParameters, make_sampler

from ..options.generation import GenerationOptions
from .custom_sampler import CustomSampler, SamplingHooks

RandomState: TypeAlias = Mapping[SamplingParameters, mx.array]
"""The next random keys of a sequence's samplers."""


class TokenSamplers(Protocol):
    """Chooses the sampler of each token; see :class:`SequenceSamplers`."""

    def sampler(self, part: str, temperature: float | None) -> Sampler | CustomSampler:
        """Return the sampler of a token."""


class SequenceSamplers:
    """The samplers of one sequence. Parts and rules with equal parameters share one.

    Args:
        options: The request's options; ``parts`` overrides them by part.
        temperatures: The temperatures that rules of the grammar have.
        stream: Random stream of the samplers, see :class:`samplers.Sampler`.
        hooks: The caller's functions, which take part in the choice of every token.
        xtc_special_tokens: Tokens that XTC never excludes.
    """

    def __init__(
        self,
        options: GenerationOptions,
        temperatures: Sequence[float] = (),
        *,
        stream: int = 0,
        hooks: SamplingHooks | None = None,
        xtc_special_tokens: Sequence[int] = (),
    ) -> None:
        self._options = options
        self._temperatures = temperatures
        self._stream = stream
        self._hooks = hooks or SamplingHooks()
        self._xtc_special_tokens = xtc_special_tokens
        self._streams = _streams(options, temperatures)
        self._samplers: dict[SamplingParameters, Sampler] = {}
        self._by_place: dict[tuple[str, float | None], Sampler] = {}

    def sampler(self, part: str, temperature: float | None) -> Sampler | CustomSampler:
        """Return the sampler of a token.

        Args:
            part: The part of the answer.
            temperature: The temperature of the rule, in place of the part's.
        """
        return self._hooks.customized(self.plain(part, temperature))

    def plain(self, part: str, temperature: float | None) -> Sampler:
        """Return the sampler of a token without the caller's functions."""
        place = part if self._options.parts else "", temperature
        sampler = self._by_place.get(place)
        if sampler is None:
            parameters = _at_temperature(self._options.sampling(place[0]), temperature)
            sampler = self._samplers.get(parameters)
            if sampler is None:
                # With equal keys, the tokens of one part would depend on those of another.
                stream = (self._stream, self._streams[parameters])
                sampler = make_sampler(parameters, stream, self._xtc_special_tokens)
                self._samplers[parameters] = sampler
            self._by_place[place] = sampler
        return sampler

    @property
    def random_state(self) -> RandomState:
        """The samplers' random keys, which can be set back to an earlier state."""
        return {parameters: sampler.random_state for parameters, sampler in self._samplers.items()}

    @random_state.setter
    def random_state(self, state: RandomState) -> None:
        # A sampler that did not exist in that state is made again.
        self._samplers = {parameters: self._samplers[parameters] for parameters in state}
        for parameters, key in state.items():
            self._samplers[parameters].random_state = key
        self._by_place.clear()

    def fork(self, stream: int) -> SequenceSamplers:
        """Return the samplers of an independent copy of the sequence, with its random stream."""
        return SequenceSamplers(
            self._options,
            self._temperatures,
            stream=stream,
            hooks=self._hooks,
            xtc_special_tokens=self._xtc_special_tokens,
        )


def _streams(
    options: GenerationOptions, temperatures: Sequence[float]
) -> dict[SamplingParameters, int]:
    """Number the different sampling parameters, whatever part of the answer comes first."""
    of_parts = list(map(options.sampling, ("", *options.parts)))
    of_rules = [
        _at_temperature(parameters, each) for each in temperatures for parameters in of_parts
    ]
    return {
        parameters: number
        for number, parameters in enumerate(dict.fromkeys([*of_parts, *of_rules]))
    }


def _at_temperature(
    parameters: SamplingParameters, temperature: float | None
) -> SamplingParameters:
    if temperature is None:
        return parameters
    return parameters.model_copy(update={"temperature": temperature})
