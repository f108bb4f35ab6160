"""The options of a request as keyword arguments. Generated from ``generation``: do not edit.

Regenerate it with ``python tests/support/option_overrides_source.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from state_machines.tool_calls import ToolFormat

from .generation import FreeformFirstOptions, PartOptions, ReasoningOptions, SpeculationOptions


class OptionOverrides(TypedDict, total=False):
    """The fields of :class:`~proxy_engine.GenerationOptions`, which describes them."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    min_tokens_to_keep: int
    xtc_probability: float
    xtc_threshold: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    repetition_context_size: int
    logit_bias: Mapping[int, float] | tuple[tuple[int, float], ...]
    seed: int | None
    max_tokens: int | None
    min_tokens: int
    max_seconds: float | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    parts: Mapping[str, PartOptions]
    reasoning: bool | ReasoningOptions | None
    freeform_first: bool | FreeformFirstOptions
    schema_in_prompt: Literal["auto", "off", "outline", "json_schema"]
    continue_final_message: bool
    speculation: Literal["auto", "off"] | SpeculationOptions
    exact_choices: bool
    confidence: bool | None
    additional_properties: Literal["closed", "schema"]
    write_defaults: bool
    sources: Mapping[str, str] | None
    parallel_tool_calls: bool
    max_tool_calls: int
    allow_repeated_calls: bool | Sequence[str] | None
    calls_in_text: Literal["off", "start", "lines"]
    logprobs: int | None
    max_retries: int
    n: int
    chat_template_kwargs: Mapping[str, Any]
    tool_format: str | ToolFormat | None
    tool_delimiters: tuple[str, str] | None
    media_in_history: Literal["placeholder", "error"]
    stop_repetition: bool
    fast_forward: bool
    prefill_step_size: int | None
    trace: bool
