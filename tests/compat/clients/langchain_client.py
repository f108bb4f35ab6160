from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import APIError, NotFoundError
from pydantic import BaseModel, Field
from reporting import FAILING_PROMPT, KEY, MODEL, URL, check, raised, run


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=130)


@tool
def weather(city: str) -> str:
    """Return the current weather."""
    return "12 degrees"


def model(is_responses=False, **arguments):
    given = {"model": MODEL, "max_tokens": 300, "max_retries": 0}
    return ChatOpenAI(
        base_url=URL, api_key=KEY, use_responses_api=is_responses, **{**given, **arguments}
    )


def add(name, is_responses):
    @check("chat", f"invoke, {name}")
    def chat():
        answer = model(is_responses, max_tokens=8).invoke("Say hello.")
        assert answer.text
        assert answer.usage_metadata["output_tokens"] > 0

    @check("stream", f"stream, {name}")
    def stream():
        pieces = list(model(is_responses, max_tokens=8, stream_usage=True).stream("Say hello."))
        assert any(piece.text for piece in pieces)
        assert any(piece.usage_metadata for piece in pieces)

    @check("async", f"ainvoke and astream, {name}")
    async def asynchronous():
        short = model(is_responses, max_tokens=8)
        assert (await short.ainvoke("Say hello.")).text
        assert [piece async for piece in short.astream("Say hello.")]

    for method in ("json_schema", "function_calling", "json_mode"):
        add_structured(name, is_responses, method)

    @check("tool loop", f"bind_tools(tool_choice='required'), then the tool's result, {name}")
    def tools():
        question = HumanMessage("What is the weather in Oslo?")
        first = model(is_responses).bind_tools([weather], tool_choice="required").invoke([question])
        assert first.tool_calls
        results = [ToolMessage("12 degrees", tool_call_id=call["id"]) for call in first.tool_calls]
        assert model(is_responses, max_tokens=20).invoke([question, first, *results]) is not None


def add_structured(name, is_responses, method):
    @check("structured output", f"with_structured_output(method={method!r}), {name}")
    def structured():
        kind = None if method == "json_mode" else Person
        prompt = "Give a JSON object with name and age."
        parser = model(is_responses).with_structured_output(
            kind or Person.model_json_schema(), method=method
        )
        answer = parser.invoke(prompt)
        assert isinstance(answer, dict if kind is None else Person)


add("chat completions", False)
add("responses", True)


@check("error: unknown model", "openai.NotFoundError")
def unknown_model():
    raised(NotFoundError, model(model="missing-model").invoke, "Say hello.")


@check("error: failing stream", "iteration raises openai.APIError")
def failing_stream():
    error = raised(APIError, lambda: list(model().stream(FAILING_PROMPT)))
    assert "internal server error" in str(error)


run()
