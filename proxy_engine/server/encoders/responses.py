"""Responses: the items of an answer, whole, and event by event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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
    ToolCallFinished,
    ToolCallStarted,
)
from ...results import GenerationResult, Logprob
from ..errors import ApiError
from ..schemas.common import Extension
from ..schemas.responses import (
    FunctionCallItem,
    InputTokensDetails,
    MessageItem,
    OutputItem,
    OutputText,
    OutputTokensDetails,
    ReasoningItem,
    ReasoningText,
    ResponseEvent,
    ResponseObject,
    ResponsesUsage,
)
from ..streaming import frame
from .encoder import TokenTexts, least_logprob, new_id, timings, token_info

__all__ = ["ResponsesEncoder"]


class ResponsesEncoder:
    """Encodes the answer to one request: items, one after the other, of which one is written.

    ``response`` is the response as it is before anything is answered; it is filled in. ``done`` is
    told of it when it is whole. ``tokens``: tell of every token (the extension).
    """

    def __init__(
        self,
        response: ResponseObject,
        vocabulary: Vocabulary,
        *,
        done: Callable[[ResponseObject], None],
        tokens: bool = False,
    ) -> None:
        self._response = response
        self._texts = TokenTexts(vocabulary)
        self._done = done
        self._tokens = tokens
        self._sequence = 0
        self._item: OutputItem | None = None
        self._reasoning_tokens = 0
        self._untold: list[dict[str, Any]] = []

    def begin(self) -> Iterator[bytes]:
        """Return the events that say that the response is on its way."""
        yield self._event("response.created", response=self._response)
        yield self._event("response.in_progress", response=self._response)

    def encode(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        """Return the events of an event."""
        match event:
            case TokenGenerated():
                yield from self._token(event)
            case ReasoningDelta(text=text):
                yield from self._think(text)
            case TextDelta(text=text):
                yield from self._say(text)
            case ToolCallStarted(id=id, name=name):
                yield from self._begin_item(
                    FunctionCallItem(
                        id=new_id("fc_"),
                        type="function_call",
                        status="in_progress",
                        call_id=id,
                        name=name,
                        arguments="",
                    )
                )
            case ToolCallDelta(arguments=arguments):
                call = self._call()
                call.arguments += arguments
                yield self._of_item("response.function_call_arguments.delta", delta=arguments)
            case ToolCallFinished():
                yield from self._end_item("completed")
            case Finished(result=result):
                yield from self._finish(result)

    def end(self) -> Iterator[bytes]:
        """Return the last event: the response as a whole."""
        yield self._event(f"response.{self._response.status}", response=self._response)

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Return the last events: what went wrong, and the response as far as it came."""
        self._response.status = "failed"
        self._response.error = {"code": error.code or "server_error", "message": error.message}
        yield self._event("error", code=error.code, message=error.message, param=error.param)
        yield self._event("response.failed", response=self._response)

    def response(self) -> ResponseObject:
        """Return the response."""
        return self._response

    def _token(self, event: TokenGenerated) -> Iterator[bytes]:
        self._reasoning_tokens += event.part == REASONING
        is_content = event.part not in (REASONING, CALL)
        if event.logprobs is not None and is_content and not self._texts.is_end(event.token_id):
            top = [self._logprob(one) for one in event.logprobs.top_before_mask]
            self._untold.append({**self._logprob(event.logprobs.chosen), "top_logprobs": top})
        if self._tokens:
            # Its name is no one's: clients pass over events that they do not know.
            yield self._event("proxy_engine.token", token=token_info(event))

    def _logprob(self, logprob: Logprob) -> dict[str, Any]:
        text, form = self._texts.of(logprob.token_id)
        return {"token": text, "logprob": least_logprob(logprob), "bytes": form or []}

    def _think(self, text: str) -> Iterator[bytes]:
        if not isinstance(self._item, ReasoningItem):
            part = ReasoningText(type="reasoning_text", text="")
            yield from self._begin_item(
                ReasoningItem(
                    id=new_id("rs_"), type="reasoning", status="in_progress", summary=[], content=[]
                )
            )
            yield self._of_item("response.content_part.added", content_index=0, part=part)
            if isinstance(self._item, ReasoningItem):
                self._item.content.append(part)
        if isinstance(self._item, ReasoningItem):
            self._item.content[0].text += text
            yield self._of_item("response.reasoning_text.delta", content_index=0, delta=text)

    def _say(self, text: str) -> Iterator[bytes]:
        if not isinstance(self._item, MessageItem):
            part = OutputText(type="output_text", text="", annotations=[], logprobs=[])
            yield from self._begin_item(
                MessageItem(
                    id=new_id("msg_"),
                    type="message",
                    role="assistant",
                    status="in_progress",
                    content=[],
                )
            )
            yield self._of_item("response.content_part.added", content_index=0, part=part)
            if isinstance(self._item, MessageItem):
                self._item.content.append(part)
        if isinstance(self._item, MessageItem) and text:
            told, self._untold = self._untold, []
            self._item.content[0].text += text
            self._item.content[0].logprobs += told
            yield self._of_item(
                "response.output_text.delta", content_index=0, delta=text, logprobs=told
            )

    def _call(self) -> FunctionCallItem:
        if not isinstance(self._item, FunctionCallItem):
            raise AssertionError("a call's arguments come after its start")
        return self._item

    def _begin_item(self, item: OutputItem) -> Iterator[bytes]:
        yield from self._end_item("completed")
        self._item = item
        self._response.output.append(item)
        yield self._event(
            "response.output_item.added", output_index=len(self._response.output) - 1, item=item
        )

    def _end_item(self, status: Any) -> Iterator[bytes]:
        item = self._item
        if item is None:
            return
        item.status = status
        if isinstance(item, FunctionCallItem):
            done = {"name": item.name, "arguments": item.arguments}
            yield self._of_item("response.function_call_arguments.done", **done)
        else:
            part = item.content[0]
            if isinstance(part, OutputText):
                part.logprobs += self._untold
                self._untold = []
                facts = {"text": part.text, "logprobs": part.logprobs}
                yield self._of_item("response.output_text.done", content_index=0, **facts)
            else:
                yield self._of_item("response.reasoning_text.done", content_index=0, text=part.text)
            yield self._of_item("response.content_part.done", content_index=0, part=part)
        yield self._event(
            "response.output_item.done", output_index=len(self._response.output) - 1, item=item
        )
        self._item = None

    def _finish(self, result: GenerationResult[Any]) -> Iterator[bytes]:
        is_whole = result.finish_reason != "length"
        status = "completed" if is_whole else "incomplete"
        if not any(not isinstance(item, ReasoningItem) for item in self._response.output):
            # An answer of nothing is an answer.
            yield from self._say("")
        yield from self._end_item(status)
        self._response.status = "completed" if is_whole else "incomplete"
        if not is_whole:
            self._response.incomplete_details = {"reason": "max_output_tokens"}
        usage = result.usage
        self._response.usage = ResponsesUsage(
            input_tokens=usage.prompt_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=usage.cached_tokens),
            output_tokens=usage.completion_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=self._reasoning_tokens),
            total_tokens=usage.total_tokens,
        )
        if self._tokens:
            self._response.proxy_engine = Extension(timings=timings(usage))
        self._done(self._response)

    def _of_item(self, type: str, **facts: Any) -> bytes:
        if self._item is None:
            raise AssertionError("there is an item")
        return self._event(
            type,
            item_id=self._item.id,
            output_index=len(self._response.output) - 1,
            **facts,
        )

    def _event(self, type: str, **facts: Any) -> bytes:
        event = ResponseEvent(type=type, sequence_number=self._sequence, **facts)
        self._sequence += 1
        return frame(event, type)
