"""DSPy's ``LM`` on an engine in the same process.

::

    dspy.configure(lm=ProxyEngineLM(engine), adapter=JSONSchemaAdapter())
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import pydantic

from state_machines.type_readers.pydantic_reader import pydantic_schema

from ..engine.inference_engine import InferenceEngine
from ..runtime.extras import requires_extra

with requires_extra("dspy", purpose="ProxyEngineLM"):
    import dspy
    from dspy import lm15

from .application import API_KEY, BASE_URL, Application, AsyncBody, Body, HttpRequest, Message

_OPTIONS_KEY = "proxy_engine_options"
"""The member of a request's ``metadata`` with fields that DSPy does not know."""

_COMPATIBILITY = lm15.OpenAIChatCompat(
    instruction_role="system",
    max_tokens_field="max_tokens",
    thinking_format="reasoning_effort",
    thinking_replay="native",
)


class ProxyEngineLM(dspy.LM):  # type: ignore[misc]
    """A language model of DSPy that runs on an engine.

    Response formats and arguments of tools are enforced while the answer is generated. DSPy's
    default adapter, ``ChatAdapter``, asks for neither: use :class:`JSONSchemaAdapter` or
    ``dspy.JSONAdapter``.

    Args:
        engine: The engine. It stays open; the caller closes it.
        model: The name in histories and in the keys of DSPy's cache. Default: the engine's
            ``model_name``.
        options: Fields of chat completions, such as ``min_p``, for all requests.
        settings: The arguments of ``dspy.LM``. Errors are not repeated unless ``num_retries`` says
            so. Answers are cached unless ``cache`` is false, which is the default for a model in
            memory without a ``model``.
    """

    def __init__(
        self,
        engine: InferenceEngine,
        *,
        model: str | None = None,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        if options:
            # A part of the request, so that DSPy's cache knows it.
            settings["metadata"] = {**settings.get("metadata", {}), _OPTIONS_KEY: dict(options)}
        # A model in memory is named after its class, which other models share.
        is_unnamed = model is None and engine.model_name in sys.modules
        super().__init__(
            model or engine.model_name,
            engine=_ChatEngine(engine),
            async_engine=_AsyncEngine(engine),
            **{"cache": not is_unnamed, "num_retries": 0, **settings},
        )


class JSONSchemaAdapter(dspy.JSONAdapter):  # type: ignore[misc]
    """``dspy.JSONAdapter`` with a JSON Schema of every signature.

    ``dspy.JSONAdapter`` asks for any JSON object if an output field is a ``dict``, as in
    ``dspy.ReAct``, since other servers restrict schemas. Here the arguments that ``dspy.ReAct``
    asks for match the schema of the tool that is named.
    """

    def _prepare_response_format(self, lm: Any, lm_kwargs: dict[str, Any], signature: Any) -> None:
        if not lm.supports_response_schema:
            super()._prepare_response_format(lm, lm_kwargs, signature)
            return
        fields: dict[str, Any] = {
            name: (field.annotation, field)
            for name, field in signature.output_fields.items()
            if not (self.use_native_function_calling and field.annotation is dspy.ToolCalls)
        }
        outputs = pydantic.create_model("Outputs", **fields)
        schema = pydantic_schema(pydantic.TypeAdapter(outputs)).schema
        if fields.keys() >= _REACT_FIELDS:
            schema = _with_react_tools(schema)
        lm_kwargs["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "outputs", "schema": schema},
        }


_REACT_FIELDS = {"next_tool_name", "next_tool_args"}


def _with_react_tools(schema: dict[str, Any]) -> dict[str, Any]:
    """Add the arguments of each tool to a schema of ``dspy.ReAct``; keep other schemas."""
    callers = reversed(dspy.settings.caller_modules or ())
    react = next((module for module in callers if isinstance(module, dspy.ReAct)), None)
    if react is None:
        return schema
    steps = []
    for name, tool in react.tools.items():
        arguments = tool.format_as_litellm_function_call()["function"]["parameters"]
        step = {"next_tool_name": {"const": name}, "next_tool_args": arguments}
        if tool.has_kwargs:
            arguments["additionalProperties"] = True
        elif not tool.args:
            arguments["additionalProperties"] = False
        steps.append({**schema, "properties": {**schema["properties"], **step}})
    return {"anyOf": steps, "$defs": schema.get("$defs", {})}


class _Abilities:
    """What DSPy's adapters ask about a model."""

    supports_function_calling = True
    supports_response_schema = True
    supports_reasoning = False
    supported_params = frozenset(
        {"reasoning_effort", "response_format", "stop", "stream", "tool_choice", "tools"}
    )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Optimizers copy programs. Copies share the engine.
        return self


class _ChatEngine(_Abilities, lm15.OpenAIChatLM):  # type: ignore[misc]
    def __init__(self, engine: InferenceEngine) -> None:
        super().__init__(API_KEY, _Transport(engine), BASE_URL, _COMPATIBILITY)
        self.supports_reasoning = _reasons(engine)


class _AsyncEngine(_Abilities, lm15.AsyncOpenAIChatLM):  # type: ignore[misc]
    def __init__(self, engine: InferenceEngine) -> None:
        super().__init__(API_KEY, _AsyncTransport(engine), BASE_URL, _COMPATIBILITY)
        self.supports_reasoning = _reasons(engine)


def _reasons(engine: InferenceEngine) -> bool:
    """Whether the model was trained to reason between markers of its tokenizer."""
    return bool(getattr(engine.tokenizer, "has_thinking", False))


class _Transport:
    """DSPy's transport of HTTP requests."""

    def __init__(self, engine: InferenceEngine) -> None:
        self._application: Application = engine.application

    def stream(self, request: Any) -> _Response:
        return _Response(*self._application.send(_call(request)))


class _AsyncTransport:
    """:class:`_Transport` for event loops."""

    def __init__(self, engine: InferenceEngine) -> None:
        self._application: Application = engine.application

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncGenerator[_AsyncResponse]:
        response = _AsyncResponse(*await self._application.asend(_call(request)))
        try:
            yield response
        finally:
            await response.body.aclose()


class _Head:
    """What DSPy reads of a response before its body."""

    reason = ""
    http_version = "HTTP/1.1"

    def __init__(self, head: Message) -> None:
        self.status: int = head["status"]
        self.headers = [(name.decode(), value.decode()) for name, value in head["headers"]]


class _Response(_Head):
    def __init__(self, head: Message, body: Body) -> None:
        super().__init__(head)
        self.body = body

    def __iter__(self) -> Body:
        return self.body

    def read(self) -> bytes:
        return b"".join(self.body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.body.close()


class _AsyncResponse(_Head):
    def __init__(self, head: Message, body: AsyncBody) -> None:
        super().__init__(head)
        self.body = body

    def __aiter__(self) -> AsyncBody:
        return self.body

    async def read(self) -> bytes:
        return b"".join([data async for data in self.body])


def _call(request: Any) -> HttpRequest:
    """Return a request of DSPy's transports."""
    headers = [(name.lower().encode(), value.encode()) for name, value in request.headers]
    target = request.url.removeprefix(BASE_URL.removesuffix("/v1"))
    payload = json.loads(request.body)
    payload |= payload.get("metadata", {}).pop(_OPTIONS_KEY, {})
    return HttpRequest(request.method, target.encode(), headers, json.dumps(payload).encode())
