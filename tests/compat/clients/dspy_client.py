from typing import Literal

import dspy
from reporting import FAILING_PROMPT, KEY, MODEL, URL, check, raised, run, server_error


class Local(dspy.LM):
    """The model's abilities, which dspy knows of public models only."""

    supports_response_schema = True
    supports_function_calling = True
    supported_params = frozenset({"response_format", "tools", "tool_choice"})


def lm(name=MODEL, **arguments):
    given = {"max_tokens": 400, "cache": False, "num_retries": 0, "temperature": 0.5}
    return Local(f"openai/{name}", api_base=URL, api_key=KEY, **{**given, **arguments})


class Classify(dspy.Signature):
    """Classify the sentiment of a sentence."""

    sentence: str = dspy.InputField()
    sentiment: Literal["positive", "negative"] = dspy.OutputField()


class Call(dspy.Signature):
    """Call a tool."""

    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.OutputField()


def weather(city: str) -> str:
    """Return the current weather."""
    return "12 degrees"


@check("chat", "dspy.LM call")
def chat():
    assert lm(max_tokens=8)("Say hello.")[0]


@check("responses", "dspy.LM(model_type='responses') call")
def responses():
    assert lm(max_tokens=8, model_type="responses")("Say hello.")[0]


@check("completions", "dspy.LM(model_type='text') call")
def completions():
    assert lm(max_tokens=8, model_type="text")("Once upon")[0]


@check("structured output", "Predict with JSONAdapter")
def json_adapter():
    with dspy.context(lm=lm(), adapter=dspy.JSONAdapter()):
        answer = dspy.Predict(Classify)(sentence="It is great.")
    assert answer.sentiment in {"positive", "negative"}


@check("chain of thought", "ChainOfThought with JSONAdapter")
def chain():
    with dspy.context(lm=lm(), adapter=dspy.JSONAdapter()):
        assert dspy.ChainOfThought(Classify)(sentence="It is great.").reasoning is not None


@check("tools", "native function calling with tool_choice required")
def tools():
    adapter = dspy.JSONAdapter(use_native_function_calling=True)
    with dspy.context(lm=lm(tool_choice="required"), adapter=adapter):
        answer = dspy.Predict(Call)(question="Weather in Oslo?", tools=[dspy.Tool(weather)])
    assert answer.calls.tool_calls[0].name == "weather"


@check("async", "Predict.acall")
async def asynchronous():
    with dspy.context(lm=lm(), adapter=dspy.JSONAdapter()):
        answer = await dspy.Predict(Classify).acall(sentence="It is great.")
    assert answer.sentiment


@check("stream", "streamify")
async def stream():
    with dspy.context(lm=lm(), adapter=dspy.JSONAdapter()):
        predict = dspy.streamify(dspy.Predict(Classify))
        assert [piece async for piece in predict(sentence="It is great.")]


@check("usage", "get_lm_usage")
def usage():
    with dspy.context(lm=lm(), adapter=dspy.JSONAdapter(), track_usage=True):
        answer = dspy.Predict(Classify)(sentence="It is great.")
    assert answer.get_lm_usage()


@check("error: unknown model", "an error that names the model")
def unknown_model():
    assert "missing-model" in str(raised(Exception, lm("missing-model"), "Say hello."))


@check("error: failing answer", "an error")
def failing():
    server_error(lm(), FAILING_PROMPT)


run()
