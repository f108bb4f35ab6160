"""``__all__``, the exception tree, and what can be imported."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import proxy_engine
from proxy_engine import (
    CacheOptions,
    GenerationOptions,
    InferenceEngine,
    Interaction,
    ReasoningOptions,
    Tool,
    ToolCall,
    errors,
)
from state_machines import GrammarStateMachine, ProxyError, RegexStateMachine
from state_machines.root import Optional, Repeat, RootStateMachine, Text


def test_every_public_name_can_be_imported() -> None:
    assert proxy_engine.__all__ == sorted(proxy_engine.__all__)
    for name in proxy_engine.__all__:
        assert getattr(proxy_engine, name) is not None
    assert set(proxy_engine.__all__) <= set(dir(proxy_engine))
    with pytest.raises(AttributeError):
        _ = proxy_engine.nothing_of_that_name


def test_former_name_is_an_error_with_the_new_one() -> None:
    with pytest.raises(ImportError, match="DraftFirstOptions is named FreeformFirstOptions now"):
        exec("from proxy_engine import DraftFirstOptions", {})


def test_documented_exception_tree_equals_the_classes() -> None:
    assert errors.__doc__ is not None
    drawn = set(re.findall(r"\b(\w+Error)\b", errors.__doc__)) - {
        "ProxyError",
        "SchemaError",
        "ValueError",
    }
    real = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.EngineError)
    }
    assert drawn == real
    assert real <= set(proxy_engine.__all__) | {"EngineError"}


# Errors of wrong arguments derive from ``ProxyError``; they are also ``ValueError``s.


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: engine.generate_batch("x"),
        lambda engine: engine.generate_batch(5),
        lambda engine: engine.run_tools("x", 5),
        lambda engine: engine.run_tools("x", [], max_rounds=0),
        lambda engine: engine.run_tools("x", [], on_turn=5),
        lambda engine: engine.save_prompt_cache("x.txt", "x"),
        lambda engine: InferenceEngine(5),
        lambda engine: InferenceEngine("x", batch_size=0),
        lambda engine: InferenceEngine("x", on_progress=5),
        lambda engine: InferenceEngine("x", options={}),
        lambda engine: InferenceEngine("x", tokenizer=5),
        lambda engine: GenerationOptions(max_tokens=0),
        lambda engine: ReasoningOptions(end=">"),
        lambda engine: CacheOptions(max_bytes=-1),
        lambda engine: Interaction("nobody", "x"),
        lambda engine: ToolCall("1", "f", 5),
        lambda engine: Tool(""),
        lambda engine: Tool("f").validate({"x": 1}),
        lambda engine: engine.generate("x", response_format={"type": "nonsense"}),
        lambda engine: engine.generate("x", response_format={"const": "long"}, max_tokens=1),
        lambda engine: engine.generate("x", tools=[Tool("f", parameters={"type": 5})]),
        lambda engine: RegexStateMachine("("),
        lambda engine: GrammarStateMachine("root"),
        lambda engine: RootStateMachine(Repeat(Optional(Text()))),
    ],
)
def test_invalid_arguments_raise_value_errors(
    tiny_engine: InferenceEngine, call: Callable[[InferenceEngine], Any]
) -> None:
    with pytest.raises(ProxyError) as caught:
        call(tiny_engine)
    assert isinstance(caught.value, ValueError)


def test_every_public_exception_derives_from_proxy_error() -> None:
    kinds = [getattr(proxy_engine, name) for name in proxy_engine.__all__]
    errors = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(errors) > 15
    assert all(issubclass(error, ProxyError) for error in errors)


@pytest.mark.parametrize(
    "error",
    [
        ProxyError("a", hint="b"),
        proxy_engine.ModelNotFoundError("a", model="m", hint="b"),
        proxy_engine.MissingExtraError("a", extra="ray"),
        proxy_engine.AdapterError("a", adapter="x", model="m"),
        proxy_engine.OutputValidationError("a", text="{}"),
        proxy_engine.ToolSchemaError("a", tool="t", index=1, pointer="/x", keyword="type"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_sent_to_other_processes(error: ProxyError) -> None:
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is type(error)
    assert str(received) == str(error)
    assert vars(received) == vars(error)
