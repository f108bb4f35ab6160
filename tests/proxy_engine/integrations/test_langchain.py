"""``ChatProxyEngine`` beyond LangChain's standard suites."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import tool
from mlx_lm.tokenizer_utils import TokenizerWrapper
from PIL import Image
from pydantic import BaseModel, Field, field_validator
from scripted_answers import ScriptedModel
from vision_models import vision_checkpoint

from proxy_engine import (
    InferenceEngine,
    InvalidOptionError,
    InvalidResponseFormatError,
    MediaError,
    PartOptions,
)
from proxy_engine.integrations.langchain import ChatProxyEngine
from proxy_engine.integrations.langchain_messages import to_engine_messages
from proxy_engine.integrations.langchain_schemas import to_openai_tool, to_response_format

BRIEF: Any = {
    "max_tokens": 130,
    "parts": {part: PartOptions(max_tokens=4) for part in ("structured", "tool_call")},
}


class Address(BaseModel):
    city: str = Field(max_length=4)


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=4)
    addresses: list[Address] = Field(max_length=1)


class Movie(TypedDict):
    """A film."""

    title: Annotated[str, ..., "The title."]
    tags: dict[str, int]


class Even(BaseModel):
    """A number that its schema does not describe completely."""

    number: int = Field(ge=1, le=1)

    @field_validator("number")
    @classmethod
    def _check(cls, number: int) -> int:
        if number % 2:
            raise ValueError("is odd")
        return number


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
    return ChatProxyEngine(roomy_engine, max_tokens=12, min_tokens=4)


@pytest.fixture
def scripted(tiny_tokenizer: TokenizerWrapper) -> Scripted:
    @contextmanager
    def load(answers: dict[int, str]) -> Iterator[ChatProxyEngine]:
        with InferenceEngine(ScriptedModel(tiny_tokenizer, answers), tiny_tokenizer) as engine:
            yield ChatProxyEngine(engine, max_tokens=600)

    return load


def merged(chunks: Iterator[AIMessageChunk]) -> AIMessageChunk:
    first, *rest = chunks
    return first + rest if rest else first  # type: ignore[return-value]


# Answers


def test_answer_has_usage_and_metadata(model: ChatProxyEngine) -> None:
    message = model.invoke("A text that is not cached")
    assert message.usage_metadata is not None
    assert message.usage_metadata["output_tokens"] == 12
    assert message.response_metadata["finish_reason"] == "length"
    assert message.response_metadata["model_name"] == model.model_name
    again = model.invoke("A text that is not cached").usage_metadata
    assert again is not None
    assert again["input_token_details"]["cache_read"] == again["input_tokens"] - 1


def test_stream_adds_up_to_the_answer(model: ChatProxyEngine) -> None:
    whole = model.invoke("Hello")
    streamed = merged(model.stream("Hello"))
    assert streamed.content == whole.content
    assert streamed.usage_metadata is not None
    assert whole.usage_metadata is not None
    assert streamed.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]
    assert streamed.response_metadata == whole.response_metadata


def test_streamed_tool_calls_add_up_to_the_calls(model: ChatProxyEngine) -> None:
    bound = model.bind_tools([weather], tool_choice="any", max_tokens=120)
    whole, streamed = bound.invoke("Hello"), merged(bound.stream("Hello"))  # type: ignore[arg-type]
    assert [made["args"] for made in streamed.tool_calls] == [
        made["args"] for made in whole.tool_calls
    ]
    assert {made["name"] for made in streamed.tool_calls} == {"weather"}
    assert all(made["id"] for made in streamed.tool_calls)


@pytest.mark.parametrize("is_nested", [False, True])
def test_custom_tools_are_called_with_their_input(
    model: ChatProxyEngine, *, is_nested: bool
) -> None:
    grammar = {"syntax": "regex", "definition": "[0-9]{3}"}
    form = {"type": "grammar", **({"grammar": grammar} if is_nested else grammar)}
    definition = {"name": "dial", "format": form}
    custom = {"type": "custom", **({"custom": definition} if is_nested else definition)}
    bound = model.bind_tools([weather, custom], tool_choice="dial", max_tokens=120)
    whole, streamed = bound.invoke("Hello"), merged(bound.stream("Hello"))  # type: ignore[arg-type]
    for message in (whole, streamed):
        (made,) = message.tool_calls
        assert made["name"] == "dial"
        assert re.fullmatch("[0-9]{3}", made["args"]["input"])


def test_reasoning_is_a_content_block_and_counted(scripted: Scripted) -> None:
    with scripted({1: "<think>Hm, well.</think>Hi."}) as model:
        whole = model.invoke("Hello", reasoning=True)
        streamed = merged(model.stream("Hello", reasoning=True))
        blocks = ChatProxyEngine(model.engine, reasoning=True, output_version="v1")
        standard = blocks.invoke("Hello")
    for message in (whole, streamed):
        assert message.content == "Hi."
        assert [block["type"] for block in message.content_blocks] == ["reasoning", "text"]
        assert message.content_blocks[0]["reasoning"] == "Hm, well."
        details = message.usage_metadata["output_token_details"]
        # A token is a character here. Both markers belong to the reasoning.
        assert details["reasoning"] == len("<think>Hm, well.</think>")
    assert standard.content[0] == {"type": "reasoning", "reasoning": "Hm, well."}


def test_log_probabilities_have_the_form_of_openai(model: ChatProxyEngine) -> None:
    content = model.invoke("Hello", logprobs=2).response_metadata["logprobs"]["content"]
    assert len(content) == 12
    assert content[0].keys() == {"token", "logprob", "bytes", "top_logprobs"}
    assert len(content[0]["top_logprobs"]) == 2


def test_several_answers_are_generations(roomy_engine: InferenceEngine) -> None:
    model = ChatProxyEngine(roomy_engine, n=3, temperature=1.0, seed=1, max_tokens=4)
    (generations,) = model.generate([[HumanMessage("Hello")]]).generations
    assert len(generations) == 3


# Requests


def test_stop_ends_the_answer(scripted: Scripted) -> None:
    with scripted({1: "One. Two. Three."}) as model:
        assert model.invoke("Count", stop=["Two"]).content == "One. "
        assert model.bind(stop=["Three"]).invoke("Count").content == "One. Two. "
        assert ChatProxyEngine(model.engine, stop=["."]).invoke("Count").content == "One"


def test_stop_of_the_model_leaves_structured_output_alone(roomy_engine: InferenceEngine) -> None:
    model = ChatProxyEngine(roomy_engine, stop=["a"], **BRIEF)
    assert isinstance(model.with_structured_output(Person).invoke("Hello"), Person)
    assert model.bind_tools([weather], tool_choice="any").invoke("Hello").tool_calls
    with pytest.raises(InvalidOptionError, match="stop strings end free text"):
        model.with_structured_output(Person).invoke("Hello", stop=["a"])


def test_unknown_and_invalid_options_are_refused(model: ChatProxyEngine) -> None:
    with pytest.raises(InvalidOptionError, match="temprature"):
        ChatProxyEngine(model.engine, temprature=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidOptionError, match="temperature"):
        ChatProxyEngine(model.engine, temperature=-1)
    with pytest.raises(InvalidOptionError, match="model"):
        model.invoke("Hello", model="another")


def test_options_are_configurable_fields(model: ChatProxyEngine) -> None:
    configurable = model.configurable_fields(max_tokens=ConfigurableField(id="limit"))
    message = configurable.invoke("Hello", config={"configurable": {"limit": 5}})
    assert message.usage_metadata is not None
    assert message.usage_metadata["output_tokens"] == 5


def test_answers_are_cached_by_all_options(roomy_engine: InferenceEngine) -> None:
    model = ChatProxyEngine(roomy_engine, max_tokens=6, cache=InMemoryCache())
    first = model.invoke("Hello")
    assert model.invoke("Hello").content == first.content
    assert model.bind(max_tokens=2).invoke("Hello").content != first.content
    other = ChatProxyEngine(roomy_engine, max_tokens=2, cache=model.cache)
    assert other.invoke("Hello").content != first.content


def test_conversation_keeps_reasoning_calls_and_results() -> None:
    made = {"name": "weather", "args": {"city": "Bonn"}, "id": "1", "type": "tool_call"}
    thought = {"type": "reasoning", "reasoning": "Hm."}
    written = to_engine_messages(
        [
            SystemMessage("Be brief."),
            AIMessage("A", additional_kwargs={"reasoning_content": "Hm."}),
            AIMessage(content_blocks=[thought, {"type": "text", "text": "B"}, made]),  # type: ignore[list-item]
            ToolMessage("Sunny", tool_call_id="1"),
        ]
    )
    assert [message["role"] for message in written] == ["system", "assistant", "assistant", "tool"]
    assert [message.get("reasoning_content") for message in written] == [None, "Hm.", "Hm.", None]
    assert [message["content"] for message in written] == ["Be brief.", "A", "B", "Sunny"]
    (function,) = [one["function"] for one in written[2]["tool_calls"]]
    assert (function["name"], json.loads(function["arguments"])) == ("weather", {"city": "Bonn"})


def test_images_reach_a_model_that_reads_them(
    model: ChatProxyEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = io.BytesIO()
    Image.new("RGB", (32, 32), "red").save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    question = [
        HumanMessage(
            content_blocks=[
                {"type": "text", "text": "What?"},
                {"type": "image", "base64": data, "mime_type": "image/png"},
            ]
        )
    ]
    with pytest.raises(MediaError):
        model.invoke(question)
    assert model.profile is not None
    assert model.profile["image_inputs"] is False
    path = vision_checkpoint("qwen2_vl", tmp_path_factory.mktemp("vision") / "qwen2_vl")
    with InferenceEngine(path, on_progress=None) as engine:
        reader = ChatProxyEngine(engine, max_tokens=4)
        assert reader.profile is not None
        assert reader.profile["image_inputs"] is True
        with_image, without = (reader.invoke(prompt) for prompt in (question, "What?"))
    assert with_image.usage_metadata is not None
    assert without.usage_metadata is not None
    # The image is more than its two markers.
    assert with_image.usage_metadata["input_tokens"] > without.usage_metadata["input_tokens"] + 2


def test_tokens_are_counted_by_the_tokenizer_of_the_model(model: ChatProxyEngine) -> None:
    assert model.get_num_tokens("abc abc") == len(model.engine.tokenizer.encode("abc abc"))


# Tools and structured output


@pytest.mark.parametrize(
    ("tool_choice", "bound"),
    [
        (None, None),
        (False, None),
        (True, "required"),
        ("any", "required"),
        ("required", "required"),
        ("auto", "auto"),
        ("none", "none"),
        ("weather", {"type": "function", "function": {"name": "weather"}}),
        ({"type": "any"}, "required"),
        (
            {"type": "tool", "name": "weather"},
            {"type": "function", "function": {"name": "weather"}},
        ),
        ({"type": "function", "function": {"name": "weather"}},) * 2,
    ],
)
def test_tool_choice_has_all_of_langchains_spellings(
    model: ChatProxyEngine, tool_choice: Any, bound: Any
) -> None:
    runnable: Any = model.bind_tools([weather], tool_choice=tool_choice)
    assert runnable.kwargs.get("tool_choice") == bound


def test_tool_choice_of_a_call_is_read_as_well(model: ChatProxyEngine) -> None:
    bound = model.bind_tools([weather], max_tokens=120)
    assert bound.invoke("Hello", tool_choice="any").tool_calls
    assert not bound.invoke("Hello", tool_choice="none").tool_calls


def test_objects_of_python_types_are_closed_and_those_of_dicts_are_not() -> None:
    person = to_openai_tool(Person)["function"]
    assert person["description"] == "A person."
    assert person["parameters"]["additionalProperties"] is False
    assert person["parameters"]["$defs"]["Address"]["additionalProperties"] is False
    assert to_openai_tool(weather)["function"]["parameters"]["additionalProperties"] is False
    movie = to_openai_tool(Movie)["function"]["parameters"]
    assert movie["additionalProperties"] is False
    # A dict of any keys stays one.
    assert movie["properties"]["tags"]["additionalProperties"] == {"type": "integer"}
    schema = {"title": "A", "type": "object", "properties": {"a": {"type": "object"}}}
    assert to_response_format(schema)["json_schema"]["schema"] == schema
    strict = to_response_format(schema, strict=True)["json_schema"]["schema"]
    assert strict == {**schema, "additionalProperties": False}


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output_of_every_method_matches_its_schema(
    model: ChatProxyEngine, method: Any
) -> None:
    for schema, kind in ((Person, Person), (Movie, dict), (Person.model_json_schema(), dict)):
        structured = model.with_structured_output(schema, method=method, **BRIEF)
        value = structured.invoke("Hello")
        assert isinstance(value, kind)
        assert list(structured.stream("Hello"))[-1] == value


def test_raw_answer_is_returned_beside_the_parsed_one_or_its_error(model: ChatProxyEngine) -> None:
    valid = model.with_structured_output(Person, include_raw=True, **BRIEF).invoke("Hello")
    assert isinstance(valid["raw"], AIMessage)
    assert isinstance(valid["parsed"], Person)
    assert valid["parsing_error"] is None
    rejected = model.with_structured_output(Even, include_raw=True, **BRIEF).invoke("Hello")
    assert json.loads(rejected["raw"].content) == {"number": 1}
    assert rejected["parsed"] is None
    assert isinstance(rejected["parsing_error"], OutputParserException)
    with pytest.raises(OutputParserException, match="is odd"):
        model.with_structured_output(Even, **BRIEF).invoke("Hello")


def test_json_mode_without_a_schema_gives_any_object(scripted: Scripted) -> None:
    with scripted({1: '{"a": [1, 2]}'}) as model:
        assert model.with_structured_output(method="json_mode").invoke("x") == {"a": [1, 2]}
        with pytest.raises(InvalidOptionError):
            model.with_structured_output()
        with pytest.raises(InvalidOptionError):
            model.with_structured_output(Person, method="prompting")
        with pytest.raises(InvalidResponseFormatError):
            model.with_structured_output(3)


# Concurrency


def test_calls_of_a_batch_share_forward_passes(tiny_tokenizer: TokenizerWrapper) -> None:
    script = ScriptedModel(tiny_tokenizer, {1: "words " * 25})
    with InferenceEngine(script, tiny_tokenizer) as engine:
        model = ChatProxyEngine(engine, speculation="off")
        prompts = ["a", "b", "c", "d"]
        assert [one.content for one in model.batch(prompts)] == ["words " * 25] * 4
        assert script.largest_batch > 1
        script.largest_batch = 0
        assert len(asyncio.run(model.abatch(prompts))) == 4
        assert script.largest_batch > 1


def test_closed_stream_cancels_its_request(engine: InferenceEngine) -> None:
    stream = ChatProxyEngine(engine, max_tokens=400).stream("Hello")
    next(stream)
    assert engine.running_requests == 1
    stream.close()  # type: ignore[attr-defined]
    # Requests run in order, so this one ends after the other.
    engine.generate("Hello", max_tokens=1)
    assert engine.running_requests == 0


@pytest.mark.parametrize("streams", [False, True])
async def test_cancelled_task_cancels_its_request(engine: InferenceEngine, streams: bool) -> None:
    model = ChatProxyEngine(engine, max_tokens=400)

    async def read() -> None:
        if streams:
            async for _ in model.astream("Hello"):
                pass
        else:
            await model.ainvoke("Hello")

    task = asyncio.create_task(read())
    while not engine.running_requests:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await engine.agenerate("Hello", max_tokens=1)
    assert engine.running_requests == 0


class Tokens(BaseCallbackHandler):
    """Collects the tokens of callbacks."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []

    def on_llm_new_token(self, token: Any, **_: Any) -> None:
        self.tokens.append(token)


