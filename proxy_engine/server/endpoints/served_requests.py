"""Requests of the endpoints, converted for the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from ...conversation.messages import RawPrompt, template_messages
from ...errors import InvalidToolError
from ...options.generation import GenerationOptions, ReasoningOptions
from ...options.overrides import OptionOverrides
from ...options.values import MAX_COUNT
from ...results.streams import AsyncEventStream
from ...runtime.extras import is_installed
from ...tools.tool import Tool
from ..admission import Lease
from ..encoders import EncoderOptions, Fields
from ..errors import ApiError, PartName, conflict
from ..generation_settings import merged_options
from ..message_content import check_urls, prompt_characters
from ..models import KnownModel
from ..running import AnswerEvents, Event, ServedRequest
from ..schemas.sampling import SamplingFields, TextFields
from ..settings import ServerSettings
from ..tool_lists import ToolList

T = TypeVar("T")

_JSON_BEGINS = ("{", "[")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest(ServedRequest):
    """A request for answers.

    Attributes:
        response_format: The engine's response format.
        tools: The tools of the request.
        tool_choice: The choice among them, for the engine.
        options: The options of each answer, with the server's options where it has none.
        on_finished: Called with a response that is complete, by encoders that store it.
    """

    response_format: Any
    tools: ToolList
    tool_choice: Any
    options: Sequence[OptionOverrides]
    on_finished: Callable[[Fields], None] | None = None

    def check_model(self, model: KnownModel) -> None:
        """Raise ``PromptError`` for a prompt with media if the model reads text only.

        Other models are checked once they are loaded: their processor knows the kinds they read.
        """
        # The error of a multimodal model that lacks its extra is another one.
        if model.input_modalities != {"text"} or not is_installed("vision"):
            return
        for prompt, options in zip(self.prompts, self.options, strict=True):
            if not isinstance(prompt, RawPrompt):
                template_messages(prompt, (), options.get("media_in_history", "placeholder"))

    async def start(self, lease: Lease) -> tuple[Sequence[AnswerEvents[Event]], Mapping[str, str]]:
        """Start the answers, as ``ServedRequest.start``."""

        async def started(tools: list[Tool] | None, choice: Any) -> Sequence[AnswerEvents[Event]]:
            answers: list[AsyncEventStream[Any]] = []
            async with AsyncExitStack() as stack:
                for prompt, options in zip(self.prompts, self.options, strict=True):
                    answer = await lease.engine.astream(
                        prompt,
                        response_format=self.response_format,
                        tools=tools,
                        tool_choice=choice,
                        **options,
                    )
                    stack.push_async_callback(answer.aclose)
                    answers.append(answer)
                stack.pop_all()
            return answers

        return await self.without_refused_tools(started)

    async def without_refused_tools(
        self, work: Callable[[list[Tool] | None, Any], Awaitable[T]]
    ) -> tuple[T, dict[str, str]]:
        """Do work with tools and a tool choice; again without tools that the engine refuses.

        Returns:
            The result of the work, and why tools are left out, by name.

        Raises:
            InvalidToolError: No tool is left, or the tool choice names one that is left out.
        """
        tools, choice = self.tools, self.tool_choice
        while True:
            try:
                result = await work(tools.tools or None, choice)
            except InvalidToolError as error:
                tools = tools.without(error)
                choice = tools.choice
            else:
                return result, {name: error.summary for name, error in tools.refused.items()}


def read_request(
    body: SamplingFields,
    prompts: Sequence[list[dict[str, Any]] | RawPrompt],
    settings: ServerSettings,
    *,
    names: Mapping[str, str],
    options: Callable[[int], OptionOverrides],
    choices: int = 1,
    tools: ToolList | None = None,
    part_name: PartName | None = None,
) -> GenerationRequest:
    """Return a request for the engine.

    Args:
        body: The body of the request.
        prompts: Conversations as chat completions have them, or raw prompts.
        settings: The settings of the server.
        names: The endpoint's names for the engine's parameters, where they differ.
        options: Returns the options of the answer of a number.
        choices: The number of answers to each prompt.
        tools: The tools, and the choice among them.
        part_name: The endpoint's names for content parts.

    Raises:
        ApiError: The request is invalid, or exceeds a limit of the server.
    """
    tools = tools or ToolList()
    count = choices * len(prompts)
    if count > settings.max_choices:
        what = f"{count} answers are too many for one request; the maximum is"
        raise ApiError(400, f"{what} {settings.max_choices}", code="too_many", param="n")
    is_endless = isinstance(body, TextFields) and bool(body.ignore_eos)
    if is_endless and (tools.listed or not body.has_free_text):
        what = "ignore_eos is for free text; structured output and tool calls end by themselves"
        raise conflict(what, "ignore_eos")
    field, response_format = body.constraint(body.text_format, body.format_name)
    continues = getattr(body, "continue_final_message", None) is not False
    characters = 0
    for prompt in prompts:
        if isinstance(prompt, RawPrompt):
            characters += len(prompt.content)
        else:
            if part_name is not None:
                check_urls(prompt, part_name, is_allowed=settings.allow_image_urls)
            characters += prompt_characters(prompt)
            if continues and body.is_constrained(body.text_format):
                _check_prefix(prompt, field, names.get("prompt", "prompt"))
    if characters > (limit := settings.max_prompt_characters):
        raise ApiError(
            413,
            f"the prompt has {characters:,} characters; the maximum is {limit:,}",
            code="prompt_too_large",
            param=names.get("prompt", "prompt"),
        )
    asked = []
    for number in range(count):
        is_raw = isinstance(prompts[number // choices], RawPrompt)
        given = merged_options(options(number), settings.request_defaults(is_raw=is_raw))
        if is_endless:
            length = given.get("max_tokens", GenerationOptions().max_tokens)
            given = {**given, "max_tokens": length, "min_tokens": length or MAX_COUNT}
        asked.append(given)
    names = {"response_format": field, **names}
    if isinstance(body, TextFields):
        names = {"max_tokens": body.limit_name, **names}
    return GenerationRequest(
        is_streamed=body.is_streamed,
        names=names,
        part_name=part_name,
        prompts=[prompt for prompt in prompts for _ in range(choices)],
        model=body.model_choice,
        response_format=response_format,
        tools=tools,
        tool_choice=tools.choice,
        options=asked,
    )


def _check_prefix(messages: list[dict[str, Any]], field: str, name: str) -> None:
    """Refuse a last message of the assistant that begins the JSON of the response format.

    The format applies to the answer, which would begin its JSON again. A prefix of other text may
    precede the JSON.
    """
    last = messages[-1] if messages else {}
    if last.get("role") not in ("assistant", "agent") or last.get("tool_calls"):
        return
    content = last.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    if "".join(text for text in texts if isinstance(text, str)).lstrip()[:1] in _JSON_BEGINS:
        raise conflict(
            f"the last message begins a text of {field}, whose texts are whole answers; leave the "
            "last message out, or continue it without a format",
            f"{name}[{len(messages) - 1}]" if name == "messages" else name,
        )


def encoder_options(body: SamplingFields, **more: bool) -> EncoderOptions:
    """Return the contents of a response that a request asks for, and ``more`` of them."""
    return EncoderOptions(
        **{
            "is_streamed": body.is_streamed,
            "tokens": bool(body.include_tokens),
            "confidence": bool(body.include_confidence),
            **more,
        }
    )


def message_part(message: int, part: int) -> str:
    """Return the field that is a content part of a request with ``messages``."""
    return f"messages[{message}].content[{part}]"


def reasoning_option(effort: str) -> bool | ReasoningOptions:
    """Return the engine's option: ``"none"`` disables reasoning, other efforts permit it."""
    return False if effort == "none" else ReasoningOptions(is_required=False)
