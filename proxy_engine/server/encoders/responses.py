"""Responses: the items of an answer, and the events of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from state_machines import Vocabulary

from ...results.events import PromptProgress, ToolCallStarted
from ...results.generation import GenerationResult
from ..errors import ApiError
from ..streaming import frame
from . import BlocksEncoder, EncoderOptions, Fields, draft_counts, new_id, prompt_details

ID_PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
    "reasoning": "rs_",
}
"""Prefixes of the ids of items, by type."""

# By type of a call: the member with its text, and the beginning of its events' names.
_CALL_TEXTS = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
}


class ResponsesEncoder(BlocksEncoder):
    """Encodes one answer as items.

    Args:
        response: The response without output; the encoder adds to it.
        vocabulary: The model's vocabulary.
        options: The optional contents of the response.
        on_finished: Called with the response when it is complete, if it is to be stored.
        client_name: Returns the client's name of a tool, and its namespace.
    """

    def __init__(
        self,
        response: Fields,
        vocabulary: Vocabulary,
        options: EncoderOptions,
        *,
        on_finished: Callable[[Fields], None] | None,
        client_name: Callable[[str], tuple[str, str | None]] = lambda shown: (shown, None),
    ) -> None:
        super().__init__(vocabulary, options)
        self._response = response
        self._response["output"] = self._blocks
        self._on_finished = on_finished
        self._client_name = client_name
        self._sequence_number = 0

    def begin(self, prompt: PromptProgress | None = None) -> Iterator[bytes]:
        """Return the events before the first item."""
        yield self._event("response.created", response=self._response)
        yield self._event("response.in_progress", response=self._response)

    def end(self) -> Iterator[bytes]:
        """Return the last event, which has the whole response."""
        yield self._event(f"response.{self._response['status']}", response=self._response)

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Return the last events: the error, and the response so far."""
        if self._is_open:
            self._blocks[-1]["status"] = "incomplete"
        # The interface has few codes of failed responses. The event has the server's own.
        code = "server_error" if error.status >= 500 else "invalid_prompt"
        self._response |= {"status": "failed", "error": {"code": code, "message": error.message}}
        yield self._event("error", code=error.code, message=error.message, param=error.param)
        yield self._event("response.failed", response=self._response)

    def response(self) -> Fields:
        """Return the response."""
        return self._response

    def _token(self, index: int, token: Fields) -> bytes:
        # The type is not OpenAI's; clients skip unknown types.
        return self._event("proxy_engine.token", token=token)

    def _text_block(self, is_reasoning: bool) -> Fields:
        if is_reasoning:
            return self._item("reasoning", summary=[], content=[])
        return self._item("message", role="assistant", content=[])

    def _call_block(self, event: ToolCallStarted) -> Fields:
        kind = "custom_tool_call" if event.is_custom else "function_call"
        name, namespace = self._client_name(event.name)
        names = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
        text = {_CALL_TEXTS[kind][0]: ""}
        return self._item(kind, call_id=event.id, **names, **text)

    def _item(self, kind: str, **fields: Any) -> Fields:
        return {"id": new_id(ID_PREFIXES[kind]), "type": kind, "status": "in_progress", **fields}

    def _opened(self, block: Fields) -> Iterator[bytes]:
        index = len(self._blocks) - 1
        yield self._event("response.output_item.added", output_index=index, item=block)
        if block["type"] not in _CALL_TEXTS:
            part: Fields = {"type": "reasoning_text", "text": ""}
            if block["type"] == "message":
                part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield self._part_event("response.content_part.added", part=part)
            block["content"].append(part)

    def _extended(self, block: Fields, text: str) -> Iterator[bytes]:
        if block["type"] in _CALL_TEXTS:
            member, event = _CALL_TEXTS[block["type"]]
            block[member] += text
            yield self._item_event(f"{event}.delta", delta=text)
            return
        part = block["content"][0]
        part["text"] += text
        yield self._part_event(
            f"response.{part['type']}.delta", delta=text, **self._new_logprobs(part)
        )

    def _closed(self, block: Fields, is_complete: bool) -> Iterator[bytes]:
        block["status"] = "completed" if is_complete else "incomplete"
        if block["type"] in _CALL_TEXTS:
            member, event = _CALL_TEXTS[block["type"]]
            fields = {member: block[member]}
            if member == "arguments":
                fields |= {key: block[key] for key in ("name", "namespace") if key in block}
            yield self._item_event(f"{event}.done", **fields)
        else:
            part = block["content"][0]
            self._new_logprobs(part)
            fields = {name: part[name] for name in ("text", "logprobs") if name in part}
            yield self._part_event(f"response.{part['type']}.done", **fields)
            yield self._part_event("response.content_part.done", part=part)
        index = len(self._blocks) - 1
        yield self._event("response.output_item.done", output_index=index, item=block)

    def _new_logprobs(self, part: Fields) -> Fields:
        """Add the log-probabilities of new tokens to a part of text, and return them."""
        if "logprobs" not in part:
            return {}
        logprobs = self._answer.unsent_logprobs()
        for token in logprobs:
            # In this interface `bytes` is never null.
            for likely in (token, *token["top_logprobs"]):
                likely["bytes"] = likely["bytes"] or []
        part["logprobs"] += logprobs
        return {"logprobs": logprobs}

    def _finish(self, index: int, result: GenerationResult[Any]) -> Iterator[bytes]:
        is_complete = result.finish_reason != "length"
        if all(block["type"] == "reasoning" for block in self._blocks):
            # An empty text is an answer.
            yield from self._add_text("", is_reasoning=False)
        yield from self._close(is_complete=is_complete)
        usage = result.usage
        self._response |= {
            "status": "completed" if is_complete else "incomplete",
            "incomplete_details": None if is_complete else {"reason": "max_output_tokens"},
            "usage": {
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": prompt_details([usage]),
                "output_tokens": usage.completion_tokens,
                "output_tokens_details": {
                    "reasoning_tokens": self._answer.reasoning_tokens,
                    **draft_counts([usage]),
                },
                "total_tokens": usage.total_tokens,
            },
        }
        extension = {**self._timings(result), **self._extension(result)}
        if extension:
            self._response["proxy_engine"] = extension
        if self._on_finished is not None:
            self._on_finished(self._response)

    def _part_event(self, type: str, **fields: Any) -> bytes:
        return self._item_event(type, content_index=0, **fields)

    def _item_event(self, type: str, **fields: Any) -> bytes:
        index = len(self._blocks) - 1
        return self._event(type, item_id=self._blocks[-1]["id"], output_index=index, **fields)

    def _event(self, type: str, **fields: Any) -> bytes:
        if not self._options.is_streamed:
            return b""
        event = {"type": type, "sequence_number": self._sequence_number, **fields}
        self._sequence_number += 1
        return frame(event, type)
