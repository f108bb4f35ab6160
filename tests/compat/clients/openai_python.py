import re

import openai
from openai.types.chat import ChatCompletionMessageCustomToolCall
from pydantic import BaseModel, Field
from reporting import FAILING_PROMPT, KEY, MODEL, PERSON, URL, WEATHER, check, raised, run

client = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=120)
later = openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=120)
HELLO = [{"role": "user", "content": "Say hello."}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}
OTHER_TOOL = {"type": "function", "function": {"name": "other", "parameters": WEATHER}}
NUMBER = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[0-9]{3}"}}
CUSTOM_TOOL = {"type": "custom", "custom": {"name": "number", "format": NUMBER}}
LARK = {"type": "grammar", "syntax": "lark", "definition": "start: /[0-9]{3}/"}
RESPONSES_CUSTOM_TOOL = {"type": "custom", "name": "number", "format": LARK}
RESPONSES_TOOL = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}


class Person(BaseModel):
    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=130)


@check("chat", "chat.completions.create")
def chat():
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8)
    assert answer.choices[0].message.content
    assert answer.model == MODEL


@check("usage", "usage of chat.completions.create and of a stream with include_usage")
def usage():
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=HELLO,
            max_tokens=8,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[-1].usage.prompt_tokens > 0


@check("stream", "chat.completions.create(stream=True)")
def stream():
    chunks = list(
        client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8, stream=True)
    )
    assert any(chunk.choices[0].delta.content for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason


@check("stream helper", "chat.completions.stream")
def stream_helper():
    with client.chat.completions.stream(
        model=MODEL, messages=HELLO, max_tokens=200, response_format=Person
    ) as events:
        kinds = {event.type for event in events}
        final = events.get_final_completion()
    assert "content.delta" in kinds
    assert isinstance(final.choices[0].message.parsed, Person)


@check("async", "AsyncOpenAI, with and without stream")
async def asynchronous():
    answer = await later.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8)
    assert answer.choices[0].message.content
    events = await later.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=8, stream=True
    )
    assert [chunk async for chunk in events]


@check("structured output", "chat.completions.parse with a pydantic model")
def parse():
    answer = client.chat.completions.parse(
        model=MODEL, messages=HELLO, max_tokens=200, response_format=Person
    )
    assert isinstance(answer.choices[0].message.parsed, Person)


@check("tools", "tool_choice required, then a conversation with the tool's result")
def tools():
    first = client.chat.completions.create(
        model=MODEL, messages=HELLO, tools=[TOOL], tool_choice="required", max_tokens=200
    )
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}
        for call in message.tool_calls
    ]
    second = client.chat.completions.create(
        model=MODEL, messages=[*HELLO, message, *results], tools=[TOOL], max_tokens=200
    )
    assert second.choices[0].finish_reason in {"stop", "tool_calls", "length"}


@check("streamed tool calls", "chat.completions.stream with a required tool")
def tool_stream():
    with client.chat.completions.stream(
        model=MODEL, messages=HELLO, tools=[TOOL], tool_choice="required", max_tokens=200
    ) as events:
        final = events.get_final_completion()
    assert final.choices[0].message.tool_calls[0].function.name == "weather"


@check("custom tools", "chat.completions.create with a grammar, then the tool's result")
def custom_tools():
    first = client.chat.completions.create(
        model=MODEL,
        messages=HELLO,
        tools=[CUSTOM_TOOL, TOOL],
        tool_choice={"type": "custom", "custom": {"name": "number"}},
        max_tokens=200,
    )
    message = first.choices[0].message
    (call,) = message.tool_calls
    assert isinstance(call, ChatCompletionMessageCustomToolCall)
    assert re.fullmatch("[0-9]{3}", call.custom.input)
    result = {"role": "tool", "tool_call_id": call.id, "content": "It is even."}
    client.chat.completions.create(
        model=MODEL, messages=[*HELLO, message, result], tools=[CUSTOM_TOOL], max_tokens=20
    )


@check("allowed tools", "tool_choice allowed_tools, in chats and responses")
def allowed_tools():
    answer = client.chat.completions.create(
        model=MODEL,
        messages=HELLO,
        tools=[TOOL, OTHER_TOOL],
        tool_choice={
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "weather"}}],
            },
        },
        max_tokens=200,
    )
    assert {call.function.name for call in answer.choices[0].message.tool_calls} == {"weather"}
    response = client.responses.create(
        model=MODEL,
        input="Say hello.",
        tools=[RESPONSES_TOOL, RESPONSES_CUSTOM_TOOL],
        tool_choice={
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "custom", "name": "number"}],
        },
        max_output_tokens=200,
    )
    assert {item.type for item in response.output} == {"custom_tool_call"}


@check("logprobs", "logprobs=True, top_logprobs=2")
def logprobs():
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=3, logprobs=True, top_logprobs=2
    )
    assert len(answer.choices[0].logprobs.content[0].top_logprobs) == 2


