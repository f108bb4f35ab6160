"""smolagents' model on an engine in the same process.

::

    from proxy_engine import InferenceEngine
    from proxy_engine.integrations.smolagents import ProxyEngineModel
    from smolagents import ToolCallingAgent

    agent = ToolCallingAgent(tools=[], model=ProxyEngineModel(InferenceEngine()))
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack
from copy import copy
from typing import Any

from ..engine.inference_engine import InferenceEngine
from ..runtime.extras import requires_extra

with requires_extra("smolagents", purpose="ProxyEngineModel"):
    from smolagents.models import OpenAIModel

    from .openai import openai_client

# The agent keeps images and recordings, and the model names them.
_REFERENCES = ("image", "audio")


class ProxyEngineModel(OpenAIModel):  # type: ignore[misc]
    """``OpenAIModel`` on an engine in the same process.

    With tools, every answer is a call of one of them, whose arguments match its inputs. With a
    response format, every answer matches it.

    Args:
        engine: The engine. The model does not close it.
        settings: The arguments of ``OpenAIModel``, among them those of requests, which override
            those of a call. ``extra_body`` has options of the engine that OpenAI has not.
    """

    def __init__(self, engine: InferenceEngine, **settings: Any) -> None:
        self._engine = engine
        super().__init__(engine.model_name, **settings)

    def create_client(self) -> Any:
        """Return OpenAI's client on the engine."""
        return openai_client(self._engine)

    def generate_stream(self, *arguments: Any, **given: Any) -> Generator[Any]:
        """Yield the parts of an answer. Closing the generator cancels the request."""
        # The method of ``OpenAIModel`` leaves OpenAI's stream to the garbage collector.
        with ExitStack() as opened:
            model = copy(self)

            def create(call: Any, **options: Any) -> Any:
                return opened.enter_context(self.retryer(call, **options))

            model.retryer = create
            yield from super(ProxyEngineModel, model).generate_stream(*arguments, **given)

    def _prepare_completion_kwargs(self, *arguments: Any, **given: Any) -> dict[str, Any]:
        prepared: dict[str, Any] = super()._prepare_completion_kwargs(*arguments, **given)
        for tool in prepared.get("tools", ()):
            properties = tool["function"]["parameters"]["properties"]
            properties.update({name: _input(schema) for name, schema in properties.items()})
        return prepared


def _input(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an input, without the types and the keyword of smolagents."""
    schema = {key: value for key, value in given.items() if key != "nullable"}
    kinds = [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    kinds = ["string" if kind in _REFERENCES else kind for kind in kinds]
    if given.get("nullable"):
        kinds.append("null")
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    kinds = list(dict.fromkeys(kinds))
    return {**schema, "type": kinds[0] if len(kinds) == 1 else kinds}
