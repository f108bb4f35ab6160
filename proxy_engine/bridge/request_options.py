"""The options of a command, as the engine takes them."""

from __future__ import annotations

from typing import Any, cast

from samplers import InvalidSamplingParameterError, SamplingParameters

from ..errors import InvalidOptionError
from ..options import OptionOverrides, PartOptions, ReasoningOptions
from .commands import GenerationCommand, PartFields, ReasoningFields, SamplingFields

__all__ = ["options_of"]


def options_of(command: GenerationCommand) -> OptionOverrides:
    """The options that ``command`` gives. Raises ``InvalidOptionError``."""
    given = command.given()
    options = {name: given[name] for name in OptionOverrides.__annotations__ if name in given}
    if command.sampling is not None:
        options["sampling"] = _sampling(command.sampling, "sampling")
    if command.parts is not None:
        options["parts"] = {key: _state(state) for key, state in command.parts.items()}
    if isinstance(command.reasoning, ReasoningFields):
        options["reasoning"] = ReasoningOptions(**command.reasoning.given())
    if command.logit_bias is not None:
        options["logit_bias"] = _biases(command.logit_bias)
    return cast(OptionOverrides, options)


def _state(fields: PartFields) -> PartOptions:
    sampling = None if fields.sampling is None else _sampling(fields.sampling, "parts")
    return PartOptions(sampling=sampling, max_tokens=fields.max_tokens)


def _sampling(fields: SamplingFields, option: str) -> SamplingParameters:
    given: dict[str, Any] = fields.given()
    if fields.logit_bias is not None:
        given["logit_bias"] = _biases(fields.logit_bias)
    try:
        return SamplingParameters(**given)
    except InvalidSamplingParameterError as error:
        raise InvalidOptionError(f"{option}: {error}", option=option) from error


def _biases(given: dict[str, float]) -> tuple[tuple[int, float], ...]:
    """By number; pairs, since two texts can be one number, which the sampler refuses."""
    return tuple((int(token_id), bias) for token_id, bias in given.items())