@check("completions", "completions.create, with and without stream")
def completions():
    answer = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=4)
    assert answer.choices[0].text
    assert list(client.completions.create(model=MODEL, prompt="Once", max_tokens=4, stream=True))


@check("responses", "responses.create, with previous_response_id and stream")
def responses():
    first = client.responses.create(model=MODEL, input="Say hello.", max_output_tokens=8)
    assert first.output_text
    second = client.responses.create(
        model=MODEL, input="Again.", max_output_tokens=8, previous_response_id=first.id
    )
    assert second.previous_response_id == first.id
    kinds = [
        event.type
        for event in client.responses.create(
            model=MODEL, input="Say hello.", max_output_tokens=8, stream=True
        )
    ]
    assert kinds[0] == "response.created"
    assert kinds[-1] in {"response.completed", "response.incomplete"}


@check("structured responses", "responses.parse with a pydantic model")
def responses_parse():
    answer = client.responses.parse(
        model=MODEL, input="Invent a person.", text_format=Person, max_output_tokens=200
    )
    assert isinstance(answer.output_parsed, Person)


@check("tools of responses", "responses.create with a required tool and function_call_output")
def responses_tools():
    first = client.responses.create(
        model=MODEL,
        input="Weather?",
        tools=[RESPONSES_TOOL],
        tool_choice="required",
        max_output_tokens=200,
    )
    calls = [item for item in first.output if item.type == "function_call"]
    assert calls
    results = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees"}
        for call in calls
    ]
    client.responses.create(
        model=MODEL, input=results, previous_response_id=first.id, max_output_tokens=20
    )


@check("streamed custom tools", "responses.create with a grammar, custom_tool_call_input.delta")
def responses_custom_tools():
    events = list(
        client.responses.create(
            model=MODEL,
            input="Say hello.",
            tools=[RESPONSES_CUSTOM_TOOL],
            tool_choice={"type": "custom", "name": "number"},
            max_output_tokens=200,
            stream=True,
        )
    )
    deltas = [e.delta for e in events if e.type == "response.custom_tool_call_input.delta"]
    (done,) = [e.input for e in events if e.type == "response.custom_tool_call_input.done"]
    assert "".join(deltas) == done
    assert re.fullmatch("[0-9]{3}", done)
    response = events[-1].response
    (call,) = [item for item in response.output if item.type == "custom_tool_call"]
    assert call.input == done
    output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "It is even."}
    client.responses.create(
        model=MODEL, input=[output], previous_response_id=response.id, max_output_tokens=20
    )


@check("stored responses", "previous_response_id; responses.retrieve is refused")
def stored():
    first = client.responses.create(model=MODEL, input="Say hello.", max_output_tokens=8)
    client.responses.create(
        model=MODEL, input="Again.", previous_response_id=first.id, max_output_tokens=8
    )
    raised(openai.NotFoundError, client.responses.retrieve, first.id)


@check("models", "models.list and models.retrieve")
def models():
    assert MODEL in [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).id == MODEL


@check("extension fields", "extra_body with regex, top_k and an unknown field")
def extensions():
    answer = client.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=HELLO,
        max_tokens=20,
        extra_body={"regex": "[0-9]{3}", "top_k": 5, "mirostat": 2},
    )
    content = answer.parse().choices[0].message.content
    assert len(content) == 3
    assert content.isdigit()
    assert "mirostat" in answer.headers["x-ignored-fields"]


@check("error: unknown model", "openai.NotFoundError")
def unknown_model():
    create = client.chat.completions.create
    error = raised(openai.NotFoundError, create, model="missing-model", messages=HELLO)
    assert "missing-model" in str(error)


@check("error: invalid schema", "openai.BadRequestError")
def invalid_schema():
    schema = {"name": "n", "schema": {**PERSON, "minProperties": 9}}
    error = raised(
        openai.BadRequestError,
        client.chat.completions.create,
        model=MODEL,
        messages=HELLO,
        response_format={"type": "json_schema", "json_schema": schema},
    )
    assert error.code


@check("error: failing stream", "iteration raises openai.APIError")
def failing_stream():
    def read():
        list(
            client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": FAILING_PROMPT}], stream=True
            )
        )

    assert "internal server error" in raised(openai.APIError, read).message


@check("error: failing stream of a response", "response.failed, or openai.APIError")
def failing_response():
    events = []
    try:
        for event in client.responses.create(model=MODEL, input=FAILING_PROMPT, stream=True):
            events.append(event.type)
    except openai.APIError as error:
        assert "internal server error" in error.message
        return
    assert events[-1] == "response.failed"


@check("error: failing answer", "openai.InternalServerError")
def failing_answer():
    raised(
        openai.InternalServerError,
        client.chat.completions.create,
        model=MODEL,
        messages=[{"role": "user", "content": FAILING_PROMPT}],
    )


@check("error: embeddings", "embeddings are not offered: openai.NotFoundError")
def embeddings():
    raised(openai.NotFoundError, client.embeddings.create, model=MODEL, input="x")


run()
