"""What a request gives back: events while it runs, one result at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

__all__ = [
    "FinishReason",
    "Finished",
    "GenerationResult",
    "PromptProgress",
    "StreamEvent",
    "TextDelta",
    "Usage",
]

T = TypeVar("T")

FinishReason: TypeAlias = Literal["stop", "length"]
"""``"stop"``: the model or the grammar ended the output. ``"length"``: ``max_tokens`` did."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, and seconds of wall-clock time spent on the model.

    ``completion_tokens`` counts end tokens too. ``prompt_seconds`` is the time until the first
    token, ``completion_seconds`` the time for those after it.
    """

    prompt_tokens: int
    completion_tokens: int
    prompt_seconds: float
    completion_seconds: float

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def prompt_tokens_per_second(self) -> float:
        """Speed of reading the prompt; 0 where no time was measured."""
        return self.prompt_tokens / self.prompt_seconds if self.prompt_seconds else 0.0

    @property
    def completion_tokens_per_second(self) -> float:
        """Speed of writing, from the first token to the last; 0 for a single token."""
        after_first = self.completion_tokens - 1
        return after_first / self.completion_seconds if self.completion_seconds else 0.0


@dataclass(frozen=True, slots=True)
class GenerationResult(Generic[T]):
    """A finished output.

    ``text`` is the output without end tokens. ``parsed`` is the validated value: an instance of
    the type that was asked for, or the JSON value for a JSON Schema, or the text itself for other
    state machines; ``None`` for free text. ``token_ids`` are the tokens as generated, end tokens
    included.
    """

    text: str
    parsed: T
    finish_reason: FinishReason
    usage: Usage
    token_ids: tuple[int, ...]
    model: str


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """So many of the prompt's tokens have been read."""

    processed: int
    total: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """One more token. ``text`` may be empty: within a character, or for an end token.

    The deltas of a request, joined, are the result's ``text``.
    """

    text: str
    token_id: int


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    """The last event of every stream that ends well."""

    result: GenerationResult[T]


StreamEvent: TypeAlias = PromptProgress | TextDelta | Finished[T]
