"""``ProxyEngineLM`` with DSPy itself, on a random model."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from collections.abc import Iterator
from typing import Any, Literal

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import (
    ContextWindowExceededError,
)
from pydantic import BaseModel, Field
from scripted_answers import ScriptedModel
from tiny_models import make_tiny_model, make_tiny_tokenizer

from proxy_engine import InferenceEngine
from proxy_engine.integrations.dspy import JSONSchemaAdapter, ProxyEngineLM

MODEL = "proxy-engine/tiny"


class Place(BaseModel):
    city: str = Field(max_length=5)
    population: int = Field(ge=0, le=10**6)


class Classify(dspy.Signature):  # type: ignore[misc]
    """Classify a sentence."""

    sentence: str = dspy.InputField()
    sentiment: Literal["positive", "negative"] = dspy.OutputField()
    place: Place = dspy.OutputField()


class Call(dspy.Signature):  # type: ignore[misc]
    """Call a tool."""

    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.OutputField()


def weather(city: Literal["Paris", "Rome"]) -> str:
    """Return the weather."""
    return f"sunny in {city}"


@pytest.fixture(scope="module")
def engine() -> Iterator[InferenceEngine]:
    with InferenceEngine(make_tiny_model(context=8192), make_tiny_tokenizer()) as engine:
        yield engine


@pytest.fixture(scope="module")
def lm(engine: InferenceEngine) -> ProxyEngineLM:
    return ProxyEngineLM(engine, model=MODEL, max_tokens=300, temperature=0.7, seed=3, cache=False)


@pytest.fixture(autouse=True)
def adapter(lm: ProxyEngineLM) -> Iterator[None]:
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        yield


def is_classified(answer: Any) -> bool:
    return answer.sentiment in {"positive", "negative"} and isinstance(answer.place, Place)


def test_typed_signature_has_a_typed_result() -> None:
    with dspy.context(track_usage=True):
        answer = dspy.Predict(Classify)(sentence="Rome is great.")
    assert is_classified(answer)
    usage = answer.get_lm_usage()[MODEL]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] > 0
    assert "litellm" not in sys.modules


def test_chain_of_thought_reasons_in_a_field() -> None:
    answer = dspy.ChainOfThought(Classify)(sentence="Rome is great.")
    assert is_classified(answer)
    assert isinstance(answer.reasoning, str)


def test_predict_returns_several_answers(lm: ProxyEngineLM) -> None:
    answers = dspy.Predict(Classify, n=2)(sentence="Rome is great.").completions
    assert len(answers.place) == 2
    assert lm.history[-1]["usage"]["completion_tokens"] > 0


def test_required_tool_is_called_with_valid_arguments() -> None:
    call = dspy.Predict(Call, tool_choice="required", parallel_tool_calls=False)
    answer = call(question="The weather in Rome?", tools=[dspy.Tool(weather)])
    assert answer.calls.tool_calls
    for tool_call in answer.calls.tool_calls:
        assert tool_call.name == "weather"
        assert tool_call.args["city"] in {"Paris", "Rome"}


def test_react_calls_its_tools_with_arguments_of_their_schemas(lm: ProxyEngineLM) -> None:
    with dspy.context(lm=lm.copy(max_tokens=150), adapter=JSONSchemaAdapter()):
        react = dspy.ReAct("question -> answer: Literal['yes', 'no']", [weather], max_iters=1)
        result = react(question="Is it sunny in Rome?")
    assert result.answer in {"yes", "no"}
    arguments = {"weather": ({"city": "Paris"}, {"city": "Rome"}), "finish": ({},)}
    trajectory = result.trajectory
    assert trajectory["tool_args_0"] in arguments[trajectory["tool_name_0"]]
    assert "error" not in trajectory["observation_0"]


def test_event_loops_answer_and_stream() -> None:
    async def main() -> tuple[Any, list[Any]]:
        predict = dspy.Predict(Classify)
        answer = await predict.acall(sentence="Rome is great.")
        stream = dspy.streamify(predict)(sentence="Rome is great.")
        return answer, [piece async for piece in stream]

    answer, pieces = asyncio.run(main())
    assert is_classified(answer)
    *chunks, last = pieces
    assert len(chunks) > 2
    assert is_classified(last)


def _request(text: str = "Hello", **more: Any) -> lm15.Request:
    return lm15.Request(model=MODEL, messages=(lm15.Message.user(text),), **more)


def test_stream_has_the_parts_of_the_response() -> None:
    tokenizer = make_tiny_tokenizer()
    call = '<tool_call>\n{"name": "go", "arguments": {}}\n</tool_call>'
    # The definitions of tools may be a message.
    script = ScriptedModel(tokenizer, dict.fromkeys((1, 2), "<think>Hm.</think>" + call))
    tool = lm15.FunctionTool("go", None, {"type": "object", "additionalProperties": False})
    config = lm15.Config(
        tool_choice=lm15.ToolChoice("required", parallel=False), reasoning=lm15.Reasoning("low")
    )
    request = _request(tools=(tool,), config=config)
    with InferenceEngine(script, tokenizer) as engine:
        lm = ProxyEngineLM(engine)
        whole = lm.engine.complete(request)
        events = list(lm.engine.stream(request))
    start, *_, end = events
    deltas = [event.delta for event in events if event.type == "delta"]
    assert (start.type, end.type) == ("start", "end")
    assert whole.finish_reason == end.finish_reason == "tool_call"
    assert whole.usage.output_tokens == end.usage.output_tokens
    reasoning, called = whole.message.parts
    thoughts = [delta.text for delta in deltas if delta.type == "thinking"]
    assert "".join(thoughts) == reasoning.text == "Hm."
    calls = [delta for delta in deltas if delta.type == "tool_call"]
    assert calls[0].name == called.name == "go"
    assert json.loads("".join(delta.input for delta in calls)) == called.input == {}


def test_prompt_beyond_the_context_is_the_error_of_dspy(lm: ProxyEngineLM) -> None:
    with pytest.raises(ContextWindowExceededError):
        lm("x" * 9000)


def test_options_are_part_of_the_key_of_cached_answers(engine: InferenceEngine) -> None:
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    arguments: dict[str, Any] = {"model": MODEL, "max_tokens": 8, "cache": True}
    first = ProxyEngineLM(engine, **arguments)
    answer = first("Hello")
    assert first("Hello") == answer
    assert not first.history[-1]["usage"]
    biased = ProxyEngineLM(engine, options={"logit_bias": {"5": 1000}}, **arguments)
    assert biased("Hello") != answer
    assert biased.history[-1]["usage"]


def test_answers_of_models_without_a_name_are_not_cached(engine: InferenceEngine) -> None:
    assert not ProxyEngineLM(engine).cache
    assert ProxyEngineLM(engine, model=MODEL).cache
    assert ProxyEngineLM(engine, cache=True).cache


def test_copies_share_the_engine(lm: ProxyEngineLM) -> None:
    assert copy.deepcopy(lm).engine is lm.engine
    changed = lm.copy(temperature=0.1)
    assert changed.engine is lm.engine
    assert (changed.kwargs["temperature"], lm.kwargs["temperature"]) == (0.1, 0.7)
