"""The arguments of ``InferenceEngine``: checks before anything is loaded, and signatures."""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection
from typing import Any, NoReturn, TypeVar, cast

from mlx.nn.layers.base import Module

from ..checks.texts import short_repr
from ..errors import InvalidOptionError
from ..generation.custom_sampler import LogitsProcessor, LogprobsSampler
from ..media.options import MediaOptions
from ..models.load_options import LoadArguments, LoadOptions
from ..options.generation import (
    MAX_DRAFT_TOKENS,
    GenerationOptions,
    OptionModel,
    argument_names,
    check_names,
)
from ..options.overrides import OptionOverrides
from ..options.signatures import list_options
from ..prompt_cache.options import CacheOptions
from ..transcription.options import TranscriptionOptions, TranscriptionOverrides
from .request_arguments import RequestArguments

C = TypeVar("C", bound=type)

_MODELS: dict[Any, type[OptionModel]] = {
    OptionOverrides: GenerationOptions,
    RequestArguments: GenerationOptions,
    TranscriptionOverrides: TranscriptionOptions,
    LoadArguments: LoadOptions,
}
"""The models that check keyword arguments, by the type of the arguments."""

_OF_MODELS_IN_MEMORY = {"chat_template"}
"""The options of loading that apply to a model in memory."""


def check_components(
    options: object,
    cache: object,
    media: object,
    on_progress: object,
    batch_size: object,
    max_compile_seconds: Any,
) -> None:
    """Raise ``InvalidOptionError`` for an invalid argument among these."""
    given = {
        "options": (options, GenerationOptions),
        "cache": (cache, CacheOptions),
        "media": (media, MediaOptions),
    }
    for name, (value, kind) in given.items():
        if value is not None and not isinstance(value, kind):
            _refuse(name, value, f"should be {kind.__name__}")
    if on_progress is not None and not callable(on_progress):
        _refuse("on_progress", on_progress, "should be callable")
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        _refuse("batch_size", batch_size, "should be an integer of at least 1")
    is_number = isinstance(max_compile_seconds, int | float)
    if max_compile_seconds is not None and not (
        is_number and not isinstance(max_compile_seconds, bool) and max_compile_seconds > 0
    ):
        _refuse("max_compile_seconds", max_compile_seconds, "should be a number above 0")


def check_model(model: object, tokenizer: object, load_options: LoadOptions) -> None:
    """Raise ``InvalidOptionError`` for a model, a tokenizer, or options that do not fit together.

    A model in memory has been loaded, so only its chat template can be chosen.
    """
    if not isinstance(model, str | os.PathLike | Module | None):
        _refuse("model", model, "should be a path, a repo id or a model in memory")
    if isinstance(model, Module) != (tokenizer is not None):
        _refuse("tokenizer", tokenizer, "should be given for a model in memory, and only then")
    if not isinstance(model, Module):
        return
    for name in load_options.given:
        if name not in _OF_MODELS_IN_MEMORY:
            raise InvalidOptionError(
                f"{name} is for models that are loaded by name",
                option=name,
                hint="Give it to mlx_lm.load, or name the model's directory or repo id.",
            )


def check_draft_model(draft_model: object, num_draft_tokens: object) -> None:
    """Raise ``InvalidOptionError`` for an invalid draft model or number of draft tokens."""
    if not isinstance(draft_model, str | os.PathLike | Module | None):
        _refuse("draft_model", draft_model, "should be a path, a repo id or a model in memory")
    if num_draft_tokens is None:
        return
    is_integer = isinstance(num_draft_tokens, int) and not isinstance(num_draft_tokens, bool)
    if not is_integer or not 1 <= cast(int, num_draft_tokens) <= MAX_DRAFT_TOKENS:
        raise InvalidOptionError(
            f"num_draft_tokens should be an integer from 1 to {MAX_DRAFT_TOKENS}, not "
            f"{short_repr(num_draft_tokens)}",
            option="num_draft_tokens",
            hint="To disable drafts, leave out draft_model, or use the option speculation='off'.",
        )
    if draft_model is None:
        raise InvalidOptionError(
            "num_draft_tokens requires draft_model",
            option="num_draft_tokens",
            hint="SpeculationOptions(max_draft_tokens=...) bounds the drafts of prompt lookup.",
        )


def load_options(given: LoadArguments, others: Collection[str]) -> LoadOptions:
    """Return the options of loading a model.

    Args:
        given: The options by name.
        others: The names of the engine's other arguments, for the hint of a misspelled one.

    Raises:
        InvalidOptionError: An option is unknown or its value is invalid.
    """
    known = [*argument_names(LoadOptions), *others]
    check_names(given, known, LoadOptions._name_hints)
    return LoadOptions.of(given)


def with_option_signatures(engine: C) -> C:
    """Give the methods of a class signatures that list the options in place of ``**options``."""
    arguments = {f"Unpack[{kind.__name__}]": kind for kind in _MODELS}
    # `request_arguments` imports these types for type checkers alone: it does not need mlx.
    types = {"LogprobsSampler": LogprobsSampler, "LogitsProcessor": LogitsProcessor}
    for name in dir(engine):
        method = getattr(engine, name)
        if not inspect.isfunction(method):
            continue
        last = list(inspect.signature(method).parameters.values())[-1:]
        kind = arguments.get(last[0].annotation) if last else None
        if kind is not None:
            list_options(method, kind, _MODELS[kind], types=types)
    return engine


def _refuse(name: str, value: object, expected: str) -> NoReturn:
    raise InvalidOptionError(f"{name} {expected}, not {short_repr(value)}", option=name)
