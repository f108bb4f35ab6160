"""``POST /v1/chat/completions`` and ``POST /v1/completions``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Request, Response
from pydantic import Field

from ...conversation.messages import RawPrompt
from ...options.fields import with_options
from ...options.overrides import OptionOverrides
from ...tools.choice import requires_call
from ..admission import Lease
from ..encoders.choices import ChatEncoder, CompletionEncoder
from ..errors import ApiError, conflict
from ..message_content import readable_message
from ..running import Services, ServicesOfRequest
from ..schemas import MAX_MESSAGES, RequestModel
from ..schemas.sampling import (
    ANSWER_OPTIONS,
    CONVERSATION_OPTIONS,
    Effort,
    StreamOptions,
    TextFields,
)
from ..tool_definitions import hosted_fields
from ..tool_lists import ToolList
from .generating import STREAMED, Dialect, generating_router, reply
from .served_requests import (
    GenerationRequest,
    encoder_options,
    message_part,
    read_request,
    reasoning_option,
)

TopLogprobs: TypeAlias = Annotated[int, Field(ge=-1, le=20)]
"""A number of most likely tokens; -1 is 0."""

Tokens = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]


class ChoicesRequest(TextFields):
    """What both requests have."""

    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1, description="Answers to each prompt.")
    response_format: dict[str, Any] | None = None
    logprobs: bool | Annotated[int, Field(ge=0, le=20)] | None = None
    top_logprobs: TopLogprobs | None = Field(
        default=None, description="Values above 0 imply `logprobs`; -1 is 0."
    )

    @property
    def text_format(self) -> dict[str, Any] | None:
        """The response format."""
        return self.response_format

    @property
    def format_name(self) -> str:
        """The name under which the request has it."""
        return self.given_name("response_format")

    @property
    def most_likely(self) -> int | None:
        """Number of most likely tokens per position to report; ``None``: no log-probabilities."""
        if type(self.logprobs) is int:
            return self.logprobs
        top = max(0, self.top_logprobs or 0)
        return top if self.logprobs or top else None

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with a chunk of usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def options(self, choice: int = 0) -> OptionOverrides:
        """Return the request's options for the choice of that number, whose seed is its own."""
        options = super().options(choice)
        # The engine has one number for both fields.
        options.pop("logprobs", None)
        if self.most_likely is not None:
            options["logprobs"] = self.most_likely
        return options


