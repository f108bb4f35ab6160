"""pydantic-ai's ``Model`` on an engine in the same process.

::

    agent = Agent(ProxyEngineModel(engine), output_type=Invoice)
    invoice = agent.run_sync("…").output
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from ..engine.inference_engine import InferenceEngine
from ..errors import PromptTooLongError, ProxyError
from ..results.events import Finished, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStarted
from ..results.generation import GenerationResult
from ..results.streams import AsyncEventStream
from ..runtime.extras import requires_extra
from .conversion import reasoning_tokens
from .pydantic_ai_messages import response_parts, to_interactions
from .pydantic_ai_requests import ProxyEngineModelSettings as ProxyEngineModelSettings
from .pydantic_ai_requests import request_arguments

with requires_extra("pydantic-ai", purpose="ProxyEngineModel"):
    from pydantic_ai.exceptions import ModelContextWindowExceededError, ModelRequestRejectedError
    from pydantic_ai.messages import (
        FinishReason,
        ModelMessage,
        ModelResponse,
        ModelResponseStreamEvent,
    )
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.profiles import ModelProfile, ModelProfileSpec, merge_profile
    from pydantic_ai.settings import ModelSettingName, ModelSettings
    from pydantic_ai.tools import RunContext
    from pydantic_ai.usage import RequestUsage

_SYSTEM = "proxy-engine"
_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_call",
    "length": "length",
}


class ProxyEngineModel(Model[Any]):
    """A pydantic-ai model that runs on an engine.

    Output types (``NativeOutput``, ``ToolOutput``, ``PromptedOutput``) and arguments of tools are
    enforced while the answer is generated. Native output is the default.

    Args:
        engine: The engine. It stays open; the caller closes it.
        settings: Settings of requests that do not override them.
        profile: Changes of the model's profile.
    """

    unsupported_settings: ClassVar[frozenset[ModelSettingName]] = frozenset(
        {"timeout", "max_retries", "extra_headers", "extra_body", "citations", "service_tier"}
    )

    def __init__(
        self,
        engine: InferenceEngine,
        *,
        settings: ProxyEngineModelSettings | None = None,
        profile: ModelProfileSpec | None = None,
    ) -> None:
        self._engine = engine
        super().__init__(settings=settings, profile=_completed_profile(engine, profile))

    @property
    def model_name(self) -> str:
        """The engine's ``model_name``."""
        return self._engine.model_name

    @property
    def system(self) -> str:
        """``"proxy-engine"``."""
        return _SYSTEM

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Answer a conversation. Cancelling the task cancels the request.

        Raises:
            ModelContextWindowExceededError: The prompt leaves no room for an answer.
            ModelRequestRejectedError: The engine refuses the request; the cause says why.
        """
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        with _model_errors(self.model_name):
            result = await self._engine.agenerate(
                to_interactions(messages, parameters), **request_arguments(settings, parameters)
            )
        return ModelResponse(
            parts=response_parts(result),
            usage=_usage(self._engine, result),
            model_name=self.model_name,
            provider_name=_SYSTEM,
            provider_details=_details(result),
            finish_reason=_FINISH_REASONS.get(result.finish_reason),
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Answer a conversation as a stream. Leaving the block cancels the request.

        Errors are those of :meth:`request`.
        """
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        with _model_errors(self.model_name):
            events = await self._engine.astream(
                to_interactions(messages, parameters), **request_arguments(settings, parameters)
            )
        async with events:
            yield _StreamedAnswer(parameters, events, self._engine)


@dataclass
class _StreamedAnswer(StreamedResponse):
    """The events of a request as pydantic-ai's."""

    _events: AsyncEventStream[Any]
    _engine: InferenceEngine
    _timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        parts = self._parts_manager
        with _model_errors(self.model_name):
            async for event in self._events:
                match event:
                    case TextDelta(text=text):
                        changes = parts.handle_text_delta(vendor_part_id=None, content=text)
                    case ReasoningDelta(text=text):
                        changes = parts.handle_thinking_delta(vendor_part_id=None, content=text)
                    case ToolCallStarted():
                        changes = parts.handle_tool_call_delta_events(
                            vendor_part_id=event.index, tool_name=event.name, tool_call_id=event.id
                        )
                    case ToolCallDelta():
                        changes = parts.handle_tool_call_delta_events(
                            vendor_part_id=event.index, args=event.arguments
                        )
                    case Finished(result=result):
                        self._finish(result)
                        continue
                    case _:
                        continue
                for change in changes:
                    yield change

    def _finish(self, result: GenerationResult[Any]) -> None:
        self._usage = _usage(self._engine, result)
        self.provider_details = _details(result)
        self.finish_reason = _FINISH_REASONS.get(result.finish_reason)

    async def close_stream(self) -> None:
        """Cancel the request."""
        await self._events.aclose()

    @property
    def model_name(self) -> str:
        """The engine's ``model_name``."""
        return self._engine.model_name

    @property
    def provider_name(self) -> str:
        """``"proxy-engine"``."""
        return _SYSTEM

    @property
    def provider_url(self) -> None:
        """``None``: there is no server."""
        return None

    @property
    def timestamp(self) -> datetime:
        """When the request began."""
        return self._timestamp


def _completed_profile(engine: InferenceEngine, given: ModelProfileSpec | None) -> ModelProfileSpec:
    """Return the engine's profile with the caller's changes."""
    reads = engine.input_modalities
    own = ModelProfile(
        supports_json_schema_output=True,
        supports_json_object_output=True,
        default_structured_output_mode="native",
        # A constraint alone does not tell the model the names and meanings of the members.
        native_output_requires_schema_in_instructions=True,
        supports_inline_system_prompts=True,
        supports_thinking=True,
        supports_image_input="image" in reads,
        supports_audio_file_input="audio" in reads,
        supports_video_input=False,
        supported_document_media_types=frozenset(
            {"text/plain", "text/csv", "text/html", "text/markdown"}
        ),
        context_window=engine.context_length,
    )
    if callable(given):
        return lambda default: given(merge_profile(default, own))
    return own if given is None else merge_profile(own, given)


@contextmanager
def _model_errors(model_name: str) -> Iterator[None]:
    """Raise the engine's errors as those that ``FallbackModel`` and agents handle."""
    try:
        yield
    except PromptTooLongError as error:
        raise ModelContextWindowExceededError(model_name, str(error)) from error
    except ProxyError as error:
        raise ModelRequestRejectedError(model_name, str(error)) from error


def _usage(engine: InferenceEngine, result: GenerationResult[Any]) -> RequestUsage:
    usage = result.usage
    details = {
        "image_tokens": usage.image_tokens,
        "fast_forwarded_tokens": usage.fast_forwarded_tokens,
        "drafted_tokens": usage.drafted_tokens,
        "accepted_tokens": usage.accepted_tokens,
    }
    return RequestUsage(
        input_tokens=usage.prompt_tokens,
        cache_read_tokens=usage.cached_tokens,
        output_tokens=usage.completion_tokens,
        output_reasoning_tokens=reasoning_tokens(engine.vocabulary, result),
        input_audio_tokens=usage.audio_tokens,
        details={name: count for name, count in details.items() if count},
    )


def _details(result: GenerationResult[Any]) -> dict[str, Any] | None:
    """Return the confidences of the answer's values, if there are any."""
    confidences = result.confidences()
    return {"confidences": confidences} if confidences else None
