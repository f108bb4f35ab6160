"""Results of requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pydantic

from ..conversation.content import ToolCall
from ..conversation.interaction import Interaction, Role
from .confidence import confidence, confidences
from .notebook_view import to_html

T = TypeVar("T")

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "cancelled"]
"""Why the output ended.

``"stop"``: the model or the grammar ended it. ``"tool_calls"``: the same, and it has tool calls.
``"length"``: ``max_tokens`` or ``max_seconds`` ended it, see :attr:`GenerationResult.cut_short`.
``"cancelled"``: the caller stopped it.
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, and seconds of wall-clock time.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the output, end tokens included.
        prompt_seconds: Time until the first sampled token.
        completion_seconds: Time after that.
        cached_tokens: Tokens of the prompt whose KV cache was reused.
        fast_forwarded_tokens: Tokens of the output that the grammar forced and that were not
            sampled.
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
        particles_per_pass: Particles that shared each forward pass: all of them, or 1 if the
            model's caches cannot be batched, so that the particles ran one after the other without
            resampling. 0 without particles.
        drafted_tokens: Draft tokens that forward passes verified. Forced tokens are not counted.
        accepted_tokens: Those of them that became tokens of the output.
        forward_passes: Forward passes after the prompt in which the request took part.
        image_tokens: Tokens of the prompt that stand for images.
        audio_tokens: Tokens of the prompt that stand for audio recordings.
        inexact_choice_tokens: Tokens at which ``exact_choices`` could not score a finite choice, so
            that a token was sampled in place of an option.
    """

    prompt_tokens: int
    completion_tokens: int
    prompt_seconds: float
    completion_seconds: float
    cached_tokens: int = 0
    fast_forwarded_tokens: int = 0
    mask_seconds: float = 0.0
    draft_seconds: float = 0.0
    sample_seconds: float = 0.0
    forward_seconds: float = 0.0
    preparation_seconds: float = 0.0
    queue_seconds: float = 0.0
    particles_per_pass: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    forward_passes: int = 0
    image_tokens: int = 0
    audio_tokens: int = 0
    inexact_choice_tokens: int = 0

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


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """Consecutive output of one part of the answer.

    Attributes:
        name: The part's name.
        text: The output; special tokens by their names.
        is_marker: Whether the text is a delimiter, such as ``</think>``, rather than content.
        pointer: The JSON Pointer of the value that the text is, as in
            :meth:`GenerationResult.confidence`; ``None`` for other text. The beginning of a tool
            call has that of the tool's name.
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
    """The chosen token and the most likely ones at its position, in descending order.

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


if TYPE_CHECKING:
    _Vectors: TypeAlias = tuple[LogprobVectors, ...] | None
else:
    # Not part of the result as JSON.
    _Vectors = Annotated[Any, pydantic.Field(exclude=True)]


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
class Particle(Generic[T]):
    """One of several weighted answers to a request (sequential Monte Carlo).

    Attributes:
        text: As in :class:`GenerationResult`.
        parsed: As in :class:`GenerationResult`.
        log_weight: Natural logarithm of its weight. ``result.log_evidence`` is the logarithm of the
            mean weight. ``-inf`` for a particle that does not count.
        probability: Its weight over the sum of all weights.
        tool_calls: As in :class:`GenerationResult`.
        token_ids: Its tokens, end tokens included.
        parts: Its whole output by part, in order.
    """

    text: str
    parsed: T
    log_weight: float
    probability: float
    tool_calls: tuple[ToolCall, ...] = ()
    token_ids: tuple[int, ...] = ()
    parts: tuple[AnswerPart, ...] = ()


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


@dataclass(frozen=True, slots=True)
class GenerationResult(Generic[T]):
    """The result of a request.

    Attributes:
        text: Free text and structured output, without reasoning, tool calls, markers and end
            tokens.
        parsed: The validated value: an instance of the requested type, the JSON value of a JSON
            Schema, the text of another state machine. ``None`` for free text, tool calls and
            cancelled output.
        finish_reason: Why the output ended.
        usage: Token counts and times.
        token_ids: The generated tokens, end tokens included.
        model: The model's name.
        reasoning: The reasoning before the answer.
        tool_calls: The tool calls, with valid arguments.
        parts: The whole output by part, in order.
        logprobs: Log-probabilities of each token, if requested.
        logprob_vectors: The log-probabilities of all tokens at each position, if requested. Those
            of a stream are in its events instead.
        trace: Time spans of the generation loop, if requested.
        particles: The weighted answers from which this one was drawn, if requested.
        log_evidence: Natural logarithm of an unbiased estimate of the probability that the model
            itself, without the constraints, writes a valid answer. With particles only.
        choices: All answers if ``n`` is above 1, otherwise empty. The first one is this answer.
        scored_choices: The finite choices that were drawn exactly, in the order of the output.
        quotes: Where the strings with ``x-substring-of`` stand in their sources, in document order.
            Those of tool calls and of compositions are not listed.
        token_origins: A letter for each token: ``s`` if it was sampled, ``d`` if it was sampled and
            a draft had proposed it, ``c`` if it writes a part of an option that was drawn exactly,
            ``f`` if the grammar forced it.
        token_lengths: Number of UTF-8 bytes that each token wrote to the texts of ``parts``; 0 for
            end tokens.
        captures: The texts of the rules with the option ``capture`` of a grammar in Lark, by their
            names: a list of texts for a name that occurs more often than once. Empty if the output
            was cancelled, or if reading it again takes too much work, which the log then says.
        cut_short: The limit that ended the answer, and where; ``None`` if none did, and if the
            output was cancelled.
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
    logprob_vectors: _Vectors = field(default=None, repr=False, compare=False)
    trace: tuple[Span, ...] = ()
    particles: tuple[Particle[T], ...] = ()
    log_evidence: float | None = None
    choices: tuple[GenerationResult[T], ...] = ()
    scored_choices: tuple[ScoredChoice, ...] = ()
    quotes: tuple[Quotation, ...] = ()
    token_origins: str = ""
    token_lengths: tuple[int, ...] = ()
    captures: Mapping[str, str | list[str]] = field(default_factory=dict)
    cut_short: CutShort | None = None

    def confidence(self, pointer: str = "") -> float | None:
        """Return the probability of a value of the answer among the alternatives that it had.

        A string, number or literal name that was drawn from exactly scored options
        (``exact_choices``) has the total probability of the options with an equal value, given the
        text before it. Other values have the total probability of the particles with an equal value
        at the pointer. Without particles, an object or array has the product of the probabilities
        of the choices in it, if they wrote all of its values. Values are equal as in JSON: 1 and
        1.0 are, 1 and ``true`` are not.

        Args:
            pointer: A JSON Pointer (RFC 6901) into ``parsed`` as JSON. If the answer has tool
                calls, pointers are ``/tool_calls/0/name``, ``/tool_calls/0/arguments`` and below.
                ``""`` is the whole answer.

        Returns:
            A number in [0, 1]. ``None`` if the value was neither scored nor sampled with particles.

        Raises:
            InvalidOptionError: ``pointer`` is malformed, or the answer has no value there.
        """
        return confidence(self, pointer)

    def confidences(self) -> dict[str, float]:
        """Return :meth:`confidence` of all values that have one, by pointer, in document order."""
        return confidences(self)

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

    def _repr_html_(self) -> str:
        """Return the result as HTML, which notebooks show."""
        return to_html(self)
