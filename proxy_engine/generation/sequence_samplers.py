"""The samplers of one sequence, by part of the answer and by temperature of a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import mlx.core as mx

from samplers import Sampler, SamplingParameters, make_sampler
from state_machines import Vocabulary

from ..checks import as_list, short_repr
from ..errors import InvalidOptionError
from ..options.generation import GenerationOptions
from .constraint import Constraint

LogprobsSampler: TypeAlias = Callable[[mx.array], mx.array]
"""From log-probabilities, float32, shape (1, vocabulary), to a token id, shape (1,)."""

LogitsProcessor: TypeAlias = Callable[[mx.array, mx.array], mx.array]
"""From the token ids so far, shape (tokens,), and logits, shape (1, vocabulary), to logits."""


@dataclass(frozen=True, slots=True)
class SamplingHooks:
    """Functions of a caller that take part in the sampling of a request.

    Attributes:
        sampler: Selects the tokens, in place of the sampling parameters.
        logits_processors: Applied to the model's logits before the mask.
        logprob_vectors: Whether the log-probabilities of all tokens are reported.
    """

    sampler: LogprobsSampler | None = None
    logits_processors: tuple[LogitsProcessor, ...] = ()
    logprob_vectors: bool = False

    @classmethod
    def of(cls, sampler: Any, logits_processors: Any, logprob_vectors: Any) -> SamplingHooks:
        """Check a caller's arguments.

        Raises:
            InvalidOptionError: One of them has another type.
        """
        if sampler is not None and not callable(sampler):
            raise InvalidOptionError(
                f"sampler should be a function of log-probabilities, not {short_repr(sampler)}",
                option="sampler",
            )
        processors = [] if logits_processors is None else as_list(logits_processors)
        if processors is None or not all(map(callable, processors)):
            raise InvalidOptionError(
                "logits_processors should be a list of functions of tokens and logits, not "
                f"{short_repr(logits_processors)}",
                option="logits_processors",
            )
        if logprob_vectors is not None and not isinstance(logprob_vectors, bool):
            raise InvalidOptionError(
                f"logprob_vectors should be true or false, not {short_repr(logprob_vectors)}",
                option="logprob_vectors",
            )
        return cls(sampler, tuple(processors), bool(logprob_vectors))

    @property
    def changes_tokens(self) -> bool:
        """Whether functions of the caller take part in the choice of tokens."""
        return self.sampler is not None or bool(self.logits_processors)

    def customized(self, sampler: Sampler) -> Sampler | CustomSampler:
        """Return ``sampler`` with the caller's functions, if there are some."""
        if not self.changes_tokens:
            return sampler
        return CustomSampler(self.sampler or sampler, self.logits_processors)


class CustomSampler:
    """Applies logits processors, then a sampler. Tokens that the mask excludes stay excluded.

    Args:
        sampler: Selects the tokens.
        processors: Applied in order, to the logits of all tokens.

    Attributes:
        logprobs: The log-probabilities that the last token was selected from: float32, shape
            (vocabulary,), normalised over the allowed tokens, ``-inf`` elsewhere.
        returned: The id that the caller's sampler returned last, a lazy int64 of shape (1,);
            ``None`` if there is no such sampler. See :meth:`NextToken.check`.
    """

    def __init__(
        self, sampler: Sampler | LogprobsSampler, processors: Sequence[LogitsProcessor] = ()
    ) -> None:
        self._sampler = sampler
        self._processors = processors
        self.logprobs = mx.array([])
        self.returned: mx.array | None = None

    def __call__(
        self,
        logits: mx.array,
        tokens: Sequence[int],
        among: mx.array | None = None,
        /,
        *,
        prompt_tokens: int = 0,
    ) -> mx.array:
        """Select a token; see :class:`samplers.Sampler`.

        Raises:
            InvalidOptionError: A function of the caller returns a wrong type or shape.
        """
        masked = logits
        if among is not None:
            is_allowed = mx.zeros(logits.shape[-1], mx.bool_)
            is_allowed[among] = True
            masked = mx.where(is_allowed, logits, -mx.inf)
        for processor in self._processors:
            processed = processor(mx.array(list(tokens)), logits)
            if not isinstance(processed, mx.array) or processed.shape != logits.shape:
                raise InvalidOptionError(
                    f"a logits processor returned {_described(processed)}, not logits of shape "
                    f"{logits.shape}",
                    option="logits_processors",
                )
            logits = processed
        if self._processors:
            # A processor must not allow a masked token.
            logits = masked = mx.where(masked == -mx.inf, -mx.inf, logits)
        masked = masked.astype(mx.float32)
        logprobs = masked - mx.logsumexp(masked, axis=-1, keepdims=True)
        self.logprobs = logprobs.reshape(-1)
        if isinstance(self._sampler, Sampler):
            return self._sampler(logits, tokens, among, prompt_tokens=prompt_tokens)
        token = self._sampler(logprobs)
        is_id = isinstance(token, mx.array) and mx.issubdtype(token.dtype, mx.integer)
        if not is_id or token.size != 1:
            raise InvalidOptionError(
                f"the sampler returned {_described(token)}, not an array of one token id",
                option="sampler",
            )
        self.returned = token.reshape(1).astype(mx.int64)
        # MLX checks no bounds, and the next pass may begin before the id is read. An invalid id is
        # replaced by one that is allowed, and so differs from the one that was returned.
        known = mx.clip(self.returned, 0, self.logprobs.size - 1)
        is_allowed = (known == self.returned) & (self.logprobs[known] > -mx.inf)
        return mx.where(is_allowed, known, mx.argmax(self.logprobs)).astype(mx.uint32)


