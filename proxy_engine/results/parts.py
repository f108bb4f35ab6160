"""The parts of results: usage, parts of the output, probabilities of tokens and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ..checks import summary
from ..conversation.content import ToolCall

T = TypeVar("T")

_CALL_POINTER = re.compile(r"/tool_calls/(\d+)")


@dataclass(frozen=True, slots=True)
class DraftUsage:
    """Draft tokens of one source.

    Attributes:
        drafted_tokens: Draft tokens that forward passes verified, without forced ones.
        accepted_tokens: Draft tokens that became tokens of the output.
    """

    drafted_tokens: int
    accepted_tokens: int


_SHOWN_COUNTS = (
    *("prompt_tokens", "completion_tokens", "prompt_seconds", "completion_seconds"),
    *("cached_tokens", "reasoning_tokens", "retries"),
)
"""The counts in the ``repr`` of a usage."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, and seconds of wall-clock time.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the output, end tokens included.
        prompt_seconds: Time until the first sampled token.
        completion_seconds: Time after that.
        cached_tokens: Tokens of the prompt whose KV cache was reused.
        reasoning_tokens: Tokens of the output that are reasoning, or a draft with the message
            behind it.
        forced_tokens: Tokens of the output that the grammar forced, so that they were not sampled.
        mask_seconds: Part of ``completion_seconds`` for masks and matchers, while the device
            works.
        draft_seconds: Part of ``completion_seconds`` for drafts: proposing tokens, and the states
            behind them. Requests of a batch share the time of the draft model.
        sample_seconds: Part of ``completion_seconds`` for building the sampling graph.
        forward_seconds: Part of ``completion_seconds`` for building forward passes and waiting for
            the device. Requests of a batch share it.
        preparation_seconds: Time before the queue: rendering and tokenizing the prompt, decoding
            media, compiling the answer's grammar.
        queue_seconds: Time in the queue, before ``prompt_seconds``.
        drafted_tokens: Draft tokens that forward passes verified. Forced tokens are not counted.
        accepted_tokens: Draft tokens that became tokens of the output.
        drafts: The same by source: ``"value"``, ``"repetition"`` and ``"forced_text"`` of copied
            text, ``"draft_model"``, ``"draft_head"``.
        forward_passes: Forward passes after the prompt in which the request took part.
        image_tokens: Tokens of the prompt that stand for images.
        audio_tokens: Tokens of the prompt that stand for audio recordings.
        inexact_choice_tokens: Tokens at which ``exact_choices`` could not score a finite choice, so
            that a token was sampled in place of an option.
        retries: Answers before this one that validators rejected (``max_retries``). The other
            counts and the times are sums over all attempts.
    """

    prompt_tokens: int
    completion_tokens: int
    prompt_seconds: float
    completion_seconds: float
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    forced_tokens: int = 0
    mask_seconds: float = 0.0
    draft_seconds: float = 0.0
    sample_seconds: float = 0.0
    forward_seconds: float = 0.0
    preparation_seconds: float = 0.0
    queue_seconds: float = 0.0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    forward_passes: int = 0
    image_tokens: int = 0
    audio_tokens: int = 0
    inexact_choice_tokens: int = 0
    drafts: Mapping[str, DraftUsage] = field(default_factory=dict)
    retries: int = 0

    def __repr__(self) -> str:
        counts = {name: getattr(self, name) for name in _SHOWN_COUNTS}
        shown = ", ".join(
            f"{name}={round(count, 3) if isinstance(count, float) else count}"
            for name, count in counts.items()
            if count
        )
        return f"Usage({shown})"

    @property
    def total_tokens(self) -> int:
        """Tokens of the prompt and the output."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def prompt_tokens_per_second(self) -> float:
        """Speed of prompt processing; 0 if no time was measured."""
        read = self.prompt_tokens - self.cached_tokens
        return read / self.prompt_seconds if self.prompt_seconds else 0.0

    @property
    def completion_tokens_per_second(self) -> float:
        """Speed of generation after the first token; 0 for a single token."""
        after_first = self.completion_tokens - 1
        return after_first / self.completion_seconds if self.completion_seconds else 0.0


def total_usage(usages: Sequence[Usage]) -> Usage:
    """Return the sums of counts and times."""
    drafts: dict[str, DraftUsage] = {}
    for source in dict.fromkeys(source for usage in usages for source in usage.drafts):
        counts = [usage.drafts[source] for usage in usages if source in usage.drafts]
        drafts[source] = DraftUsage(
            sum(count.drafted_tokens for count in counts),
            sum(count.accepted_tokens for count in counts),
        )
    sums = {
        field.name: sum(getattr(usage, field.name) for usage in usages)
        for field in fields(Usage)
        if field.name != "drafts"
    }
    return replace(usages[0], **sums, drafts=drafts)


