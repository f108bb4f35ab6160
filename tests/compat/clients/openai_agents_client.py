from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from reporting import FAILING_PROMPT, KEY, MODEL, URL, check, raised, run, server_error

set_tracing_disabled(True)
KINDS = (OpenAIChatCompletionsModel, OpenAIResponsesModel)


class Person(BaseModel):
    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=130)


# An answer that reaches its limit is an error to this client.
def agent(kind, limit=300, name=MODEL, settings=None, **arguments):
    client = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)
    settings = ModelSettings(max_tokens=limit, temperature=0, **(settings or {}))
    return Agent("helper", model=kind(name, client), model_settings=settings, **arguments)


def add(kind):
    label = kind.__name__

    @check("chat", f"Runner.run, {label}")
    async def chat():
        assert (await Runner.run(agent(kind), "Say hello.")).final_output

    @check("stream", f"Runner.run_streamed, {label}")
    async def stream():
        result = Runner.run_streamed(agent(kind), "Say hello.")
        assert [event async for event in result.stream_events()]

    @check("structured output", f"output_type, {label}")
    async def structured():
        result = await Runner.run(agent(kind, output_type=Person), "Ada is 36 years old.")
        assert isinstance(result.final_output, Person)

    @check("tool loop", f"function_tool with tool_choice required, {label}")
    async def tools():
        called = []

        @function_tool
        def weather(city: str) -> str:
            """Return the current weather."""
            called.append(city)
            return "12 degrees"

        # A second request with the tool would repeat the call, or write text until the limit.
        given = agent(
            kind,
            200,
            tools=[weather],
            settings={"tool_choice": "required"},
            tool_use_behavior="stop_on_first_tool",
        )
        result = await Runner.run(given, "Weather?")
        assert called
        after = await Runner.run(agent(kind, output_type=Person), result.to_input_list())
        assert isinstance(after.final_output, Person)

    @check("error: unknown model", f"an error that names the model, {label}")
    def unknown_model():
        error = raised(Exception, Runner.run, agent(kind, name="missing-model"), "Say hello.")
        assert "missing-model" in str(error)

    @check("error: failing stream", f"an error of stream_events, {label}")
    def failing_stream():
        async def read():
            result = Runner.run_streamed(agent(kind, 50), FAILING_PROMPT)
            async for _ in result.stream_events():
                pass

        server_error(read)


for kind in KINDS:
    add(kind)
run()
