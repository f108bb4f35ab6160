"""The constraints and sampling parameters of requests, as clients of several servers send them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, field_validator

from samplers.parameters import SamplingParameters

from ...errors import InvalidOptionError
from ...options.fields import given_options, with_options
from ...options.generation import MAX_DRAFT_TOKENS, GenerationOptions, SpeculationOptions
from ...options.overrides import OptionOverrides
from ...options.values import MAX_COUNT
from ...text_formats import Choice, Regex, grammar_format
from ..errors import ApiError, conflict
from ..models import ModelChoice
from . import RequestModel, as_number

# OpenAI allows four. Each is searched for at every token.
StopText = Annotated[str, Field(max_length=1000)]
StopField = StopText | Annotated[list[StopText], Field(max_length=64)] | None

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much to reason: not at all, or as the model does."""

# A temperature below this divides log-probabilities by so little that no draw differs.
_LEAST_TEMPERATURE = 1e-5


def _not_zero(limit: int) -> int:
    if not limit:
        raise ValueError("should be at least 1, or -1 for no limit")
    return limit


TokenLimit = Annotated[int, Field(ge=-1), AfterValidator(_not_zero)]
"""A maximum number of tokens; -1: as many as fit into the context, as in LM Studio."""


def extension(name: str) -> dict[str, Any]:
    """Return the description of a field that is an option of the engine."""
    return {"description": f"Extension. {GenerationOptions.model_fields[name].description}"}


# The class itself declares these: they have more values than the option.
_OWN = (
    *("temperature", "top_p", "top_k", "seed"),
    *("repetition_penalty", "repetition_context_size"),
)
_OPENAI_OPTIONS: dict[str, dict[str, Any]] = {
    name: {} for name in ("presence_penalty", "frequency_penalty", "logit_bias")
}
_EXTENSIONS = {
    name: extension(name)
    for name in (
        *SamplingParameters.model_fields,
        *("exact_choices", "stop_repetition", "speculation", "additional_properties"),
    )
    if name not in (*_OPENAI_OPTIONS, *_OWN)
}
CONVERSATION_OPTIONS = {
    name: extension(name)
    for name in (
        *("freeform_first", "schema_in_prompt", "chat_template_kwargs", "sources"),
        *("tool_format", "tool_delimiters", "calls_in_text", "allow_repeated_calls"),
    )
}
"""The options of requests with messages."""
ANSWER_OPTIONS = {name: extension(name) for name in ("parts", "max_seconds", "max_tool_calls")}
"""The options of chat completions, whose answers have parts."""


def is_free(response_format: Any) -> bool:
    """Return whether a response format leaves the text free."""
    return response_format is None or response_format == {"type": "text"}


class TextConstraints(RequestModel):
    """Extensions that constrain the text, except by JSON Schemas. At most one may be given."""

    regex: str | None = Field(default=None, description="Extension: an ECMA-262 pattern.")
    choice: list[str] | None = Field(default=None, description="Extension: one of these texts.")
    grammar: str | None = Field(
        default=None,
        description="Extension: a grammar, in GBNF with the rule `root` or in Lark with "
        "the rule `start`. A text with `name ::=` is GBNF.",
    )

    def constraint(
        self, response_format: Any, format_name: str = "response_format"
    ) -> tuple[str, Any]:
        """Return the name of the field that constrains the answer, and the engine's argument.

        Nothing is compiled here.

        Args:
            response_format: OpenAI's response format, if the request has one.
            format_name: The endpoint's name for it.

        Raises:
            ApiError: Several fields constrain the answer, or one is malformed.
        """
        fields = self._constraints()
        names = [self.given_name(field) for field in fields]
        if not is_free(response_format):
            names.append(format_name)
        if len(names) > 1:
            message = f"{', '.join(names)} constrain the same answer; give one of them"
            raise conflict(message, names[0])
        for field, value in fields.items():
            return names[0], _CONVERTERS[field](names[0], value)
        return format_name, _with_inner_schema(response_format)

    def is_constrained(self, response_format: Any) -> bool:
        """Return whether the response format or a field constrains the text."""
        return not is_free(response_format) or bool(self._constraints())

    def _constraints(self) -> dict[str, Any]:
        values = {name: getattr(self, name, None) for name in _CONVERTERS}
        return {name: value for name, value in values.items() if value is not None}


