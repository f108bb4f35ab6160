"""LangChain's chat model on an engine in the same process.

::

    from proxy_engine import InferenceEngine
    from proxy_engine.integrations.langchain import ChatProxyEngine

    model = ChatProxyEngine(InferenceEngine(), temperature=0.2)
    model.with_structured_output(Person).invoke("Ada Lovelace, born in 1815 in London")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from operator import itemgetter
from typing import Any, Literal, Unpack

from pydantic import Field

from ..checks.option_models import check_names
from ..engine.inference_engine import InferenceEngine
from ..options.fields import OPTION_NAMES, given_options, with_options
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from ..runtime.extras import requires_extra

with requires_extra("langchain", purpose="ChatProxyEngine"):
    from langchain_core.caches import BaseCache
    from langchain_core.callbacks import (
        AsyncCallbackManagerForLLMRun,
        CallbackManagerForLLMRun,
        Callbacks,
    )
    from langchain_core.language_models import (
        BaseChatModel,
        LangSmithParams,
        LanguageModelInput,
        ModelProfile,
    )
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.outputs import ChatGenerationChunk, ChatResult
    from langchain_core.rate_limiters import BaseRateLimiter
    from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough

from .conversion import may_write_text
from .langchain_messages import PROVIDER, to_chat_result, to_chunk, to_engine_messages
from .langchain_schemas import (
    SchemaLike,
    ToolLike,
    check_method,
    output_parser,
    to_openai_tool,
    to_response_format,
    to_tool_choice,
)


class ChatSettings(OptionOverrides, total=False):
    """The keyword arguments of ``ChatProxyEngine``: options of requests, and LangChain's own."""

    streaming: bool
    disable_streaming: bool | Literal["tool_calling"]
    output_version: str | None
    profile: ModelProfile | None
    rate_limiter: BaseRateLimiter | None
    cache: BaseCache | bool | None
    callbacks: Callbacks
    tags: list[str] | None
    metadata: dict[str, Any] | None
    name: str | None
    verbose: bool


