"""Completions of raw prompts: whole, and in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from state_machines import Vocabulary

from ...events import Finished, StreamEvent, TextDelta, TokenGenerated
from ...results import GenerationResult, TokenLogprobs
from ..errors import ApiError
from ..schemas.common import Extension
from ..schemas.completions import (
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionChunkChoice,
    CompletionLogprobs,
)
from ..streaming import DONE, frame
from .chat import chat_usage
from .encoder import TokenTexts, least_logprob, new_id, seconds_now, timings, token_info

__all__ = ["CompletionEncoder"]


@dataclass(slots=True)
class _Choice:
    """One of the texts, as far as it came. ``offset``: where the next token begins."""

    offset: int = 0
    logprobs: list[tuple[int, TokenLogprobs]] = field(default_factory=list)
    told: int = 0
    result: GenerationResult[Any] | None = None


class CompletionEncoder:
    """Encodes the answers to one request: of each prompt ``choices``, one after the other.

    ``echoes`` are the texts of the prompts where they are wanted; else they are empty.
    """

    def __init__(
        self,
        model: str,
        vocabulary: Vocabulary,
        echoes: Sequence[str],
        *,
        choices: int = 1,
        logprobs: bool = False,
        usage: bool = False,
        tokens: bool = False,
    ) -> None:
        self._id = new_id("cmpl-")
        self._created = seconds_now()
        self._model = model
        self._texts = TokenTexts(vocabulary)
        self._echoes = [echo for echo in echoes for _ in range(choices)]
        self._choices = [_Choice(len(echo)) for echo in self._echoes]
        self._per_prompt = choices
        self._logprobs = logprobs
        self._usage = usage
        self._tokens = tokens

    def begin(self) -> Iterator[bytes]:
        """Return the prompts, where they are wanted."""
        for index, echo in enumerate(self._echoes):
            if echo:
                yield self._chunk(index, echo)

    def encode(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        """Return the chunks of an event."""
        match event:
            case TokenGenerated():
                self._take_logprobs(index, event)
                if self._tokens:
                    yield self._chunk(index, "", extension=Extension(tokens=[token_info(event)]))
            case TextDelta(text=text):
                yield self._chunk(index, text)
            case Finished(result=result):
                self._choices[index].result = result
                yield self._chunk(index, "", result)

    def end(self) -> Iterator[bytes]:
        """Return the chunk of usage, if it is wanted, and the mark of the end."""
        if self._usage:
            chunk = self._empty_chunk([])
            chunk.usage = self._total_usage()
            yield frame(chunk)
        yield DONE

    def fail(self, error: ApiError) -> Iterable[bytes]:
        """Return the error as a chunk, as OpenAI's clients look for it."""
        return (frame(error.body), DONE)

    def response(self) -> Completion:
        """Return the response."""
        completion = Completion(
            id=self._id,
            object="text_completion",
            created=self._created,
            model=self._model,
            choices=[
                CompletionChoice(
                    index=index,
                    text=self._echoes[index] + self._result(index).text,
                    logprobs=self._logprobs_of(self._choices[index].logprobs),
                    finish_reason=_reason(self._result(index)),
                )
                for index in range(len(self._choices))
            ],
            usage=self._total_usage(),
            system_fingerprint=None,
        )
        if self._tokens:
            completion.proxy_engine = Extension(timings=timings(self._result(0).usage))
        return completion

    def _take_logprobs(self, index: int, event: TokenGenerated) -> None:
        choice = self._choices[index]
        if event.logprobs is not None and not self._texts.is_end(event.token_id):
            choice.logprobs.append((choice.offset, event.logprobs))
            choice.offset += len(self._texts.of(event.token_id)[0])

    def _logprobs_of(self, told: Sequence[tuple[int, TokenLogprobs]]) -> CompletionLogprobs | None:
        if not self._logprobs:
            return None
        return CompletionLogprobs(
            tokens=[self._texts.of(logprobs.chosen.token_id)[0] for _, logprobs in told],
            token_logprobs=[least_logprob(logprobs.chosen) for _, logprobs in told],
            top_logprobs=[
                {
                    self._texts.of(one.token_id)[0]: least_logprob(one)
                    for one in logprobs.top_before_mask
                }
                for _, logprobs in told
            ],
            text_offset=[offset for offset, _ in told],
        )

    def _chunk(
        self,
        index: int,
        text: str,
        result: GenerationResult[Any] | None = None,
        extension: Extension | None = None,
    ) -> bytes:
        choice = self._choices[index]
        logprobs = None
        # Text may be held back after its tokens have come; they are told with it.
        if extension is None and choice.told < len(choice.logprobs):
            logprobs = self._logprobs_of(choice.logprobs[choice.told :])
            choice.told = len(choice.logprobs)
        chunk = self._empty_chunk(
            [
                CompletionChunkChoice(
                    index=index,
                    text=text,
                    logprobs=logprobs,
                    finish_reason=None if result is None else _reason(result),
                )
            ]
        )
        if result is not None and self._tokens:
            extension = Extension(timings=timings(result.usage))
        if extension is not None:
            chunk.proxy_engine = extension
        return frame(chunk)

    def _empty_chunk(self, choices: list[CompletionChunkChoice]) -> CompletionChunk:
        chunk = CompletionChunk(
            id=self._id,
            object="text_completion",
            created=self._created,
            model=self._model,
            choices=choices,
            system_fingerprint=None,
        )
        if self._usage:
            chunk.usage = None
        return chunk

    def _result(self, index: int) -> GenerationResult[Any]:
        result = self._choices[index].result
        if result is None:
            raise AssertionError("a stream without an error has a result")
        return result

    def _total_usage(self) -> Any:
        results = [self._result(index) for index in range(len(self._choices))]
        return chat_usage(results, prompts=results[:: self._per_prompt])


def _reason(result: GenerationResult[Any]) -> Literal["stop", "length"]:
    return "length" if result.finish_reason == "length" else "stop"
