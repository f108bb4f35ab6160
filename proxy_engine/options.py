"""How a request is to be generated."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, TypedDict

from samplers import InvalidSamplingParameterError, SamplingParameters

from .errors import InvalidOptionError
from .text_checks import has_surrogate, listed, short_repr

__all__ = ["GenerationOptions", "OptionOverrides", "PartOptions", "ReasoningOptions"]


@dataclass(frozen=True, slots=True)
class ReasoningOptions:
    """What a model thinks before it answers.

    ``is_required``: it must; otherwise it may, where its chat template leaves that open. It has
    ``min_chars`` to ``max_chars`` characters (``None``: no bound). ``begin`` and ``end`` are the
    markers around it; ``None``: the model's own, or ``<think>`` and ``</think>`` where it has none.
    Where the prompt has begun reasoning already, the marker that ends that holds. Raises
    ``InvalidOptionError``.
    """

    is_required: bool = True
    min_chars: int = 0
    max_chars: int | None = None
    begin: str | None = None
    end: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.is_required, bool):
            raise InvalidOptionError(
                f"is_required must be true or false, not {short_repr(self.is_required)}",
                option="reasoning",
            )
        _set_count(self, "min_chars", 0)
        if self.max_chars is not None:
            _set_count(self, "max_chars", self.min_chars)
        if self.begin is None and self.end is None:
            return
        if not all(isinstance(marker, str) and marker for marker in (self.begin, self.end)):
            raise InvalidOptionError(
                "reasoning has two markers, or the model's own", option="reasoning"
            )
        if has_surrogate(f"{self.begin} {self.end}"):
            raise InvalidOptionError(
                "the markers of reasoning hold half a surrogate pair, which is no character",
                option="reasoning",
            )


@dataclass(frozen=True, slots=True)
class PartOptions:
    """What is different while one kind of sub-state is written.

    ``sampling`` replaces that of the request. ``max_tokens`` bounds how many tokens are written in
    a row: free text and reasoning end then, where they can; structured output and calls are
    completed within them, or as briefly as their schema allows, and so is what follows. Raises
    ``InvalidOptionError``.
    """

    sampling: SamplingParameters | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        _check_sampling(self.sampling)
        if self.max_tokens is not None:
            _set_count(self, "max_tokens", 1)


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Limits of a request and the way its tokens are chosen.

    * ``max_tokens``: the most tokens to generate, at least 1; never more than the context has room
      for.
    * ``min_tokens``: the least tokens to generate, where the answer allows that many.
    * ``soft_max_tokens``: from so many tokens on, what brings the answer nearer to its end is made
      more and more likely, so that it need not end abruptly. ``None``: nothing is.
    * ``max_seconds``: the most seconds of wall-clock time from when the request is made, or from
      when it is begun if it is one of a batch. As they run out, the answer is completed as briefly
      as it can be, by the speed that was measured so far; it is complete even where that takes
      longer. ``None``: any time.
    * ``stop``: strings that end free text, and are no part of it, however they are cut into tokens.
      Reasoning does not end there. A request that gives some, and whose answer has no free text (a
      structured one, or a tool call that is required), is refused; where an engine's own options
      have some, they hold for the answers that do.
    * ``prefill_step_size``: prompt tokens a forward pass, at least 1; between passes a request can
      be cancelled. ``None`` leaves the choice to the engine.
    * ``sampling``: temperature, top-p and the like.
    * ``parts``: what is different in some sub-states, by identifier: ``"text"``, ``"reasoning"``,
      ``"structured"``, ``"tool_call"``, or one of the caller's own.
    * ``reasoning``: ``True``: the model thinks before it answers; ``False``: it does not; ``None``:
      it may, but not before structured output alone.
    * ``fast_forward``: whether text that must come next is run without sampling it.
    * ``parallel_tool_calls``: whether an answer may have several calls, ``max_tool_calls`` at most.
    * ``logprobs``: tell the probability of each token, and those of so many that were likeliest in
      its place; 0 is the token alone, ``None`` nothing. All tokens are sampled then.
    * ``trace``: tell what the loop did when.

    Raises ``InvalidOptionError``.
    """

    max_tokens: int = 2048
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    prefill_step_size: int | None = None
    sampling: SamplingParameters = field(default_factory=SamplingParameters)
    parts: Mapping[str, PartOptions] = field(default_factory=dict, hash=False)
    reasoning: bool | ReasoningOptions | None = None
    parallel_tool_calls: bool = True
    max_tool_calls: int = 16
    fast_forward: bool = True
    soft_max_tokens: int | None = None
    max_seconds: float | None = None
    logprobs: int | None = None
    trace: bool = False

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_tool_calls"):
            _set_count(self, name, 1)
        for name, least in (("prefill_step_size", 1), ("soft_max_tokens", 1), ("logprobs", 0)):
            if getattr(self, name) is not None:
                _set_count(self, name, least)
        object.__setattr__(self, "max_seconds", _seconds("max_seconds", self.max_seconds))
        _set_count(self, "min_tokens", 0)
        if self.min_tokens > self.max_tokens:
            raise InvalidOptionError(
                f"min_tokens, {self.min_tokens}, is more than max_tokens, {self.max_tokens}",
                option="min_tokens",
            )
        object.__setattr__(self, "stop", _stop_strings(self.stop))
        if self.sampling is None:
            raise InvalidOptionError("sampling must be SamplingParameters", option="sampling")
        _check_sampling(self.sampling)
        if not isinstance(self.parts, Mapping) or not all(
            isinstance(key, str) and isinstance(value, PartOptions)
            for key, value in self.parts.items()
        ):
            raise InvalidOptionError(
                "parts must be PartOptions by the identifier of a part", option="parts"
            )
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))
        if not isinstance(self.reasoning, bool | ReasoningOptions | None):
            raise InvalidOptionError(
                "reasoning must be true, false or ReasoningOptions, "
                f"not {short_repr(self.reasoning)}",
                option="reasoning",
            )
        for name in ("parallel_tool_calls", "fast_forward", "trace"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidOptionError(
                    f"{name} must be true or false, not {short_repr(getattr(self, name))}",
                    option=name,
                )

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping can be neither pickled nor copied.
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return _options_of, ({**values, "parts": dict(self.parts)},)

    def override(self, overrides: OptionOverrides) -> GenerationOptions:
        """These options with some of them changed; the sampling ones are named directly.

        Raises ``InvalidOptionError`` for an unknown name or a value out of range.
        """
        given: dict[str, Any] = dict(overrides)
        own = {name: given.pop(name) for name in _OWN_NAMES if name in given}
        for name in given:
            if name not in _SAMPLING_NAMES:
                raise InvalidOptionError(
                    f"there is no option {short_repr(name)}",
                    option=str(name),
                    hint=_suggestion(str(name)),
                )
        sampling = own.pop("sampling", self.sampling)
        if given and isinstance(sampling, SamplingParameters):
            try:
                sampling = dataclasses.replace(sampling, **given)
            except InvalidSamplingParameterError as error:
                raise InvalidOptionError(str(error), option=error.parameter) from error
        return dataclasses.replace(self, sampling=sampling, **own)


def _options_of(values: dict[str, Any]) -> GenerationOptions:
    return GenerationOptions(**values)


class OptionOverrides(TypedDict, total=False):
    """The options that a single request may set by keyword.

    Those of ``GenerationOptions``, then those of ``samplers.SamplingParameters``.
    """

    max_tokens: int
    min_tokens: int
    stop: str | Sequence[str] | None
    prefill_step_size: int | None
    sampling: SamplingParameters
    parts: Mapping[str, PartOptions]
    reasoning: bool | ReasoningOptions | None
    parallel_tool_calls: bool
    max_tool_calls: int
    fast_forward: bool
    soft_max_tokens: int | None
    max_seconds: float | None
    logprobs: int | None
    trace: bool
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    min_tokens_to_keep: int
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    penalty_window: int
    logit_bias: Mapping[int, float] | tuple[tuple[int, float], ...]
    seed: int | None


_OWN_NAMES = tuple(field.name for field in dataclasses.fields(GenerationOptions))
_SAMPLING_NAMES = tuple(field.name for field in dataclasses.fields(SamplingParameters))


_MAX_COUNT = 2**63 - 1
"""The largest count: the largest signed 64-bit integer."""


def _set_count(options: object, name: str, least: int) -> None:
    """Check an attribute that counts something, and keep it as a Python integer."""
    value = getattr(options, name)
    # NumPy's integers are integers, too; a Boolean is not a number here.
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or not least <= int(value) <= _MAX_COUNT:
        raise InvalidOptionError(
            f"{name} must be an integer of at least {least}, not {short_repr(value)}", option=name
        )
    object.__setattr__(options, name, int(value))


def _seconds(name: str, value: object) -> float | None:
    if value is None:
        return None
    try:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        seconds = float(value) if is_number else math.nan  # type: ignore[arg-type]
    except OverflowError:
        seconds = math.inf
    if not 0 < seconds < math.inf:
        raise InvalidOptionError(
            f"{name} must be a positive number of seconds, not {short_repr(value)}", option=name
        )
    return seconds


def _stop_strings(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    items = listed(given)
    stop = [given] if items is None else items
    texts = tuple(text for text in stop if isinstance(text, str) and text)
    if len(texts) < len(stop):
        raise InvalidOptionError(
            f"stop must be a string or several, none of them empty, not {short_repr(given)}",
            option="stop",
        )
    if any(map(has_surrogate, texts)):
        raise InvalidOptionError(
            f"stop holds half a surrogate pair, which is no character: {short_repr(given)}",
            option="stop",
        )
    return texts


def _check_sampling(value: object) -> None:
    if value is not None and not isinstance(value, SamplingParameters):
        raise InvalidOptionError(
            f"sampling must be SamplingParameters, not {short_repr(value)}", option="sampling"
        )


def _suggestion(name: str) -> str:
    known = (*_OWN_NAMES, *_SAMPLING_NAMES)
    close = difflib.get_close_matches(name, known, n=1)
    # The abbreviation that other libraries use is too far for a spelling distance.
    if name == "temp":
        close = ["temperature"]
    return f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(known)}."
