from dataclasses import dataclass

from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from reporting import FAILING_PROMPT, KEY, MODEL, URL, check, raised, run, server_error

PROVIDER = OpenAIProvider(base_url=URL, api_key=KEY)
MODELS = {"OpenAIChatModel": OpenAIChatModel, "OpenAIResponsesModel": OpenAIResponsesModel}


class Person(BaseModel):
    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=130)


class Loose(BaseModel):
    name: str | int | None = None


@dataclass
class Steps(AbstractCapability):
    """Settings of each step."""

    settings: object

    def get_model_settings(self):
        return self.settings


def agent(kind, name=MODEL, limit=300, **arguments):
    model = MODELS[kind](name, provider=PROVIDER)
    return Agent(model, model_settings={"max_tokens": limit}, retries=0, **arguments)


def add(kind):
    @check("chat", f"Agent.run, {kind}")
    async def chat():
        result = await agent(kind, limit=8).run("Say hello.")
        assert result.output

    @check("usage", f"result.usage, {kind}")
    async def usage():
        result = await agent(kind, limit=8).run("Say hello.")
        assert result.usage.output_tokens > 0

    @check("stream", f"Agent.run_stream, {kind}")
    async def stream():
        async with agent(kind, limit=8).run_stream("Say hello.") as result:
            assert [piece async for piece in result.stream_text(delta=True)]

    for output in (ToolOutput, NativeOutput):
        add_output(kind, output, Person, "structured output")
    # This one sends no schema, so a small model gives any object.
    add_output(kind, PromptedOutput, Loose, "JSON object")

    @check("streamed structured output", f"run_stream with NativeOutput, {kind}")
    async def structured_stream():
        async with agent(kind, output_type=NativeOutput(Person)).run_stream("Ada is 36.") as result:
            assert isinstance(await result.get_output(), Person)

    @check("tool loop", f"a tool, then an answer by an output tool, {kind}")
    async def tool_loop():
        called = []

        def settings(context):
            names = ["weather"] if context.run_step == 1 else ["final_result"]
            return {"max_tokens": 300, "tool_choice": names}

        looping = agent(kind, output_type=ToolOutput(Person), capabilities=[Steps(settings)])

        @looping.tool_plain
        def weather(city: str) -> str:
            """Return the current weather."""
            called.append(city)
            return "12 degrees"

        assert isinstance((await looping.run("Ada is 36 years old.")).output, Person)
        assert called

    @check("conversation", f"message_history, {kind}")
    async def history():
        first = await agent(kind, limit=8).run("Say hello.")
        messages = first.all_messages()
        assert (await agent(kind, limit=8).run("Again.", message_history=messages)).output

    @check("error: unknown model", f"ModelHTTPError with status 404, {kind}")
    def unknown_model():
        error = raised(ModelHTTPError, agent(kind, "missing-model").run, "Say hello.")
        assert error.status_code == 404

    @check("error: failing stream", f"an error of run_stream, {kind}")
    def failing_stream():
        async def read():
            async with agent(kind).run_stream(FAILING_PROMPT) as result:
                await result.get_output()

        server_error(read)


def add_output(kind, output, expected, feature):
    @check(feature, f"{output.__name__}, {kind}")
    async def structured():
        result = await agent(kind, output_type=output(expected)).run("Ada is 36 years old.")
        assert isinstance(result.output, expected)


for kind in MODELS:
    add(kind)
run()
