import json

from reporting import FAILING_PROMPT, KEY, MODEL, PERSON, URL, check, raised, run, server_error
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import ChatMessage, MessageRole

HELLO = [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": "Say hello."}])]


def model(name=MODEL, **arguments):
    given = {"max_tokens": 8, "client_kwargs": {"max_retries": 0}, "retry": False}
    return OpenAIModel(model_id=name, api_base=URL, api_key=KEY, **{**given, **arguments})


@tool
def weather(city: str) -> str:
    """Return the current weather.

    Args:
        city: The name of the city.
    """
    return "12 degrees"


@check("chat", "OpenAIModel.generate")
def chat():
    answer = model().generate(HELLO)
    assert answer.content
    assert answer.token_usage.output_tokens > 0


@check("stream", "OpenAIModel.generate_stream")
def stream():
    assert "".join(piece.content or "" for piece in model().generate_stream(HELLO))


@check("stop", "OpenAIModel.generate with stop_sequences")
def stop():
    assert model().generate(HELLO, stop_sequences=["zzz"]).content


@check("structured output", "OpenAIModel.generate with response_format")
def structured():
    schema = {"name": "person", "schema": PERSON, "strict": True}
    answer = model(max_tokens=200).generate(
        HELLO, response_format={"type": "json_schema", "json_schema": schema}
    )
    assert json.loads(answer.content)["age"] <= 130


@check("tools", "OpenAIModel.generate with tools_to_call_from")
def tools():
    answer = model(max_tokens=200).generate(HELLO, tools_to_call_from=[weather])
    assert answer.tool_calls[0].function.name == "weather"


@check("tool loop", "ToolCallingAgent.run, two steps")
def tool_loop():
    agent = ToolCallingAgent([weather], model(max_tokens=200), max_steps=2, verbosity_level=0)
    assert agent.run("What is the weather in Oslo?") is not None


@check("code agent", "CodeAgent.run with structured outputs, one step")
def code_agent():
    agent = CodeAgent(
        [weather],
        model(max_tokens=300),
        max_steps=1,
        verbosity_level=0,
        use_structured_outputs_internally=True,
    )
    agent.run("What is the weather in Oslo?")


@check("error: unknown model", "an error that names the model")
def unknown_model():
    assert "missing-model" in str(raised(Exception, model("missing-model").generate, HELLO))


@check("error: failing stream", "iteration raises an error")
def failing_stream():
    messages = [ChatMessage(role=MessageRole.USER, content=FAILING_PROMPT)]
    server_error(lambda: list(model(max_tokens=50).generate_stream(messages)))


run()
