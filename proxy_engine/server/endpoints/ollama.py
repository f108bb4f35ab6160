"""Ollama's ``POST /api/chat``, ``POST /api/generate`` and ``GET /api/tags``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from fastapi import Request, Response
from pydantic import Field

from state_machines import Vocabulary

from ...conversation.messages import RawPrompt
from ...options.fields import with_options
from ...options.generation import ReasoningOptions
from ...options.overrides import OptionOverrides
from ...results.events import ReasoningDelta, StreamEvent, TextDelta, ToolCallFinished
from ..admission import Lease
from ..encoders import AnswerEncoder, EncoderOptions, Fields, draft_counts
from ..errors import ApiError, OllamaErrorResponse
from ..message_content import readable_message
from ..running import Services, ServicesOfRequest
from ..schemas import ALL_NAMES, MAX_MESSAGES, RequestModel
from ..schemas.sampling import CONVERSATION_OPTIONS, TextFields
from ..streaming import json_reply, one_line, unless_disconnected
from ..tool_definitions import hosted_fields
from ..tool_lists import ToolList
from .generating import Dialect, generating_router, reply
from .operations import loadable_models
from .served_requests import (
    GenerationRequest,
    encoder_options,
    read_request,
)


class OllamaEncoder(AnswerEncoder):
    """Encodes one answer.

    Args:
        model: The model's name.
        vocabulary: The model's vocabulary.
        options: The optional contents of the response.
        is_chat: Whether the answer is a message, rather than a text.
    """

    media_type = "application/x-ndjson"

    def __init__(
        self, model: str, vocabulary: Vocabulary, options: EncoderOptions, *, is_chat: bool
    ) -> None:
        super().__init__(vocabulary, options)
        self._model = model
        self._is_chat = is_chat

    def end(self) -> Iterator[bytes]:
        """Return the last line."""
        yield json_line(self._fields("", **self._end()))

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Return the error as the last line."""
        yield json_line(error.ollama_body)

    def response(self) -> Fields:
        """Return the whole response."""
        (result,) = self._results()
        more: Fields = {}
        if result.reasoning and self._options.reasoning:
            more["thinking"] = result.reasoning
        if result.tool_calls:
            more["tool_calls"] = [_call(call.name, call.arguments) for call in result.tool_calls]
        return self._fields(result.text, more, **self._end())

    def _content(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        fields = None
        match event:
            case TextDelta(text=text):
                fields = self._fields(text)
            case ReasoningDelta(text=text) if self._options.reasoning:
                fields = self._fields("", {"thinking": text})
            case ToolCallFinished(name=name, arguments=arguments):
                fields = self._fields("", {"tool_calls": [_call(name, arguments)]})
        if fields is not None and self._options.is_streamed:
            yield json_line(fields)

    def _token(self, index: int, token: Fields) -> bytes:
        return json_line(self._fields("", proxy_engine={"tokens": [token]}))

    def _fields(self, text: str, more: Fields | None = None, **end: Any) -> Fields:
        return answer_fields(self._model, text, more, is_chat=self._is_chat, **end)

    def _end(self) -> Fields:
        """Return the fields of the end: counts, and times in nanoseconds."""
        (result,) = self._results()
        usage = result.usage
        prompt = round(usage.prompt_seconds * 1e9)
        completion = round(usage.completion_seconds * 1e9)
        before = round((usage.preparation_seconds + usage.queue_seconds) * 1e9)
        end: Fields = {
            "done": True,
            "done_reason": "length" if result.finish_reason == "length" else "stop",
            "total_duration": before + prompt + completion,
            "load_duration": 0,
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": prompt,
            "eval_count": usage.completion_tokens,
            "eval_duration": completion,
            **draft_counts([usage]),
        }
        extension = {**self._timings(result), **self._extension(result)}
        return {**end, "proxy_engine": extension} if extension else end


def _call(name: str, arguments: Any) -> Fields:
    return {"function": {"name": name, "arguments": arguments}}


def json_line(fields: Fields) -> bytes:
    """Return a line of a stream."""
    return one_line(fields) + b"\n"


def answer_fields(
    model: str, text: str, more: Fields | None = None, *, is_chat: bool, **end: Any
) -> Fields:
    """Return an answer, or a piece of one.

    Args:
        model: The model's name.
        text: Its text.
        more: Further members beside the text.
        is_chat: Whether it is a message, rather than a text.
        end: The members of the end.
    """
    head = {"model": model, "created_at": datetime.now(UTC).isoformat(), "done": False}
    content = {"response": text, **(more or {})}
    if is_chat:
        content = {"message": {"role": "assistant", "content": text, **(more or {})}}
    return {**head, **content, **end}


class OllamaMessage(RequestModel):
    """A message. Images are in base64."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    images: list[str] | None = None
    thinking: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_name: str | None = None


@with_options(**CONVERSATION_OPTIONS)
class OllamaRequest(TextFields):
    """What both requests have. Sampling parameters are members of ``options``."""

    other_names = ALL_NAMES

    stream: bool | None = Field(default=None, description="Default: true.")
    format: Literal["json", ""] | dict[str, Any] | None = Field(
        default=None, description="`json`, or a JSON Schema. An empty text is no format."
    )
    think: bool | Literal["low", "medium", "high"] | None = None

    @property
    def is_streamed(self) -> bool:
        """Whether the answer is streamed."""
        return self.stream is not False

    @property
    def text_format(self) -> dict[str, Any] | None:
        """The format as chat completions have it."""
        if isinstance(self.format, dict):
            return {"type": "json_schema", "json_schema": {"schema": self.format}}
        return {"type": "json_object"} if self.format else None

    @property
    def format_name(self) -> str:
        """The name of the field that has it."""
        return "format"


class OllamaChatRequest(OllamaRequest):
    """A conversation to answer."""

    messages: list[OllamaMessage] = Field(
        default_factory=list,
        max_length=MAX_MESSAGES,
        description="Without messages, the model is loaded.",
    )
    tools: list[dict[str, Any]] | None = None

    def ineffective_fields(self) -> Iterator[str]:
        """Yield fields whose values have no effect although they should."""
        yield from super().ineffective_fields()
        yield from hosted_fields(self.tools)


class OllamaGenerateRequest(OllamaRequest):
    """A text to answer, or to continue if it is ``raw``."""

    prompt: str = Field(default="", description="Without a text, the model is loaded.")
    system: str | None = None
    images: list[str] | None = None
    raw: bool | None = None
    suffix: Literal[""] | None = Field(default=None, description="Insertion is not supported.")


def _read_chat(body: OllamaChatRequest, services: Services) -> GenerationRequest:
    return _read_request(body, [*_messages(body.messages)], "messages", services, body.tools)


def _read_text(body: OllamaGenerateRequest, services: Services) -> GenerationRequest:
    if body.raw:
        return _read_request(body, RawPrompt(body.prompt), "prompt", services)
    messages = [OllamaMessage(role="user", content=body.prompt, images=body.images)]
    if body.system:
        messages.insert(0, OllamaMessage(role="system", content=body.system))
    return _read_request(body, [*_messages(messages)], "prompt", services)


def _read_request(
    body: OllamaRequest,
    prompt: list[dict[str, Any]] | RawPrompt,
    name: str,
    services: Services,
    tools: list[dict[str, Any]] | None = None,
) -> GenerationRequest:
    def options(choice: int) -> OptionOverrides:
        options = body.options()
        if isinstance(prompt, RawPrompt) or body.think is False:
            options["reasoning"] = False
        elif body.think is not None:
            options["reasoning"] = ReasoningOptions(is_required=False)
        return options

    return read_request(
        body,
        [prompt],
        services.settings,
        names={"prompt": name, "max_tokens": "options.num_predict", "reasoning": "think"},
        options=options,
        tools=ToolList.read(tools),
    )


async def _encode(body: OllamaRequest, request: GenerationRequest, lease: Lease) -> OllamaEncoder:
    is_chat = isinstance(body, OllamaChatRequest)
    return OllamaEncoder(
        lease.name, lease.engine.vocabulary, encoder_options(body), is_chat=is_chat
    )


def _messages(messages: Sequence[OllamaMessage]) -> Iterator[dict[str, Any]]:
    """Yield messages as chat completions have them.

    Calls have no ids here: the results of calls follow them in their order.
    """
    ids: list[str] = []
    for index, message in enumerate(messages):
        written: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.thinking:
            written["reasoning_content"] = message.thinking
        if message.images:
            urls = [f"data:image/png;base64,{data}" for data in message.images]
            images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
            written["content"] = [*images, {"type": "text", "text": message.content}]
        if message.tool_calls:
            ids = [f"call_{index}_{number}" for number in range(len(message.tool_calls))]
            written["tool_calls"] = [
                {"id": id, "type": "function", "function": call.get("function", {})}
                for id, call in zip(ids, message.tool_calls, strict=True)
            ]
        if message.role == "tool":
            written["tool_call_id"] = ids.pop(0) if ids else f"call_{index}"
        yield readable_message(written)


CHAT = Dialect(_read_chat, _encode)
TEXT = Dialect(_read_text, _encode)

router = generating_router("/api", OllamaErrorResponse)


@router.post("/chat")
async def chat(body: OllamaChatRequest, request: Request, services: ServicesOfRequest) -> Response:
    """Answer a conversation, as lines of JSON unless ``stream`` is false; or load the model."""
    if not body.messages:
        return await _loaded(body, request, services)
    return await reply(CHAT, body, request, services)


@router.post("/generate")
async def generate(
    body: OllamaGenerateRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a text, as lines of JSON unless ``stream`` is false; or load the model."""
    if not (body.prompt or body.system or body.images):
        return await _loaded(body, request, services)
    return await reply(TEXT, body, request, services)


async def _loaded(body: OllamaRequest, request: Request, services: Services) -> Response:
    """Load the model of a request that asks for no answer."""
    services.unknown_fields.check(request, body)

    async def loaded() -> Response:
        async with services.host.lease(body.model_choice) as lease:
            is_chat = isinstance(body, OllamaChatRequest)
            fields = answer_fields(lease.name, "", is_chat=is_chat, done=True, done_reason="load")
        media_type = OllamaEncoder.media_type if body.is_streamed else "application/json"
        return Response(json_line(fields), media_type=media_type)

    return await unless_disconnected(request.receive, loaded())


@router.get("/tags")
async def tags(services: ServicesOfRequest) -> Response:
    """Return the models on this computer that can be loaded."""
    models = [
        {
            "name": model.name,
            "model": model.name,
            "modified_at": datetime.fromtimestamp(model.created, UTC).isoformat(),
            "size": model.weights_bytes,
            "digest": "",
            "details": {"format": "safetensors", "family": "", "parameter_size": ""},
        }
        for model in await loadable_models(services)
    ]
    return json_reply({"models": models})
