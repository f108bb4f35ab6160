"""Chat completions: whole, and in chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from state_machines import Vocabulary
from state_machines.tool_calls.call import CALL

from ...answers.composition import REASONING
from ...events import (
    Finished,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    TokenGenerated,
    ToolCallDelta,
    ToolCallStarted,
)
from ...results import GenerationResult, Logprob
from ..errors import ApiError
from ..schemas.chat import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatFunction,
    ChatLogprobs,
    ChatMessage,
    ChatTokenLogprob,
    ChatToolCall,
    ChatTopLogprob,
    ChatUsage,
    CompletionDetails,
    PromptDetails,
)
from ..schemas.common import Extension
from ..streaming import DONE, frame
from .encoder import TokenTexts, least_logprob, new_id, seconds_now, timings, token_info

__all__ = ["ChatEncoder", "chat_usage"]


@dataclass(slots=True)
class _Choice:
    """One of the answers, as far as it came."""

    logprobs: list[ChatTokenLogprob] = field(default_factory=list)
    untold: list[ChatTokenLogprob] = field(default_factory=list)
    reasoning_tokens: int = 0
    result: GenerationResult[Any] | None = None


class ChatEncoder:
    """Encodes the answers to one chat request.

    ``logprobs``: tell probabilities. ``tokens``: tell of every token (the extension).
    """

    def __init__(
        self,
        model: str,
        vocabulary: Vocabulary,
        *,
        choices: int = 1,
        logprobs: bool = False,
        usage: bool = False,
        tokens: bool = False,
    ) -> None:
        self._id = new_id("chatcmpl-")
        self._created = seconds_now()
        self._model = model
        self._texts = TokenTexts(vocabulary)
        self._choices = [_Choice() for _ in range(choices)]
        self._logprobs = logprobs
        self._usage = usage
        self._tokens = tokens

    def begin(self) -> Iterator[bytes]:
        """Return the chunks that say whose turn it is."""
        for index in range(len(self._choices)):
            yield self._chunk(index, ChatDelta(role="assistant", content=""))

    def encode(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        """Return the chunks of an event."""
        match event:
            case TokenGenerated():
                yield from self._token(index, event)
            case TextDelta(text=text):
                yield self._chunk(index, ChatDelta(content=text))
            case ReasoningDelta(text=text):
                yield self._chunk(index, ChatDelta(reasoning_content=text))
            case ToolCallStarted():
                function = ChatFunction(name=event.name, arguments="")
                call = ChatToolCall(
                    index=event.index, id=event.id, type="function", function=function
                )
                yield self._chunk(index, ChatDelta(tool_calls=[call]))
            case ToolCallDelta():
                call = ChatToolCall(
                    index=event.index, function=ChatFunction(arguments=event.arguments)
                )
                yield self._chunk(index, ChatDelta(tool_calls=[call]))
            case Finished(result=result):
                self._choices[index].result = result
                yield self._chunk(index, ChatDelta(), result)

    def end(self) -> Iterator[bytes]:
        """Return the chunk of usage, if it is wanted, and the mark of the end."""
        if self._usage:
            yield frame(self._empty_chunk([], usage=self._total_usage()))
        yield DONE

    def fail(self, error: ApiError) -> Iterable[bytes]:
        """Return the error as a chunk, as OpenAI's clients look for it."""
        return (frame(error.body), DONE)

    def response(self) -> ChatCompletion:
        """Return the response."""
        completion = ChatCompletion(
            id=self._id,
            object="chat.completion",
            created=self._created,
            model=self._model,
            choices=[self._whole(index) for index in range(len(self._choices))],
            usage=self._total_usage(),
            system_fingerprint=None,
            service_tier=None,
        )
        if self._tokens:
            completion.proxy_engine = Extension(timings=timings(self._result(0).usage))
        return completion

    def _token(self, index: int, event: TokenGenerated) -> Iterator[bytes]:
        choice = self._choices[index]
        choice.reasoning_tokens += event.part == REASONING
        is_content = event.part not in (REASONING, CALL)
        if event.logprobs is not None and is_content and not self._texts.is_end(event.token_id):
            chosen = self._logprob(event.logprobs.chosen)
            top = map(self._logprob, event.logprobs.top_before_mask)
            told = ChatTokenLogprob(**chosen.model_dump(), top_logprobs=list(top))
            choice.logprobs.append(told)
            choice.untold.append(told)
        if self._tokens:
            extension = Extension(tokens=[token_info(event)])
            yield self._chunk(index, ChatDelta(), extension=extension)

    def _logprob(self, logprob: Logprob) -> ChatTopLogprob:
        text, form = self._texts.of(logprob.token_id)
        return ChatTopLogprob(token=text, logprob=least_logprob(logprob), bytes=form)

    def _chunk(
        self,
        index: int,
        delta: ChatDelta,
        result: GenerationResult[Any] | None = None,
        extension: Extension | None = None,
    ) -> bytes:
        choice = ChatChunkChoice(
            index=index, delta=delta, finish_reason=None if result is None else _reason(result)
        )
        untold = self._choices[index].untold
        # Text may be held back after its tokens have come; they are told with it.
        if untold and (delta.content or result is not None):
            choice.logprobs = ChatLogprobs(content=list(untold), refusal=None)
            untold.clear()
        chunk = self._empty_chunk([choice])
        if result is not None and self._tokens:
            extension = Extension(timings=timings(result.usage))
        if extension is not None:
            chunk.proxy_engine = extension
        return frame(chunk)

    def _empty_chunk(
        self, choices: list[ChatChunkChoice], usage: ChatUsage | None = None
    ) -> ChatChunk:
        chunk = ChatChunk(
            id=self._id,
            object="chat.completion.chunk",
            created=self._created,
            model=self._model,
            choices=choices,
            system_fingerprint=None,
        )
        if self._usage:
            chunk.usage = usage
        return chunk

    def _result(self, index: int) -> GenerationResult[Any]:
        result = self._choices[index].result
        if result is None:
            raise AssertionError("a stream without an error has a result")
        return result

    def _whole(self, index: int) -> ChatChoice:
        result = self._result(index)
        content = result.text if result.text or not result.tool_calls else None
        message = ChatMessage(role="assistant", content=content, refusal=None)
        if result.reasoning:
            message.reasoning_content = result.reasoning
        if result.tool_calls:
            message.tool_calls = [
                ChatToolCall(
                    id=call.id,
                    type="function",
                    function=ChatFunction(
                        name=call.name, arguments=json.dumps(call.arguments, ensure_ascii=False)
                    ),
                )
                for call in result.tool_calls
            ]
        logprobs = ChatLogprobs(content=self._choices[index].logprobs, refusal=None)
        return ChatChoice(
            index=index,
            message=message,
            logprobs=logprobs if self._logprobs else None,
            finish_reason=_reason(result),
        )

    def _total_usage(self) -> ChatUsage:
        results = [self._result(index) for index in range(len(self._choices))]
        return chat_usage(results, sum(choice.reasoning_tokens for choice in self._choices))


def chat_usage(
    results: Sequence[GenerationResult[Any]],
    reasoning_tokens: int = 0,
    *,
    prompts: Sequence[GenerationResult[Any]] | None = None,
) -> ChatUsage:
    """Return what answers took; ``prompts`` has one for each prompt, which is counted once."""
    prompt = sum(result.usage.prompt_tokens for result in prompts or results[:1])
    cached = sum(result.usage.cached_tokens for result in prompts or results[:1])
    completion = sum(result.usage.completion_tokens for result in results)
    return ChatUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=PromptDetails(cached_tokens=cached),
        completion_tokens_details=CompletionDetails(reasoning_tokens=reasoning_tokens),
    )


def _reason(result: GenerationResult[Any]) -> Literal["stop", "length", "tool_calls"]:
    reason = result.finish_reason
    # A request that was cancelled gets an error instead.
    return "stop" if reason == "cancelled" else reason
