"""smolagents' model on an engine in the same process.

::

    from proxy_engine import InferenceEngine
    from proxy_engine.integrations.smolagents import ProxyEngineModel
    from smolagents import ToolCallingAgent

    agent = ToolCallingAgent(tools=[], model=ProxyEngineModel(InferenceEngine()))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from ..engine.arguments import with_option_signatures
from ..engine.inference_engine import InferenceEngine
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from ..results.events import Event, Finished, TextDelta, ToolCallDelta, ToolCallStarted
from ..results.generation import GenerationResult
from ..runtime.extras import requires_extra
from .conversion import may_write_text

with requires_extra("smolagents", purpose="ProxyEngineModel"):
    from smolagents.models import (
        ChatMessage,
        ChatMessageStreamDelta,
        ChatMessageToolCall,
        ChatMessageToolCallFunction,
        ChatMessageToolCallStreamDelta,
        MessageRole,
        Model,
        get_tool_json_schema,
    )
    from smolagents.monitoring import TokenUsage
    from smolagents.tools import Tool

# The agent keeps images and recordings, and the model names them.
_REFERENCES = ("image", "audio")


@with_option_signatures
class ProxyEngineModel(Model):  # type: ignore[misc]
    """A model of smolagents on an engine in the same process.

    With tools, every answer is a call of one of them, whose arguments match its inputs. With a
    response format, every answer matches it.

    Args:
        engine: The engine. The model does not close it.
        options: Options of requests; they override those of a call.

    Raises:
        InvalidOptionError: An option is unknown or its value is invalid.
    """

    def __init__(self, engine: InferenceEngine, **options: Unpack[OptionOverrides]) -> None:
        GenerationOptions().override(options)
        super().__init__(model_id=engine.model_name, **options)
        self.engine = engine

    @property
    def supports_stop_parameter(self) -> bool:
        """``True``, whatever the model's name."""
        return True

    def generate(
        self,
        messages: Sequence[ChatMessage | dict[str, Any]],
        stop_sequences: list[str] | None = None,
        response_format: Mapping[str, Any] | None = None,
        tools_to_call_from: list[Tool] | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """Answer a conversation.

        Args:
            messages: The conversation.
            stop_sequences: Strings that end free text. Tool calls and structured output are
                complete, so these do not end there.
            response_format: A response format of :meth:`InferenceEngine.generate`, such as
                OpenAI's ``{"type": "json_schema", …}``.
            tools_to_call_from: The tools, one of which is called, or several.
            kwargs: Options of the request, and ``tool_choice``: ``"required"`` by default.

        Returns:
            The answer; ``raw`` is the ``GenerationResult``.

        Raises:
            ProxyError: As :meth:`InferenceEngine.generate`.
        """
        prompt, arguments = self._request(
            messages, stop_sequences, response_format, tools_to_call_from, kwargs
        )
        result = self.engine.generate(prompt, **arguments)
        calls = [
            ChatMessageToolCall(
                ChatMessageToolCallFunction(dict(call.arguments), call.name), call.id, "function"
            )
            for call in result.tool_calls
        ]
        return ChatMessage(
            role=MessageRole.ASSISTANT,
            # `None`, so that agents write no empty message into their memory.
            content=result.text if result.text or not calls else None,
            tool_calls=calls or None,
            raw=result,
            token_usage=_usage(result),
        )

    def generate_stream(
        self,
        messages: Sequence[ChatMessage | dict[str, Any]],
        stop_sequences: list[str] | None = None,
        response_format: Mapping[str, Any] | None = None,
        tools_to_call_from: list[Tool] | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatMessageStreamDelta]:
        """:meth:`generate` as a stream. Closing it cancels the request.

        Yields:
            Text and parts of tool calls; the last delta has the token counts.
        """
        prompt, arguments = self._request(
            messages, stop_sequences, response_format, tools_to_call_from, kwargs
        )
        with self.engine.stream(prompt, **arguments) as events:
            for event in events:
                delta = _delta(event)
                if delta is not None:
                    yield delta

    def _request(
        self,
        messages: Sequence[ChatMessage | dict[str, Any]],
        stop_sequences: list[str] | None,
        response_format: Mapping[str, Any] | None,
        tools: list[Tool] | None,
        given: dict[str, Any],
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the prompt and the arguments of a request."""
        arguments = self._prepare_completion_kwargs(
            list(messages),
            stop_sequences=stop_sequences,
            response_format=response_format,
            convert_images_to_image_urls=True,
            **given,
        )
        if tools:
            arguments["tools"] = [to_openai_tool(tool) for tool in tools]
            arguments.setdefault("tool_choice", "required")
        # Agents give stop strings with every request. The engine refuses them if no text can end.
        if not may_write_text(arguments):
            arguments.pop("stop", None)
        return arguments.pop("messages"), arguments


def to_openai_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool as OpenAI's dict, whose arguments are those that smolagents accepts."""
    written: dict[str, Any] = get_tool_json_schema(tool)
    parameters = written["function"]["parameters"]
    parameters["properties"] = {
        name: _input(schema) for name, schema in parameters["properties"].items()
    }
    parameters["additionalProperties"] = False
    return written


def _input(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an input."""
    schema = {key: value for key, value in given.items() if key != "nullable"}
    kinds = [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    kinds = ["string" if kind in _REFERENCES else kind for kind in kinds]
    if given.get("nullable"):
        kinds.append("null")
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    kinds = list(dict.fromkeys(kinds))
    return {**schema, "type": kinds[0] if len(kinds) == 1 else kinds}


def _delta(event: Event) -> ChatMessageStreamDelta | None:
    """Return what an event adds to the answer; ``None`` if that is nothing."""
    match event:
        case TextDelta(text=text):
            return ChatMessageStreamDelta(content=text)
        case ToolCallStarted(index=index, id=id, name=name):
            function = ChatMessageToolCallFunction("", name)
        case ToolCallDelta(index=index, id=id, arguments=arguments):
            function = ChatMessageToolCallFunction(arguments, "")
        case Finished(result=result):
            return ChatMessageStreamDelta(token_usage=_usage(result))
        case _:
            return None
    call = ChatMessageToolCallStreamDelta(index, id, "function", function)
    return ChatMessageStreamDelta(tool_calls=[call])


def _usage(result: GenerationResult[Any]) -> TokenUsage:
    usage = result.usage
    return TokenUsage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)
