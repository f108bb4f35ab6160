"""What a request may ask of a sampler, checked when it is written down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

__all__ = ["InvalidSamplingParameterError", "SamplingParameters"]


class InvalidSamplingParameterError(ValueError):
    """A sampling parameter has a value it cannot have.

    ``parameter`` is its name, ``value`` what was given, ``expected`` what would be right.
    """

    def __init__(self, parameter: str, value: object, expected: str) -> None:
        super().__init__(parameter, value, expected)
        self.parameter = parameter
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.parameter} must be {self.expected}, not {_shown(self.value)}"


@dataclass(frozen=True)
class SamplingParameters:
    """How a token is chosen. Immutable, hashable, valid once built; everything composes.

    ``temperature``
        0 is greedy, where only bias and penalties count. Else ``[1e-5, 100]``, and
        log-probabilities are divided by it.
    ``top_p``
        In ``(0, 1]``: keep the fewest most likely tokens whose probability reaches it. 1 is off.
    ``top_k``
        Keep the ``k`` most likely tokens. 0 is off, and so is a value above the vocabulary.
    ``min_p``
        In ``[0, 1]``: keep tokens at least this likely relative to the likeliest. 0 is off.
    ``min_tokens_to_keep``
        The likeliest tokens ``min_p`` never drops, at least 1. Tokens that the mask or another
        filter dropped do not come back.
    ``repetition_penalty``
        In ``[0.01, 100]``: divides positive logits and multiplies negative ones of tokens in the
        window, of the prompt and of the answer. 1 is off.
    ``presence_penalty``, ``frequency_penalty``
        In ``[-100, 100]``: subtracted from the logit of a token of the answer in the window, once
        or once per occurrence. The prompt's tokens do not count. 0 is off.
    ``penalty_window``
        The number of latest tokens that penalties look at, at least 1.
    ``logit_bias``
        Token id to a number in ``[-10000, 10000]`` that is added to its logit. Given as a mapping
        or as pairs, kept as pairs in order of their ids.
    ``seed``
        In ``[0, 2**64)``; ``None`` takes a fresh one for each sampler.

    Raises :class:`InvalidSamplingParameterError`, which is a ``ValueError``.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    min_tokens_to_keep: int = 1
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 64
    logit_bias: Mapping[int, float] | tuple[tuple[int, float], ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature, 1e-5, 100, or_zero=True)
        _check_number("top_p", self.top_p, 0, 1, above=True)
        _check_integer("top_k", self.top_k, 0)
        _check_number("min_p", self.min_p, 0, 1)
        _check_integer("min_tokens_to_keep", self.min_tokens_to_keep, 1)
        _check_number("repetition_penalty", self.repetition_penalty, 0.01, 100)
        _check_number("presence_penalty", self.presence_penalty, -100, 100)
        _check_number("frequency_penalty", self.frequency_penalty, -100, 100)
        _check_integer("penalty_window", self.penalty_window, 1)
        if self.seed is not None:
            _check_integer("seed", self.seed, 0, 2**64 - 1)
        object.__setattr__(self, "logit_bias", _bias_pairs(self.logit_bias))
        # NumPy's numbers were checked as numbers; they are kept as Python's.
        for name in _NUMBERS:
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in _INTEGERS:
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.seed is not None:
            object.__setattr__(self, "seed", int(self.seed))

    @property
    def bias_pairs(self) -> tuple[tuple[int, float], ...]:
        """``logit_bias`` as it is kept: (token id, number) pairs in order of their ids."""
        pairs = self.logit_bias
        return pairs if isinstance(pairs, tuple) else tuple(pairs.items())


_NUMBERS = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
_INTEGERS = ("top_k", "min_tokens_to_keep", "penalty_window")


def _shown(value: object) -> str:
    """``repr(value)``, cut short; of a value that has no ``repr``, its type."""
    try:
        text = repr(value)
    except Exception:
        # Integers of more than 4,300 digits, and values that are nested too deeply.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 200 else f"{text[:199]}…"


def _as_float(value: object) -> float:
    """The number that ``value`` is; NaN where it is none, or too large for a float."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _check_number(
    name: str,
    value: object,
    low: float,
    high: float,
    *,
    above: bool = False,
    or_zero: bool = False,
) -> None:
    number = _as_float(value)
    in_range = (low < number if above else low <= number) and number <= high
    if not in_range and not (or_zero and number == 0):
        interval = f"{'(' if above else '['}{low:g}, {high:g}]"
        raise InvalidSamplingParameterError(
            name, value, f"{'0 or ' if or_zero else ''}a number in {interval}"
        )


def _check_integer(name: str, value: object, low: int, high: int | None = None) -> None:
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else low - 1
    if number < low or (high is not None and number > high):
        bounds = f"from {low} to {high}" if high is not None else f"of {low} or more"
        raise InvalidSamplingParameterError(name, value, f"an integer {bounds}")


def _bias_pairs(bias: object) -> tuple[tuple[int, float], ...]:
    expected = "a mapping of token ids to numbers in [-10000, 10000]"
    try:
        items = list(bias.items() if isinstance(bias, Mapping) else bias)  # type: ignore[call-overload]
        pairs = [(token_id, number) for token_id, number in items]
    except (TypeError, ValueError):
        raise InvalidSamplingParameterError("logit_bias", bias, expected) from None
    for token_id, number in pairs:
        try:
            _check_integer("logit_bias", token_id, 0)
            _check_number("logit_bias", number, -10_000, 10_000)
        except InvalidSamplingParameterError:
            raise InvalidSamplingParameterError("logit_bias", bias, expected) from None
    if len({token_id for token_id, _ in pairs}) < len(pairs):
        raise InvalidSamplingParameterError("logit_bias", bias, expected)
    return tuple(sorted((int(token_id), float(number)) for token_id, number in pairs))
