"""``ChatProxyEngine`` beyond LangChain's standard suites."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import openai
import pytest
from chat_templates import with_chat_template
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from mlx_lm.tokenizer_utils import TokenizerWrapper
from pydantic import BaseModel, Field
from scripted_answers import ScriptedModel
from tiny_models import make_tiny_model

from proxy_engine import InferenceEngine
from proxy_engine.integrations.langchain import ChatProxyEngine


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=4)
    tags: list[Annotated[str, Field(max_length=4)]] = Field(max_length=1)


@tool
def weather(city: str) -> str:
    """Give the weather of a city."""
    return f"Sunny in {city}"


def call(name: str, **arguments: Any) -> str:
    """A call as the tiny model's tool format writes it."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


Scripted = Callable[[dict[int, str]], Any]


@pytest.fixture
def model(roomy_engine: InferenceEngine) -> ChatProxyEngine:
    return ChatProxyEngine(roomy_engine, max_tokens=12, extra_body={"min_tokens": 4})


@pytest.fixture
def scripted(tiny_tokenizer: TokenizerWrapper) -> Scripted:
    @contextmanager
    def load(answers: dict[int, str]) -> Iterator[InferenceEngine]:
        with InferenceEngine(ScriptedModel(tiny_tokenizer, answers), tiny_tokenizer) as engine:
            yield engine

    return load


def merged(chunks: Iterator[AIMessageChunk]) -> AIMessageChunk:
    first, *rest = chunks
    return first + rest if rest else first  # type: ignore[return-value]


def test_answer_has_usage_and_stream_adds_up_to_it(model: ChatProxyEngine) -> None:
    whole = model.invoke("A text that is not cached")
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["output_tokens"] == 12
    streamed = merged(model.stream("A text that is not cached"))  # type: ignore[arg-type]
    assert streamed.content == whole.content
    usage = streamed.usage_metadata
    assert usage is not None
    assert usage["output_tokens"] == 12
    assert usage["input_token_details"]["cache_read"] == usage["input_tokens"] - 1


def test_reasoning_is_a_content_block_and_counted(scripted: Scripted) -> None:
    with scripted({1: "<think>Hm, well.</think>Hi."}) as engine:
        model = ChatProxyEngine(engine, max_tokens=600, reasoning_effort="low")
        whole, streamed = model.invoke("Hello"), merged(model.stream("Hello"))  # type: ignore[arg-type]
    for message in (whole, streamed):
        assert message.content == "Hi."
        assert [block["type"] for block in message.content_blocks] == ["reasoning", "text"]
        assert message.content_blocks[0]["reasoning"] == "Hm, well."
        assert message.usage_metadata is not None
        details = message.usage_metadata["output_token_details"]
        assert 0 < details["reasoning"] < message.usage_metadata["output_tokens"]


def test_reasoning_of_earlier_answers_is_sent_back(tiny_tokenizer: TokenizerWrapper) -> None:
    template = (
        "{% for m in messages %}{{ m.role }} {{ m.reasoning_content }} {{ m.content }}{% endfor %}"
    )
    thought = {"type": "reasoning", "reasoning": "Hm, well."}
    answers = (
        AIMessage("A"),
        AIMessage("A", additional_kwargs={"reasoning_content": "Hm, well."}),
        AIMessage(content_blocks=[thought, {"type": "text", "text": "A"}]),  # type: ignore[list-item]
    )
    tokenizer = with_chat_template(tiny_tokenizer, template)
    with InferenceEngine(make_tiny_model(), tokenizer) as engine:
        model = ChatProxyEngine(engine, max_tokens=1)
        usages = [
            model.invoke([HumanMessage("Hello"), answer, HumanMessage("And?")]).usage_metadata
            for answer in answers
        ]
    without, *with_reasoning = (usage["input_tokens"] for usage in usages if usage is not None)
    assert with_reasoning == [without + len("Hm, well.")] * 2


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output_of_every_method_matches_its_schema(
    roomy_engine: InferenceEngine, method: Any
) -> None:
    model = ChatProxyEngine(roomy_engine, max_tokens=130, stop=["a"])
    for schema, kind in ((Person, Person), (Person.model_json_schema(), dict)):
        structured = model.with_structured_output(schema, method=method)
        value = structured.invoke("Hello")
        assert isinstance(value, kind)
        assert list(structured.stream("Hello"))[-1] == value


