"""Responses: the items of an answer, and the events of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from state_machines import Vocabulary

from ...answers.composition import REASONING
from ...results.events import (
    Finished,
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
from ..errors import ApiError
from ..schemas.responses import (
    CustomToolCallItem,
    FunctionCallItem,
    MessageItem,
    OutputItem,
    OutputText,
    OutputTokensDetails,
    ReasoningItem,
    ReasoningText,
    ResponseEvent,
    ResponseExtension,
    ResponseObject,
    ResponsesUsage,
)
from ..streaming import frame
from .encoder import TokenTexts, new_id, prompt_details, quotation_infos, timings, token_info


class ResponsesEncoder:
    """Encodes one answer as items. One item is in progress at a time.

    Args:
        response: The response without output; the encoder adds to it.
        vocabulary: The model's vocabulary.
        on_finished: Called with the response when it is complete.
        tokens: Whether to send an event for every token (the extension ``include_tokens``).
        confidence: Whether to add confidences by JSON Pointer (``include_confidence``).
    """

    def __init__(
        self,
        response: ResponseObject,
        vocabulary: Vocabulary,
        *,
        on_finished: Callable[[ResponseObject], None],
        tokens: bool = False,
        confidence: bool = False,
    ) -> None:
        self._response = response
        self._texts = TokenTexts(vocabulary)
        self._on_finished = on_finished
        self._tokens = tokens
        self._confidence = confidence
        self._sequence_number = 0
        self._item: OutputItem | None = None
        self._reasoning_tokens = 0
        self._unsent_logprobs: list[dict[str, Any]] = []

    def begin(self) -> Iterator[bytes]:
        """Return the events before the first item."""
        yield self._event("response.created", response=self._response)
        yield self._event("response.in_progress", response=self._response)

    def encode(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        """Return the stream's events for an event of the engine."""
        match event:
            case TokenGenerated():
                yield from self._add_token(event)
            case ReasoningDelta(text=text):
                yield from self._add_reasoning(text)
            case TextDelta(text=text):
                yield from self._add_text(text)
            case ToolCallStarted():
                yield from self._begin_item(_call_item(event))
            case ToolCallDelta(arguments=arguments):
                assert isinstance(self._item, FunctionCallItem), "deltas follow the call's start"
                self._item.arguments += arguments
                yield self._item_event("response.function_call_arguments.delta", delta=arguments)
            case ToolInputDelta(input=text):
                assert isinstance(self._item, CustomToolCallItem), "deltas follow the call's start"
                self._item.input += text
                yield self._item_event("response.custom_tool_call_input.delta", delta=text)
            case ToolCallFinished():
                yield from self._end_item("completed")
            case Finished(result=result):
                yield from self._finish(result)

    def end(self) -> Iterator[bytes]:
        """Return the last event, which has the whole response."""
        yield self._event(f"response.{self._response.status}", response=self._response)

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Return the last events: the error, and the response so far."""
        if self._item is not None:
            self._item.status = "incomplete"
        self._response.status = "failed"
        # The interface has few codes of failed responses. The event has the server's own.
        code = "server_error" if error.status >= 500 else "invalid_prompt"
        self._response.error = {"code": code, "message": error.message}
        yield self._event("error", code=error.code, message=error.message, param=error.param)
        yield self._event("response.failed", response=self._response)

    def response(self) -> ResponseObject:
        """Return the response."""
        return self._response

    def _add_token(self, event: TokenGenerated) -> Iterator[bytes]:
        self._reasoning_tokens += event.part == REASONING
        logprob = self._texts.content_logprob(event)
        if logprob is not None:
            fields = logprob.model_dump()
            # In this interface `bytes` is never null.
            for one in (fields, *fields["top_logprobs"]):
                one["bytes"] = one["bytes"] or []
            self._unsent_logprobs.append(fields)
        if self._tokens:
            # Not one of OpenAI's types; clients skip unknown ones.
            yield self._event("proxy_engine.token", token=token_info(event))

    def _add_reasoning(self, text: str) -> Iterator[bytes]:
        item = self._item
        if not isinstance(item, ReasoningItem):
            item = ReasoningItem(
                id=new_id("rs_"), type="reasoning", status="in_progress", summary=[], content=[]
            )
            yield from self._begin_item(item)
            part = ReasoningText(type="reasoning_text", text="")
            yield self._item_event("response.content_part.added", content_index=0, part=part)
            item.content.append(part)
        item.content[0].text += text
        yield self._item_event("response.reasoning_text.delta", content_index=0, delta=text)

    def _add_text(self, text: str) -> Iterator[bytes]:
        item = self._item
        if not isinstance(item, MessageItem):
            item = MessageItem(
                id=new_id("msg_"),
                type="message",
                role="assistant",
                status="in_progress",
                content=[],
            )
            yield from self._begin_item(item)
            part = OutputText(type="output_text", text="", annotations=[], logprobs=[])
            yield self._item_event("response.content_part.added", content_index=0, part=part)
            item.content.append(part)
        if text:
            logprobs, self._unsent_logprobs = self._unsent_logprobs, []
            item.content[0].text += text
            item.content[0].logprobs += logprobs
            yield self._item_event(
                "response.output_text.delta", content_index=0, delta=text, logprobs=logprobs
            )

    def _begin_item(self, item: OutputItem) -> Iterator[bytes]:
        yield from self._end_item("completed")
        self._item = item
        self._response.output.append(item)
        index = len(self._response.output) - 1
        yield self._event("response.output_item.added", output_index=index, item=item)

    def _end_item(self, status: Any) -> Iterator[bytes]:
        item = self._item
        if item is None:
            return
        item.status = status
        if isinstance(item, FunctionCallItem):
            yield self._item_event(
                "response.function_call_arguments.done", name=item.name, arguments=item.arguments
            )
        elif isinstance(item, CustomToolCallItem):
            yield self._item_event("response.custom_tool_call_input.done", input=item.input)
        else:
            part = item.content[0]
            if isinstance(part, OutputText):
                part.logprobs += self._unsent_logprobs
                self._unsent_logprobs = []
                fields = {"text": part.text, "logprobs": part.logprobs}
                yield self._item_event("response.output_text.done", content_index=0, **fields)
            else:
                yield self._item_event(
                    "response.reasoning_text.done", content_index=0, text=part.text
                )
            yield self._item_event("response.content_part.done", content_index=0, part=part)
        index = len(self._response.output) - 1
        yield self._event("response.output_item.done", output_index=index, item=item)
        self._item = None

    def _finish(self, result: GenerationResult[Any]) -> Iterator[bytes]:
        is_complete = result.finish_reason != "length"
        if all(isinstance(item, ReasoningItem) for item in self._response.output):
            # An empty text is an answer.
            yield from self._add_text("")
        yield from self._end_item("completed" if is_complete else "incomplete")
        self._response.status = "completed" if is_complete else "incomplete"
        if not is_complete:
            self._response.incomplete_details = {"reason": "max_output_tokens"}
        usage = result.usage
        self._response.usage = ResponsesUsage(
            input_tokens=usage.prompt_tokens,
            input_tokens_details=prompt_details([usage]),
            output_tokens=usage.completion_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=self._reasoning_tokens),
            total_tokens=usage.total_tokens,
        )
        added: dict[str, Any] = {}
        if self._tokens:
            added["timings"] = timings(usage)
        if self._confidence:
            added["confidence"] = result.confidences()
        if result.quotes:
            added["quotes"] = quotation_infos(result)
        if added:
            self._response.proxy_engine = ResponseExtension(**added)
        self._on_finished(self._response)

    def _item_event(self, type: str, **fields: Any) -> bytes:
        assert self._item is not None, "an item is in progress"
        index = len(self._response.output) - 1
        return self._event(type, item_id=self._item.id, output_index=index, **fields)

    def _event(self, type: str, **fields: Any) -> bytes:
        event = ResponseEvent(type=type, sequence_number=self._sequence_number, **fields)
        self._sequence_number += 1
        return frame(event, type)


def _call_item(event: ToolCallStarted) -> FunctionCallItem | CustomToolCallItem:
    if event.is_custom:
        return CustomToolCallItem(
            id=new_id("ctc_"),
            type="custom_tool_call",
            status="in_progress",
            call_id=event.id,
            name=event.name,
            input="",
        )
    return FunctionCallItem(
        id=new_id("fc_"),
        type="function_call",
        status="in_progress",
        call_id=event.id,
        name=event.name,
        arguments="",
    )
