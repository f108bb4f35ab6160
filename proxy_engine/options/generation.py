"""The options of a request, declared once.

A field of :class:`GenerationOptions` declares an option: its type, its range, its default and its
description. From the fields derive

* the keyword arguments of ``generate`` and its siblings (``overrides``, a generated module: type
  checkers cannot compute a ``TypedDict`` from a model);
* the commands of the bridge, the fields of the server (``fields``), and the flags of the command
  line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, PlainValidator, ValidationInfo, field_validator

from samplers.parameters import SamplingParameters
from state_machines.json_schema.machine import AdditionalProperties
from state_machines.tool_calls import ToolFormat
from state_machines.tool_calls.calls_in_text import CallsInText

from ..checks import OptionModel, check_names
from .values import (
    MAX_COUNT,
    parse_delimiters,
    parse_names_or_flag,
    parse_sources,
    parse_stop_strings,
    parse_stop_token_ids,
    parse_template_variables,
    parse_tool_format,
)

MAX_DRAFT_TOKENS = 64
"""The longest draft, in tokens."""

MAX_RETRIES = 100
"""The most further attempts at an answer. The prompt has all rejected answers."""

RENAMED_OPTIONS = {"draft_first": "freeform_first"}
"""The names of options by their former names."""

FORMER_OPTIONS = {
    **{former: f"It is named {name!r} now." for former, name in RENAMED_OPTIONS.items()},
    "particles": "It was removed: use exact_choices for the distribution of finite choices, and n "
    "with confidence=True for several answers with their probabilities.",
    "soft_max_tokens": "It was removed: an answer is complete within max_tokens. For shorter "
    "answers, bound their lengths in the schema, or ask for them in the prompt.",
}
"""Hints for options that were removed or renamed, by their former names."""

_HINTS = {
    **FORMER_OPTIONS,
    # The names of other libraries, which are too far for a spelling distance.
    "temp": "Did you mean 'temperature'?",
    "max_completion_tokens": "Did you mean 'max_tokens'?",
    **dict.fromkeys(
        (
            "schema",
            "json_schema",
            "format",
            "pydantic_model",
            "response_model",
            "output_type",
            "guided_json",
        ),
        "Did you mean 'response_format'?",
    ),
    "response_format": "It is an argument of generate and its siblings.",
    **dict.fromkeys(
        ("regex", "pattern", "grammar", "choice", "choices", "guided_regex", "guided_choice"),
        "Give response_format=Regex(...), Choice([...]), Lark(...) or GBNF(...).",
    ),
    **dict.fromkeys(
        ("system", "system_prompt", "system_message", "instructions"),
        'Give messages: [{"role": "system", "content": ...}, {"role": "user", "content": ...}].',
    ),
    **dict.fromkeys(("messages", "conversation"), "Messages are the first argument, the prompt."),
    "stream": "engine.stream(prompt) returns the events of an answer.",
    **dict.fromkeys(("max_length", "num_predict", "max_gen_len"), "Did you mean 'max_tokens'?"),
    **dict.fromkeys(("stop_sequences", "stop_words"), "Did you mean 'stop'?"),
    **dict.fromkeys(("timeout", "max_time"), "Did you mean 'max_seconds'?"),
    "do_sample": "temperature=0 selects the most likely token, others sample.",
    **dict.fromkeys(
        ("image", "images"), "An image is a part of a message: ImageContent in its content."
    ),
    **dict.fromkeys(("function", "functions"), "Did you mean 'tools'?"),
    # Arguments of mlx-lm's functions.
    "draft_model": "It is an argument of InferenceEngine.",
    "num_draft_tokens": "It is an argument of InferenceEngine, and a field of SpeculationOptions.",
}


class ReasoningOptions(OptionModel):
    """Reasoning before the answer."""

    is_required: bool = True
    """Whether the model must reason. Otherwise it may, where its chat template allows both."""
    min_chars: int = Field(default=0, ge=0, le=MAX_COUNT)
    """Minimum number of characters."""
    max_chars: int | None = Field(default=None, ge=0, le=MAX_COUNT)
    """Maximum number of characters; none by default."""
    begin: str | None = Field(default=None, min_length=1)
    """Marker before the reasoning. Default: the model's own, else `<think>`. If the prompt has
    opened reasoning already, only `end` applies."""
    end: str | None = Field(default=None, min_length=1, validate_default=True)
    """Marker after the reasoning. Default: the model's own, else `</think>`."""

    @field_validator("max_chars")
    @classmethod
    def _check_range(cls, max_chars: int | None, info: ValidationInfo) -> int | None:
        min_chars = info.data.get("min_chars", 0)
        if max_chars is not None and max_chars < min_chars:
            raise ValueError(f"should be at least min_chars, {min_chars}")
        return max_chars

    @field_validator("begin", "end")
    @classmethod
    def _check_marker(cls, marker: str | None, info: ValidationInfo) -> str | None:
        if info.field_name == "end" and (marker is None) != (info.data.get("begin") is None):
            raise ValueError("should be given together with begin")
        return marker