def test_options_of_the_engine_are_in_the_extra_body(roomy_engine: InferenceEngine) -> None:
    model = ChatProxyEngine(roomy_engine, max_tokens=9, extra_body={"regex": "[0-9]{3}"})
    assert str(model.invoke("Hello").content).isdigit()
    with pytest.raises(openai.APIStatusError, match="min_p"):
        model.invoke("Hello", extra_body={"min_p": 7})


def test_tokens_are_counted_by_the_tokenizer_of_the_model(
    model: ChatProxyEngine, roomy_engine: InferenceEngine
) -> None:
    assert model.get_num_tokens("abc abc") == len(roomy_engine.tokenizer.encode("abc abc"))


def test_calls_of_a_batch_share_forward_passes(tiny_tokenizer: TokenizerWrapper) -> None:
    script = ScriptedModel(tiny_tokenizer, {1: "words " * 25})
    with InferenceEngine(script, tiny_tokenizer) as engine:
        model = ChatProxyEngine(engine, max_tokens=300, extra_body={"speculation": "off"})
        prompts: list[Any] = ["a", "b", "c", "d"]
        assert [one.content for one in model.batch(prompts)] == ["words " * 25] * 4
        assert script.largest_batch > 1
        script.largest_batch = 0
        assert len(asyncio.run(model.abatch(prompts))) == 4
        assert script.largest_batch > 1


class Report(BaseModel):
    """The final report."""

    city: str
    is_sunny: bool


def test_agent_calls_tools_and_ends_with_a_structured_response(scripted: Scripted) -> None:
    report = json.dumps({"city": "Bonn", "is_sunny": True})
    with scripted({2: call("weather", city="Bonn"), 4: report}) as engine:
        model = ChatProxyEngine(engine, max_tokens=600)
        agent: Any = create_agent(model, [weather], response_format=Report)
        state = agent.invoke({"messages": [HumanMessage("What is the weather in Bonn?")]})
    assert state["structured_response"] == Report(city="Bonn", is_sunny=True)
    kinds = [type(message).__name__ for message in state["messages"]]
    assert kinds == ["HumanMessage", "AIMessage", "ToolMessage", "AIMessage"]
    assert state["messages"][2].content == "Sunny in Bonn"


@pytest.mark.parametrize("allowed", [None, True])
def test_agent_repeats_a_call_that_has_a_result_only_if_it_may(
    scripted: Scripted, allowed: bool | None
) -> None:
    times: list[str] = []

    @tool
    def now() -> str:
        """Return the time."""
        times.append("12:30")
        return times[-1]

    answers = {2: call("now"), 4: call("now"), 6: "It is noon."}
    with scripted(answers) as engine:
        body = {} if allowed is None else {"allow_repeated_calls": allowed}
        model = ChatProxyEngine(engine, max_tokens=80, extra_body=body)
        create_agent(model, [now]).invoke({"messages": [HumanMessage("What time is it?")]})  # type: ignore[arg-type]
    assert len(times) == (2 if allowed else 1)


def test_call_that_a_limit_cut_short_is_invalid(roomy_engine: InferenceEngine) -> None:
    @tool
    def note(text: str) -> str:
        """Write a note."""
        raise AssertionError(text)

    model = ChatProxyEngine(roomy_engine, max_tokens=60, temperature=1.0, seed=2)
    bound = model.bind_tools([note], tool_choice="any")
    for message in (bound.invoke("Hello"), merged(bound.stream("Hello"))):  # type: ignore[arg-type]
        assert message.response_metadata["finish_reason"] == "length"
        assert message.tool_calls == []
        (invalid,) = message.invalid_tool_calls
        assert invalid["name"] == "note"
