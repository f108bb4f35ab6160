"""A running request: from the tokens of its sequence to events and a result."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jsonschema

from state_machines import (
    GrammarBudgetError,
    GrammarStateMachine,
    InvalidArgumentError,
    Matcher,
    Vocabulary,
)
from state_machines.budgets import step_budget
from state_machines.limits import LIMITS
from state_machines.root import Piece, RootMatcher, Structured, Text, repeated_part_names

from ..answers.compiler import Answer
from ..answers.reader import AnswerReader
from ..conversation.content import ToolCall
from ..errors import OutputValidationError
from ..generation import SequenceState, Token
from ..results.confidence import open_pointer
from ..results.events import PromptProgress, TokenGenerated
from ..results.generation import (
    CutShort,
    FinishReason,
    GenerationResult,
    LogprobVectors,
    TokenLogprobs,
)
from ..tools import Tool
from ..validation import json_validator
from .quote_sources import quotations
from .request import Request
from .request_span import finish_in_span
from .sequence_factory import SequenceFactory
from .streams import Emit, Finish
from .token_facts import token_origin, with_choices, written_lengths
from .usage import measured_usage

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_log = logging.getLogger(__name__)


class RunningRequest:
    """A request with its sequence and its output so far. To be used by one thread at a time.

    Args:
        request: The request.
        factory: Creates the sequence.
        emit: Receives the events.
        sequence: A sequence that answers the request; by default a new one.
    """

    def __init__(
        self,
        request: Request,
        factory: SequenceFactory,
        emit: Emit,
        sequence: SequenceState | None = None,
    ) -> None:
        answer = request.answer
        self.request = request
        self.sequence = sequence or factory.sequence(request)
        self._matcher = self.sequence.matcher
        self.cached_tokens = 0
        self._emit = emit
        self._vocabulary = factory.vocabulary
        self._model = factory.loaded.name
        response_part = answer.response.part
        self._reader = AnswerReader(
            new_id=answer.new_id,
            watches_value=request.watches,
            repeated=repeated_part_names(response_part) if response_part else frozenset(),
        )
        self._token_ids: list[int] = []
        self._held: list[Token] = []
        self._logprobs: list[TokenLogprobs] = []
        self._origins: list[str] = []
        self._logprob_vectors: list[LogprobVectors] = []
        self._finish_reason: FinishReason = "cancelled"
        self._is_in_text = False

    @property
    def has_tokens(self) -> bool:
        """Whether a token has been reported."""
        return bool(self._token_ids)

    @property
    def text(self) -> str:
        """Free text and structured output so far."""
        return self._reader.text

    def report_progress(self, processed: int) -> None:
        """Report how many tokens of the prompt have been processed."""
        self._emit(PromptProgress(processed=processed, total=len(self.request.prompt_ids)))

    @property
    def held(self) -> Sequence[Token]:
        """Tokens that are not reported yet."""
        return tuple(self._held)

    def hold(self, tokens: Sequence[Token]) -> None:
        """Keep tokens that are reported together with the next ones."""
        self._held += tokens

    def report(self, tokens: Sequence[Token]) -> None:
        """Report new tokens of the sequence as events."""
        if tokens and not self._token_ids:
            self.report_progress(len(self.request.prompt_ids))
        tokens = [*self._held, *tokens]
        self._held.clear()
        for token in tokens:
            self._token_ids.append(token.token_id)
            self._origins.append(token_origin(token))
            if token.logprobs is not None:
                self._logprobs.append(token.logprobs)
            if token.logprob_vectors is not None and not self.request.watches:
                self._logprob_vectors.append(token.logprob_vectors)
            if self.request.watches:
                self._emit(self._token_event(token))
        reason = tokens[-1].finish_reason if tokens else None
        is_last = reason is not None
        self._is_in_text = is_last and _is_in_text(self.request.answer, self._matcher)
        for event in self._reader.read(self._pieces(tokens, is_last=is_last), is_last=is_last):
            self._emit(event)
        if is_last and self.sequence.is_limited:
            self._finish_reason = "length"
        elif is_last:
            self._finish_reason = "tool_calls" if self._reader.calls else "stop"

    def end(self) -> None:
        """Record the end of generation, and report the rest of a cancelled request's output."""
        self.sequence.timings.end()
        if self._finish_reason == "cancelled":
            self.report(())
            for event in self._reader.read(self._pieces((), is_last=True), is_last=True):
                self._emit(event)

    def result(self) -> GenerationResult[Any]:
        """Return the result after :meth:`end`: parse the answer, and call the caller's validators.

        An unfinished request has the finish reason ``cancelled``.

        Raises:
            OutputValidationError: A validator rejects the answer.
        """
        reader, request = self._reader, self.request
        is_cancelled = self._finish_reason == "cancelled"
        if not (is_cancelled or self._is_in_text or self._matcher is None):
            self._check_complete()
        tool_calls = tuple(_checked_calls(reader, request.tools))
        lengths = written_lengths(
            self._token_ids,
            self._vocabulary,
            is_constrained=self._matcher is not None,
            stop_ids=request.options.stop_ids,
        )
        keeps_vectors = request.hooks.logprob_vectors and not request.watches
        return GenerationResult(
            text=reader.text,
            parsed=None if is_cancelled else _parsed(reader, request.answer),
            quotes=() if is_cancelled else quotations(reader, request.answer),
            finish_reason=self._finish_reason,
            usage=measured_usage(
                request,
                self.sequence,
                completion_tokens=len(self._token_ids),
                cached_tokens=self.cached_tokens,
                fast_forwarded_tokens=self._origins.count("f"),
            ),
            token_ids=tuple(self._token_ids),
            model=self._model,
            reasoning=reader.reasoning,
            tool_calls=tool_calls,
            parts=reader.parts,
            logprobs=None if request.options.logprobs is None else tuple(self._logprobs),
            logprob_vectors=tuple(self._logprob_vectors) if keeps_vectors else None,
            trace=tuple(self.sequence.timings.spans),
            scored_choices=tuple(self.sequence.scored_choices),
            token_origins=with_choices(self._origins, lengths, self.sequence.scored_choices),
            token_lengths=lengths,
            captures={} if is_cancelled else _captures(reader),
            cut_short=None if is_cancelled else self._cut_short(),
        )

    def _cut_short(self) -> CutShort | None:
        cut = self.sequence.cut
        if cut is None:
            return None
        return CutShort(open_pointer(self._reader.parts, cut.offset, cut.refused), cut.reason)

    def _token_event(self, token: Token) -> TokenGenerated:
        form = self._vocabulary.token_bytes[token.token_id] or b""
        part = token.part or self.request.answer.part
        return TokenGenerated(
            part=str(getattr(part, "name", "")),
            token_id=token.token_id,
            text=form.removeprefix(Vocabulary.SPECIAL_MARK).decode("utf-8", "replace"),
            is_forced=token.is_forced,
            logprobs=token.logprobs,
            logprob_vectors=token.logprob_vectors,
        )

    def _pieces(self, tokens: Sequence[Token], *, is_last: bool) -> list[Piece]:
        """Return the bytes whose part has become certain with these tokens."""
        if isinstance(self._matcher, RootMatcher):
            return self._matcher.take_pieces(is_last=is_last)
        part = self.request.answer.part
        if part is None:
            raise AssertionError("an answer that is no composition has one part")
        stop = self.request.options.stop_ids if self._matcher is None else ()
        ids = (token.token_id for token in tokens if token.token_id not in stop)
        forms = (self._vocabulary.token_bytes[token_id] for token_id in ids)
        # Unconstrained, a model may generate special tokens; they are not part of the text.
        return [
            Piece(part, form)
            for form in forms
            if form and not form.startswith(Vocabulary.SPECIAL_MARK)
        ]

    def _check_complete(self) -> None:
        if self._matcher is not None and not self._matcher.is_accepting:
            raise OutputValidationError(
                f"the output is not complete after {len(self._token_ids)} tokens",
                text="".join(part.text for part in self._reader.parts),
            )


