"""Fields of requests under the names of other servers, and fields that change no answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class OtherName:
    """What a field of another server stands for.

    Attributes:
        field: Our name.
        convert: Returns our value for the other server's value.
    """

    field: str
    convert: Callable[[Any], Any] = _same


OTHER_NAMES: Mapping[str, OtherName] = {
    # OpenAI's older name.
    "max_tokens": OtherName("max_completion_tokens"),
    # Anthropic's, and its former name.
    "stop_sequences": OtherName("stop"),
    "output_format": OtherName("output_config", lambda value: {"format": value}),
    # mlx-lm: one window for all penalties here.
    "presence_context_size": OtherName("repetition_context_size"),
    "frequency_context_size": OtherName("repetition_context_size"),
    # llama.cpp and LM Studio.
    "repeat_penalty": OtherName("repetition_penalty"),
    # vLLM: its object of constraints, and its former fields.
    "structured_outputs.json": OtherName("json_schema"),
    "structured_outputs.regex": OtherName("regex"),
    "structured_outputs.choice": OtherName("choice"),
    "structured_outputs.grammar": OtherName("grammar"),
    "structured_outputs.json_object": OtherName(
        "response_format", lambda value: {"type": "json_object" if value else "text"}
    ),
    "structured_outputs.structural_tag": OtherName("structural_tag"),
    "guided_json": OtherName("json_schema"),
    "guided_regex": OtherName("regex"),
    "guided_choice": OtherName("choice"),
    "guided_grammar": OtherName("grammar"),
    "add_generation_prompt": OtherName("continue_final_message", lambda value: value is False),
    # SGLang.
    "ebnf": OtherName("grammar"),
}
"""By name. A dot stands before a member of an object."""

ALL_NAMES: Mapping[str, OtherName] = {
    **OTHER_NAMES,
    **{
        f"options.{name}": OtherName(name)
        for name in (
            *("temperature", "top_k", "top_p", "min_p", "seed", "stop"),
            *("presence_penalty", "frequency_penalty"),
        )
    },
    "options.repeat_penalty": OtherName("repetition_penalty"),
    # -2 fills the context, as -1 does here.
    "options.num_predict": OtherName(
        "max_completion_tokens", lambda value: -1 if value == -2 else value
    ),
}
"""The same with the members of Ollama's ``options``."""

NO_EFFECT = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier", "verbosity"),
        *("prompt_cache_key", "prompt_cache_retention", "prediction", "cache_control"),
        *("structured_outputs.disable_fallback", "structured_outputs.disable_any_whitespace"),
    }
)
"""Fields of OpenAI, Anthropic and vLLM that change no answer here."""