class FreeformFirstOptions(OptionModel):
    """A freeform answer before the constrained one."""

    max_tokens: int = Field(default=512, ge=1, le=MAX_COUNT)
    """Maximum number of tokens of the freeform answer. It is also at most half of the request's
    `max_tokens` and of the room in the context. The limit of the part `reasoning` replaces all of
    them."""
    instruction: str | None = Field(default=None, min_length=1)
    """The message of the user between the two answers. By default it asks for the answer, for JSON
    if the answer is JSON."""


class SpeculationOptions(OptionModel):
    """How drafts are made: several tokens that one forward pass verifies.

    Drafts change the speed, not the answer: a token is accepted only where the model samples it, or
    by the rule of Leviathan et al. 2023, "Fast Inference from Transformers via Speculative
    Decoding".
    """

    max_draft_tokens: int = Field(default=16, ge=1, le=MAX_DRAFT_TOKENS)
    """Maximum number of draft tokens per forward pass, whatever drafts them. A larger
    `num_draft_tokens` raises the default."""
    num_draft_tokens: int | None = Field(default=None, ge=1, le=MAX_DRAFT_TOKENS)
    """Number of tokens that the draft model drafts per forward pass. Default: the engine's,
    which chooses it by the acceptance rate if it has none."""
    prompt_lookup: bool = True
    """Whether text is drafted that the answer repeats from the prompt, or from itself."""
    draft_model: bool = True
    """Whether the engine's draft model drafts, if it has one."""
    is_adaptive: bool = True
    """Whether the length of drafts follows the acceptance rate. Otherwise drafts are as long as the
    other options allow."""

    def with_defaults(self, num_draft_tokens: int | None) -> SpeculationOptions:
        """Return the options with the engine's ``num_draft_tokens`` as the default.

        The result's ``num_draft_tokens`` is at most its ``max_draft_tokens``.
        """
        number, longest = self.num_draft_tokens or num_draft_tokens, self.max_draft_tokens
        if number is not None:
            if "max_draft_tokens" not in self.model_fields_set:
                longest = max(longest, number)
            number = min(longest, number)
        return self.model_copy(update={"num_draft_tokens": number, "max_draft_tokens": longest})


class PartOptions(OptionModel, SamplingParameters):
    """Options that differ while one part of the answer is written.

    Sampling parameters default to the request's.
    """

    name_hints: ClassVar[Mapping[str, str]] = _HINTS

    max_tokens: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    """Maximum number of consecutive tokens of the part. Free text and reasoning end there if the
    grammar allows it; structured output and tool calls are completed within the limit, or as
    briefly as their schema allows."""


