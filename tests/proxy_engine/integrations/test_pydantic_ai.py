"""``ProxyEngineModel`` with pydantic-ai itself, on random models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, ModelRetry, NativeOutput, RunContext, ToolOutput
from pydantic_ai import messages as ai
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import IncompleteToolCall, OutputTokenLimitExceeded
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from scripted_answers import ScriptedModel
from tiny_models import make_tiny_model, make_tiny_tokenizer

from proxy_engine import InferenceEngine
from proxy_engine.integrations.pydantic_ai import ProxyEngineModel


class Review(BaseModel):
    """A review of a film."""

    stars: Literal[1, 2, 3]
    title: str = Field(max_length=8)


class Place(BaseModel):
    city: str = Field(max_length=5)


@dataclass
class Steps(AbstractCapability[Any]):
    """Settings of each step."""

    settings: Callable[[RunContext[Any]], ModelSettings]

    def get_model_settings(self) -> Any:
        return self.settings


SETTINGS: ModelSettings = {"max_tokens": 300, "temperature": 0.7, "seed": 3}


@pytest.fixture(scope="module")
def engine() -> Iterator[InferenceEngine]:
    with InferenceEngine(make_tiny_model(context=4096), make_tiny_tokenizer()) as engine:
        yield engine


@pytest.fixture(scope="module")
def model(engine: InferenceEngine) -> ProxyEngineModel:
    return ProxyEngineModel(engine, settings=SETTINGS)


@pytest.mark.parametrize("output", [Review, NativeOutput(Review)])
def test_structured_output_has_the_members_of_its_type_alone(
    model: ProxyEngineModel, output: Any
) -> None:
    result = Agent(model, output_type=output).run_sync("Review a film.")
    assert isinstance(result.output, Review)
    assert json.loads(result.response.text or "") == result.output.model_dump()
    assert result.response.finish_reason == "stop"


@pytest.mark.parametrize("output", [Review, ToolOutput(Review), [Review, Place]])
def test_output_is_of_its_type_without_a_retry(model: ProxyEngineModel, output: Any) -> None:
    result = Agent(model, output_type=output, retries=0).run_sync("Review a film.")
    assert isinstance(result.output, Review | Place)
    assert result.usage.requests == 1


def test_output_tools_are_called_where_they_are_asked_for(model: ProxyEngineModel) -> None:
    result = Agent(model, output_type=ToolOutput(Review, name="review")).run_sync("Review.")
    (call,) = result.response.tool_calls
    assert call.tool_name == "review"
    assert call.args_as_dict() == result.output.model_dump()
    assert result.response.finish_reason == "tool_call"


def test_usage_counts_cached_tokens(engine: InferenceEngine, model: ProxyEngineModel) -> None:
    engine.clear_prompt_cache()
    agent = Agent(model, instructions="Be brief.")
    first = agent.run_sync("Hello there", model_settings={"max_tokens": 4})
    again = agent.run_sync("Hello there", model_settings={"max_tokens": 4})
    assert first.usage.cache_read_tokens == 0
    assert again.usage.cache_read_tokens == first.usage.input_tokens - 1
    assert again.usage.output_tokens <= 4
    assert first.response.model_name == engine.model_name


async def _deltas(agent: Agent[None, Any], settings: ModelSettings | None = None) -> Any:
    events: list[ai.ModelResponseStreamEvent] = []
    async with agent.iter("Hello", model_settings=settings) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    events += [event async for event in stream]
    return events, run.result


def _contents(events: list[Any], kind: type[Any], delta: type[Any], name: str) -> str:
    """The concatenated content of the parts of a kind."""
    text = ""
    for event in events:
        if isinstance(event, ai.PartStartEvent) and isinstance(event.part, kind):
            text += getattr(event.part, "args" if kind is ai.ToolCallPart else "content") or ""
        elif isinstance(event, ai.PartDeltaEvent) and isinstance(event.delta, delta):
            text += getattr(event.delta, name) or ""
    return text


def test_streams_reasoning_and_text() -> None:
    tokenizer = make_tiny_tokenizer()
    answer = '<think>Hm, well.</think>{"stars": 2, "title": "A"}'
    script = ScriptedModel(tokenizer, {1: answer, 2: answer})
    with InferenceEngine(script, tokenizer) as engine:
        agent = Agent(ProxyEngineModel(engine), output_type=Review)
        events, result = asyncio.run(_deltas(agent, {"thinking": True}))
    thought = _contents(events, ai.ThinkingPart, ai.ThinkingPartDelta, "content_delta")
    text = _contents(events, ai.TextPart, ai.TextPartDelta, "content_delta")
    assert result.response.thinking == thought == "Hm, well."
    assert json.loads(text) == result.output.model_dump()
    assert 0 < result.usage.output_reasoning_tokens < result.usage.output_tokens
    assert result.response.state == "complete"


def test_streams_the_arguments_of_calls(model: ProxyEngineModel) -> None:
    events, result = asyncio.run(_deltas(Agent(model, output_type=ToolOutput(Review))))
    arguments = _contents(events, ai.ToolCallPart, ai.ToolCallPartDelta, "args_delta")
    assert json.loads(arguments) == result.output.model_dump()
    assert sum(isinstance(event, ai.PartDeltaEvent) for event in events) > 1
    assert result.response.finish_reason == "tool_call"


@pytest.mark.parametrize("allowed", [None, ["now"]])
def test_agent_repeats_a_call_that_has_a_result_only_if_it_may(allowed: list[str] | None) -> None:
    times: list[str] = []

    def now() -> str:
        """Return the time."""
        times.append("12:30")
        return times[-1]

    tokenizer = make_tiny_tokenizer()
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    answers = {1: call, 2: call, 3: call, 4: call, 5: "It is noon.", 6: "It is noon."}
    with InferenceEngine(ScriptedModel(tokenizer, answers), tokenizer) as engine:
        settings: Any = {"max_tokens": 80, "extra_body": {"allow_repeated_calls": allowed}}
        agent = Agent(ProxyEngineModel(engine, settings=settings), tools=[now])
        agent.run_sync("What time is it?")
    assert len(times) == (2 if allowed else 1)


def test_agent_runs_tools_and_then_answers(model: ProxyEngineModel) -> None:
    cities: list[str] = []

    def settings(context: RunContext[Any]) -> ModelSettings:
        return {"tool_choice": ["weather"]} if context.run_step == 1 else {"tool_choice": "none"}

    agent = Agent(model, output_type=Review, capabilities=[Steps(settings)])

    @agent.tool_plain
    def weather(city: Literal["Paris", "Rome"]) -> str:
        """Return the weather."""
        cities.append(city)
        return f"sunny in {city}"

    result = agent.run_sync("Review the weather.", model_settings={"parallel_tool_calls": False})
    assert cities in (["Paris"], ["Rome"])
    assert isinstance(result.output, Review)
    assert result.usage.requests == 2


def test_rejected_output_is_asked_for_again(model: ProxyEngineModel) -> None:
    agent = Agent(model, output_type=Review, retries=2)
    seeds = iter(range(10))

    @agent.output_validator
    def check(output: Review) -> Review:
        if next(seeds) < 2:
            raise ModelRetry("Another one, please.")
        return output

    result = agent.run_sync("Review a film.")
    assert result.usage.requests == 3
    assert "Another one, please." in repr(result.all_messages())


def test_refused_request_falls_back_to_another_model(model: ProxyEngineModel) -> None:
    def answer(messages: list[ai.ModelMessage], info: Any) -> ai.ModelResponse:
        return ai.ModelResponse([ai.TextPart("from the other")])

    fallback = Agent(FallbackModel(model, FunctionModel(answer)))
    assert fallback.run_sync("x" * 5000).output == "from the other"


def test_cancelled_run_cancels_the_request(engine: InferenceEngine) -> None:
    model = ProxyEngineModel(engine, settings={"max_tokens": 4000, "temperature": 1.0, "seed": 0})

    async def main() -> None:
        task = asyncio.create_task(Agent(model, output_type=list[str]).run("Hello"))
        while not engine.running_requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while engine.running_requests:
            await asyncio.sleep(0.005)

    asyncio.run(main())


def test_cancelled_stream_is_interrupted(engine: InferenceEngine, model: ProxyEngineModel) -> None:
    messages: list[ai.ModelMessage] = [ai.ModelRequest.user_text_prompt("Hello")]

    async def main() -> ai.ModelResponse:
        settings: ModelSettings = {"max_tokens": 3000, "temperature": 1.0}
        parameters = ModelRequestParameters(
            output_mode="native",
            output_object=OutputObjectDefinition(json_schema={"type": "string", "minLength": 2000}),
        )
        async with model.request_stream(messages, settings, parameters) as stream:
            events = aiter(stream)
            await anext(events)
            await stream.cancel()
            async for _ in events:
                pass
            return stream.get()

    response = asyncio.run(main())
    assert response.state == "interrupted"
    assert response.text


def test_profile_describes_the_engine(engine: InferenceEngine) -> None:
    model = ProxyEngineModel(engine, profile={"default_structured_output_mode": "tool"})
    assert model.profile["default_structured_output_mode"] == "tool"
    assert model.context_window == engine.context_length
    changed = ProxyEngineModel(engine, profile=lambda own: {**own, "context_window": 7})
    assert changed.context_window == 7
    assert changed.profile["supports_json_schema_output"]
    assert changed.model_id == f"proxy-engine:{engine.model_name}"


class Letter(BaseModel):
    text: str = Field(min_length=200)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("output", "error"),
    [
        (Letter, OutputTokenLimitExceeded),
        (ToolOutput(Letter), IncompleteToolCall),
        (str, None),
    ],
)
async def test_output_that_a_limit_cut_short_is_an_error(
    engine: InferenceEngine, output: Any, error: Any, is_streamed: bool
) -> None:
    model = ProxyEngineModel(engine, settings={"max_tokens": 260, "temperature": 0.7, "seed": 3})
    agent = Agent(model, output_type=output, retries=0)

    async def run() -> Any:
        if not is_streamed:
            return (await agent.run("Write.")).output
        async with agent.run_stream("Write.") as stream:
            return await stream.get_output()

    if error is None:
        assert isinstance(await run(), str)
    else:
        with pytest.raises(error, match="cut"):
            await run()
