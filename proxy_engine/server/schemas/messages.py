"""Anthropic's ``POST /v1/messages``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from ...options.fields import with_options
from .request_model import MAX_MESSAGES, RequestModel
from .sampling import CONVERSATION_OPTIONS, TextFields


class MessageParam(RequestModel):
    """A message, whose content is a text or blocks."""

    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, Any]]


class OutputConfig(RequestModel):
    """The format of the answer's text: a JSON Schema."""

    # The model reasons as it does.
    no_effect = frozenset({"effort"})

    format: dict[str, Any] | None = None


class ThinkingConfig(RequestModel):
    """Whether the answer may begin with reasoning, and whether it is sent."""

    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: int | None = Field(default=None, ge=1)
    display: Literal["summarized", "omitted"] | None = None


class ToolChoiceParam(RequestModel):
    """Which tools may be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


@with_options(**CONVERSATION_OPTIONS)
class MessagesRequest(TextFields):
    """A conversation to answer: Anthropic's fields, and extensions, which are marked."""

    messages: list[MessageParam] = Field(min_length=1, max_length=MAX_MESSAGES)
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = Field(
        default=None, description="Those with an `input_schema`; there are no server tools."
    )
    tool_choice: ToolChoiceParam | None = None
    thinking: ThinkingConfig | None = Field(
        default=None, description="Default: disabled. `budget_tokens` limits the reasoning."
    )
    output_config: OutputConfig | None = None

    @property
    def has_free_text(self) -> bool:
        """Whether free text may be part of the answer, which stop sequences can end."""
        calls = self.tool_choice is not None and self.tool_choice.type in ("any", "tool")
        return super().has_free_text and not calls

    @property
    def text_format(self) -> dict[str, Any] | None:
        """The format of the text."""
        return None if self.output_config is None else self.output_config.format

    @property
    def format_name(self) -> str:
        """The name of the field that has it."""
        return "output_config.format"

    def ineffective_fields(self) -> Iterator[str]:
        """Yield fields whose values have no effect although they should."""
        yield from super().ineffective_fields()
        for index, tool in enumerate(self.tools or ()):
            if "input_schema" not in tool:
                yield f"tools[{index}]"
        if self.include_tokens:
            yield "include_tokens"
