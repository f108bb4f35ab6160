"""DSPy's requests and responses (its types ``dspy.lm15``) as the engine's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from state_machines import Vocabulary
from state_machines.json_schema.closed_schema import closed_schema

from ..conversation.content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    JsonContent,
    TextContent,
    ToolCall,
    VideoContent,
)
from ..conversation.interaction import Interaction, Role
from ..options.generation import PartOptions
from ..results.events import Finished, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStarted
from ..results.generation import GenerationResult
from ..runtime.extras import requires_extra
from .conversion import reasoning_tokens

with requires_extra("dspy", purpose="ProxyEngineLM"):
    from dspy import lm15

OPTIONS_KEY = "proxy_engine_options"
"""The member of a request's ``metadata`` with options of the engine."""

_OPTIONS = ("max_tokens", "temperature", "top_p", "top_k", "seed")
_PENALTIES = ("frequency_penalty", "presence_penalty")
_UNSUPPORTED = ("logprobs", "probabilities", "service_tier", "store", "user_id")
_MEDIA: dict[str, Any] = {"image": ImageContent, "audio": AudioContent, "video": VideoContent}
_FINISH_REASONS = {"stop": "stop", "tool_calls": "tool_call", "length": "length"}


def to_interactions(request: lm15.Request) -> list[Interaction]:
    """Return the conversation of a request.

    Raises:
        UnsupportedFeatureError: A part refers to a file of a provider.
        PromptError: The content of a part is invalid.
    """
    turns: list[Interaction] = []
    if request.system is not None:
        system = request.system
        is_text = isinstance(system, str)
        turns.append(Interaction(Role.SYSTEM, system if is_text else [*map(_content, system)]))
    for message in request.messages:
        match message.role:
            case "assistant":
                turns.append(_answer(message))
            case "tool":
                turns += _results(message)
            case role:
                turns.append(Interaction(role, [*map(_content, message.parts)]))
    return turns


def _answer(message: lm15.Message) -> Interaction:
    content = [part for part in message.parts if part.type in ("text", "data", "refusal")]
    thoughts = [part.text for part in message.parts if part.type == "thinking"]
    return Interaction(
        Role.ASSISTANT,
        [_content(part) for part in content],
        tool_calls=[
            ToolCall(part.id, part.name, part.input)
            for part in message.parts
            if part.type == "tool_call"
        ],
        reasoning="".join(thoughts) or None,
    )


def _results(message: lm15.Message) -> Iterator[Interaction]:
    for part in message.parts:
        content = [*map(_content, part.content)]
        yield Interaction(Role.TOOL, content, tool_call_id=part.id, name=part.name)


def _content(part: Any) -> Content:
    match part.type:
        case "text" | "refusal":
            return TextContent(part.text)
        case "data":
            return JsonContent(part.value)
        case "image" | "audio" | "video" | "document" | "binary" as kind:
            if part.file_id is not None:
                raise lm15.UnsupportedFeatureError(
                    "the engine stores no files; give data or a url", feature="file_id"
                )
            source = {"url": part.url} if part.url is not None else {"data": part.bytes}
            content: Content = _MEDIA.get(kind, FileContent)(media_type=part.media_type, **source)
            return content
    raise lm15.UnsupportedFeatureError(f"a prompt has no {part.type} parts", feature=part.type)


