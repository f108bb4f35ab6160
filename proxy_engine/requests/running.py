"""A request that is run: from its row's tokens to events, and to its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jsonschema
import numpy as np
import numpy.typing as npt

from state_machines import Matcher, Vocabulary
from state_machines.root import Piece, RootMatcher, Text, repeated_part_names

from ..answers.compiler import Answer
from ..answers.reader import AnswerReader
from ..errors import OutputValidationError
from ..events import Event, PromptProgress, TokenGenerated
from ..generation import (
    Deadline,
    DeviceMasks,
    ForcedTokens,
    SamplerSchedule,
    SequenceOptions,
    SequenceState,
    Timings,
    Token,
)
from ..models.loading import LoadedModel
from ..results import FinishReason, GenerationResult, TokenLogprobs, Usage
from ..tools import Tool
from ..validation import json_validator
from .request import Request

__all__ = ["Emit", "RunningRequest", "SequenceFactory", "usable_tokens"]

Emit: TypeAlias = Callable[[Event], None]
"""Told of each event while a request runs, on the thread that runs it."""

# What a special token's bytes begin with.
_SPECIAL_MARK = b"\xff"


@dataclass(frozen=True, slots=True)
class SequenceFactory:
    """What rows of one model have in common.

    ``forced`` cuts text that must come into tokens. ``usable`` are the tokens of free text, see
    :func:`usable_tokens`.
    """

    loaded: LoadedModel
    vocabulary: Vocabulary
    forced: ForcedTokens
    masks: DeviceMasks
    usable: npt.NDArray[np.bool_] | None

    def row(self, request: Request) -> SequenceState:
        """Return the row that writes the answer to a request, as its guard allows it."""
        options = request.options
        guard = request.guard
        matcher = None if guard is None else guard.matcher
        seconds = options.max_seconds
        begun = request.made if request.counts_waiting else time.perf_counter()
        deadline = None if seconds is None else Deadline(begun + seconds)
        sampler_schedule = SamplerSchedule(options, matcher, request.answer.part, guard, deadline)
        return SequenceState(
            request.prompt_ids,
            SequenceOptions(
                end_token_ids=_ends(self.loaded, self.vocabulary),
                max_tokens=request.max_tokens,
                min_tokens=options.min_tokens,
                soft_max_tokens=options.soft_max_tokens,
                logprobs=options.logprobs,
                usable_tokens=self.usable if matcher is None else None,
            ),
            matcher=matcher,
            next_sampler=sampler_schedule.next_sampler,
            masks=self.masks,
            guard=guard,
            forced=self.forced if options.fast_forward else None,
            deadline=deadline,
            timings=Timings(is_traced=options.trace),
        )


class RunningRequest:
    """A request, its row, and what has come of it so far.

    To be used on the thread that owns the model. ``emit`` is told of events.
    """

    def __init__(self, request: Request, maker: SequenceFactory, emit: Emit) -> None:
        answer = request.answer
        self.request = request
        self._matcher = None if request.guard is None else request.guard.matcher
        self.row = maker.row(request)
        self.cached_tokens = 0
        self._emit = emit
        self._vocabulary = maker.vocabulary
        self._model = maker.loaded.name
        self._reader = AnswerReader(new_id=answer.new_id, watches_value=request.watches)
        self._token_ids: list[int] = []
        self._held: list[Token] = []
        self._logprobs: list[TokenLogprobs] = []
        self._forced_tokens = 0
        self._finish_reason: FinishReason = "cancelled"
        self._is_in_text = False

    @property
    def has_told(self) -> bool:
        """Whether it was told of a token."""
        return bool(self._token_ids)

    def tell_progress(self, processed: int) -> None:
        """Tell that so many tokens of the prompt have been read."""
        self._emit(PromptProgress(processed=processed, total=len(self.request.prompt_ids)))

    def hold(self, tokens: Sequence[Token]) -> None:
        """Take what is to be told together with what comes next."""
        self._held += tokens

    def tell(self, tokens: Sequence[Token]) -> None:
        """Take what the row has written."""
        if tokens and not self._token_ids:
            self.tell_progress(len(self.request.prompt_ids))
        tokens = [*self._held, *tokens]
        self._held.clear()
        for token in tokens:
            self._token_ids.append(token.token_id)
            self._forced_tokens += token.is_forced
            if token.logprobs is not None:
                self._logprobs.append(token.logprobs)
            if self.request.watches:
                self._emit(self._generated(token))
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
        """Return what has come of it; a request that is not finished is cancelled.

        Raises ``OutputValidationError``.
        """
        reader, request = self._reader, self.request
        is_cancelled = self._finish_reason == "cancelled"
        if is_cancelled:
            self.tell(())
            for event in reader.read(self._pieces((), is_last=True), is_last=True):
                self._emit(event)
        elif not self._is_in_text and self._matcher is not None:
            self._check_whole()
        _check_calls(reader, request.tools)
        timings = self.row.timings
        return GenerationResult(
            text=reader.text,
            parsed=None if is_cancelled else _parsed(reader, request.answer),
            finish_reason=self._finish_reason,
            usage=Usage(
                prompt_tokens=len(request.prompt_ids),
                completion_tokens=len(self._token_ids),
                cached_tokens=self.cached_tokens,
                fast_forwarded_tokens=self._forced_tokens,
                prompt_seconds=timings.prompt,
                completion_seconds=time.perf_counter() - timings.started - timings.prompt,
                mask_seconds=timings.of("mask", "advance"),
                sample_seconds=timings.of("sample"),
                forward_seconds=timings.of("dispatch", "wait"),
                queue_seconds=timings.started - request.made,
            ),
            token_ids=tuple(self._token_ids),
            model=self._model,
            reasoning=reader.reasoning,
            tool_calls=tuple(reader.calls),
            parts=reader.parts,
            logprobs=None if request.options.logprobs is None else tuple(self._logprobs),
            trace=tuple(timings.spans),
        )

    def _generated(self, token: Token) -> TokenGenerated:
        form = self._vocabulary.token_bytes[token.token_id] or b""
        part = token.part or self.request.answer.part
        return TokenGenerated(
            part=str(getattr(part, "name", "")),
            token_id=token.token_id,
            text=form.removeprefix(_SPECIAL_MARK).decode("utf-8", "replace"),
            is_forced=token.is_forced,
            logprobs=token.logprobs,
        )

    def _pieces(self, tokens: Sequence[Token], *, is_last: bool) -> list[Piece]:
        """What is certain about who wrote what, with some tokens more."""
        if isinstance(self._matcher, RootMatcher):
            return self._matcher.take_pieces(is_last=is_last)
        part = self.request.answer.part
        if part is None:
            raise AssertionError("an answer of one part says which")
        forms = (self._vocabulary.token_bytes[token.token_id] for token in tokens)
        # Where nothing is constrained, a model may write special tokens; they are no text.
        return [Piece(part, form) for form in forms if form and not form.startswith(_SPECIAL_MARK)]

    def _check_whole(self) -> None:
        if self._matcher is not None and not self._matcher.is_accepting:
            raise OutputValidationError(
                f"the output is not complete after {len(self._token_ids)} tokens",
                text="".join(part.text for part in self._reader.parts),
            )


def _is_in_text(answer: Answer, matcher: Matcher | None) -> bool:
    """Whether free text or reasoning is being written."""
    parts = matcher.parts[:1] if isinstance(matcher, RootMatcher) else (answer.part,)
    return any(isinstance(part, Text) for part in parts)


def _parsed(reader: AnswerReader, answer: Answer) -> Any:
    """What the answer's values are: of a composition by identifier, or the only one."""
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
            # Whatever a reader of the caller's own may raise.
            raise OutputValidationError(
                f"the text of {part.name!r} cannot be read: {error}", text=text
            ) from error
        if part.name in repeated:
            parsed.setdefault(part.name, []).append(value)
        else:
            parsed[part.name] = value
    return next(iter(parsed.values())) if len(parsed) == 1 else parsed or None


def _check_calls(reader: AnswerReader, tools: Mapping[str, Tool]) -> None:
    for call in reader.calls:
        try:
            json_validator(tools[call.name].arguments_schema).validate(call.arguments)
        except jsonschema.ValidationError as error:
            raise OutputValidationError(
                f"the call of {call.name!r} does not match its schema: {error.message}",
                text=call.raw,
            ) from error


def usable_tokens(vocabulary: Vocabulary) -> npt.NDArray[np.bool_] | None:
    """Return what free text may be written with, text and what ends it; ``None``: everything."""
    usable = np.array(
        [form is not None and not form.startswith(_SPECIAL_MARK) for form in vocabulary.token_bytes]
    )
    usable[list(vocabulary.end_token_ids)] = True
    return None if usable.all() else usable


def _ends(loaded: LoadedModel, vocabulary: Vocabulary) -> list[int]:
    """Return the end tokens, first the one that the tokenizer ends texts with."""
    own = loaded.tokenizer.eos_token_id
    return sorted(vocabulary.end_token_ids, key=lambda token_id: (token_id != own, token_id))
