"""``/v1/responses``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from pydantic import Field

from ...checks import short_repr
from ...options.fields import with_options
from ...options.overrides import OptionOverrides
from ...tools.choice import requires_call
from ..admission import Lease
from ..encoders import Fields, new_id, seconds_now
from ..encoders.responses import ResponsesEncoder
from ..errors import ApiError
from ..response_items import (
    ITEM_KEYS,
    ResponseStore,
    StoredResponse,
    defined_tools,
    input_items,
    is_known_item,
    messages_of_items,
)
from ..running import Services, ServicesOfRequest
from ..schemas import MAX_MESSAGES, RequestModel
from ..schemas.sampling import CONVERSATION_OPTIONS, Effort, SamplingFields, StreamOptions
from ..tool_definitions import hosted_fields
from ..tool_lists import ToolList
from .generating import STREAMED, Dialect, generating_router, reply
from .served_requests import (
    GenerationRequest,
    encoder_options,
    read_request,
    reasoning_option,
)

_COMMON_KEYS = frozenset({"type", "id", "status"})


class ReasoningSettings(RequestModel):
    """Whether to reason. There are no summaries: the reasoning is sent in full."""

    no_effect = frozenset({"summary", "generate_summary"})

    effort: Effort | None = None


class TextSettings(RequestModel):
    """The format of the answer's text."""

    format: dict[str, Any] | None = None