@with_options()
class ChatProxyEngine(BaseChatModel):
    """A chat model on an engine in the same process.

    Calls of threads and tasks, such as those of ``batch`` and ``abatch``, share forward passes. A
    cancelled task, an interrupted call and a stream that is closed cancel their request.

    Args:
        engine: The engine. The model does not close it.
        settings: The options of ``GenerationOptions``, with the engine's as defaults, and
            LangChain's own arguments of chat models.

    Raises:
        InvalidOptionError: An option is unknown or its value is invalid.
    """

    engine: InferenceEngine = Field(exclude=True, repr=False)
    """The engine."""
    streaming: bool = False
    """Whether ``invoke`` streams, for callbacks that receive tokens."""

    def __init__(self, engine: InferenceEngine, **settings: Unpack[ChatSettings]) -> None:
        given: dict[str, Any] = {**settings, "engine": engine}
        check_names(given, type(self).model_fields, GenerationOptions.name_hints)
        # Before pydantic, which would raise its own error.
        options = {name: given[name] for name in OPTION_NAMES if given.get(name) is not None}
        GenerationOptions(**options)
        super().__init__(**given)

    @property
    def model_name(self) -> str:
        """The name of the engine's model."""
        return self.engine.model_name

    @property
    def _llm_type(self) -> str:
        return "proxy-engine"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        # Part of the keys of LangChain's caches: all that an answer depends on.
        return {"model_name": self.model_name, **given_options(self)}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = PROVIDER
        return params

    def _resolve_model_profile(self) -> ModelProfile:
        reads = self.engine.input_modalities
        profile = ModelProfile(
            text_inputs="text" in reads,
            image_inputs="image" in reads,
            image_url_inputs="image" in reads,
            audio_inputs="audio" in reads,
            tool_calling=True,
            tool_choice=True,
            structured_output=True,
        )
        if self.engine.context_length is not None:
            profile["max_input_tokens"] = self.engine.context_length
        return profile

    def get_token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text, without those of the chat template."""
        token_ids: list[int] = self.engine.tokenizer.encode(text, add_special_tokens=False)
        return token_ids

    def bind_tools(
        self,
        tools: Sequence[ToolLike],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        response_format: SchemaLike | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return a model that may call tools; arguments always match their schemas.

        Args:
            tools: LangChain's tools, functions, pydantic models, TypedDicts, or dicts.
            tool_choice: ``"auto"``, ``"any"`` (also ``"required"`` and ``True``), ``"none"``, the
                name of a tool, or a dict of OpenAI's or Anthropic's form.
            strict: ``True`` refuses properties that a dict's schema does not name, as a Python
                type does. Every schema is enforced anyway.
            response_format: The schema of answers without a call. Default: free text.
            kwargs: Options of the requests, such as ``parallel_tool_calls``.
        """
        written = [to_openai_tool(tool, strict=strict) for tool in tools]
        choice = to_tool_choice(tool_choice, written)
        if choice is not None:
            kwargs["tool_choice"] = choice
        if response_format is not None:
            form = to_response_format(response_format, strict=strict)
            kwargs["response_format"] = form
        return self.bind(tools=written, **kwargs)

    def with_structured_output(
        self,
        schema: SchemaLike | None = None,
        *,
        method: Literal["json_schema", "function_calling", "json_mode"] = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a model whose answers match a schema.

        Args:
            schema: A pydantic model, whose instances are returned; a TypedDict, a JSON Schema, or
                a tool of OpenAI's form, for dicts. ``None``, with ``json_mode`` only: any object.
            method: ``"json_schema"`` and ``"json_mode"`` constrain the answer,
                ``"function_calling"`` the arguments of a tool that is called. All are exact.
            include_raw: Return ``{"raw": message, "parsed": value, "parsing_error": error}``.
            strict: As in :meth:`bind_tools`.
            kwargs: Options of the requests.

        Raises:
            InvalidOptionError: The method is unknown, or needs a schema.
            InvalidResponseFormatError: LangChain knows no such schema.
        """
        check_method(method, schema)
        traced = {"kwargs": {"method": method, "strict": strict}, "schema": schema}
        bound: Runnable[LanguageModelInput, AIMessage]
        tool_name = None
        if method == "function_calling" and schema is not None:
            tool = to_openai_tool(schema, strict=strict)
            tool_name = tool["function"]["name"]
            choice = to_tool_choice(tool_name, [tool])
            kwargs = {"tool_choice": choice, "parallel_tool_calls": False, **kwargs}
            bound = self.bind(tools=[tool], ls_structured_output_format=traced, **kwargs)
        elif schema is None:
            bound = self.bind(response_format={"type": "json_object"}, **kwargs)
        else:
            form = to_response_format(schema, strict=strict)
            bound = self.bind(response_format=form, ls_structured_output_format=traced, **kwargs)
        parser: Runnable[Any, Any] = output_parser(schema, tool_name)
        if not include_raw:
            return bound | parser
        parsed = RunnablePassthrough.assign(
            parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
        )
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=bound) | parsed.with_fallbacks(
            [failed], exception_key="parsing_error"
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        arguments = self._arguments(stop, kwargs)
        result = self.engine.generate(to_engine_messages(messages), **arguments)
        return to_chat_result(self.engine.vocabulary, result)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        arguments = self._arguments(stop, kwargs)
        result = await self.engine.agenerate(to_engine_messages(messages), **arguments)
        return to_chat_result(self.engine.vocabulary, result)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        arguments = self._arguments(stop, kwargs)
        with self.engine.stream(to_engine_messages(messages), **arguments) as events:
            for event in events:
                chunk = to_chunk(self.engine.vocabulary, event)
                if chunk is not None:
                    if run_manager is not None:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        arguments = self._arguments(stop, kwargs)
        async with await self.engine.astream(to_engine_messages(messages), **arguments) as events:
            async for event in events:
                chunk = to_chunk(self.engine.vocabulary, event)
                if chunk is not None:
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    def _arguments(self, stop: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a request: those of the model, overridden by those of a call."""
        own: dict[str, Any] = {**given_options(self)}
        # LangChain passes on the argument by which it has chosen between `invoke` and `stream`.
        arguments = {name: value for name, value in given.items() if name != "stream"}
        if stop is not None:
            arguments["stop"] = stop
        if "tool_choice" in arguments:
            tools = arguments.get("tools") or ()
            arguments["tool_choice"] = to_tool_choice(arguments["tool_choice"], tools)
        if not may_write_text(arguments):
            # Those of a call are refused by the engine; these are defaults.
            own = {name: own[name] for name in own.keys() - {"stop", "stop_token_ids"}}
        return {**own, **arguments}
