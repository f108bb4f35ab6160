from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from openai import APIError, NotFoundError
from pydantic import BaseModel, Field
from reporting import FAILING_PROMPT, KEY, MODEL, URL, check, raised, run


class Person(BaseModel):
    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=130)


def llm(**arguments):
    given = {
        "model": MODEL,
        "api_base": URL,
        "api_key": KEY,
        "is_chat_model": True,
        "is_function_calling_model": True,
        "context_window": 8192,
        "max_tokens": 8,
        "max_retries": 0,
    }
    return OpenAILike(**{**given, **arguments})


def weather(city: str) -> str:
    """Return the current weather."""
    return "12 degrees"


HELLO = [ChatMessage(role="user", content="Say hello.")]


@check("chat", "OpenAILike.chat")
def chat():
    assert llm().chat(HELLO).message.content


@check("usage", "raw.usage of OpenAILike.chat")
def usage():
    assert llm().chat(HELLO).raw.usage.total_tokens > 0


@check("stream", "OpenAILike.stream_chat")
def stream():
    assert "".join(piece.delta or "" for piece in llm().stream_chat(HELLO))


@check("async", "achat and astream_chat")
async def asynchronous():
    assert (await llm().achat(HELLO)).message.content
    assert [piece async for piece in await llm().astream_chat(HELLO)]


@check("completions", "OpenAILike(is_chat_model=False).complete")
def complete():
    assert llm(is_chat_model=False).complete("Once upon").text


@check("structured output", "as_structured_llm by response_format")
def structured():
    given = llm(max_tokens=200, should_use_structured_outputs=True)
    assert isinstance(given.as_structured_llm(Person).chat(HELLO).raw, Person)


@check("structured output", "as_structured_llm by a tool")
def structured_by_tool():
    assert isinstance(llm(max_tokens=200).as_structured_llm(Person).chat(HELLO).raw, Person)


@check("tool loop", "chat_with_tools(tool_required=True), then the tool's result")
def tools():
    model = llm(max_tokens=200)
    tool = FunctionTool.from_defaults(weather)
    first = model.chat_with_tools([tool], user_msg="Weather?", tool_required=True)
    calls = model.get_tool_calls_from_response(first)
    assert calls[0].tool_name == "weather"
    results = [
        ChatMessage(
            role="tool", content="12 degrees", additional_kwargs={"tool_call_id": call.tool_id}
        )
        for call in calls
    ]
    history = [*HELLO, first.message, *results]
    assert model.chat_with_tools([tool], chat_history=history).message


@check("error: unknown model", "openai.NotFoundError")
def unknown_model():
    raised(NotFoundError, llm(model="missing-model").chat, HELLO)


@check("error: failing stream", "iteration raises openai.APIError")
def failing_stream():
    messages = [ChatMessage(role="user", content=FAILING_PROMPT)]
    error = raised(APIError, lambda: list(llm(max_tokens=50).stream_chat(messages)))
    assert "internal server error" in str(error)


run()