def _described(value: object) -> str:
    if isinstance(value, mx.array):
        return f"{str(value.dtype).removeprefix('mlx.core.')} of shape {value.shape}"
    return short_repr(value)


RandomState: TypeAlias = Mapping[SamplingParameters, int]
"""How many random keys each of a sequence's samplers has used."""


class SequenceSamplers:
    """The samplers of one sequence. Parts and rules with equal parameters share one.

    Args:
        options: The request's options; ``parts`` overrides them by part.
        temperatures: The temperatures that rules of the grammar have.
        hooks: The caller's functions, which take part in the choice of every token.
        xtc_special_tokens: Tokens that XTC never excludes.
    """

    def __init__(
        self,
        options: GenerationOptions,
        temperatures: Sequence[float] = (),
        *,
        hooks: SamplingHooks | None = None,
        xtc_special_tokens: Sequence[int] = (),
    ) -> None:
        self._options = options
        self._temperatures = temperatures
        self._hooks = hooks or SamplingHooks()
        self._has_parts = bool(options.parts)
        self._xtc_special_tokens = xtc_special_tokens
        self._streams = _streams(options, temperatures)
        self._samplers: dict[SamplingParameters, Sampler] = {}
        self._by_place: dict[tuple[str, float | None], Sampler | CustomSampler] = {}

    @classmethod
    def of_one(cls, sampler: CustomSampler) -> SequenceSamplers:
        """Return samplers with one sampler for all tokens."""
        made = cls(GenerationOptions())
        made._by_place["", None] = sampler
        return made

    def sampler(self, constraint: Constraint) -> Sampler | CustomSampler:
        """Return the sampler of the next token."""
        part = constraint.part_name if self._has_parts else ""
        temperature = constraint.temperature if self._temperatures else None
        found = self._by_place.get((part, temperature))
        return self._made(part, temperature) if found is None else found

    def _made(self, part: str, temperature: float | None) -> Sampler | CustomSampler:
        parameters = _at_temperature(self._options.sampling(part), temperature)
        sampler = self._samplers.get(parameters)
        if sampler is None:
            # With equal keys, the tokens of one part would depend on those of another.
            stream = (0, self._streams[parameters])
            sampler = make_sampler(parameters, stream, self._xtc_special_tokens)
            self._samplers[parameters] = sampler
        made = self._hooks.customized(sampler)
        self._by_place[part, temperature] = made
        return made

    @property
    def random_state(self) -> RandomState:
        """The samplers' random keys, which can be set back to an earlier state."""
        return {parameters: sampler.random_state for parameters, sampler in self._samplers.items()}

    @random_state.setter
    def random_state(self, state: RandomState) -> None:
        # A sampler that did not exist in that state is made again.
        self._samplers = {parameters: self._samplers[parameters] for parameters in state}
        for parameters, taken in state.items():
            self._samplers[parameters].random_state = taken
        self._by_place.clear()


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


def xtc_special_tokens(vocabulary: Vocabulary) -> tuple[int, ...]:
    """Return the tokens that XTC never excludes: line feeds and end tokens, as in mlx-lm."""
    line_feeds = (i for i, form in enumerate(vocabulary.token_bytes) if form == b"\n")
    return (*line_feeds, *sorted(vocabulary.end_token_ids))