@dataclass(slots=True, eq=False)
class Job:
    """A submitted request with its receivers.

    Attributes:
        request: The request.
        emit: Receives the events.
        future: Receives the end of the answer, or the error.
        span: The request's span, if it is recorded.
    """

    request: Request
    emit: Emit
    future: Future[Finish] = field(default_factory=Future)
    span: Span | None = None
    _running: RunningRequest | None = None

    @property
    def running(self) -> RunningRequest:
        """The running request, once the job has begun."""
        if self._running is None:
            raise AssertionError("the job has begun")
        return self._running

    def begin(self, factory: SequenceFactory) -> RunningRequest:
        """Create the running request."""
        self._running = RunningRequest(self.request, factory, self.emit)
        return self._running

    @property
    def is_cancelled(self) -> bool:
        """Whether the request was cancelled."""
        return self.request.cancelled.is_set()

    def finish(self, finish: Finish) -> None:
        """Let the thread that waits finish the answer, unless the future is done already."""
        if self.span is not None:
            finish = partial(finish_in_span, self.span, finish)
        with suppress(InvalidStateError):
            self.future.set_result(finish)

    def fail(self, error: BaseException) -> None:
        """Set the error, unless the future is done or cancelled already."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


def _is_in_text(answer: Answer, matcher: Matcher | None) -> bool:
    """Whether the current part is free text or reasoning."""
    parts = matcher.parts[:1] if isinstance(matcher, RootMatcher) else (answer.part,)
    return any(isinstance(part, Text) for part in parts)


def _parsed(reader: AnswerReader, answer: Answer) -> Any:
    """Return the parsed value: by name for a composition of several values."""
    response, values = answer.response, reader.values
    if response.part is None:
        if response.is_free or reader.calls:
            return None
        return response.parse(values[0][1] if values else "")
    parsed: dict[str, Any] = {}
    repeated = repeated_part_names(response.part)
    for part, text in values:
        try:
            value = part.parse(text)
        except Exception as error:
            # The caller's own parser may raise errors of any type.
            raise OutputValidationError(
                f"the text of {part.name!r} cannot be parsed: {error}", text=text
            ) from error
        if part.name in repeated:
            parsed.setdefault(part.name, []).append(value)
        else:
            parsed[part.name] = value
    return next(iter(parsed.values())) if len(parsed) == 1 else parsed or None


def _captures(reader: AnswerReader) -> dict[str, str | list[str]]:
    """Return the captured texts of the grammars in an answer."""
    found: dict[str, list[str]] = {}
    for part, text in reader.values:
        machine = part.grammar if isinstance(part, Structured) else None
        if not isinstance(machine, GrammarStateMachine):
            continue
        try:
            with step_budget(LIMITS.mask_steps):
                captures = machine.captures(text)
        except (GrammarBudgetError, InvalidArgumentError) as error:
            _log.warning("the captures of %r are missing: %s", part.name, error)
            continue
        for name, texts in captures.items():
            found.setdefault(name, []).extend([texts] if isinstance(texts, str) else texts)
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in found.items()}


def _checked_calls(reader: AnswerReader, tools: Mapping[str, Tool]) -> Iterator[ToolCall]:
    """Validate the calls, and add the arguments as Python values."""
    for call in reader.calls:
        tool = tools[call.name]
        try:
            json_validator(tool.arguments_schema).validate(call.arguments)
        except jsonschema.ValidationError as error:
            raise OutputValidationError(
                f"the call of {call.name!r} does not match its schema: {error.message}",
                text=call.raw,
            ) from error
        yield replace(call, parsed=tool.parse(call.arguments))
