"""Parts of an engine: its components, prepared requests and its model thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from proxy_engine import InferenceEngine
from proxy_engine.engine.core import EngineCore
from proxy_engine.requests.request import Request

__all__ = ["core_of", "on_model_thread", "prepared", "prompt_text"]

T = TypeVar("T")


def core_of(engine: InferenceEngine) -> EngineCore:
    """Return the components of an engine."""
    return engine._core


def prepared(
    engine: InferenceEngine, prompt: Any, response_format: Any = None, **arguments: Any
) -> Request:
    """Return a request as it is before it is queued."""
    return core_of(engine).preparation.request(prompt, response_format, arguments)  # type: ignore[arg-type]


def prompt_text(
    engine: InferenceEngine, prompt: Any, response_format: Any = None, **arguments: Any
) -> str:
    """Return the prompt of a request as the model reads it."""
    request = prepared(engine, prompt, response_format, **arguments)
    text: str = engine.tokenizer.decode(request.prompt.token_ids)
    return text


def on_model_thread(engine: InferenceEngine, call: Callable[[], T]) -> T:
    """Return the result of a call on the thread that runs the model."""
    return core_of(engine).worker.submit(call).result()