def test_callbacks_receive_each_token_once(model: ChatProxyEngine) -> None:
    streaming = ChatProxyEngine(model.engine, max_tokens=12, min_tokens=4, streaming=True)
    handler = Tokens()
    message = streaming.invoke("Hello", config={"callbacks": [handler]})
    assert "".join(handler.tokens) == message.content
    handler = Tokens()
    streamed = merged(model.stream("Hello", config={"callbacks": [handler]}))
    assert "".join(handler.tokens) == streamed.content == message.content


# LangChain's agents


class Report(BaseModel):
    """The final report."""

    city: str
    is_sunny: bool


def test_agent_calls_tools_and_ends_with_a_structured_response(scripted: Scripted) -> None:
    report = json.dumps({"city": "Bonn", "is_sunny": True})
    with scripted({2: call("weather", city="Bonn"), 4: report}) as model:
        agent = create_agent(model, [weather], response_format=Report)
        state = agent.invoke({"messages": [HumanMessage("What is the weather in Bonn?")]})
    assert state["structured_response"] == Report(city="Bonn", is_sunny=True)
    kinds = [type(message).__name__ for message in state["messages"]]
    assert kinds == ["HumanMessage", "AIMessage", "ToolMessage", "AIMessage"]
    assert state["messages"][2].content == "Sunny in Bonn"