@dataclass(frozen=True, slots=True)
class RejectedAnswer:
    """An answer that matches its schema, and that a validator of the caller rejects.

    Attributes:
        text: The structured output; with tool calls the free text before them.
        reason: The validators' messages, as in the prompt of the next attempt.
        usage: Token counts and times of this attempt.
        reasoning: The reasoning before the answer.
        tool_calls: The tool calls.
        reasons: Why arguments are invalid, by the index of the call in ``tool_calls``.
        cut_short: What cut the answer short, as :attr:`GenerationResult.cut_short`.
    """

    text: str
    reason: str
    usage: Usage
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasons: Mapping[int, str] = field(default_factory=dict)
    cut_short: CutShort | None = None


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """Consecutive output of one part of the answer.

    Attributes:
        name: The part's name.
        text: The output; special tokens by their names.
        is_marker: Whether the text is a delimiter, such as ``</think>``, rather than content.
        pointer: The JSON Pointer of the value that the text is, as in
            :meth:`GenerationResult.confidence`; ``None`` for other text. The beginning of a tool
            call has the pointer of the tool's name.
    """

    name: str
    text: str
    is_marker: bool = False
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class Logprob:
    """A token with its log-probabilities (natural logarithm).

    Attributes:
        token_id: The token.
        before_mask: The model's own: at temperature 1, without biases and penalties.
        after_mask: The same among the allowed tokens; ``-inf`` for other tokens.
    """

    token_id: int
    before_mask: float
    after_mask: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The chosen token, and the most likely tokens at its position in descending order.

    Attributes:
        chosen: The chosen token.
        top_before_mask: The most likely tokens of the model.
        top_after_mask: The most likely allowed tokens.
    """

    chosen: Logprob
    top_before_mask: tuple[Logprob, ...] = ()
    top_after_mask: tuple[Logprob, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LogprobVectors:
    """The log-probabilities (natural logarithm) of all tokens at one position.

    Attributes:
        before_mask: The model's own, as :attr:`Logprob.before_mask`; float32, shape (vocabulary,).
        after_mask: Those among the allowed tokens, as :attr:`Logprob.after_mask`; float32, shape
            (vocabulary,).
    """

    before_mask: npt.NDArray[np.float32]
    after_mask: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Span:
    """A time span of the generation loop, in seconds since the request began.

    Attributes:
        name: ``"prompt"`` (a forward pass over prompt tokens), ``"mask"`` (computing a mask),
            ``"sample"`` (building the sampling graph), ``"draft"`` (drafting tokens and computing
            the states behind them), ``"dispatch"`` (building a forward pass and
            submitting it to the device), ``"wait"`` (waiting for the device), ``"advance"``
            (advancing matchers and finding forced text).
        step: Number of forward passes after the prompt.
        started: Begin of the span.
        ended: End of the span.
    """

    name: str
    step: int
    started: float
    ended: float


@dataclass(frozen=True, slots=True)
class ScoredOption:
    """An option of a finite choice.

    Attributes:
        text: As written in the output, such as ``"red"`` with its quotes, ``true`` or ``12``.
        probability: Its probability among the options that fit.
    """

    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class ScoredChoice:
    """A finite choice that was drawn from the exact distribution of its options.

    Attributes:
        offset: Where the chosen option begins, in UTF-8 bytes, in the concatenated texts of
            ``result.parts``.
        options: The options, in descending order of probability.
        chosen: The chosen option.
        forced_bytes: Number of bytes directly before ``offset`` that the grammar forced, such as
            the common beginning of all strings of an enumeration.
    """

    offset: int
    options: tuple[ScoredOption, ...]
    chosen: ScoredOption
    forced_bytes: int = 0

    def __repr__(self) -> str:
        options = len(self.options)
        return summary(self, self.chosen.text, probability=self.chosen.probability, options=options)


@dataclass(frozen=True, slots=True)
class Quotation:
    """Where a quote of the answer stands in its source.

    Attributes:
        pointer: The JSON Pointer of the string in the answer.
        source: The name of the source.
        start: Position of the first occurrence, in code points.
        end: Position after it.
        occurrences: Number of occurrences, which may overlap; counted up to 1000.
    """

    pointer: str
    source: str
    start: int
    end: int
    occurrences: int = 1


@dataclass(frozen=True, slots=True)
class CutShort:
    """Where a limit first changed an answer, which is complete all the same.

    Without the limit, the model would have written something else there: the token that was
    sampled would not have left room for the end. A value that repeated itself and was ended
    (``stop_repetition``) is reported if no limit changed the answer.

    Attributes:
        pointer: The JSON Pointer of the value that was open, as in
            :meth:`GenerationResult.confidence`; ``""`` for text, reasoning, and the whole answer.
        reason: The limit. Only with ``"repetition"`` the ``finish_reason`` is not ``"length"``.
    """

    pointer: str
    reason: Literal["max_tokens", "max_seconds", "repetition"]

    def complete_calls(self, count: int) -> int:
        """Return how many of the first of ``count`` tool calls are complete."""
        place = _CALL_POINTER.match(self.pointer)
        if self.reason == "repetition":
            return count
        return min(int(place[1]), count) if place else 0

    def __str__(self) -> str:
        return f"{self.reason} at {self.pointer}" if self.pointer else self.reason
