"""The result of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import pydantic

from ..checks import summary
from ..conversation.content import ToolCall
from ..conversation.interaction import Interaction, Role
from ..errors import InvalidOptionError
from .confidence import AnswerValues, confidences, token_confidences
from .notebook_view import to_html
from .parts import (
    AnswerPart,
    CutShort,
    LogprobVectors,
    Quotation,
    RejectedAnswer,
    ScoredChoice,
    Span,
    TokenLogprobs,
    Usage,
)

T = TypeVar("T")

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "cancelled"]
"""Why the output ended.

``"stop"``: the model or the grammar ended it. ``"tool_calls"``: the same, and it has tool calls.
``"length"``: a limit cut it short, though it may parse; see :attr:`GenerationResult.cut_short`.
``"cancelled"``: the caller stopped it.
"""


if TYPE_CHECKING:
    _Vectors: TypeAlias = tuple[LogprobVectors, ...] | None
else:
    # Not part of the result as JSON.
    _Vectors = Annotated[Any, pydantic.Field(exclude=True)]


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
        choices: All answers if ``n`` is above 1, otherwise empty. The first one is this answer.
        scored_choices: The finite choices that were drawn exactly, in the order of the output.
        quotes: Where the strings with ``x-substring-of`` stand in their sources, in document order.
            Quotes in tool calls and in compositions are not listed.
        token_origins: A letter for each token: ``s`` if it was sampled, ``d`` if it was sampled and
            a draft had proposed it, ``c`` if it writes a part of an option that was drawn exactly,
            ``f`` if the grammar forced it.
        token_lengths: Number of UTF-8 bytes that each token wrote to the texts of ``parts``; 0 for
            end tokens.
        captures: The texts of the rules with the option ``capture`` of a grammar in Lark, by their
            names: a list of texts for a name that occurs more often than once. Empty if the output
            was cancelled, or if reading it again takes too much work, which the log then says.
        cut_short: The limit that cut the answer short, and where; ``None`` if none did, and if the
            output was cancelled.
        rejected: The answers before this one that validators rejected (``max_retries``).
        token_logprobs: With the option ``confidence``, the natural logarithm of the probability of
            each token among the allowed ones, at temperature 1. ``None`` for a token without
            alternatives, and for a token of an option that was drawn exactly.
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
    choices: tuple[GenerationResult[T], ...] = ()
    scored_choices: tuple[ScoredChoice, ...] = ()
    quotes: tuple[Quotation, ...] = ()
    token_origins: str = ""
    token_lengths: tuple[int, ...] = ()
    captures: Mapping[str, str | list[str]] = field(default_factory=dict)
    cut_short: CutShort | None = None
    rejected: tuple[RejectedAnswer, ...] = ()
    token_logprobs: tuple[float | None, ...] = ()

    def confidence(self, pointer: str = "", *, normalized: bool = False) -> float | None:
        """Return the probability of a value of the answer among the alternatives that it had.

        With the option ``confidence``, every value has the product of the probabilities of the
        tokens that write it, each among the tokens that its mask allowed. Forced tokens have the
        probability 1. The token that ends a number belongs to it.

        A string, number or literal name that was drawn from exactly scored options
        (``exact_choices``) has the total probability of the options with an equal value, given the
        text before it. An object or array has the product of the probabilities of the choices in
        it, if they wrote all of its values. Values are equal as in JSON: 1 and 1.0 are, 1 and
        ``true`` are not.

        Args:
            normalized: Return the geometric mean over the tokens and choices that were drawn, in
                place of their product, which is smaller the longer a value is. Needs the option
                ``confidence``.
            pointer: A JSON Pointer (RFC 6901) into ``parsed`` as JSON. If the answer has tool
                calls, pointers are ``/tool_calls/0/name``, ``/tool_calls/0/arguments`` and below.
                ``""`` is the whole answer.

        Returns:
            A number in [0, 1]. ``None`` if the value was not scored.

        Raises:
            InvalidOptionError: ``pointer`` is malformed, or the answer has no value there.
        """
        values = self._values()
        values.check(pointer)
        return self._confidences(values, normalized).get(pointer)

    def confidences(self, *, normalized: bool = False) -> dict[str, float]:
        """Return :meth:`confidence` of all values that have one, by pointer, in document order."""
        return self._confidences(self._values(), normalized)

    def _confidences(self, values: AnswerValues, normalized: bool) -> dict[str, float]:
        if self.token_logprobs:
            return token_confidences(
                values,
                self.scored_choices,
                self.token_lengths,
                self.token_logprobs,
                normalized=normalized,
            )
        if normalized:
            raise InvalidOptionError(
                "only the probabilities of tokens are normalized by length",
                option="normalized",
                hint="Generate with confidence=True.",
            )
        return confidences(values, self.scored_choices)

    def _values(self) -> AnswerValues:
        return AnswerValues.of(self.text, self.parsed, self.tool_calls, self.parts)

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

    def __str__(self) -> str:
        """Return the text; of an answer with tool calls alone the calls, one in a line."""
        return self.text or "\n".join(map(str, self.tool_calls))

    def __repr__(self) -> str:
        cut = self.cut_short
        return summary(
            self,
            self.text,
            finish_reason=self.finish_reason,
            cut_short=None if cut is None else str(cut),
            tool_calls=tuple(call.name for call in self.tool_calls),
            completion_tokens=self.usage.completion_tokens,
        )

    def _repr_html_(self) -> str:
        """Return the result as HTML, which notebooks show."""
        return to_html(self)
