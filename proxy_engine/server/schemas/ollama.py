"""Ollama's ``POST /api/chat`` and ``POST /api/generate``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ...options.fields import with_options
from .other_names import ALL_NAMES
from .request_model import MAX_MESSAGES, RequestModel
from .sampling import CONVERSATION_OPTIONS, TextFields


class OllamaMessage(RequestModel):
    """A message. Images are in base64."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    images: list[str] | None = None
    thinking: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_name: str | None = None


@with_options(**CONVERSATION_OPTIONS)
class OllamaRequest(TextFields):
    """What both requests have. Sampling parameters are members of ``options``."""

    other_names = ALL_NAMES

    stream: bool | None = Field(default=None, description="Default: true.")
    format: Literal["json"] | dict[str, Any] | None = Field(
        default=None, description="`json`, or a JSON Schema."
    )
    think: bool | Literal["low", "medium", "high"] | None = None

    @property
    def is_streamed(self) -> bool:
        """Whether the answer is streamed."""
        return self.stream is not False

    @property
    def text_format(self) -> dict[str, Any] | None:
        """The format as chat completions have it."""
        if isinstance(self.format, dict):
            return {"type": "json_schema", "json_schema": {"schema": self.format}}
        return {"type": "json_object"} if self.format else None

    @property
    def format_name(self) -> str:
        """The name of the field that has it."""
        return "format"


class OllamaChatRequest(OllamaRequest):
    """A conversation to answer."""

    messages: list[OllamaMessage] = Field(
        default_factory=list,
        max_length=MAX_MESSAGES,
        description="Without messages, the model is loaded.",
    )
    tools: list[dict[str, Any]] | None = None


class OllamaGenerateRequest(OllamaRequest):
    """A text to answer, or to continue if it is ``raw``."""

    prompt: str = Field(default="", description="Without a text, the model is loaded.")
    system: str | None = None
    images: list[str] | None = None
    raw: bool | None = None
    suffix: Literal[""] | None = Field(default=None, description="Insertion is not supported.")
