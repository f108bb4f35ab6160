"""Settings of generation: defaults of requests, and the engine's prompt cache.

The fields are those of ``GenerationOptions`` and ``CacheOptions``.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar, cast

from pydantic import BaseModel, BeforeValidator
from pydantic_settings import NoDecode

from samplers.parameters import SamplingParameters

from ..options.fields import OptionalField, optional_field, with_fields
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from ..prompt_cache import CacheOptions

M = TypeVar("M", bound=BaseModel)

_OPTIONS = (
    "max_tokens",
    *(name for name in SamplingParameters.model_fields if name not in ("logit_bias", "seed")),
    "prefill_step_size",
    "schema_in_prompt",
    "chat_template_kwargs",
    "calls_in_text",
)
# By setting: the field of `CacheOptions`.
_CACHE_OPTIONS = {
    "kv_bits": "kv_bits",
    "kv_group_size": "kv_group_size",
    "quantized_kv_start": "quantized_kv_start",
    "max_kv_size": "max_kv_size",
    "prompt_cache_bytes": "max_bytes",
    "prompt_cache_directory": "directory",
    "prompt_cache_disk_bytes": "max_disk_bytes",
}
# A raw prompt is no conversation, into which these options would write.
_CONVERSATION_OPTIONS = {"schema_in_prompt", "chat_template_kwargs", "calls_in_text"}

# OpenAI's defaults; `_RAW_MAX_TOKENS` is for completions.
_TEMPERATURE = 1.0
_RAW_MAX_TOKENS = 16
_MAX_TOKENS = GenerationOptions.model_fields["max_tokens"].default
_DEFAULTS = {
    "temperature": f"{_TEMPERATURE:g}",
    "max_tokens": f"{_MAX_TOKENS}, for completions {_RAW_MAX_TOKENS},",
}


def with_generation_settings(model: type[M]) -> type[M]:
    """Add the settings to a pydantic model as optional fields."""
    fields = {name: _field(GenerationOptions, name) for name in _OPTIONS}
    for setting, option in _CACHE_OPTIONS.items():
        fields[setting] = _field(CacheOptions, option)
        if option != "directory":
            fields[setting] = _validated(fields[setting], BeforeValidator(_number))
    fields["chat_template_kwargs"] = _validated(
        fields["chat_template_kwargs"], NoDecode, BeforeValidator(_object)
    )
    return with_fields(model, fields)


def merged_options(given: OptionOverrides, defaults: OptionOverrides) -> OptionOverrides:
    """Return the options of a request, completed by defaults.

    Variables of the chat template are merged by name.
    """
    options = cast(OptionOverrides, {**defaults, **given})
    variables = defaults.get("chat_template_kwargs")
    if variables:
        options["chat_template_kwargs"] = {**variables, **given.get("chat_template_kwargs", {})}
    return options


def cache_options(settings: BaseModel) -> CacheOptions:
    """Return the options of the engine's prompt cache.

    Raises:
        InvalidOptionError: The settings contradict each other.
    """
    given = {option: getattr(settings, name) for name, option in _CACHE_OPTIONS.items()}
    return CacheOptions(**{name: value for name, value in given.items() if value is not None})


def request_defaults(settings: BaseModel, *, is_raw: bool = False) -> OptionOverrides:
    """Return the options of a request that it does not give itself.

    The engine's own defaults apply to options without a setting.

    Args:
        settings: A model with the settings.
        is_raw: Whether the request continues a text without a chat template.
    """
    # Clients validate the values, and ask again themselves. They ask for confidences.
    options: dict[str, Any] = {
        "temperature": _TEMPERATURE,
        "max_retries": 0,
        "confidence": False,
    }
    if is_raw:
        options["max_tokens"] = _RAW_MAX_TOKENS
    else:
        # OpenAI's default; the engine's is one call.
        options["parallel_tool_calls"] = True
    left_out = _CONVERSATION_OPTIONS if is_raw else set()
    for name in _OPTIONS:
        value = getattr(settings, name)
        if value is not None and name not in left_out:
            options[name] = value
    return cast(OptionOverrides, options)


def check_defaults(settings: BaseModel) -> None:
    """Raise ``InvalidOptionError`` for defaults of requests that are out of range."""
    GenerationOptions(**request_defaults(settings))


def _field(options: type[BaseModel], name: str) -> OptionalField:
    option = options.model_fields[name]
    default = _DEFAULTS.get(name, option.default)
    about = option.description or ""
    if isinstance(default, int | float | str):
        shown = f"{default:g}" if isinstance(default, float) else default
        about += f" ({shown} if not given)"
    return optional_field(options, name, {"description": about})


def _validated(field: OptionalField, *metadata: object) -> OptionalField:
    kind, info = field
    annotated: Any = Annotated
    return annotated[(kind, *metadata)], info


def _number(value: Any) -> Any:
    """Convert the text of a number, which is no value of a ``Literal``."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _object(value: Any) -> Any:
    """Convert the text of a JSON object."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"should be a JSON object: {error}") from error
