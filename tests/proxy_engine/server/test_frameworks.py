"""Unmodified frameworks as clients of the server."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from langchain_openai import ChatOpenAI
from live_server import Live
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Review(BaseModel):
    """A review of a film."""

    stars: Literal[1, 2, 3]
    title: str = Field(max_length=12)


def test_pydantic_ai_gets_a_typed_result(live: Live) -> None:
    provider = OpenAIProvider(base_url=f"{live.url}/v1", api_key="none")
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        model = kind("SmolLM2-135M-Instruct", provider=provider)
        settings: Any = {"max_tokens": 300, "temperature": 0.5, "seed": 1}
        # Its own way is a tool that takes the answer; the other is a response format.
        for output_type in (Review, NativeOutput(Review)):
            agent = Agent(model, output_type=output_type, model_settings=settings)
            output = asyncio.run(agent.run("Review a film.")).output
            assert isinstance(output, Review)


def test_pydantic_ai_streams_a_result(live: Live) -> None:
    provider = OpenAIProvider(base_url=f"{live.url}/v1", api_key="none")
    model = OpenAIChatModel("SmolLM2-135M-Instruct", provider=provider)

    async def main() -> str:
        agent = Agent(model, model_settings={"max_tokens": 20})
        async with agent.run_stream("Hello") as result:
            text = ""
            async for delta in result.stream_text(delta=True):
                text += delta
            return text

    assert isinstance(asyncio.run(main()), str)


def test_langchain_calls_tools_and_parses(live: Live) -> None:
    for is_responses in (False, True):
        model = ChatOpenAI(
            base_url=f"{live.url}/v1",
            api_key="none",
            model="SmolLM2-135M-Instruct",
            max_tokens=300,
            use_responses_api=is_responses,
        )
        for method in ("json_schema", "function_calling"):
            structured = model.with_structured_output(Review, method=method)
            assert isinstance(structured.invoke("Review a film."), Review)
        short = model.bind(max_tokens=8)
        pieces = list(short.stream("Hello"))
        assert pieces
        whole = pieces[0]
        for piece in pieces[1:]:
            whole += piece
        assert whole.usage_metadata is None or whole.usage_metadata["output_tokens"] > 0
        calls = model.bind_tools([Review], tool_choice="required").invoke("Review").tool_calls
        assert calls
        assert {call["name"] for call in calls} == {"Review"}
