from typing import Literal

import anthropic
from pydantic import BaseModel
from reporting import FAILING_PROMPT, KEY, MODEL, SERVER, WEATHER, check, raised, run

client = anthropic.Anthropic(base_url=SERVER, api_key=KEY, max_retries=0, timeout=120)
later = anthropic.AsyncAnthropic(base_url=SERVER, api_key=KEY, max_retries=0, timeout=120)
HELLO = [{"role": "user", "content": "Say hello."}]
GIVEN = {"model": MODEL, "messages": HELLO, "max_tokens": 20}
TOOL = {"name": "weather", "description": "Tell the weather.", "input_schema": WEATHER}
CALLING = {**GIVEN, "max_tokens": 100, "tools": [TOOL], "tool_choice": {"type": "any"}}


class Answer(BaseModel):
    word: Literal["yes", "no"]


@check("chat", "messages.create")
def chat():
    message = client.messages.create(**GIVEN, system="Be brief.")
    assert message.content[0].text
    assert message.usage.output_tokens > 0


@check("stream", "messages.create(stream=True)")
def stream():
    kinds = [event.type for event in client.messages.create(**GIVEN, stream=True)]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


@check("stream helper", "messages.stream")
def stream_helper():
    with client.messages.stream(**GIVEN) as events:
        text = "".join(events.text_stream)
        assert events.get_final_message().content[0].text == text


@check("async", "AsyncAnthropic, with and without stream")
async def asynchronous():
    assert (await later.messages.create(**GIVEN)).content
    async with later.messages.stream(**GIVEN) as events:
        assert await events.get_final_text()


@check("structured output", "messages.parse with a pydantic model")
def structured():
    assert isinstance(client.messages.parse(**GIVEN, output_format=Answer).parsed_output, Answer)


@check("tools", "tool_choice any, then a conversation with the tool's result")
def tools():
    message = client.messages.create(**CALLING)
    calls = [block for block in message.content if block.type == "tool_use"]
    assert all(call.input["city"] in ("Oslo", "Lima") for call in calls)
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "Rain"} for call in calls]
    turns = [
        *HELLO,
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": results},
    ]
    assert client.messages.create(**{**GIVEN, "messages": turns}).content


@check("streamed tool calls", "messages.stream with a required tool")
def streamed_tools():
    with client.messages.stream(**CALLING) as events:
        assert any(event.type == "input_json" for event in events)
        assert events.get_final_message().stop_reason == "tool_use"


@check("token counting", "messages.count_tokens")
def count():
    counted = client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens
    usage = client.messages.create(**GIVEN).usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


@check("models", "models.list")
def models():
    assert MODEL in [model.id for model in client.models.list().data]


@check("error: unknown model", "anthropic.NotFoundError")
def unknown_model():
    raised(anthropic.NotFoundError, client.messages.create, **{**GIVEN, "model": "none"})


@check("error: invalid schema", "anthropic.BadRequestError")
def invalid_schema():
    output = {"format": {"type": "json_schema", "schema": {"type": "text"}}}
    raised(anthropic.BadRequestError, client.messages.create, **GIVEN, output_config=output)


@check("error: failing stream", "iteration raises anthropic.APIStatusError")
def failing():
    turns = [{"role": "user", "content": FAILING_PROMPT}]
    events = client.messages.create(**{**GIVEN, "messages": turns}, stream=True)
    raised(anthropic.APIStatusError, list, events)


run()
