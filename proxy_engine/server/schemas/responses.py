"""``POST /v1/responses``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ...options.fields import with_options
from ...tools.choice import requires_call
from .request_model import MAX_MESSAGES, RequestModel
from .sampling import CONVERSATION_OPTIONS, Effort, SamplingFields, StreamOptions

ITEM_KEYS: Mapping[str, frozenset[str]] = {
    "message": frozenset({"role", "content", "phase"}),
    "function_call": frozenset({"call_id", "name", "arguments", "parsed_arguments"}),
    "function_call_output": frozenset({"call_id", "output", "name"}),
    "custom_tool_call": frozenset({"call_id", "name", "input"}),
    "custom_tool_call_output": frozenset({"call_id", "output", "name"}),
    "reasoning": frozenset({"content", "summary", "encrypted_content"}),
    "item_reference": frozenset(),
}
"""By type: keys of items. Clients send back the output of a response with keys that no model reads.
All types have ``type``, ``id`` and ``status``."""

_COMMON_KEYS = frozenset({"type", "id", "status"})


class ReasoningSettings(RequestModel):
    """Whether to reason. There are no summaries: the reasoning is sent in full."""

    no_effect = frozenset({"summary", "generate_summary"})

    effort: Effort | None = None


class TextSettings(RequestModel):
    """The format of the answer's text."""

    format: dict[str, Any] | None = None


@with_options(**CONVERSATION_OPTIONS)
class ResponsesRequest(SamplingFields):
    """A text to answer, or the items of a conversation."""

    input: str | Annotated[list[dict[str, Any]], Field(max_length=MAX_MESSAGES)] | None = Field(
        default=None, description="Default: nothing is added to what is continued."
    )
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream_options: StreamOptions | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    text: TextSettings | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = Field(default=None, ge=1)
    reasoning: ReasoningSettings | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    include: list[str] | None = Field(
        default=None,
        description="`message.output_text.logprobs`. There is no encrypted content, and no output "
        "of OpenAI's own tools.",
    )
    truncation: Literal["auto", "disabled"] | None = Field(
        default=None, description="A prompt is never truncated."
    )
    background: Literal[False] | None = None
    user: str | None = Field(default=None, description="Ignored.")
    metadata: Any = Field(default=None, description="Ignored.")

    @property
    def has_free_text(self) -> bool:
        """Whether the answer is free text, or may be free text in place of a tool call."""
        return super().has_free_text and not requires_call(self.tool_choice)

    @property
    def text_format(self) -> dict[str, Any] | None:
        """The format of the text."""
        return None if self.text is None else self.text.format

    @property
    def format_name(self) -> str:
        """The name of the field that has it."""
        return "text.format"

    def unknown_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the path and the value of each unknown field, also of items."""
        yield from super().unknown_fields()
        for item in self.input if isinstance(self.input, list) else ():
            known = ITEM_KEYS.get(str(item.get("type", "message")))
            if known is not None:
                for name, value in item.items():
                    if name not in known and name not in _COMMON_KEYS and value is not None:
                        yield f"input[].{name}", value
