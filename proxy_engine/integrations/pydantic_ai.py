"""pydantic-ai's model on an engine in the same process.

::

    agent = Agent(ProxyEngineModel(engine), output_type=Invoice)
    invoice = agent.run_sync("…").output
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ..engine.inference_engine import InferenceEngine
from ..runtime.extras import requires_extra

with requires_extra("pydantic-ai", purpose="ProxyEngineModel"):
    from pydantic_ai.exceptions import IncompleteToolCall, OutputTokenLimitExceeded
    from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent, ToolCallPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.openai import (
        OpenAIChatModel,
        OpenAIChatModelSettings,
        OpenAIStreamedResponse,
    )
    from pydantic_ai.profiles import ModelProfileSpec, merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    from .openai import async_openai_client

_SYSTEM = "proxy-engine"


class ProxyEngineModel(OpenAIChatModel):
    """``OpenAIChatModel`` on an engine in the same process. Native output is the default.

    An output or a call of a tool that a limit cut short raises ``OutputTokenLimitExceeded``, or
    ``IncompleteToolCall``, although it parses. Text is returned.

    Args:
        engine: The engine. It stays open; the caller closes it.
        settings: Settings of requests that do not override them. ``extra_body`` has options of the
            engine that OpenAI has not.
        profile: Changes of the model's profile.
    """

    def __init__(
        self,
        engine: InferenceEngine,
        *,
        settings: OpenAIChatModelSettings | None = None,
        profile: ModelProfileSpec | None = None,
    ) -> None:
        provider = OpenAIProvider(openai_client=async_openai_client(engine))
        super().__init__(
            engine.model_name,
            provider=provider,
            profile=_completed_profile(engine, profile),
            settings=settings,
        )

    @property
    def system(self) -> str:
        """``"proxy-engine"``."""
        return _SYSTEM

    async def request(
        self,
        messages: Any,
        model_settings: Any,
        model_request_parameters: ModelRequestParameters,
        *rest: Any,
        **given: Any,
    ) -> ModelResponse:
        """Return the response to a request. Raises ``OutputTokenLimitExceeded``."""
        response = await super().request(
            messages, model_settings, model_request_parameters, *rest, **given
        )
        _, parameters = self.prepare_request(model_settings, model_request_parameters)
        _check_length(response, parameters)
        return response

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _StreamedResponse


class _StreamedResponse(OpenAIStreamedResponse):
    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        async for event in super()._get_event_iterator():
            yield event
        _check_length(self.get(), self.model_request_parameters)


def _check_length(response: ModelResponse, parameters: ModelRequestParameters) -> None:
    """Raise the error of pydantic-ai for an output or a call that a limit cut short.

    pydantic-ai itself raises it where the JSON does not parse.
    """
    if response.finish_reason != "length":
        return
    hint = "Raise the model setting max_tokens, or bound the texts and lists of the type."
    if response.parts and isinstance(response.parts[-1], ToolCallPart):
        raise IncompleteToolCall(f"A limit cut the arguments of a tool call short. {hint}")
    if parameters.output_mode in ("native", "prompted"):
        raise OutputTokenLimitExceeded(f"A limit cut the output short. {hint}")


def _completed_profile(engine: InferenceEngine, given: ModelProfileSpec | None) -> ModelProfileSpec:
    """Return the engine's profile with the caller's changes."""
    reads = engine.input_modalities
    own = OpenAIModelProfile(
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
        context_window=engine.context_length,
        openai_chat_supports_allowed_tools=True,
        openai_chat_thinking_field="reasoning_content",
        openai_chat_send_back_thinking_parts="field",
    )
    if callable(given):
        return lambda default: given(merge_profile(default, own))
    return own if given is None else merge_profile(own, given)