@with_options(**CONVERSATION_OPTIONS)
class ResponsesRequest(SamplingFields):
    """A text to answer, or the items of a conversation."""

    input: str | Annotated[list[dict[str, Any]], Field(max_length=MAX_MESSAGES)] | None = Field(
        default=None, description="Default: nothing is added to what is continued."
    )
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream_options: StreamOptions | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    text: TextSettings | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = Field(default=None, ge=1)
    reasoning: ReasoningSettings | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    include: list[str] | None = Field(
        default=None,
        description="`message.output_text.logprobs`. There is no encrypted content, and no output "
        "of OpenAI's own tools.",
    )
    truncation: Literal["auto", "disabled"] | None = Field(
        default=None, description="A prompt is never truncated."
    )
    background: Literal[False] | None = None
    user: str | None = Field(default=None, description="Ignored.")
    metadata: Any = Field(default=None, description="Ignored.")

    @property
    def has_free_text(self) -> bool:
        """Whether the answer is free text, or may be free text in place of a tool call."""
        return super().has_free_text and not requires_call(self.tool_choice)

    @property
    def text_format(self) -> dict[str, Any] | None:
        """The format of the text."""
        return None if self.text is None else self.text.format

    @property
    def format_name(self) -> str:
        """The name of the field that has it."""
        return "text.format"

    def unknown_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the path and the value of each unknown field, also of items."""
        yield from super().unknown_fields()
        for item in self.input if isinstance(self.input, list) else ():
            known = ITEM_KEYS.get(str(item.get("type", "message")))
            if known is not None:
                for name, value in item.items():
                    if name not in known and name not in _COMMON_KEYS and value is not None:
                        yield f"input[].{name}", value

    def ineffective_fields(self) -> Iterator[str]:
        """Yield fields whose values have no effect although they should."""
        yield from super().ineffective_fields()
        yield from hosted_fields(self.tools, self.tool_choice)
        for item in self.input if isinstance(self.input, list) else ():
            if not is_known_item(item):
                yield f"input[].{item['type']}"


_NAMES = {"prompt": "input", "max_tokens": "max_output_tokens", "logprobs": "top_logprobs"}


def _earlier(body: ResponsesRequest, store: ResponseStore) -> StoredResponse | None:
    """Return the response that a request continues."""
    id = body.previous_response_id
    if id is None:
        return None
    stored = store.response(id)
    if stored is None:
        raise ApiError(
            400,
            f"response {id!r} not found; it may have been dropped",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    return stored


def _read(body: ResponsesRequest, services: Services) -> GenerationRequest:
    store = services.responses
    earlier = _earlier(body, store)
    if body.input is None and not (earlier and earlier.items):
        raise ApiError(400, "input is missing", code="missing_required_parameter", param="input")
    given = input_items(body.input, store)
    before = () if earlier is None else earlier.items
    names = [
        *["previous_response_id"] * len(before),
        *(f"input[{index}]" for index in range(len(given))),
    ]
    items = [*before, *given]
    at_start, later = defined_tools(items)
    tools = ToolList.read([*(body.tools or ()), *at_start], body.tool_choice, added=later)
    messages, fields = messages_of_items(items, names, tools.shown_name)
    if body.instructions is not None:
        # Instructions of a response do not apply to earlier or later responses.
        messages.insert(0, {"role": "system", "content": body.instructions})
        fields.insert(0, "instructions")

    def part_name(message: int, part: int) -> str:
        field, _, _ = fields[message].partition(".")
        return field if field == "previous_response_id" else f"{fields[message]}[{part}]"

    def store_response(response: Fields) -> None:
        outputs = [_without_logprobs(item) for item in response["output"]]
        store.put(response["id"], StoredResponse.after(earlier, given, outputs))

    options = _options(body)
    request = read_request(
        body,
        [messages],
        services.settings,
        names=_NAMES,
        options=lambda _: options,
        tools=tools,
        part_name=part_name,
    )
    is_stored = store.is_enabled and body.store is not False
    return replace(request, on_finished=store_response) if is_stored else request


async def _encode(
    body: ResponsesRequest, request: GenerationRequest, lease: Lease
) -> ResponsesEncoder:
    (options,) = request.options
    return ResponsesEncoder(
        _begun(body, lease.name, options, is_stored=request.on_finished is not None),
        lease.engine.vocabulary,
        encoder_options(body, logprobs="logprobs" in options),
        on_finished=request.on_finished,
        client_name=request.tools.client_name,
    )


def _without_logprobs(item: Fields) -> Fields:
    if item["type"] != "message":
        return dict(item)
    return {**item, "content": [{**part, "logprobs": []} for part in item["content"]]}


def _options(body: ResponsesRequest) -> OptionOverrides:
    options = body.options()
    # An object here, another type for the engine.
    options.pop("reasoning", None)
    if body.max_output_tokens is not None:
        options["max_tokens"] = body.max_output_tokens
    if body.reasoning is not None and body.reasoning.effort is not None:
        options["reasoning"] = reasoning_option(body.reasoning.effort)
    if body.top_logprobs is not None or "message.output_text.logprobs" in (body.include or ()):
        options["logprobs"] = body.top_logprobs or 0
    return options


def _begun(
    body: ResponsesRequest, model: str, given: OptionOverrides, *, is_stored: bool
) -> Fields:
    """Return a response without output. It repeats parameters of the request."""
    options: dict[str, Any] = {**given}
    names = (name for name in ("top_k", "min_p") if getattr(body, name) is not None)
    effort = body.reasoning.effort if body.reasoning else None
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": seconds_now(),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "model": model,
        "output": [],
        "parallel_tool_calls": options["parallel_tool_calls"],
        "previous_response_id": body.previous_response_id,
        "reasoning": {"effort": effort, "summary": None},
        "store": is_stored,
        "temperature": options["temperature"],
        "text": {"format": (body.text and body.text.format) or {"type": "text"}},
        "tool_choice": body.tool_choice or "auto",
        "tools": body.tools or [],
        "top_p": options.get("top_p", 1.0),
        "truncation": "disabled",
        "usage": None,
        "user": body.user,
        "metadata": body.metadata or {},
        **{name: options[name] for name in names},
    }


RESPONSES = Dialect(_read, _encode)

router = generating_router()


@router.post("/responses", responses=STREAMED)
async def create_response(
    body: ResponsesRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a text or a conversation; with ``stream``, as server-sent events."""
    return await reply(RESPONSES, body, request, services)


@router.api_route("/responses/{path:path}", methods=["GET", "DELETE"], include_in_schema=False)
async def refuse_stored_response(path: str) -> Response:
    """Refuse to return or delete a stored response: it is only continued."""
    raise ApiError(
        404,
        f"{short_repr(path)} is not served: stored responses are neither returned nor deleted. "
        "Keep the reply, or continue it with 'previous_response_id'.",
        code="not_found",
    )