def request_arguments(request: lm15.Request) -> dict[str, Any]:
    """Return the engine's arguments for a request.

    Raises:
        UnsupportedFeatureError: A setting has no effect on an engine.
    """
    config = request.config
    for name in _UNSUPPORTED:
        if getattr(config, name) not in (None, "off", "if_available"):
            raise lm15.UnsupportedFeatureError(
                f"ProxyEngineLM does not support {name}", feature=name
            )
    given = {name: getattr(config, name) for name in (*_OPTIONS, *_PENALTIES)}
    arguments = {name: value for name, value in given.items() if value is not None}
    choice = config.tool_choice or lm15.ToolChoice()
    if request.tools:
        arguments["tools"] = [_tool(tool) for tool in request.tools]
        arguments["tool_choice"] = _tool_choice(choice)
    if choice.parallel is not None:
        arguments["parallel_tool_calls"] = choice.parallel
    if config.response_format is not None:
        arguments["response_format"] = _response_format(config.response_format)
    elif config.stop and choice.mode != "required":
        # Other answers have no free text that a string could end.
        arguments["stop"] = config.stop
    if config.reasoning is not None:
        arguments["reasoning"] = config.reasoning.effort != "off"
        if config.reasoning.thinking_budget is not None:
            budget = PartOptions(max_tokens=config.reasoning.thinking_budget)
            arguments["parts"] = {"reasoning": budget}
    extensions = dict(config.extensions or {})
    metadata = extensions.pop("metadata", None) or {}
    arguments.update(extensions)
    arguments.update(metadata.get(OPTIONS_KEY, {}))
    return arguments


def _tool(tool: Any) -> dict[str, Any]:
    if tool.type != "function":
        raise lm15.UnsupportedFeatureError(
            f"the engine runs no tools, such as {tool.name!r}", feature="tools"
        )
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or "",
        "parameters": closed_schema(tool.parameters),
    }


def _tool_choice(choice: lm15.ToolChoice) -> Any:
    if not choice.allowed:
        return choice.mode
    names = [{"type": "function", "name": name} for name in choice.allowed]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": names}


def _response_format(given: dict[str, Any]) -> dict[str, Any]:
    if given["type"] == "json_object":
        return given
    return {"type": "json_schema", "json_schema": {"schema": closed_schema(given["schema"])}}


def response(
    request: lm15.Request, result: GenerationResult[Any], vocabulary: Vocabulary
) -> lm15.Response:
    """Return an answer as a response."""
    parts: list[Any] = []
    if result.reasoning:
        parts.append(lm15.ThinkingPart(result.reasoning))
    if result.text or not result.tool_calls:
        parts.append(lm15.TextPart(result.text))
    parts += [lm15.ToolCallPart(call.id, call.name, call.arguments) for call in result.tool_calls]
    return lm15.Response(
        id=None,
        model=request.model,
        message=lm15.Message(role="assistant", parts=tuple(parts)),
        finish_reason=_finish_reason(result),
        usage=_usage(result, vocabulary),
    )


def stream_event(
    event: Any, vocabulary: Vocabulary
) -> lm15.StreamDeltaEvent | lm15.StreamEndEvent | None:
    """Return an event of the engine as DSPy's; ``None`` for those that DSPy does not have."""
    # Reasoning comes first, then text, then calls.
    match event:
        case ReasoningDelta(text=text):
            return lm15.StreamDeltaEvent(lm15.ThinkingDelta(text, part_index=0))
        case TextDelta(text=text):
            return lm15.StreamDeltaEvent(lm15.TextDelta(text, part_index=1))
        case ToolCallStarted():
            call = lm15.ToolCallDelta("", part_index=event.index + 2, id=event.id, name=event.name)
            return lm15.StreamDeltaEvent(call)
        case ToolCallDelta():
            delta = lm15.ToolCallDelta(event.arguments, part_index=event.index + 2)
            return lm15.StreamDeltaEvent(delta)
        case Finished(result=result):
            usage = _usage(result, vocabulary)
            return lm15.StreamEndEvent(finish_reason=_finish_reason(result), usage=usage)
    return None


def _finish_reason(result: GenerationResult[Any]) -> str:
    return _FINISH_REASONS.get(result.finish_reason, "error")


def _usage(result: GenerationResult[Any], vocabulary: Vocabulary) -> lm15.Usage:
    return lm15.Usage(
        input_tokens=result.usage.prompt_tokens,
        output_tokens=result.usage.completion_tokens,
        cache_read_tokens=result.usage.cached_tokens,
        reasoning_tokens=reasoning_tokens(vocabulary, result),
        input_audio_tokens=result.usage.audio_tokens,
    )
