"""How a request is to be generated."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from samplers import InvalidSamplingParameterError, SamplingParameters

from .errors import InvalidOptionError

__all__ = ["GenerationOptions", "OptionOverrides"]


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Limits of a request and the way its tokens are chosen.

    ``max_tokens``: the most tokens to generate, at least 1; never more than the context has room
    for. ``prefill_step_size``: prompt tokens a forward pass, at least 1; between passes a request
    can be cancelled. ``None`` leaves the choice to the engine. ``sampling``: temperature, top-p
    and the like. Raises ``InvalidOptionError``.
    """

    max_tokens: int = 2048
    prefill_step_size: int | None = None
    sampling: SamplingParameters = field(default_factory=SamplingParameters)

    def __post_init__(self) -> None:
        for name in ("max_tokens", "prefill_step_size"):
            value = getattr(self, name)
            if value is None and name == "prefill_step_size":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidOptionError(
                    f"{name} must be an integer of at least 1, not {value!r}", option=name
                )
        if not isinstance(self.sampling, SamplingParameters):
            raise InvalidOptionError(
                f"sampling must be SamplingParameters, not {self.sampling!r}", option="sampling"
            )

    def override(self, overrides: OptionOverrides) -> GenerationOptions:
        """These options with some of them changed; the sampling ones are named directly.

        Raises ``InvalidOptionError`` for an unknown name or a value out of range.
        """
        given: dict[str, Any] = dict(overrides)
        own = {name: given.pop(name) for name in _OWN_NAMES if name in given}
        for name in given:
            if name not in _SAMPLING_NAMES:
                raise InvalidOptionError(
                    f"there is no option {name!r}", option=name, hint=_suggestion(name)
                )
        sampling = own.pop("sampling", self.sampling)
        if given:
            try:
                sampling = dataclasses.replace(sampling, **given)
            except InvalidSamplingParameterError as error:
                raise InvalidOptionError(str(error), option=error.parameter) from error
        return dataclasses.replace(self, sampling=sampling, **own)


class OptionOverrides(TypedDict, total=False):
    """The options that a single request may set by keyword.

    Those of ``GenerationOptions``, then those of ``samplers.SamplingParameters``.
    """

    max_tokens: int
    prefill_step_size: int | None
    sampling: SamplingParameters
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


def _suggestion(name: str) -> str:
    known = (*_OWN_NAMES, *_SAMPLING_NAMES)
    close = difflib.get_close_matches(name, known, n=1)
    # The abbreviation that other libraries use is too far for a spelling distance.
    if name == "temp":
        close = ["temperature"]
    return f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(known)}."
