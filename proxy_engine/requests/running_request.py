"""A request while it runs: its tokens, read as events and a result."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from operator import attrgetter
from typing import Any

from state_machines import Vocabulary
from state_machines.root import (
    Piece,
    RootMatcher,
    SubState,
    Text,
    repeated_part_names,
)

from ..answers.compile_queue import CompileJob
from ..answers.composition import REASONING
from ..answers.reader import AnswerReader, captured_texts, checked_calls, composed_value
from ..conversation.content import ToolCall
from ..errors import OutputValidationError, ToolArgumentsError
from ..generation import GeneratedSequence, Prefill, Token
from ..results.confidence import open_pointer
from ..results.events import PromptProgress, TokenGenerated
from ..results.generation import FinishReason, GenerationResult
from ..results.parts import CutShort, DraftUsage, RejectedAnswer, ScoredChoice, Usage, total_usage
from .request import Job
from .retries import reason_of


class RunningRequest:
    """A request while it runs. To be used by one thread at a time.

    The text of its tokens is read at once if the request is watched, and otherwise by the thread
    that waits for the result, so that the model thread does not wait for it.

    Args:
        job: The request.
        sequence: Its text.
        vocabulary: The model's vocabulary.
        model: The model's name.

    Attributes:
        job: The request with its receivers.
        request: The request.
        sequence: Its text.
        prefill: Its prompt, while it is processed.
        parked: Its cache, and the end of the computation of a slow mask, for which it has left the
            batch.
        mask_job: Computes its slow masks.
        cached_tokens: Tokens of the prompt whose KV cache was reused.
        has_reported: Whether a token has been reported.
        reads_tokens: Whether tokens are read as they are generated.
    """

    def __init__(
        self, job: Job, sequence: GeneratedSequence, vocabulary: Vocabulary, model: str
    ) -> None:
        request = job.request
        self.job = job
        self.request = request
        self.sequence = sequence
        self.prefill: Prefill | None = None
        self.mask_job: CompileJob | None = None
        self.parked: tuple[list[Any], Future[None]] | None = None
        self.cached_tokens = 0
        self.has_reported = False
        self._vocabulary = vocabulary
        self._model = model
        self._matcher = sequence.constraint.matcher
        self.reads_tokens = request.watches or isinstance(self._matcher, RootMatcher)
        part = request.answer.response.part
        self._reader = AnswerReader(
            new_id=request.answer.new_id,
            watches_value=request.watches,
            repeated=repeated_part_names(part) if part else frozenset(),
        )
        # Pieces of a composition that are not read yet.
        self._pieces: list[Piece] = []
        # Bytes that each token wrote, for the tokens that are read.
        self._lengths: list[int] = []

    def report_progress(self, processed: int) -> None:
        """Report how many tokens of the prompt have been processed."""
        self.job.emit(PromptProgress(processed=processed, total=len(self.request.prompt.token_ids)))

    def report(self) -> None:
        """Report new tokens; emit their events if the request is watched."""
        if self.sequence.output and not self.has_reported:
            self.has_reported = True
            self.report_progress(len(self.request.prompt.token_ids))
        if self.request.watches:
            self._read()
        elif isinstance(self._matcher, RootMatcher):
            self._pieces += self._matcher.take_pieces()

    def end(self) -> None:
        """Record the end of generation; read the last tokens if the request is watched."""
        self.sequence.timings.end()
        if self.request.watches:
            self._read_to_end()

    def _read_to_end(self) -> None:
        """Read all tokens. Raise ``OutputValidationError`` for a finished incomplete answer."""
        matcher, part = self._matcher, self.request.answer.part
        if isinstance(matcher, RootMatcher):
            part = next(iter(matcher.parts), None)
        # After the last pieces, the matcher has no parts.
        self._read(is_last=True)
        # A limit may end free text anywhere.
        may_end = matcher is None or isinstance(part, Text) or matcher.is_accepting
        if self._finish_reason() != "cancelled" and not may_end:
            raise OutputValidationError(
                f"the output is not complete after {len(self.sequence.output)} tokens",
                text="".join(part.text for part in self._reader.parts),
            )

    def result(self) -> GenerationResult[Any]:
        """Return the result: parse the answer, and call the caller's validators.

        To be called once, after :meth:`end`, on any thread. An unfinished request has the finish
        reason ``cancelled``.

        Raises:
            OutputValidationError: The answer is not complete, or a validator rejects it.
        """
        request, reader, sequence = self.request, self._reader, self.sequence
        tokens = sequence.output
        if not request.watches:
            self._read_to_end()
        response, finish_reason = request.answer.response, self._finish_reason()
        is_complete = finish_reason != "cancelled"
        tool_calls = tuple(checked_calls(reader.calls, request.tools))
        values = reader.values if is_complete else []
        if is_complete and request.options.max_retries:
            self._check_arguments(tool_calls)
        quotes = None if reader.calls else response.quotes
        logprobs = [token.logprobs for token in tokens if token.logprobs is not None]
        vectors = [token.logprob_vectors for token in tokens if token.logprob_vectors is not None]
        keeps_vectors = request.hooks.logprob_vectors and not request.watches
        return GenerationResult(
            text=reader.text,
            parsed=self._parsed(values) if is_complete else None,
            quotes=quotes(values[0][1]) if quotes and values else (),
            finish_reason=finish_reason,
            usage=self._usage(),
            token_ids=tuple([token.token_id for token in tokens]),
            model=self._model,
            reasoning=reader.reasoning,
            tool_calls=tool_calls,
            parts=reader.parts,
            logprobs=None if request.options.logprobs is None else tuple(logprobs),
            logprob_vectors=tuple(vectors) if keeps_vectors else None,
            trace=tuple(sorted(sequence.timings.spans, key=attrgetter("started"))),
            scored_choices=tuple(sequence.scored_choices),
            token_origins=_token_origins(tokens, self._lengths, sequence.scored_choices),
            token_lengths=tuple(self._lengths),
            token_logprobs=tuple([token.log_probability for token in tokens])
            if request.options.confidence
            else (),
            captures=captured_texts(values),
            cut_short=self._cut_short() if is_complete else None,
            rejected=request.rejected,
        )

    def _finish_reason(self) -> FinishReason:
        if not self.sequence.output or self.sequence.output[-1].finish_reason is None:
            return "cancelled"
        if self.sequence.constraint.is_limited:
            return "length"
        return "tool_calls" if self._reader.calls else "stop"

    def _parsed(self, values: list[tuple[SubState, str]]) -> Any:
        """Return the parsed value of a complete answer.

        Raises:
            OutputValidationError: A text cannot be parsed, or a validator rejects it.
        """
        response = self.request.answer.response
        if response.part is not None:
            return composed_value(response.part, values)
        if response.is_free or self._reader.calls:
            return None
        try:
            return response.parse(values[0][1] if values else "")
        except OutputValidationError as error:
            rejected = self._rejected(error.text, reason_of(error))
            error.attempts = (*self.request.rejected, rejected)
            raise

    def _check_arguments(self, calls: tuple[ToolCall, ...]) -> None:
        """Raise ``OutputValidationError`` if a tool's validators reject arguments."""
        reasons: dict[int, str] = {}
        for index, call in enumerate(calls):
            tool = self.request.tools[call.name]
            if call.parsed is None and tool.reader is not None:
                try:
                    tool.validate(call.arguments)
                except ToolArgumentsError as error:
                    reasons[index] = reason_of(error)
        if not reasons:
            return
        names = ", ".join(repr(calls[index].name) for index in reasons)
        reason = "\n".join(reasons.values())
        rejected = self._rejected(self._reader.text, reason, tool_calls=calls, reasons=reasons)
        raise OutputValidationError(
            f"invalid arguments for {names}: {reason}",
            text=calls[next(iter(reasons))].raw,
            attempts=(*self.request.rejected, rejected),
        )

    def _rejected(self, text: str, reason: str, **calls: Any) -> RejectedAnswer:
        usage, reasoning = self._attempt_usage(), self._reader.reasoning
        cut = self._cut_short()
        return RejectedAnswer(text, reason, usage, reasoning, cut_short=cut, **calls)

    def _cut_short(self) -> CutShort | None:
        cut = self.sequence.constraint.cut
        if cut is None:
            return None
        return CutShort(open_pointer(self._reader.parts, cut.offset, cut.refused), cut.reason)

    def _usage(self) -> Usage:
        rejected = [answer.usage for answer in self.request.rejected]
        if not rejected:
            return self._attempt_usage()
        usage = total_usage([self._attempt_usage(), *rejected])
        return replace(usage, retries=len(rejected))

    def _attempt_usage(self) -> Usage:
        request, sequence, prompt = self.request, self.sequence, self.request.prompt
        timings, drafting, output = sequence.timings, sequence.drafting, sequence.output
        drafts = {}
        if drafting is not None:
            for source, drafted in drafting.drafted.items():
                drafts[source] = DraftUsage(drafted, drafting.accepted[source])
        return Usage(
            prompt_tokens=len(prompt.token_ids),
            completion_tokens=len(output),
            cached_tokens=self.cached_tokens,
            reasoning_tokens=[getattr(token.part, "name", "") for token in output].count(REASONING),
            forced_tokens=[token.is_forced for token in output].count(True),
            prompt_seconds=timings.prompt,
            completion_seconds=timings.completion,
            mask_seconds=timings.of("mask", "advance"),
            draft_seconds=timings.of("draft"),
            sample_seconds=timings.of("sample"),
            forward_seconds=timings.of("dispatch", "wait"),
            preparation_seconds=request.preparation_seconds,
            queue_seconds=timings.started - request.created,
            drafted_tokens=sum(count.drafted_tokens for count in drafts.values()),
            accepted_tokens=sum(count.accepted_tokens for count in drafts.values()),
            drafts=drafts,
            forward_passes=sequence.forward_passes,
            image_tokens=prompt.image_tokens,
            audio_tokens=prompt.audio_tokens,
            inexact_choice_tokens=sequence.inexact_choice_tokens,
        )

    def _read(self, *, is_last: bool = False) -> None:
        """Read the tokens whose text has become certain; emit the events if there is a watcher."""
        start = len(self._lengths)
        new, part, watches = (
            self.sequence.output[start:],
            self.request.answer.part,
            self.request.watches,
        )
        if watches:
            for index, token in enumerate(new, start):
                self.job.emit(self._token_event(token))
                if token.logprob_vectors is not None:
                    # They are large, and the result of a stream does not have them.
                    self.sequence.output[index] = token._replace(logprob_vectors=None)
        pieces, self._pieces = self._pieces, []
        if isinstance(self._matcher, RootMatcher):
            pieces += self._matcher.take_pieces(is_last=is_last)
        texts = self._written(new)
        self._lengths += map(len, texts)
        if part is not None:
            # A watched request has an event for each token.
            texts = texts if watches else [b"".join(texts)]
            pieces = [Piece(part, text) for text in texts if text]
        events = self._reader.read(pieces, is_last=is_last)
        if watches:
            for event in events:
                self.job.emit(event)

    def _written(self, tokens: Iterable[Token]) -> list[bytes]:
        """Return what each token writes to the answer; special tokens by their names."""
        mark, forms = Vocabulary.SPECIAL_MARK, self._vocabulary.token_bytes
        silent = set(self._vocabulary.end_token_ids)
        if self._matcher is None:
            silent.update(self.request.options.stop_ids)
        texts = []
        for token in tokens:
            is_silent = token.finish_reason == "stop" and token.token_id in silent
            form = b"" if is_silent else forms[token.token_id] or b""
            if form.startswith(mark):
                # Unconstrained, a model may generate special tokens; they are not in the text.
                form = b"" if self._matcher is None else form.removeprefix(mark)
            texts.append(form)
        return texts

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


def _token_origins(
    tokens: Iterable[Token], lengths: Sequence[int], choices: Iterable[ScoredChoice]
) -> str:
    """Return ``GenerationResult.token_origins``.

    Args:
        tokens: The tokens.
        lengths: Bytes that each token wrote.
        choices: The choices that were drawn exactly, in the order of the output.
    """
    letters = ["f" if token.is_forced else "d" if token.is_drafted else "s" for token in tokens]
    starts = [0, *itertools.accumulate(lengths)]
    for choice in choices:
        stop = choice.offset + len(choice.chosen.text.encode())
        first = bisect_right(starts, choice.offset) - 1
        # The last option of a cancelled answer may be cut off.
        for index in range(first, min(bisect_left(starts, stop), len(letters))):
            letters[index] = "c" if lengths[index] else letters[index]
    return "".join(letters)
