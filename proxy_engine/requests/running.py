"""A running request: from the tokens of its sequence to events and a result."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import jsonschema
import numpy as np
import numpy.typing as npt
from mlx_lm.models.cache import make_prompt_cache

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
from ..events import Event, PromptProgress, TokenGenerated
from ..generation import (
    Deadline,
    DeviceMasks,
    Drafting,
    FastForward,
    SamplerSchedule,
    SequenceOptions,
    SequenceState,
    Timings,
    Token,
    device_pass_cost,
    end_token_ids,
    text_encoder,
    text_token_mask,
    xtc_special_tokens,
)
from ..models.loading import LoadedModel
from ..options import GenerationOptions
from ..results import FinishReason, GenerationResult, LogprobVectors, TokenLogprobs
from ..speculation import Drafter, lookups
from ..speculation.draft_length import PassCost
from ..tools import Tool
from ..validation import json_validator
from .quote_sources import quotations
from .request import Request
from .token_facts import token_origin, with_choices, written_lengths
from .usage import measured_usage

_log = logging.getLogger(__name__)

Emit: TypeAlias = Callable[[Event], None]
"""Receives the events of a request, on the thread that runs it."""


@dataclass(frozen=True, slots=True)
class SequenceFactory:
    """Creates the sequences of one model.

    Attributes:
        loaded: The model.
        vocabulary: Its vocabulary.
        fast_forward: Tokenizes forced text.
        masks: Masks on the device.
        text_tokens: Mask of unconstrained text, see ``text_token_mask``.
        pass_cost: The cost of passes, from which the length of drafts follows.
        xtc_special_tokens: Tokens that XTC never excludes.
        draft_cost: Time of a pass of the draft model, in the time of one of the model; ``None``:
            there is no draft model.
        num_draft_tokens: Tokens that the draft model drafts, for requests that do not set it.
    """

    loaded: LoadedModel
    vocabulary: Vocabulary
    fast_forward: FastForward
    masks: DeviceMasks
    text_tokens: npt.NDArray[np.bool_] | None
    pass_cost: PassCost
    xtc_special_tokens: tuple[int, ...]
    draft_cost: float | None = None
    num_draft_tokens: int | None = None

    @classmethod
    def of(
        cls, loaded: LoadedModel, vocabulary: Vocabulary, tokenizer_lock: threading.Lock
    ) -> SequenceFactory:
        """Return the factory of a model. ``tokenizer_lock`` is held while the tokenizer is used."""
        fast_forward = FastForward(text_encoder(loaded.tokenizer, tokenizer_lock), vocabulary)
        cost = device_pass_cost(make_prompt_cache(loaded.model))
        text_tokens = text_token_mask(vocabulary)
        special = xtc_special_tokens(vocabulary)
        return cls(loaded, vocabulary, fast_forward, DeviceMasks(), text_tokens, cost, special)

    def sequence(self, request: Request) -> SequenceState:
        """Return the sequence that answers a request."""
        options = request.options
        guard = request.guard
        matcher = None if guard is None else guard.matcher
        seconds = options.max_seconds
        begin = request.created if request.counts_waiting else time.perf_counter()
        deadline = None if seconds is None else Deadline(begin + seconds)
        schedule = SamplerSchedule(
            options,
            matcher,
            request.answer.part,
            guard,
            deadline,
            hooks=request.hooks,
            xtc_special_tokens=self.xtc_special_tokens,
        )
        ends, usable_tokens = end_token_ids(self.vocabulary, self.loaded.tokenizer), None
        if matcher is None:
            ends = list(dict.fromkeys((*ends, *options.stop_ids)))
            usable_tokens = self._usable_tokens(options)
        return SequenceState(
            request.prompt_ids,
            SequenceOptions(
                end_token_ids=ends,
                max_tokens=request.max_tokens,
                min_tokens=options.min_tokens,
                soft_max_tokens=options.soft_max_tokens,
                logprobs=options.logprobs,
                logprob_vectors=request.hooks.logprob_vectors,
                usable_tokens=usable_tokens,
                weighs=options.particles > 1,
            ),
            matcher=matcher,
            schedule=schedule,
            masks=self.masks,
            guard=guard,
            fast_forward=self.fast_forward if options.fast_forward else None,
            choices=self.fast_forward if options.exact_choices else None,
            drafting=self._drafting(request),
            deadline=deadline,
            timings=Timings(is_traced=options.trace),
        )

    def _usable_tokens(self, options: GenerationOptions) -> npt.NDArray[np.bool_] | None:
        """Return the mask of unconstrained text, which also allows the request's stop tokens."""
        usable = self.text_tokens
        stop = list(options.stop_ids)
        if usable is None or usable[stop].all():
            return usable
        usable = usable.copy()
        usable[stop] = True
        return usable

    def _drafting(self, request: Request) -> Drafting | None:
        """Return the drafters of a request; ``None`` if it takes one token per pass."""
        options = request.options.speculation_options
        if options is None or request.sequences > 1 or request.hooks.changes_tokens:
            return None
        drafters: list[Drafter] = []
        # Where no draft pays, lookups need not search.
        if options.prompt_lookup and (self.pass_cost.base or not options.is_adaptive):
            drafters += lookups(request.prompt_ids, self.vocabulary, self.fast_forward)
        model_cost = None
        # A draft model reads text only.
        if self.draft_cost is not None and request.prompt.inputs is None:
            model_cost = replace(self.pass_cost, per_draft_token=self.draft_cost)
        options = options.with_defaults(self.num_draft_tokens)
        return Drafting(drafters, options, self.pass_cost, model_cost)


class RunningRequest:
    """A request with its sequence and its output so far. To be used on the model thread.

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
        if reason == "length" and self._is_in_text:
            self._finish_reason = "length"
        elif is_last:
            self._finish_reason = "tool_calls" if self._reader.calls else "stop"

    def result(self) -> GenerationResult[Any]:
        """Return the result. An unfinished request has the finish reason ``cancelled``.

        Raises:
            OutputValidationError: A validator rejects the answer.
        """
        reader, request = self._reader, self.request
        is_cancelled = self._finish_reason == "cancelled"
        if is_cancelled:
            self.report(())
            for event in reader.read(self._pieces((), is_last=True), is_last=True):
                self._emit(event)
        elif not self._is_in_text and self._matcher is not None:
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
        )

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
        future: Receives the result or the error.
    """

    request: Request
    emit: Emit
    future: Future[GenerationResult[Any]] = field(default_factory=Future)
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
            _log.warning("the rules of %r that are captured have no texts: %s", part.name, error)
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