class ChatMessage(RequestModel):
    """A message of the conversation. Fields that no model reads are accepted in history."""

    no_effect = frozenset(
        {
            # Clients send back these fields of responses.
            *("annotations", "created_at", "id", "metadata", "parsed"),
            # Other servers need these to continue the last message, or to cache it.
            *("cache_control", "prefix"),
        }
    )

    role: Literal["system", "developer", "user", "assistant", "agent", "tool"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = Field(default=None, description="Extension: the reasoning.")
    reasoning: str | None = Field(default=None, description="Synonym of `reasoning_content`.")
    thinking: Any = Field(default=None, description="Synonym of `reasoning_content`.")


@with_options(**CONVERSATION_OPTIONS, **ANSWER_OPTIONS)
class ChatRequest(ChoicesRequest):
    """A conversation to answer: OpenAI's fields, and extensions, which are marked."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
    reasoning_effort: Effort | None = None
    include_reasoning: bool | None = Field(
        default=None, description="Extension. `false` leaves the reasoning out of the answer."
    )
    continue_final_message: bool | None = Field(
        default=None,
        description="Extension. Whether a last message of the assistant is continued. Default: "
        "true. `add_generation_prompt` is the opposite.",
    )
    modalities: list[Literal["text"]] | None = None

    @property
    def has_free_text(self) -> bool:
        """Whether the answer is free text, or may be free text in place of a tool call."""
        return super().has_free_text and not requires_call(self.tool_choice)

    def ineffective_fields(self) -> Iterator[str]:
        """Yield fields whose values have no effect although they should."""
        yield from super().ineffective_fields()
        yield from hosted_fields(self.tools, self.tool_choice)
        if self.continue_final_message and self.messages[-1].role not in ("assistant", "agent"):
            yield self.given_name("continue_final_message")


@with_options(sources=CONVERSATION_OPTIONS["sources"])
class CompletionRequest(ChoicesRequest):
    """Texts to continue, or token ids. ``response_format`` is an extension, as in chats."""

    prompt: str | list[str] | Tokens | list[Tokens] = ""
    best_of: int | None = Field(
        default=None,
        ge=1,
        description="Generate this many answers to each prompt, and return the `n` whose tokens "
        "have the highest mean log-probability. Not streamed.",
    )
    echo: bool | None = Field(
        default=None,
        description="Start the text with the prompt; with `logprobs`, also their lists.",
    )
    suffix: Literal[""] | None = Field(default=None, description="Insertion is not supported.")


# Parts of history that contain the reasoning of an answer, and their members with its text.
_REASONING_PARTS = {"thinking": "thinking", "reasoning": "text", "redacted_thinking": None}


def _read_chat(body: ChatRequest, services: Services) -> GenerationRequest:
    choices = body.n or 1

    def options(choice: int) -> OptionOverrides:
        options = body.options(choice)
        if body.reasoning_effort is not None:
            options["reasoning"] = reasoning_option(body.reasoning_effort)
        return options

    return read_request(
        body,
        [engine_messages(body.messages)],
        services.settings,
        names={"prompt": "messages", "logprobs": "top_logprobs", "reasoning": "reasoning_effort"},
        options=options,
        choices=choices,
        tools=ToolList.read(body.tools, body.tool_choice),
        part_name=message_part,
    )


async def _encode_chat(body: ChatRequest, request: GenerationRequest, lease: Lease) -> ChatEncoder:
    options = encoder_options(
        body,
        logprobs=body.most_likely is not None,
        usage=body.includes_usage,
        reasoning=body.include_reasoning is not False,
    )
    return ChatEncoder(lease.name, lease.engine.vocabulary, options, choices=body.n or 1)


def _read_completion(body: CompletionRequest, services: Services) -> GenerationRequest:
    kept = body.n or 1
    choices = body.best_of or kept
    if choices < kept:
        raise conflict("best_of must be at least n", "best_of")
    if choices > kept and body.stream:
        raise conflict("a stream cannot have the best of several answers", "best_of")

    def options(choice: int) -> OptionOverrides:
        options = body.options(choice)
        # A raw prompt is continued; the answer has no parts.
        options["reasoning"] = False
        if choices > kept:
            options.setdefault("logprobs", 0)
        return options

    return read_request(
        body,
        [RawPrompt(prompt) for prompt in _prompts(body)],
        services.settings,
        names={},
        options=options,
        choices=choices,
    )


async def _encode_completion(
    body: CompletionRequest, request: GenerationRequest, lease: Lease
) -> CompletionEncoder:
    engine, prompts, top, kept = lease.engine, _prompts(body), body.most_likely, body.n or 1
    scored = prompts if body.echo and top is not None else []
    # A client that leaves ends this at the next prompt.
    scores = [
        await asyncio.to_thread(engine.prompt_logprobs, prompt, top or 0) for prompt in scored
    ]
    return CompletionEncoder(
        lease.name,
        engine.vocabulary,
        encoder_options(body, logprobs=top is not None, usage=body.includes_usage),
        prompts=prompts,
        is_echoed=bool(body.echo),
        prompt_logprobs=scores,
        choices=body.best_of or kept,
        kept=kept,
    )


def _prompts(body: CompletionRequest) -> list[str | Sequence[int]]:
    given = body.prompt
    if isinstance(given, str):
        return [given]
    if not given:
        raise ApiError(400, "the list of prompts is empty", code="invalid_prompt", param="prompt")
    if isinstance(given[0], int):
        return [[token for token in given if isinstance(token, int)]]
    return [prompt for prompt in given if not isinstance(prompt, int)]


def engine_messages(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """Return the messages of a request, with the fields that a model can read."""
    return [readable_message(_engine_message(message)) for message in messages]


def _engine_message(message: ChatMessage) -> dict[str, Any]:
    names = message.model_fields_set - {"reasoning", "thinking"}
    written: dict[str, Any] = {name: getattr(message, name) for name in names}
    if message.role in ("assistant", "agent"):
        reasoning = _move_reasoning(written)
        given = (message.reasoning_content, message.reasoning, _text(message.thinking), reasoning)
        written["reasoning_content"] = next((text for text in given if text), None)
    return written


def _move_reasoning(written: dict[str, Any]) -> str:
    """Remove the parts of reasoning from a message's content, and return their text."""
    content = written.get("content")
    if not isinstance(content, list):
        return ""
    reasoning = [part for part in content if _is_reasoning(part)]
    if reasoning:
        written["content"] = [part for part in content if not _is_reasoning(part)]
    return "".join(_text(part.get(_REASONING_PARTS[part["type"]])) for part in reasoning)


def _is_reasoning(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and kind in _REASONING_PARTS


def _text(thinking: Any) -> str:
    """Return the text of reasoning, which some clients write as a list of text parts."""
    if isinstance(thinking, str):
        return thinking
    parts = thinking if isinstance(thinking, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


CHAT = Dialect(_read_chat, _encode_chat)
COMPLETION = Dialect(_read_completion, _encode_completion)

router = generating_router()
# As in mlx_lm.server.
short_router = generating_router(prefix="")


@router.post("/chat/completions", responses=STREAMED)
@short_router.post("/chat/completions", include_in_schema=False)
async def create_chat_completion(
    body: ChatRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a conversation; with ``stream``, as server-sent events."""
    return await reply(CHAT, body, request, services)


@router.post("/completions", responses=STREAMED)
async def create_completion(
    body: CompletionRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Continue one or several texts; with ``stream``, as server-sent events."""
    return await reply(COMPLETION, body, request, services)
