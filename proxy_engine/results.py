"""What a request gives back at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from .content import ToolCall

__all__ = ["FinishReason", "GenerationResult", "Segment", "Usage"]

T = TypeVar("T")

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "cancelled"]
"""Why the output ended.

``"stop"``: the model or the grammar ended it. ``"tool_calls"``: so they did, and it holds calls.
``"length"``: ``max_tokens`` cut off free text or reasoning. ``"cancelled"``: the caller stopped it.
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, and seconds of wall-clock time spent on the model.

    ``cached_tokens`` are those of the prompt that an earlier request had read already.
    ``completion_tokens`` counts end tokens too, and ``forced_tokens`` those among them that were
    the only way to go on, and were not sampled. ``prompt_seconds`` is the time until the first
    sampled token, ``completion_seconds`` the time after it: of that, ``mask_seconds`` for masks and
    matchers, while the device works, and ``wait_seconds`` for the device.
    """

    prompt_tokens: int
    completion_tokens: int
    prompt_seconds: float
    completion_seconds: float
    cached_tokens: int = 0
    forced_tokens: int = 0
    mask_seconds: float = 0.0
    wait_seconds: float = 0.0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def prompt_tokens_per_second(self) -> float:
        """Speed of reading the prompt; 0 where no time was measured."""
        read = self.prompt_tokens - self.cached_tokens
        return read / self.prompt_seconds if self.prompt_seconds else 0.0

    @property
    def completion_tokens_per_second(self) -> float:
        """Speed of writing, from the first token to the last; 0 for a single token."""
        after_first = self.completion_tokens - 1
        return after_first / self.completion_seconds if self.completion_seconds else 0.0


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the output, and the sub-state that wrote it.

    ``is_marker``: text that delimits, and no content. Special tokens stand by their names.
    """

    identifier: str
    text: str
    is_marker: bool = False


@dataclass(frozen=True, slots=True)
class GenerationResult(Generic[T]):
    """A finished output.

    ``text`` is what was answered: free text and structured output, without reasoning, tool calls,
    markers and end tokens. ``parsed`` is the validated value: an instance of the type that was
    asked for, or the JSON value for a JSON Schema, or the text itself for other state machines;
    ``None`` for free text, and where tools were called instead. ``tool_calls`` are the calls with
    parsed, valid arguments; ``raw`` of each is what the model wrote. ``segments`` are the whole
    output, in order: who wrote what. ``token_ids`` are the tokens as generated, end tokens
    included.
    """

    text: str
    parsed: T
    finish_reason: FinishReason
    usage: Usage
    token_ids: tuple[int, ...]
    model: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    segments: tuple[Segment, ...] = ()
