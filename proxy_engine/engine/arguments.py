"""The arguments of ``InferenceEngine`` and its methods: types, checks and signatures."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from mlx.nn.layers.base import Module
from pydantic import ConfigDict, Field, InstanceOf

from state_machines.tool_calls import ToolFormat

from ..checks import OptionModel, argument_names, check_names, short_repr
from ..errors import InvalidOptionError
from ..generation.sequence_samplers import LogitsProcessor, LogprobsSampler
from ..media import MediaOptions
from ..models.load_options import LoadArguments, LoadOptions
from ..options.fields import ListedArguments, list_options, option_defaults
from ..options.generation import MAX_DRAFT_TOKENS, GenerationOptions
from ..options.overrides import OptionOverrides
from ..prompt_cache import CacheOptions
from ..tools.tool_loop import OnTurn

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import TypeVar as TypeVarWithDefault

    from state_machines import StateMachine
    from state_machines.root import Part

    from ..answers.response_format import JsonSchema, OuterFormat
    from ..text_formats import TextFormat

    T = TypeVarWithDefault("T", default=Any)
    Format: TypeAlias = (
        TypeAdapter[T] | TextFormat[T] | JsonSchema | StateMachine | OuterFormat | Part | None
    )
    """The response formats that are no types. ``T`` is ``Any`` except for a ``TypeAdapter`` and a
    ``TextFormat``."""

C = TypeVar("C", bound=type)

ModelSource: TypeAlias = str | os.PathLike[str] | Module
"""A directory, a Hugging Face repo id, or a model in memory."""

_OF_MODELS_IN_MEMORY = {"chat_template", "wired_memory"}
"""The options of loading that apply to a model in memory."""


class RequestArguments(OptionOverrides, total=False):
    """The keyword arguments of a request besides its response format: tools, hooks and options.

    Attributes:
        tools: OpenAI-style dicts, pydantic models, dataclasses, functions, or ``Tool``s.
        tool_choice: ``"auto"`` (default), ``"required"``, ``"none"``, or the name of a tool.
        sampler: A function from log-probabilities over the allowed tokens, float32, shape (1,
            vocabulary), to a token id, as mlx-lm's samplers are. It selects the tokens in place of
            the sampling parameters.
        logits_processors: Functions of the token ids so far, shape (tokens,), and the logits, shape
            (1, vocabulary), that return logits, as mlx-lm's are. They run before the mask and the
            sampling parameters.
        logprob_vectors: Report the log-probabilities of all tokens at each position.
    """

    tools: Iterable[Any] | None
    tool_choice: Any
    sampler: LogprobsSampler | None
    logits_processors: Iterable[LogitsProcessor] | None
    logprob_vectors: bool


class ToolLoopArguments(OptionOverrides, total=False):
    """The keyword arguments of ``InferenceEngine.run_tools``, which describes them."""

    tool_choice: Any
    max_rounds: int
    on_turn: OnTurn | None


class EngineOptions(OptionModel):
    """The arguments of ``InferenceEngine``, without the arguments of loading.

    Raises:
        InvalidOptionError: An argument is invalid.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    options: InstanceOf[GenerationOptions] | None
    on_progress: Callable[[str], None] | None
    cache_vocabulary: bool
    tool_format: str | InstanceOf[ToolFormat] | None
    cache: InstanceOf[CacheOptions] | None
    batch_size: int = Field(ge=1)
    max_compile_seconds: float | None = Field(gt=0)
    draft_model: Any
    num_draft_tokens: int | None = Field(ge=1, le=MAX_DRAFT_TOKENS)
    media: InstanceOf[MediaOptions] | None


def check_model(
    model: object, tokenizer: object, options: EngineOptions, load_options: LoadOptions
) -> None:
    """Raise ``InvalidOptionError`` for arguments that do not fit together.

    A model in memory has been loaded, so few of the options of loading apply.
    """
    for name, source in (("model", model), ("draft_model", options.draft_model)):
        if not isinstance(source, str | os.PathLike | Module | None):
            _refuse(name, source, "should be a path, a repo id or a model in memory")
    if isinstance(model, Module) != (tokenizer is not None):
        _refuse("tokenizer", tokenizer, "should be given for a model in memory, and only then")
    if options.num_draft_tokens is not None and options.draft_model is None:
        raise InvalidOptionError(
            "num_draft_tokens requires draft_model",
            option="num_draft_tokens",
            hint="SpeculationOptions(max_draft_tokens=...) bounds the drafts of prompt lookup.",
        )
    if load_options.distributed and options.cache is not None:
        options.cache.check_distributed()
    if not isinstance(model, Module):
        return
    for name in load_options.changed_names():
        if name not in _OF_MODELS_IN_MEMORY:
            raise InvalidOptionError(
                f"{name} is for models that are loaded by name",
                option=name,
                hint="Give it to mlx_lm.load, or name the model's directory or repo id.",
            )


def parse_load_options(arguments: LoadArguments) -> LoadOptions:
    """Return the options of loading a model.

    Raises:
        InvalidOptionError: An option is unknown or its value is invalid.
    """
    known = [*argument_names(LoadOptions), *EngineOptions.model_fields]
    check_names(arguments, known, LoadOptions.name_hints)
    return LoadOptions.of(arguments)


def _refuse(name: str, value: object, expected: str) -> NoReturn:
    raise InvalidOptionError(f"{name} {expected}, not {short_repr(value)}", option=name)


def _request_arguments() -> ListedArguments:
    return RequestArguments, {**option_defaults(GenerationOptions), "logprob_vectors": False}


def _extraction_arguments() -> ListedArguments:
    from ..extraction.options import (  # noqa: PLC0415 - slow.
        ExtractionArguments,
        ExtractionOptions,
    )

    return ExtractionArguments, option_defaults(GenerationOptions, ExtractionOptions)


def _transcription_arguments() -> ListedArguments:
    from ..transcription import (  # noqa: PLC0415 - slow.
        TranscriptionArguments,
        TranscriptionOptions,
    )

    return TranscriptionArguments, option_defaults(TranscriptionOptions)


_ARGUMENTS: dict[str, Callable[[], ListedArguments]] = {
    "OptionOverrides": lambda: (OptionOverrides, option_defaults(GenerationOptions)),
    "RequestArguments": _request_arguments,
    "ToolLoopArguments": lambda: (
        ToolLoopArguments,
        {**option_defaults(GenerationOptions), "max_rounds": 8},
    ),
    "ExtractionArguments": _extraction_arguments,
    "TranscriptionArguments": _transcription_arguments,
    "LoadArguments": lambda: (LoadArguments, option_defaults(LoadOptions)),
}
"""The types of keyword arguments, and the defaults that are not ``None``, by the types' names."""


def with_option_signatures(engine: C) -> C:
    """Give the methods of a class signatures that list the options in place of ``**options``.

    Python's errors of calls show qualified names, which for inherited methods have the class, too.
    """
    for name, method in inspect.getmembers(engine, inspect.isfunction):
        if not name.startswith("_"):
            method.__qualname__ = f"{engine.__qualname__}.{name}"
        for kind in method.__annotations__.values():
            arguments = str(kind).removeprefix("Unpack[").removesuffix("]")
            if arguments in _ARGUMENTS:
                list_options(method, _ARGUMENTS[arguments])
    return engine
