import gc
import time

import agents
import anthropic
import instructor
import openai
from agents import Agent as AgentsAgent
from agents import ModelSettings, Runner, function_tool
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from reporting import WEATHER, check, run
from smolagents import ChatMessage, MessageRole, OpenAIModel

from proxy_engine import InferenceEngine
from proxy_engine.integrations.openai import EngineTransport, async_http_client, http_client

agents.set_tracing_disabled(True)
engine = InferenceEngine(on_progress=None)
client, later = engine.openai(), engine.async_openai()
HELLO = [{"role": "user", "content": "Ada is 36 years old."}]
REQUEST = {"model": "engine", "messages": HELLO, "max_tokens": 200}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=130)


@check("openai", "create, stream and parse of engine.openai()")
def clients():
    assert client.chat.completions.create(**REQUEST).choices[0].message.content
    assert list(client.chat.completions.create(stream=True, **REQUEST))
    parsed = client.chat.completions.parse(response_format=Person, **REQUEST)
    assert isinstance(parsed.choices[0].message.parsed, Person)
    assert client.responses.create(input="Hello", max_output_tokens=9).output_text


@check("openai, tools", "tool_choice required, engine.openai()")
def tools():
    answer = client.chat.completions.create(tools=[TOOL], tool_choice="required", **REQUEST)
    assert answer.choices[0].finish_reason == "tool_calls"


@check("openai, event loop", "create and stream of engine.async_openai()")
async def event_loop():
    assert (await later.chat.completions.create(**REQUEST)).choices
    stream = await later.chat.completions.create(stream=True, **REQUEST)
    assert [chunk async for chunk in stream]


@check("openai, cancellation", "close() of a stream, and a stream that is dropped")
def cancellation():
    for closes in (True, False):
        stream = client.chat.completions.create(
            stream=True, extra_body={"ignore_eos": True}, **{**REQUEST, "max_tokens": 900}
        )
        next(stream)
        assert engine.running_requests == 1
        if closes:
            stream.close()
        del stream
        gc.collect()
        end = time.monotonic() + 10
        while engine.running_requests and time.monotonic() < end:
            time.sleep(0.01)
        assert not engine.running_requests


@check("openai, errors", "openai.BadRequestError")
def errors():
    schema = {"name": "n", "schema": {"type": "string", "enum": []}}
    form = {"type": "json_schema", "json_schema": schema}
    try:
        client.chat.completions.create(response_format=form, **REQUEST)
    except openai.BadRequestError:
        return
    raise AssertionError("no error was raised")


@check("instructor", "from_openai(engine.openai()), Mode.TOOLS and Mode.JSON_SCHEMA")
def with_instructor():
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        create = instructor.from_openai(client, mode=mode).chat.completions.create
        assert isinstance(create(response_model=Person, max_retries=0, **REQUEST), Person)
    partial = instructor.from_openai(client).chat.completions.create_partial
    assert list(partial(response_model=Person, **REQUEST))


@check("instructor, event loop", "from_openai(engine.async_openai())")
async def with_async_instructor():
    create = instructor.from_openai(later).chat.completions.create
    assert isinstance(await create(response_model=Person, max_retries=0, **REQUEST), Person)


@check("anthropic", "messages.create and messages.stream with EngineTransport(engine)")
def with_anthropic():
    connection = anthropic.DefaultHttpxClient(transport=EngineTransport(engine))
    messages = anthropic.Anthropic(
        base_url="http://engine", api_key="none", http_client=connection
    ).messages
    request = {"model": "engine", "max_tokens": 20, "messages": HELLO}
    assert messages.create(**request).content
    with messages.stream(**request) as stream:
        assert list(stream.text_stream)


def add_agents(kind):
    def agent(**arguments):
        settings = {"max_tokens": 300, "temperature": 0, **arguments.pop("settings", {})}
        model = kind("engine", later)
        return AgentsAgent(
            "helper", model=model, model_settings=ModelSettings(**settings), **arguments
        )

    @check("openai-agents", f"Runner.run, run_streamed, output_type, {kind.__name__}")
    async def answers():
        assert (await Runner.run(agent(), "Say hello.")).final_output
        streamed = Runner.run_streamed(agent(), "Say hello.")
        assert [event async for event in streamed.stream_events()]
        result = await Runner.run(agent(output_type=Person), "Ada is 36 years old.")
        assert isinstance(result.final_output, Person)

    @check("openai-agents, tools", f"function_tool with tool_choice required, {kind.__name__}")
    async def loop():
        called = []

        @function_tool
        def weather(city: str) -> str:
            """Return the current weather."""
            called.append(city)
            return "12 degrees"

        given = agent(tools=[weather], settings={"tool_choice": "required", "max_tokens": 200})
        await Runner.run(given, "Weather?", max_turns=4)
        assert called


for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
    add_agents(kind)


def chat_openai(**arguments):
    return ChatOpenAI(
        model="engine",
        base_url="http://engine/v1",
        api_key="none",
        http_client=http_client(engine),
        http_async_client=async_http_client(engine),
        **{"max_tokens": 200, **arguments},
    )


@check("ChatOpenAI", "invoke, stream, bind_tools, with_structured_output")
def with_langchain():
    @langchain_tool
    def weather(city: str) -> str:
        """Return the current weather."""
        return "12 degrees"

    model = chat_openai()
    assert model.invoke("Hello").content
    assert list(model.stream("Hello"))
    assert model.bind_tools([weather], tool_choice="required").invoke("Weather?").tool_calls
    for method in ("json_schema", "function_calling"):
        structured = model.with_structured_output(Person, method=method)
        assert isinstance(structured.invoke("Ada is 36."), Person)


@check("ChatOpenAI, event loop", "ainvoke, astream, use_responses_api")
async def with_async_langchain():
    for is_responses in (False, True):
        model = chat_openai(use_responses_api=is_responses, max_tokens=20)
        assert (await model.ainvoke("Hello")).text
        assert [chunk async for chunk in model.astream("Hello")]


@check("OpenAIChatModel", "run with NativeOutput's profile, tool output, run_stream; pydantic-ai")
async def with_pydantic_ai():
    provider = OpenAIProvider(openai_client=later)
    settings = {"max_tokens": 200, "temperature": 0}
    model = OpenAIChatModel("engine", provider=provider, settings=settings)
    result = await Agent(model, output_type=Person).run("Ada is 36 years old.")
    assert isinstance(result.output, Person)
    async with Agent(model).run_stream("Say hello.") as streamed:
        assert [text async for text in streamed.stream_text()]


@check("OpenAIModel", "generate and generate_stream with create_client; smolagents")
def with_smolagents():
    class Model(OpenAIModel):
        def create_client(self):
            return client

    model = Model("engine", max_tokens=60)
    messages = [ChatMessage(MessageRole.USER, [{"type": "text", "text": "Hello"}])]
    assert model.generate(messages).content
    assert list(model.generate_stream(messages))


run()
