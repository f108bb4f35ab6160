import litellm
from pydantic import BaseModel, Field
from reporting import FAILING_PROMPT, KEY, MODEL, URL, WEATHER, check, raised, run, server_error

litellm.suppress_debug_info = True
GIVEN = {"api_base": URL, "api_key": KEY, "num_retries": 0, "max_retries": 0}
HELLO = [{"role": "user", "content": "Say hello."}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}
NAMES = {
    "openai": f"openai/{MODEL}",
    "hosted_vllm": f"hosted_vllm/{MODEL}",
    "lm_studio": f"lm_studio/{MODEL}",
}


class Person(BaseModel):
    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=130)


def complete(name="openai", messages=HELLO, **arguments):
    return litellm.completion(
        model=NAMES.get(name, name), messages=messages, **{**GIVEN, "max_tokens": 8, **arguments}
    )


def add(name):
    @check("chat", f"completion, provider {name}")
    def chat():
        answer = complete(name)
        assert answer.choices[0].message.content
        assert answer.usage.total_tokens > 0

    @check("structured output", f"response_format=pydantic model, provider {name}")
    def structured():
        answer = complete(name, response_format=Person, max_tokens=200)
        Person.model_validate_json(answer.choices[0].message.content)

    @check("tools", f"tool_choice required, then the tool's result, provider {name}")
    def tools():
        first = complete(name, tools=[TOOL], tool_choice="required", max_tokens=200)
        message = first.choices[0].message
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}
            for call in message.tool_calls
        ]
        complete(name, messages=[*HELLO, message, *results], tools=[TOOL])


for name in NAMES:
    add(name)


@check("stream", "completion(stream=True), with usage")
def stream():
    chunks = list(complete(stream=True, stream_options={"include_usage": True}))
    assert any(chunk.choices and chunk.choices[0].delta.content for chunk in chunks)
    assert litellm.stream_chunk_builder(chunks).choices[0].message.content


@check("async", "acompletion")
async def asynchronous():
    answer = await litellm.acompletion(model=NAMES["openai"], messages=HELLO, max_tokens=8, **GIVEN)
    assert answer.choices[0].message.content


@check("completions", "text_completion")
def completions():
    answer = litellm.text_completion(
        model=f"text-completion-openai/{MODEL}", prompt="Once", max_tokens=4, **GIVEN
    )
    assert answer.choices[0].text


@check("responses", "litellm.responses")
def responses():
    answer = litellm.responses(
        model=NAMES["openai"], input="Say hello.", max_output_tokens=8, api_base=URL, api_key=KEY
    )
    assert answer.output


@check("error: unknown model", "litellm.NotFoundError")
def unknown_model():
    raised(litellm.NotFoundError, complete, "openai/missing-model")


@check("error: failing stream", "iteration raises an error")
def failing_stream():
    messages = [{"role": "user", "content": FAILING_PROMPT}]
    server_error(lambda: list(complete(messages=messages, stream=True, max_tokens=50)))


run()
