import json

import ollama
from reporting import FAILING_PROMPT, MODEL, PERSON, SERVER, WEATHER, check, raised, run

client = ollama.Client(SERVER)
later = ollama.AsyncClient(SERVER)
HELLO = [{"role": "user", "content": "Say hello."}]
SHORT = {"num_predict": 20}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}


@check("chat", "chat")
def chat():
    answer = client.chat(MODEL, HELLO, options=SHORT)
    assert answer.message.content
    assert answer.eval_count > 0


@check("stream", "chat(stream=True)")
def stream():
    lines = list(client.chat(MODEL, HELLO, options=SHORT, stream=True))
    assert any(line.message.content for line in lines)
    assert lines[-1].done


@check("text", "generate, with and without stream")
def text():
    assert client.generate(MODEL, "Say hello.", options=SHORT).response
    assert list(client.generate(MODEL, "Say hello.", options=SHORT, stream=True))[-1].done


@check("async", "AsyncClient.chat")
async def asynchronous():
    assert (await later.chat(MODEL, HELLO, options=SHORT)).message.content


@check("structured output", "chat and generate with a JSON Schema as format")
def structured():
    options = {"num_predict": 80}
    answer = client.chat(MODEL, HELLO, format=PERSON, options=options)
    other = client.generate(MODEL, "Say hello.", format=PERSON, options=options)
    for content in (answer.message.content, other.response):
        assert isinstance(json.loads(content)["age"], int)


@check("tools", "chat with tools, then with a tool's result")
def tools():
    call = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    turns = [
        *HELLO,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_name": "weather", "content": "Rain"},
    ]
    assert client.chat(MODEL, turns, tools=[TOOL], options=SHORT).message


@check("models", "list")
def models():
    assert MODEL in [model.model for model in client.list().models]


@check("error: unknown model", "ollama.ResponseError")
def unknown_model():
    raised(ollama.ResponseError, client.chat, "none", HELLO)


@check("error: failing stream", "iteration raises ollama.ResponseError")
def failing():
    turns = [{"role": "user", "content": FAILING_PROMPT}]
    raised(ollama.ResponseError, list, client.chat(MODEL, turns, stream=True))


run()