@with_options(**_OPENAI_OPTIONS, **_EXTENSIONS)
class SamplingFields(TextConstraints):
    """The model, the engine's sampling parameters, and fields that ask for more than the answer."""

    json_schema: dict[str, Any] | bool | str | None = Field(
        default=None, description="Extension: a JSON Schema, or its text."
    )
    structural_tag: dict[str, Any] | str | None = Field(
        default=None, description="Extension: a structural tag, or its JSON text."
    )
    model: str | None = Field(default=None, description="Default: the model in memory.")
    stream: bool | None = None
    temperature: float | None = Field(
        default=None, ge=0, le=100, description="0 selects the most likely token. Default 1."
    )
    top_p: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Keep the fewest most likely tokens whose total probability reaches this: all "
        "for 1, one for 0.",
    )
    top_k: int | None = Field(
        default=None,
        ge=-1,
        description="Extension. Keep this many most likely tokens; 0 and -1 are off.",
    )
    repetition_penalty: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Extension. Divides positive and multiplies negative logits of tokens in the "
        "window; 1 and 0 are off.",
    )
    repetition_context_size: int | None = Field(
        default=None,
        ge=0,
        description="Number of latest tokens that penalties consider; 0 is the whole text.",
    )
    seed: int | None = Field(default=None, description="Counts modulo 2^64.")
    adapters: str | None = Field(
        default=None,
        description="Extension. Name of an adapter of the server, a LoRA fine-tune of the model. "
        "Default: that of `--adapter-path` for the default model, otherwise none.",
    )
    draft_model: str | None = Field(
        default=None,
        description="Extension. Name of a draft model, as in `model`. `default_model` is that of "
        "the server. Default: the draft model in memory.",
    )
    num_draft_tokens: int | None = Field(
        default=None,
        ge=0,
        description="Extension. Number of tokens that the draft model drafts per forward pass, at "
        f"most {MAX_DRAFT_TOKENS}; 0 disables it. Not with `speculation`, which has a member of "
        "this name.",
    )
    include_tokens: bool | None = Field(
        default=None, description="Extension: add every token to a stream, and timings to the end."
    )
    include_confidence: bool | None = Field(
        default=None,
        description="Extension: add the confidence of each value, by JSON Pointer: the probability "
        "of the value given the text before it, and its geometric mean over tokens.",
    )

    @field_validator("logit_bias", mode="before", check_fields=False)
    @classmethod
    def _convert_biases(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {token: as_number(bias, is_integer=False) for token, bias in given.items()}

    @property
    def is_streamed(self) -> bool:
        """Whether the answer is streamed."""
        return bool(self.stream)

    @property
    def text_format(self) -> Any:
        """The format of the text, as OpenAI's response format."""
        return None

    @property
    def format_name(self) -> str:
        """The name of the field that has it."""
        return "response_format"

    @property
    def has_free_text(self) -> bool:
        """Whether free text may be part of the answer, which ``stop`` can end."""
        return not self.is_constrained(self.text_format)

    @property
    def model_choice(self) -> ModelChoice:
        """The model that the request names."""
        return ModelChoice(self.model, self.draft_model, self.adapters)

    def options(self, choice: int = 0) -> OptionOverrides:
        """Return the request's options for the choice of that number, whose seed is its own."""
        options = given_options(self)
        # The server runs each of the `n` answers as a separate request.
        options.pop("n", None)
        if self.include_confidence:
            options["confidence"] = True
        if self.temperature is not None and self.temperature < _LEAST_TEMPERATURE:
            options["temperature"] = 0.0
        if self.top_p == 0:
            # The smallest set that reaches 0 has the most likely token.
            options["top_p"] = 1.0
            options["top_k"] = 1
        if self.repetition_penalty == 0:
            # mlx-lm's default. Division by 0 is no penalty.
            options["repetition_penalty"] = 1.0
        if self.repetition_context_size == 0:
            options["repetition_context_size"] = MAX_COUNT
        if self.seed is not None:
            options["seed"] = (self.seed + choice) % 2**64
        if self.num_draft_tokens is not None:
            options["speculation"] = self._speculation(self.num_draft_tokens)
        return options

    def _speculation(self, num_draft_tokens: int) -> SpeculationOptions:
        if getattr(self, "speculation", None) is not None:
            raise InvalidOptionError(
                "num_draft_tokens should not be given with speculation",
                option="num_draft_tokens",
                hint='Give {"speculation": {"num_draft_tokens": …}}.',
            )
        if not num_draft_tokens:
            return SpeculationOptions(draft_model=False)
        return SpeculationOptions(num_draft_tokens=min(num_draft_tokens, MAX_DRAFT_TOKENS))


class StreamOptions(RequestModel):
    """Options of a stream. ``include_obfuscation`` has no effect."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


@with_options(min_tokens=extension("min_tokens"), stop_token_ids=extension("stop_token_ids"))
class TextFields(SamplingFields):
    """Where the text of an answer ends."""

    stop: StopField = None
    max_completion_tokens: TokenLimit | None = Field(
        default=None, description="-1 is what the context has room for. Also `max_tokens`."
    )
    ignore_eos: bool | None = Field(
        default=None,
        description="Extension: generate as many tokens as the limit allows. Only for free text.",
    )
    skip_special_tokens: bool | None = Field(
        default=None, description="Special tokens are never part of the text; `false` is ignored."
    )

    @property
    def limit_name(self) -> str:
        """The name of the field that limits the number of tokens."""
        if self.max_completion_tokens is None:
            return "max_tokens"
        return self.given_name("max_completion_tokens")

    @property
    def stop_strings(self) -> list[str]:
        """The texts that end free text."""
        texts = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in texts if text]

    def options(self, choice: int = 0) -> OptionOverrides:
        """Return the request's options for the choice of that number, whose seed is its own."""
        options = super().options(choice)
        options.pop("stop", None)
        if not self.has_free_text:
            options.pop("stop_token_ids", None)
        elif self.stop_strings:
            options["stop"] = self.stop_strings
        limit = self.max_completion_tokens
        if limit is not None:
            options["max_tokens"] = None if limit == -1 else limit
        return options

    def ineffective_fields(self) -> Iterator[str]:
        """Yield fields whose values have no effect although they should."""
        yield from super().ineffective_fields()
        if self.skip_special_tokens is False:
            yield "skip_special_tokens"
        # Agents send stop strings with every request, and structured output needs none.
        if self.stop_strings and not self.has_free_text:
            yield self.given_name("stop")
        if getattr(self, "stop_token_ids", None) and not self.has_free_text:
            yield "stop_token_ids"


def _with_inner_schema(response_format: Any) -> Any:
    """Return a format with its schema in the inner object ``json_schema``.

    llama.cpp and others write the schema beside the type, also of ``json_object``, and OpenAI's
    responses do.
    """
    match response_format:
        case {"type": "json_object" | "json_schema", "schema": dict() | bool(), **rest} if (
            "json_schema" not in rest
        ):
            inner = {key: value for key, value in response_format.items() if key != "type"}
            return {"type": "json_schema", "json_schema": inner}
    return response_format


def _choice(name: str, texts: list[str]) -> Choice:
    if not texts:
        raise ApiError(400, "the list of choices is empty", code="invalid_value", param=name)
    return Choice(texts)


def _schema(name: str, schema: Any) -> Any:
    schema = _parsed(name, schema, "invalid_schema")
    if not isinstance(schema, dict | bool):
        raise ApiError(400, "a schema is an object or a Boolean", code="invalid_schema", param=name)
    return {"type": "json_schema", "json_schema": {"schema": schema}}


def _structural_tag(name: str, tag: Any) -> Any:
    tag = _parsed(name, tag, "invalid_structural_tag")
    if not isinstance(tag, dict) or tag.get("type", "structural_tag") != "structural_tag":
        raise ApiError(
            400,
            "a structural tag is an object of the type 'structural_tag'",
            code="invalid_structural_tag",
            param=name,
        )
    return {**tag, "type": "structural_tag"}


def _parsed(name: str, value: Any, code: str) -> Any:
    """Return the JSON value of a text; other values as they are."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"{name} is not JSON: {error}", code=code, param=name) from error


_CONVERTERS: Mapping[str, Callable[[str, Any], Any]] = {
    "regex": lambda name, pattern: Regex(pattern),
    "choice": _choice,
    "json_schema": _schema,
    "structural_tag": _structural_tag,
    "grammar": lambda name, text: grammar_format(text),
}
