"""DSPy's ``LM`` on an engine in the same process.

::

    dspy.configure(lm=ProxyEngineLM(engine), adapter=JSONSchemaAdapter())
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import pydantic

from state_machines.pydantic_schemas import ClosedJsonSchema

from ..engine.inference_engine import InferenceEngine
from ..errors import EngineClosedError, PromptTooLongError, ProxyError
from ..runtime.extras import requires_extra
from .dspy_requests import (
    OPTIONS_KEY,
    request_arguments,
    response,
    stream_event,
    to_interactions,
)

with requires_extra("dspy", purpose="ProxyEngineLM"):
    import dspy
    from dspy import lm15


class ProxyEngineLM(dspy.LM):  # type: ignore[misc]
    """A language model of DSPy that runs on an engine.

    Response formats and arguments of tools are enforced while the answer is generated. DSPy's
    default adapter, ``ChatAdapter``, asks for neither: use :class:`JSONSchemaAdapter` or
    ``dspy.JSONAdapter``.

    Args:
        engine: The engine. It stays open; the caller closes it.
        model: The name in histories and in the keys of DSPy's cache. Default: the engine's
            ``model_name`` after ``proxy-engine/``.
        temperature: The default temperature; ``None``: the engine's.
        max_tokens: The default maximum number of tokens; ``None``: the engine's.
        cache: Whether DSPy stores answers by request, on disk too. Options of the engine itself
            are not part of the key. Default: true, unless the model was given to the engine in
            memory and has no name of its own.
        num_retries: How often DSPy repeats a request that failed. Errors of the engine are not
            repeated.
        callbacks: DSPy's callbacks.
        options: Fields of ``GenerationOptions`` as JSON values, for all requests.
        defaults: Other default parameters of requests, as ``dspy.LM`` takes them.
    """

    def __init__(
        self,
        engine: InferenceEngine,
        *,
        model: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        cache: bool | None = None,
        num_retries: int = 0,
        callbacks: Sequence[Any] | None = None,
        options: Mapping[str, Any] | None = None,
        **defaults: Any,
    ) -> None:
        # A model in memory is named after its class, which other models share.
        is_unnamed = model is None and engine.model_name in sys.modules
        if options:
            # A part of the request, so that DSPy's cache knows it.
            defaults["metadata"] = {**defaults.get("metadata", {}), OPTIONS_KEY: dict(options)}
        super().__init__(
            model or f"proxy-engine/{engine.model_name}",
            temperature=temperature,
            max_tokens=max_tokens,
            cache=not is_unnamed if cache is None else cache,
            num_retries=num_retries,
            callbacks=None if callbacks is None else [*callbacks],
            engine=_Engine(engine),
            async_engine=_AsyncEngine(engine),
            **defaults,
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
        schema = outputs.model_json_schema(schema_generator=ClosedJsonSchema)
        if fields.keys() >= _REACT_FIELDS:
            schema = _with_react_tools(schema)
        lm_kwargs["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "outputs", "schema": schema},
        }


_REACT_FIELDS = {"next_tool_name", "next_tool_args"}


def _with_react_tools(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of ``dspy.ReAct`` with the arguments of each tool; unchanged for others."""
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
    supported_params = frozenset(
        {
            "frequency_penalty",
            "logit_bias",
            "max_tokens",
            "parallel_tool_calls",
            "presence_penalty",
            "reasoning_effort",
            "response_format",
            "seed",
            "stop",
            "stream",
            "temperature",
            "tool_choice",
            "tools",
            "top_k",
            "top_p",
        }
    )

    def __init__(self, engine: InferenceEngine) -> None:
        self._engine = engine

    @property
    def supports_reasoning(self) -> bool:
        """Whether the model was trained to reason between markers of its tokenizer."""
        return bool(getattr(self._engine.tokenizer, "has_thinking", False))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Optimizers copy programs. Copies share the engine.
        return self


class _Engine(_Abilities):
    """Answers DSPy's requests."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        with _lm_errors():
            prompt, arguments = to_interactions(request), request_arguments(request)
            result = self._engine.generate(prompt, **arguments)
            return response(request, result, self._engine.vocabulary)

    def stream(self, request: lm15.Request) -> Iterator[Any]:
        with _lm_errors():
            prompt, arguments = to_interactions(request), request_arguments(request)
            with self._engine.stream(prompt, **arguments) as events:
                yield lm15.StreamStartEvent(model=request.model)
                for event in events:
                    converted = stream_event(event, self._engine.vocabulary)
                    if converted is not None:
                        yield converted

    def close(self) -> None:
        """Do nothing: the engine is the caller's."""


class _AsyncEngine(_Abilities):
    """Answers DSPy's requests in event loops."""

    async def complete(self, request: lm15.Request) -> lm15.Response:
        with _lm_errors():
            prompt, arguments = to_interactions(request), request_arguments(request)
            result = await self._engine.agenerate(prompt, **arguments)
            return response(request, result, self._engine.vocabulary)

    async def stream(self, request: lm15.Request) -> AsyncIterator[Any]:
        with _lm_errors():
            prompt, arguments = to_interactions(request), request_arguments(request)
            async with await self._engine.astream(prompt, **arguments) as events:
                yield lm15.StreamStartEvent(model=request.model)
                async for event in events:
                    converted = stream_event(event, self._engine.vocabulary)
                    if converted is not None:
                        yield converted

    async def aclose(self) -> None:
        """Do nothing: the engine is the caller's."""


@contextmanager
def _lm_errors() -> Iterator[None]:
    """Raise the engine's errors as those that DSPy converts to its own."""
    try:
        yield
    except PromptTooLongError as error:
        raise lm15.ContextLengthError(str(error)) from error
    except EngineClosedError as error:
        raise lm15.ConfigurationError(str(error)) from error
    except ProxyError as error:
        raise lm15.InvalidRequestError(str(error)) from error
