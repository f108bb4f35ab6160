"""LangChain's chat model on an engine in the same process.

::

    from proxy_engine import InferenceEngine
    from proxy_engine.integrations.langchain import ChatProxyEngine

    model = ChatProxyEngine(InferenceEngine(), temperature=0.2)
    model.with_structured_output(Person).invoke("Ada Lovelace, born in 1815 in London")
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from ..engine.inference_engine import InferenceEngine
from ..results.parts import CutShort
from ..runtime.extras import requires_extra

with requires_extra("langchain", purpose="ChatProxyEngine"):
    from langchain_core.language_models import LanguageModelInput, ModelProfile
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
    from langchain_core.messages.tool import invalid_tool_call, tool_call_chunk
    from langchain_core.outputs import ChatGenerationChunk, ChatResult
    from langchain_core.runnables import Runnable
    from langchain_openai import ChatOpenAI

    from .application import API_KEY, BASE_URL
    from .openai import async_http_client, http_client

_PROVIDER = {"model_provider": "proxy_engine"}
"""Metadata by which LangChain reads the reasoning: it reads none of OpenAI's chat completions."""

_CUT_SHORT = "a limit cut the call short"

_REASONING = "reasoning_content"
"""The member of messages that has the reasoning, here and in LangChain's ``additional_kwargs``."""


class ChatProxyEngine(ChatOpenAI):
    """``ChatOpenAI`` on an engine in the same process, with the reasoning of the model.

    Args:
        engine: The engine. The model does not close it.
        settings: The arguments of ``ChatOpenAI``. ``extra_body`` has options of the engine that
            OpenAI has not.
    """

    def __init__(self, engine: InferenceEngine, **settings: Any) -> None:
        connection = {
            "model": engine.model_name,
            "base_url": BASE_URL,
            "api_key": API_KEY,
            "http_client": http_client(engine),
            "http_async_client": async_http_client(engine),
        }
        defaults = {
            "max_retries": 0,
            "stream_usage": True,
            "profile": _profile(engine),
            # LangChain's own counts tokens of OpenAI's models.
            "custom_get_token_ids": lambda text: engine.tokenizer.encode(
                text, add_special_tokens=False
            ),
        }
        super().__init__(**{**defaults, **settings, **connection})

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """``False``: an engine with its model is no JSON."""
        return False

    @property
    def _llm_type(self) -> str:
        return "proxy-engine"

    def with_structured_output(self, schema: Any = None, **given: Any) -> Runnable[Any, Any]:
        """Return a model whose answers match a schema, with every ``method``.

        The arguments are those of ``ChatOpenAI``, whose ``json_mode`` would state no schema.
        """
        if schema is not None and given.get("method") == "json_mode":
            given["method"] = "json_schema"
        return super().with_structured_output(schema, **given)

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        messages = self._convert_input(input_).to_messages()
        for message, written in zip(messages, payload.get("messages", ()), strict=False):
            if reasoning := _reasoning_of(message):
                written[_REASONING] = reasoning
        return payload

    def _create_chat_result(self, response: Any, generation_info: Any = None) -> ChatResult:
        result = super()._create_chat_result(response, generation_info)
        result.llm_output = {**(result.llm_output or {}), **_PROVIDER}
        for generation, choice in zip(result.generations, response.choices, strict=True):
            message = generation.message
            if reasoning := getattr(choice.message, _REASONING, None):
                message.additional_kwargs[_REASONING] = reasoning
            complete = _complete_calls(choice.model_dump())
            if isinstance(message, AIMessage) and complete is not None:
                cut, message.tool_calls = (
                    message.tool_calls[complete:],
                    message.tool_calls[:complete],
                )
                message.invalid_tool_calls += [
                    invalid_tool_call(
                        name=call["name"],
                        args=json.dumps(call["args"]),
                        id=call["id"],
                        error=_CUT_SHORT,
                    )
                    for call in cut
                ]
        return result

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: Any
    ) -> ChatGenerationChunk | None:
        converted = super()._convert_chunk_to_generation_chunk(
            chunk, default_chunk_class, base_generation_info
        )
        # The client's helper for structured output nests the chunk.
        choices = chunk.get("choices") or chunk.get("chunk", {}).get("choices")
        reasoning = choices and choices[0]["delta"].get(_REASONING)
        if converted is not None:
            converted.message.response_metadata.update(_PROVIDER)
        complete = _complete_calls(choices[0]) if choices else None
        if converted is not None and complete is not None:
            assert isinstance(converted.message, AIMessageChunk)
            # The arguments are then no JSON, as in a call that another server cuts off.
            rest = tool_call_chunk(args="}", index=complete)
            converted.message.tool_call_chunks = [rest]
        if converted is not None and reasoning:
            converted.message.additional_kwargs[_REASONING] = reasoning
        return converted


def _profile(engine: InferenceEngine) -> ModelProfile:
    reads = engine.input_modalities
    profile = ModelProfile(
        text_inputs="text" in reads,
        image_inputs="image" in reads,
        image_url_inputs="image" in reads,
        audio_inputs="audio" in reads,
        tool_calling=True,
        tool_choice=True,
        structured_output=True,
    )
    if engine.context_length is not None:
        profile["max_input_tokens"] = engine.context_length
    return profile


def _complete_calls(choice: Mapping[str, Any]) -> int | None:
    """Return how many calls of an answer are complete; ``None`` if a limit cut none short."""
    cut = (choice.get("proxy_engine") or {}).get("cut_short")
    if choice.get("finish_reason") != "length" or cut is None:
        return None
    found = CutShort(**cut).complete_calls(sys.maxsize)
    return found if cut["pointer"].startswith("/tool_calls/") else None


def _reasoning_of(message: BaseMessage) -> str:
    if not isinstance(message, AIMessage):
        return ""
    blocks = [block for block in message.content_blocks if block["type"] == "reasoning"]
    return "".join(str(block.get("reasoning", "")) for block in blocks)
