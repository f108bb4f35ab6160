"""What a request gives back at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from .conversation.content import ToolCall
from .conversation.interaction import Interaction, Role

__all__ = [
    "AnswerPart",
    "FinishReason",
    "GenerationResult",
    "Logprob",
    "Span",
    "TokenLogprobs",
    "Usage",
]

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
    ``completion_tokens`` counts end tokens too, and ``fast_forwarded_tokens`` those among them
    that were forced by the grammar and not sampled. ``prompt_seconds`` is the time until the first
    sampled token, ``completion_seconds`` the time after it: of that, ``mask_seconds`` for masks and
    matchers, while the device works, ``sample_seconds`` for describing how tokens are chosen, and
    ``forward_seconds`` for describing forward passes and waiting for the device. A request that
    is run together with others shares the latter with them. ``queue_seconds`` is how long it had
    waited before.
    """

    prompt_tokens: int
    completion_tokens: int
    prompt_seconds: float
    completion_seconds: float
    cached_tokens: int = 0
    fast_forwarded_tokens: int = 0
    mask_seconds: float = 0.0
    sample_seconds: float = 0.0
    forward_seconds: float = 0.0
    queue_seconds: float = 0.0

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
class AnswerPart:
    """A stretch of the output, and the sub-state that wrote it.

    ``is_marker``: text that delimits, and no content. Special tokens stand by their names.
    """

    name: str
    text: str
    is_marker: bool = False


@dataclass(frozen=True, slots=True)
class Logprob:
    """A token, and the natural logarithms of its probability.

    ``before_mask``: as the model has it, at temperature 1, without biases and penalties.
    ``after_mask``: the same among the tokens that were allowed; ``-inf`` for others.
    """

    token_id: int
    before_mask: float
    after_mask: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """A token that was chosen, and those that were likeliest in its place, the likeliest first.

    ``top_before_mask`` are the model's own, ``top_after_mask`` the allowed ones; there are fewer of
    these, where fewer were allowed.
    """

    chosen: Logprob
    top_before_mask: tuple[Logprob, ...] = ()
    top_after_mask: tuple[Logprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time of the loop; seconds since the request was begun.

    ``name``: ``"prompt"`` (a pass over some of the prompt), ``"mask"`` (a mask is computed),
    ``"sample"`` (a choice is described), ``"dispatch"`` (a forward pass is described and handed to
    the device), ``"wait"`` (for the device), ``"advance"`` (matchers take a token, and look for
    forced text). ``step`` counts forward passes after the prompt.
    """

    name: str
    step: int
    started: float
    ended: float


@dataclass(frozen=True, slots=True)
class GenerationResult(Generic[T]):
    """A finished output.

    ``text`` is what was answered: free text and structured output, without reasoning, tool calls,
    markers and end tokens. ``parsed`` is the validated value: an instance of the type that was
    asked for, or the JSON value for a JSON Schema, or the text itself for other state machines;
    ``None`` for free text, and where tools were called instead. ``tool_calls`` are the calls with
    parsed, valid arguments; ``raw`` of each is what the model wrote. ``parts`` are the whole
    output, in order: who wrote what. ``token_ids`` are the tokens as generated, end tokens
    included; ``logprobs`` one entry for each, where they were asked for, and ``trace`` what the
    loop did when, where that was.
    """

    text: str
    parsed: T
    finish_reason: FinishReason
    usage: Usage
    token_ids: tuple[int, ...]
    model: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    parts: tuple[AnswerPart, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] | None = None
    trace: tuple[Span, ...] = ()

    def to_interaction(self) -> Interaction:
        """Return the answer as a message of the assistant."""
        return Interaction(
            Role.ASSISTANT,
            self.text or (),
            tool_calls=self.tool_calls,
            reasoning=self.reasoning or None,
        )

    def to_message(self) -> dict[str, Any]:
        """Return the answer as an OpenAI message, to be appended to the conversation."""
        return self.to_interaction().to_message()
