"""smolagents' agents on the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from scripted_answers import ScriptedModel
from smolagents import ChatMessage, CodeAgent, MessageRole, Tool, ToolCallingAgent, tool
from smolagents.models import CODEAGENT_RESPONSE_FORMAT, agglomerate_stream_deltas

from proxy_engine import InferenceEngine
from proxy_engine.integrations.smolagents import ProxyEngineModel

HELLO = [ChatMessage(MessageRole.USER, [{"type": "text", "text": "Hello"}])]
ANSWER = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": {"enum": ["yes", "no"]}},
}


@tool
def weather(city: str) -> str:
    """Give the weather of a city.

    Args:
        city: The city.
    """
    return f"Sunny in {city}"


class Everything(Tool):  # type: ignore[misc]
    """A tool with an input of each kind."""

    name = "everything"
    description = "Takes everything."
    inputs: Mapping[str, Any] = {
        "picture": {"type": "image", "description": "A picture."},
        "anything": {"type": "any", "description": "Anything."},
        "size": {"type": "integer", "description": "A size.", "nullable": True},
        "mode": {
            "type": "string",
            "description": "A mode.",
            "enum": ["a", "b"],
            "nullable": True,
        },
    }
    output_type = "string"

    def forward(
        self, picture: Any, anything: Any, size: int | None = None, mode: str | None = None
    ) -> str:
        return ""


def call(name: str, **arguments: Any) -> str:
    """A call as the tiny model's tool format writes it."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


@pytest.fixture
def model(roomy_engine: InferenceEngine) -> ProxyEngineModel:
    return ProxyEngineModel(roomy_engine, max_tokens=100)


@pytest.fixture
def scripted(
    tiny_tokenizer: TokenizerWrapper, request: pytest.FixtureRequest
) -> Iterator[ProxyEngineModel]:
    """A model with the answers of the test's parameter, by the number of messages before them."""
    with InferenceEngine(ScriptedModel(tiny_tokenizer, request.param), tiny_tokenizer) as engine:
        yield ProxyEngineModel(engine, max_tokens=300)


@pytest.mark.parametrize("scripted", [{1: "Hi there. Observation: none"}], indirect=True)
def test_answer_ends_before_a_stop_sequence(scripted: ProxyEngineModel) -> None:
    message = scripted.generate(HELLO, stop_sequences=["Observation:"])
    assert message.content == "Hi there. "
    assert message.role == MessageRole.ASSISTANT
    assert not message.tool_calls


def test_tools_force_a_call_in_spite_of_stop_sequences(model: ProxyEngineModel) -> None:
    message = model.generate(HELLO, stop_sequences=["Observation:"], tools_to_call_from=[weather])
    assert message.content is None
    for made in message.tool_calls:
        assert made.function.name == "weather"
        assert json.loads(made.function.arguments).keys() == {"city"}


def test_response_format_is_exact_in_spite_of_stop_sequences(model: ProxyEngineModel) -> None:
    message = model.generate(HELLO, stop_sequences=["e"], response_format=ANSWER)
    assert json.loads(message.content) in ("yes", "no")
    code = model.generate(HELLO, response_format=CODEAGENT_RESPONSE_FORMAT)
    assert json.loads(code.content).keys() == {"thought", "code"}


@pytest.mark.parametrize("tools", [None, [weather]])
def test_stream_adds_up_to_the_answer(model: ProxyEngineModel, tools: list[Tool] | None) -> None:
    whole = model.generate(HELLO, tools_to_call_from=tools)
    streamed = agglomerate_stream_deltas(
        list(model.generate_stream(HELLO, tools_to_call_from=tools))
    )
    assert streamed.content == (whole.content or "")
    assert streamed.token_usage.output_tokens == whole.token_usage.output_tokens
    calls = [[one.function for one in made.tool_calls or []] for made in (whole, streamed)]
    assert [(one.name, json.loads(one.arguments)) for one in calls[0]] == [
        (one.name, json.loads(one.arguments)) for one in calls[1]
    ]


def test_options_of_the_model_override_those_of_a_call(roomy_engine: InferenceEngine) -> None:
    model = ProxyEngineModel(roomy_engine, max_tokens=3)
    assert model.generate(HELLO, max_tokens=9).token_usage.output_tokens == 3


def test_schema_of_a_tool_permits_what_smolagents_accepts(model: ProxyEngineModel) -> None:
    message = model.generate(HELLO, tools_to_call_from=[Everything()], parallel_tool_calls=False)
    assert message.tool_calls
    prepared = model._prepare_completion_kwargs(HELLO, tools_to_call_from=[Everything()])
    parameters = prepared["tools"][0]["function"]["parameters"]
    properties = parameters["properties"]
    assert properties["picture"]["type"] == "string"
    assert properties["anything"]["type"] == "string"
    assert properties["size"] == {"type": ["integer", "null"], "description": "A size."}
    assert properties["mode"]["enum"] == ["a", "b", None]
    assert parameters["required"] == ["picture", "anything"]
    # A copy: the tool's own inputs are unchanged.
    assert Everything.inputs["size"]["nullable"] is True


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "scripted",
    [{2: call("weather", city="Paris"), 4: call("final_answer", answer="It is sunny.")}],
    indirect=True,
)
def test_tool_calling_agent_runs_tools_until_the_final_answer(
    scripted: ProxyEngineModel, stream: bool
) -> None:
    agent = ToolCallingAgent(
        tools=[weather], model=scripted, stream_outputs=stream, verbosity_level=0
    )
    assert agent.run("What is the weather in Paris?") == "It is sunny."
    first, second = agent.memory.steps[1:]
    assert first.observations == "Sunny in Paris"
    assert first.token_usage.output_tokens > 0
    assert second.is_final_answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("scripted", "is_structured"),
    [
        ({2: "Thought: add.\n<code>\nfinal_answer(1 + 2)\n</code> and more"}, False),
        ({2: json.dumps({"thought": "add", "code": "final_answer(1 + 2)"})}, True),
    ],
    indirect=["scripted"],
)
def test_code_agent_runs_the_code_of_an_answer(
    scripted: ProxyEngineModel, is_structured: bool, stream: bool
) -> None:
    agent = CodeAgent(
        tools=[],
        model=scripted,
        stream_outputs=stream,
        use_structured_outputs_internally=is_structured,
        verbosity_level=0,
    )
    assert agent.run("What is 1 + 2?") == 3
