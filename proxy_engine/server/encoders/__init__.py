"""Encoders of the engine's events: their common base, and a module for each interface."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeAlias

from fastapi import Response

from state_machines import Vocabulary
from state_machines.tool_calls.call import CALL

from ...answers.composition import REASONING
from ...results.events import (
    Finished,
    PromptProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    TokenGenerated,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
)
from ...results.generation import GenerationResult
from ...results.parts import Logprob, TokenLogprobs, Usage, total_usage
from ..errors import ApiError
from ..streaming import EVENT_STREAM, json_reply

Fields: TypeAlias = dict[str, Any]
"""An object of a response, as it is written."""

# JSON has no infinity; OpenAI writes this number.
_MIN_LOGPROB = -9999.0
_TIMINGS = tuple(field.name for field in fields(Usage) if field.name != "drafts")


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """Optional contents of a response.

    Attributes:
        is_streamed: Whether frames are sent, rather than one response.
        logprobs: Log-probabilities of tokens.
        usage: A last chunk with the usage.
        tokens: Every token, and timings (the extension ``include_tokens``).
        confidence: Confidences by JSON Pointer (the extension ``include_confidence``).
        reasoning: The reasoning.
    """

    is_streamed: bool = False
    logprobs: bool = False
    usage: bool = False
    tokens: bool = False
    confidence: bool = False
    reasoning: bool = True


@dataclass(slots=True)
class Answer:
    """An answer so far.

    Attributes:
        logprobs: The log-probabilities of the tokens of its content.
        sent_logprobs: How many of them earlier chunks have.
        reasoning_tokens: The number of tokens of its reasoning.
        result: Its result, once it is finished.
    """

    logprobs: list[Fields] = field(default_factory=list)
    sent_logprobs: int = 0
    reasoning_tokens: int = 0
    result: GenerationResult[Any] | None = None

    def unsent_logprobs(self) -> list[Fields]:
        """Return the log-probabilities that no earlier call has returned."""
        sent, self.sent_logprobs = self.sent_logprobs, len(self.logprobs)
        return self.logprobs[sent:]


class Encoder(ABC):
    """Encodes the events of one request's answers as the response of an endpoint.

    A stream is the frames of ``begin``, of ``encode`` for each event, and of ``end``; an error
    replaces the rest by the frames of ``fail``. A response that is not streamed is ``reply``, after
    all events were encoded.
    """

    media_type = EVENT_STREAM
    """The type of a stream."""

    def begin(self, prompt: PromptProgress | None = None) -> Iterable[bytes]:
        """Return the frames before the first event.

        Args:
            prompt: Counts the tokens of the prompt, if its prefill has begun.
        """
        return ()

    @abstractmethod
    def encode(self, index: int, event: Any) -> Iterable[bytes]:
        """Return the frames for an event of the answer number ``index``."""

    @abstractmethod
    def end(self) -> Iterable[bytes]:
        """Return the frames after the last event."""

    @abstractmethod
    def fail(self, error: ApiError) -> Iterable[bytes]:
        """Return the frames for an error."""

    @abstractmethod
    def reply(self) -> Response:
        """Return the whole response."""


class AnswerEncoder(Encoder):
    """Encodes generated answers.

    Args:
        vocabulary: The model's vocabulary.
        options: The optional contents of the response.
        answers: The number of answers.
    """

    def __init__(self, vocabulary: Vocabulary, options: EncoderOptions, answers: int = 1) -> None:
        self._texts = TokenTexts(vocabulary)
        self._options = options
        self._answers = [Answer() for _ in range(answers)]

    def encode(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        """Return the frames for an event of the answer number ``index``."""
        answer = self._answers[index]
        match event:
            case TokenGenerated():
                answer.reasoning_tokens += event.part == REASONING
                logprob = self._texts.content_logprob(event) if self._options.logprobs else None
                if logprob is not None:
                    answer.logprobs.append(logprob)
                if self._options.tokens and self._options.is_streamed:
                    yield self._token(index, _token_info(event))
            case Finished(result=result):
                answer.result = result
                yield from self._finish(index, result)
            case _:
                yield from self._content(index, event)

    def reply(self) -> Response:
        """Return ``response`` as JSON."""
        return json_reply(self.response())

    @abstractmethod
    def response(self) -> Fields:
        """Return the fields of the whole response."""

    @abstractmethod
    def _content(self, index: int, event: StreamEvent[Any]) -> Iterable[bytes]:
        """Return the frames for an event with new content; none for other events."""

    def _finish(self, index: int, result: GenerationResult[Any]) -> Iterable[bytes]:
        """Return the frames for the end of an answer."""
        return ()

    def _token(self, index: int, token: Fields) -> bytes:
        """Return the frame for a token, for ``EncoderOptions.tokens``; empty for none."""
        return b""

    def _results(self) -> list[GenerationResult[Any]]:
        results = [answer.result for answer in self._answers if answer.result is not None]
        assert len(results) == len(self._answers), "a stream without an error has a result"
        return results

    def _extension(self, result: GenerationResult[Any]) -> Fields:
        """Return the extension fields of an answer.

        They are confidences, positions of quotes, and the reason for which the answer was cut
        short, with the JSON Pointer of the value that was open.
        """
        added: Fields = {}
        if self._options.confidence:
            added["confidence"] = result.confidences()
            if result.token_logprobs:
                added["confidence_per_token"] = result.confidences(normalized=True)
        if result.quotes:
            names = ("pointer", "source", "start", "end", "occurrences")
            added["quotes"] = [
                {name: getattr(quote, name) for name in names} for quote in result.quotes
            ]
        cut = result.cut_short
        if cut is not None:
            added["cut_short"] = {"reason": cut.reason, "pointer": cut.pointer}
        return added

    def _timings(self, result: GenerationResult[Any]) -> Fields:
        """Return the extension with timings, rounded to microseconds, if they are wanted."""
        if not self._options.tokens:
            return {}
        return {"timings": {name: round(getattr(result.usage, name), 6) for name in _TIMINGS}}


class TokenTexts:
    """Texts, bytes and log-probabilities of tokens for clients.

    Attributes:
        has_end_tokens: Whether end tokens have log-probabilities, too.
    """

    has_end_tokens = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._token_bytes = vocabulary.token_bytes
        self._end_token_ids = vocabulary.end_token_ids

    def text(self, prompt: str | Sequence[int]) -> str:
        """Return the text of a prompt. Token ids outside of the vocabulary are skipped."""
        if isinstance(prompt, str):
            return prompt
        known = (self._token_bytes[id] for id in prompt if id < len(self._token_bytes))
        return b"".join(
            form.removeprefix(Vocabulary.SPECIAL_MARK) for form in known if form
        ).decode("utf-8", "replace")

    def content_logprob(self, event: TokenGenerated) -> Fields | None:
        """Return the log-probabilities of a token of the content; ``None`` for other tokens."""
        is_end = event.token_id in self._end_token_ids and not self.has_end_tokens
        if event.logprobs is None or is_end or event.part in (REASONING, CALL):
            return None
        return self.logprob(event.logprobs)

    def logprob(self, logprobs: TokenLogprobs) -> Fields:
        """Return a token with its log-probability, and the most likely tokens at its position."""
        top = [self._fields(likely) for likely in logprobs.top_before_mask]
        return {**self._fields(logprobs.chosen), "top_logprobs": top}

    def _fields(self, logprob: Logprob) -> Fields:
        form = self._token_bytes[logprob.token_id] or b""
        # Special tokens are stored with a prefix that no UTF-8 text has; they have no bytes.
        is_text = bool(form) and not form.startswith(Vocabulary.SPECIAL_MARK)
        return {
            "token": form.removeprefix(Vocabulary.SPECIAL_MARK).decode("utf-8", "replace"),
            "logprob": max(logprob.before_mask, _MIN_LOGPROB),
            "bytes": list(form) if is_text else None,
        }


def new_id(prefix: str) -> str:
    """Return a random identifier."""
    return f"{prefix}{secrets.token_hex(12)}"


def seconds_now() -> int:
    """Return the time in seconds since 1970."""
    return int(time.time())


def prompt_details(usages: Sequence[Usage]) -> Fields:
    """Return the numbers of tokens of prompts by kind.

    Clients require ``cache_write_tokens``, which are charged apart elsewhere. None are here.
    """
    total = total_usage(usages)
    names = ("cached_tokens", "image_tokens", "audio_tokens")
    return {**{name: getattr(total, name) for name in names}, "cache_write_tokens": 0}


def draft_counts(usages: Sequence[Usage]) -> Fields:
    """Return the drafted and accepted tokens by source; nothing without drafts."""
    drafts = total_usage(usages).drafts
    return {"drafts": {source: asdict(count) for source, count in drafts.items()}} if drafts else {}


def _token_info(event: TokenGenerated) -> Fields:
    return {
        "token_id": event.token_id,
        "text": event.text,
        "part": event.part,
        "is_forced": event.is_forced,
    }


class BlocksEncoder(AnswerEncoder):
    """Encodes one answer as blocks: reasoning, texts and calls. One is in progress at a time.

    ``_blocks`` are the blocks so far. The last one is in progress if ``_is_open``.
    """

    def __init__(self, vocabulary: Vocabulary, options: EncoderOptions) -> None:
        super().__init__(vocabulary, options)
        self._blocks: list[Fields] = []
        self._is_open = False
        # Of the last block; `None` if it is a call.
        self._is_reasoning: bool | None = None

    @abstractmethod
    def _text_block(self, is_reasoning: bool) -> Fields:
        """Return an empty block of reasoning or text."""

    @abstractmethod
    def _call_block(self, event: ToolCallStarted) -> Fields:
        """Return the block of a call, without its arguments."""

    @abstractmethod
    def _opened(self, block: Fields) -> Iterator[bytes]:
        """Return the frames for a new block."""

    @abstractmethod
    def _extended(self, block: Fields, text: str) -> Iterator[bytes]:
        """Add text to a block, and return the frames for it."""

    @abstractmethod
    def _closed(self, block: Fields, is_complete: bool) -> Iterator[bytes]:
        """Complete a block, and return the frames for it."""

    @property
    def _answer(self) -> Answer:
        return self._answers[0]

    def _content(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        match event:
            case TextDelta(text=text):
                yield from self._add_text(text, is_reasoning=False)
            case ReasoningDelta(text=text):
                if self._options.reasoning:
                    yield from self._add_text(text, is_reasoning=True)
            case ToolCallStarted():
                yield from self._open(self._call_block(event))
            case ToolCallDelta(arguments=text) | ToolInputDelta(input=text):
                yield from self._extended(self._blocks[-1], text)
            case ToolCallFinished():
                yield from self._close()

    def _add_text(self, text: str, *, is_reasoning: bool) -> Iterator[bytes]:
        if not self._is_open or self._is_reasoning is not is_reasoning:
            yield from self._open(self._text_block(is_reasoning))
            self._is_reasoning = is_reasoning
        if text:
            yield from self._extended(self._blocks[-1], text)

    def _open(self, block: Fields) -> Iterator[bytes]:
        yield from self._close()
        self._blocks.append(block)
        self._is_open, self._is_reasoning = True, None
        yield from self._opened(block)

    def _close(self, *, is_complete: bool = True) -> Iterator[bytes]:
        if self._is_open:
            self._is_open = False
            yield from self._closed(self._blocks[-1], is_complete)