class GenerationOptions(OptionModel, SamplingParameters):
    """The options of a request. Immutable.

    Those from ``chat_template_kwargs`` on are rarely needed. ``stop`` is stored as a tuple,
    ``logit_bias`` as pairs in order of the token ids.

    Raises:
        InvalidOptionError: An option is unknown or its value is invalid.
    """

    name_hints: ClassVar[Mapping[str, str]] = _HINTS

    max_tokens: int | None = Field(default=2048, ge=1, le=MAX_COUNT)
    """Maximum number of tokens to generate, within the room that the context leaves. The answer is
    complete within it. `None`: all of that room."""
    min_tokens: int = Field(default=0, ge=0, le=MAX_COUNT)
    """Minimum number of tokens to generate, where the answer allows that many."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Time limit in seconds of wall-clock time, from the call on, with preparation and queue; from
    the request's start in a batch. As it approaches, the answer is completed as briefly as
    possible, estimated from the measured speed. It is complete even where that takes longer."""
    stop: Annotated[
        str | Sequence[str] | None,
        PlainValidator(parse_stop_strings, json_schema_input_type=str | list[str] | None),
    ] = ()
    """Strings that end free text and are not part of it. Reasoning does not end there. A request
    whose answer has no free text refuses them."""
    stop_token_ids: Annotated[
        Sequence[int] | None,
        PlainValidator(parse_stop_token_ids, json_schema_input_type=list[int] | None),
    ] = ()
    """Tokens that end free text, besides the model's end tokens, and are not part of it. In an
    answer with reasoning or tools, the text of such a token ends it. A request whose answer has no
    free text refuses them."""
    parts: Mapping[str, PartOptions] = Field(default_factory=dict)
    """Options that differ by part of the answer: `text`, `reasoning`, `structured`, `tool_call`,
    or a part of the response format's own."""
    reasoning: bool | ReasoningOptions | None = None
    """`true` requires reasoning, `false` disables it. By default the model may reason, but not
    before structured output alone."""
    freeform_first: bool | FreeformFirstOptions = False
    """Whether the model first answers freely, and then writes the constrained answer with the
    freeform one in its context. The freeform answer ends where the model ends it, or at its limit;
    a message of the user asks for the constrained one. Freeform answer and message are reasoning,
    and count as output."""
    schema_in_prompt: Literal["auto", "off", "outline", "json_schema"] = "auto"
    """How the prompt describes the JSON of the response format: as an outline with names, types,
    alternatives and descriptions, as its JSON Schema, or not at all. `auto` writes an outline if
    the schema has descriptions. The text begins the first message of the user; with `auto` and
    `freeform_first`, it is in the message behind the freeform answer. A text that is too long is
    shortened; the
    constraint is not."""
    continue_final_message: bool = True
    """Whether a conversation that ends with a message of the assistant is continued. Otherwise a
    new answer follows that message."""
    speculation: Literal["auto", "off"] | SpeculationOptions = "auto"
    """Whether forward passes verify drafts of several tokens, which saves passes. `auto` drafts
    where drafts are expected to save time, `off` never."""
    exact_choices: bool = False
    """Whether finite choices are drawn from their exact distribution: enumerations, Booleans, names
    of tools and small ranges of integers, up to 256 options. All options are scored, each with what
    must follow it, before one is chosen. At temperature 0 the best option is taken."""
    confidence: bool | None = None
    """Whether the probability of each sampled token among all allowed tokens is recorded, for
    `result.confidences()`: the probability of every value. `None`: if the whole answer is a
    choice, an enumeration or a Boolean."""
    additional_properties: AdditionalProperties = "closed"
    """`closed`: objects have the properties that the schema of the response format or tool lists,
    and no others where it says nothing about them. `schema`: they may have others."""
    write_defaults: bool = True
    """Whether an answer writes the properties of a type that have a default. Otherwise the model
    may leave them out. In a JSON Schema, `required` decides."""
    sources: Annotated[
        Mapping[str, str] | None,
        PlainValidator(parse_sources, json_schema_input_type=dict[str, str] | None),
    ] = Field(default_factory=dict)
    """Texts by name, from which the strings of the response format with the keyword
    `x-substring-of` are quoted. Without one of the name `prompt`, that is the text of the last
    message of the user."""
    parallel_tool_calls: bool = False
    """Whether an answer may have several tool calls. No two of them are equal."""
    max_tool_calls: int = Field(default=16, ge=1, le=MAX_COUNT)
    """Maximum number of tool calls of an answer, with `parallel_tool_calls`."""
    allow_repeated_calls: Annotated[
        bool | Sequence[str] | None,
        PlainValidator(parse_names_or_flag, json_schema_input_type=bool | list[str] | None),
    ] = None
    """Whether a tool may be called again with arguments that have had a result since the last
    message of the user; a list names the tools that may. Otherwise the grammar excludes these
    calls, and a tool without other arguments is not called. `None`: yes, except in `run_tools`, in
    `engine.openai()` and in the models of agent frameworks that run on an engine."""
    calls_in_text: CallsInText = "start"
    """Where JSON in free text is a tool call, too, if it has the name of a tool and the key of its
    arguments, in a Markdown fence or not: at the `start` of the text, so that the answer is a call;
    at the start of any of its `lines`; or nowhere (`off`). Many models write calls so."""
    logprobs: int | None = Field(default=None, ge=0, le=MAX_COUNT)
    """Report the log-probability of each token and those of this many most likely tokens. All
    tokens are sampled then. No log-probabilities by default."""
    max_retries: int = Field(default=0, ge=0, le=MAX_RETRIES)
    """Number of further attempts after a validator of a pydantic type rejects an answer, or the
    arguments of a tool. Each has the rejected answers and the validators' messages in its prompt,
    and cannot repeat a rejected value. `max_tokens` and `max_seconds` apply to each attempt."""
    n: int = Field(default=1, ge=1, le=MAX_COUNT)
    """Number of answers. They are those of as many requests with the same prompt, which is
    processed once; the seed of the i-th is `seed` + i, from 0 on."""

    # Rarely needed options.

    chat_template_kwargs: Annotated[
        Mapping[str, Any],
        PlainValidator(parse_template_variables, json_schema_input_type=dict[str, Any]),
    ] = Field(default_factory=dict)
    """Further variables of the chat template. `enable_thinking` and `thinking` decide on reasoning,
    as `reasoning` does, which takes precedence."""
    tool_format: Annotated[
        str | ToolFormat | None,
        PlainValidator(parse_tool_format, json_schema_input_type=str | None),
    ] = None
    """The format of tool calls, or its name. Default: the engine's."""
    tool_delimiters: Annotated[
        tuple[str, str] | None,
        PlainValidator(parse_delimiters, json_schema_input_type=list[str] | None),
    ] = None
    """The texts before and after tool calls, in place of the tool format's texts."""
    media_in_history: Literal["placeholder", "error"] = "placeholder"
    """What becomes of images and recordings before the last answer that the model does not read:
    text such as `[1 image]` in their place, or an error. In the newest turn they are always an
    error."""
    stop_repetition: bool = True
    """Whether an array or a string of structured output or of a tool call ends where it repeats
    itself: an item with free text at least four times in a row, and a text in a string, several
    items, or an item without free text at least six times over more than 500 bytes. Values whose
    length or items the schema bounds are left alone."""
    fast_forward: bool = True
    """Whether text that the grammar forces is appended without sampling."""
    prefill_step_size: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    """Prompt tokens per forward pass. The engine chooses by default. A request can be cancelled
    between passes."""
    trace: bool = False
    """Report when the generation loop did what."""

    @field_validator("logprobs", mode="before")
    @classmethod
    def _check_logprobs(cls, logprobs: Any) -> Any:
        if isinstance(logprobs, bool):
            raise ValueError(
                "should be the number of most likely tokens to report at each position: 0 for the "
                "sampled token alone, None for no log-probabilities"
            )
        return logprobs

    @field_validator("min_tokens")
    @classmethod
    def _check_min_tokens(cls, min_tokens: int, info: ValidationInfo) -> int:
        max_tokens = info.data.get("max_tokens")
        if max_tokens is not None and min_tokens > max_tokens:
            raise ValueError(f"should be at most max_tokens, {max_tokens}")
        return min_tokens

    @property
    def token_limit(self) -> int:
        """``max_tokens`` as a number."""
        return MAX_COUNT if self.max_tokens is None else self.max_tokens

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """``stop`` as a tuple."""
        return cast(tuple[str, ...], self.stop)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """``stop_token_ids`` as a tuple."""
        return cast(tuple[int, ...], self.stop_token_ids)

    @property
    def reasoning_option(self) -> bool | ReasoningOptions | None:
        """``reasoning``, or else the template's variable ``enable_thinking`` or ``thinking``."""
        if self.reasoning is not None:
            return self.reasoning
        for name in ("enable_thinking", "thinking"):
            value = self.chat_template_kwargs.get(name)
            if isinstance(value, bool):
                return value
        return None

    @property
    def freeform_first_options(self) -> FreeformFirstOptions | None:
        """``freeform_first`` as options; ``None`` if it is off."""
        if isinstance(self.freeform_first, FreeformFirstOptions):
            return self.freeform_first
        return FreeformFirstOptions() if self.freeform_first else None

    @property
    def speculation_options(self) -> SpeculationOptions | None:
        """``speculation`` as options; ``None`` if it is off."""
        match self.speculation:
            case "off":
                return None
            case "auto":
                return SpeculationOptions()
            case options:
                return options

    def override(self, overrides: Mapping[str, object]) -> GenerationOptions:
        """Return a copy with some options changed.

        Raises:
            InvalidOptionError: An option is unknown or its value is invalid.
        """
        if not overrides:
            return self
        # Names that are not strings cannot be keyword arguments.
        check_names(overrides, GenerationOptions.model_fields, _HINTS)
        # Only these two are checked against each other; the values of this object are valid.
        limits = {"max_tokens": self.max_tokens, "min_tokens": self.min_tokens}
        valid = GenerationOptions(**{**limits, **overrides})  # type: ignore[arg-type]
        return self.model_copy(update={name: getattr(valid, name) for name in overrides})

    def sampling(self, part: str = "") -> SamplingParameters:
        """Return the sampling parameters for a part of the answer, by its identifier."""
        changed = self.parts.get(part)
        names = set() if changed is None else changed.model_fields_set
        return SamplingParameters.model_construct(
            **{
                name: getattr(changed if name in names else self, name)
                for name in SamplingParameters.model_fields
            }
        )
