"""A running request: collects the tokens of its sequence, and reads them as events and a result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from state_machines import Vocabulary
from state_machines.root import Piece, RootMatcher, Text, repeated_part_names

from ..answers.reader import AnswerReader
from ..errors import OutputValidationError
from ..generation import SequenceState, Token
from ..results.confidence import open_pointer
from ..results.events import PromptProgress, TokenGenerated
from ..results.generation import CutShort, FinishReason, GenerationResult
from .request import Request
from .results import (
    captured_texts,
    checked_calls,
    measured_usage,
    parsed_value,
    quotations,
    token_origins,
)
from .sequence_factory import SequenceFactory
from .streams import Emit


class RunningRequest:
    """A request with its sequence and its output so far. To be used by one thread at a time.

    Tokens are collected. Their text is read at once if the request is watched, and otherwise by
    the thread that waits for the result, so that the model thread does not wait for it.

    Args:
        request: The request.
        factory: Creates the sequence.
        emit: Receives the events.
        sequence: A sequence that answers the request; by default a new one.

    Attributes:
        tokens: The tokens so far. Tokens that are appended without :meth:`report` are reported
            together with the next ones.
        has_tokens: Whether a token has been reported.
        cached_tokens: Tokens of the prompt whose KV cache was reused.
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
        self.tokens: list[Token] = []
        self.has_tokens = False
        self.cached_tokens = 0
        self._emit = emit
        self._vocabulary = factory.vocabulary
        self._model = factory.loaded.name
        self._matcher = self.sequence.matcher
        part = answer.response.part
        self._reader = AnswerReader(
            new_id=answer.new_id,
            watches_value=request.watches,
            repeated=repeated_part_names(part) if part else frozenset(),
        )
        # Not read yet: pieces of a composition, and tokens from an index.
        self._pieces: list[Piece] = []
        self._unread = 0
        self._is_in_text = False

    @property
    def text(self) -> str:
        """Free text and structured output so far."""
        self._read()
        return self._reader.text

    def report_progress(self, processed: int) -> None:
        """Report how many tokens of the prompt have been processed."""
        self._emit(PromptProgress(processed=processed, total=len(self.request.prompt_ids)))

    def report(self, tokens: Sequence[Token]) -> None:
        """Take new tokens of the sequence; emit their events if the request is watched."""
        if tokens and not self.has_tokens:
            self.has_tokens = True
            self.report_progress(len(self.request.prompt_ids))
        self.tokens += tokens
        if isinstance(self._matcher, RootMatcher):
            self._pieces += self._matcher.take_pieces()
        if self.request.watches:
            self._read()

    def end(self) -> None:
        """Record the end of generation; emit the last events if the request is watched."""
        self.sequence.timings.end()
        if self.request.watches:
            self._read_to_end()

    def result(self) -> GenerationResult[Any]:
        """Return the result after :meth:`end`: parse the answer, and call the caller's validators.

        An unfinished request has the finish reason ``cancelled``.

        Raises:
            OutputValidationError: A validator rejects the answer.
        """
        request, reader, sequence, tokens = self.request, self._reader, self.sequence, self.tokens
        if not request.watches:
            self._read_to_end()
        finish_reason = self._finish_reason()
        is_complete = finish_reason != "cancelled"
        if is_complete:
            self._check_complete()
        tool_calls = tuple(checked_calls(reader.calls, request.tools))
        lengths = tuple(map(len, self._written(tokens)))
        logprobs = [token.logprobs for token in tokens if token.logprobs is not None]
        vectors = [token.logprob_vectors for token in tokens if token.logprob_vectors is not None]
        keeps_vectors = request.hooks.logprob_vectors and not request.watches
        return GenerationResult(
            text=reader.text,
            parsed=parsed_value(reader, request.answer.response) if is_complete else None,
            quotes=quotations(reader, request.answer.response) if is_complete else (),
            finish_reason=finish_reason,
            usage=measured_usage(request, sequence, tokens, self.cached_tokens),
            token_ids=tuple([token.token_id for token in tokens]),
            model=self._model,
            reasoning=reader.reasoning,
            tool_calls=tool_calls,
            parts=reader.parts,
            logprobs=None if request.options.logprobs is None else tuple(logprobs),
            logprob_vectors=tuple(vectors) if keeps_vectors else None,
            trace=tuple(sequence.timings.spans),
            scored_choices=tuple(sequence.scored_choices),
            token_origins=token_origins(tokens, lengths, sequence.scored_choices),
            token_lengths=lengths,
            captures=captured_texts(reader) if is_complete else {},
            cut_short=self._cut_short() if is_complete else None,
        )

    def _finish_reason(self) -> FinishReason:
        if not self.tokens or self.tokens[-1].finish_reason is None:
            return "cancelled"
        if self.sequence.is_limited:
            return "length"
        return "tool_calls" if self._reader.calls else "stop"

    def _cut_short(self) -> CutShort | None:
        cut = self.sequence.cut
        if cut is None:
            return None
        return CutShort(open_pointer(self._reader.parts, cut.offset, cut.refused), cut.reason)

    def _check_complete(self) -> None:
        matcher = self._matcher
        if matcher is not None and not (self._is_in_text or matcher.is_accepting):
            raise OutputValidationError(
                f"the output is not complete after {len(self.tokens)} tokens",
                text="".join(part.text for part in self._reader.parts),
            )

    def _read_to_end(self) -> None:
        """Read all tokens. The output ends with the last token."""
        matcher, answer = self._matcher, self.request.answer
        # The matcher has no parts after its last piece.
        parts = matcher.parts[:1] if isinstance(matcher, RootMatcher) else (answer.part,)
        self._is_in_text = any(isinstance(part, Text) for part in parts)
        if isinstance(matcher, RootMatcher):
            self._pieces += matcher.take_pieces(is_last=True)
        self._read(is_last=True)

    def _read(self, *, is_last: bool = False) -> None:
        """Read the tokens whose text has become certain; emit the events if there is a watcher."""
        start, self._unread = self._unread, len(self.tokens)
        new, part = self.tokens[start:], self.request.answer.part
        if self.request.watches:
            for index, token in enumerate(new, start):
                self._emit(self._token_event(token))
                if token.logprob_vectors is not None:
                    # They are large, and the result of a stream does not have them.
                    self.tokens[index] = replace(token, logprob_vectors=None)
        pieces, self._pieces = self._pieces, []
        if part is not None:
            texts = self._written(new)
            # A piece for each token would be an event for each.
            texts = texts if self.request.watches else [b"".join(texts)]
            pieces = [Piece(part, text) for text in texts if text]
        events = self._reader.read(pieces, is_last=is_last)
        if self.request.watches:
            for event in events:
                self._emit(event)

    def _written(self, tokens: Iterable[Token]) -> list[bytes]:
        """Return what each token writes to the answer; special tokens by their names."""
        mark, forms = Vocabulary.SPECIAL_MARK, self._vocabulary.token_bytes
        silent = set(self._vocabulary.end_token_ids)
        if self._matcher is None:
            silent.update(self.request.options.stop_ids)
        texts = []
        for token in tokens:
            form = b"" if token.token_id in silent else forms[token.token_id] or b""
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
