"""The engine's methods for event loops, and what results become."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Literal

import pydantic
import pytest

from proxy_engine import (
    EngineClosedError,
    InferenceEngine,
    Interaction,
    InvalidOptionError,
    MaxTokensTooSmallError,
)
from proxy_engine.results.streams import AsyncStream

YES = {"const": "yes"}


@dataclass
class Find:
    word: str


class Strict(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def _refuse(cls, number: int) -> int:
        raise ValueError(f"not {number}")


def find(word: str, limit: int = 3) -> str:
    return word * limit


def test_async_context_manager_closes_the_engine(tiny_model: Any, tiny_tokenizer: Any) -> None:
    async def use() -> InferenceEngine:
        async with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
            await engine.agenerate("x", response_format=YES)
        return engine

    with pytest.raises(EngineClosedError):
        asyncio.run(use()).generate("x")


def test_results_become_messages(tiny_engine: InferenceEngine) -> None:
    result = tiny_engine.generate("x", response_format=YES)
    assert result.to_message() == {"role": "assistant", "content": '"yes"'}
    result = tiny_engine.generate("x", tools=[find], tool_choice="required", max_tool_calls=1)
    message = result.to_message()
    (call,) = message["tool_calls"]
    assert message["content"] is None
    (read,) = Interaction.from_dict(message).tool_calls
    assert (read.id, read.arguments) == (call["id"], result.tool_calls[0].arguments)
    answer = {"role": "tool", "content": "done", "tool_call_id": call["id"]}
    tiny_engine.generate([{"role": "user", "content": "x"}, message, answer])


def test_tool_calls_carry_parsed_arguments(tiny_engine: InferenceEngine) -> None:
    arguments: dict[str, Any] = {"tool_choice": "required", "max_tool_calls": 1, "max_tokens": 300}
    (call,) = tiny_engine.generate("x", tools=[Find], **arguments).tool_calls
    assert call.parsed == Find(call.arguments["word"])
    (call,) = tiny_engine.generate("x", tools=[find], **arguments).tool_calls
    assert call.parsed == {"limit": 3} | call.arguments
    schema = {"type": "function", "function": {"name": "f"}}
    (call,) = tiny_engine.generate("x", tools=[schema], **arguments).tool_calls
    assert call.parsed is None
    (call,) = tiny_engine.generate("x", tools=[Strict], **arguments).tool_calls
    assert call.parsed is None


def test_tool_is_not_run_if_the_answer_behind_it_cannot_fit(roomy_engine: InferenceEngine) -> None:
    runs: list[str] = []

    def pay() -> None:
        runs.append("paid")

    options: Any = {"response_format": Literal["a" * 300], "max_tokens": 100}
    with pytest.raises(MaxTokensTooSmallError):
        roomy_engine.run_tools("x", [pay], **options)
    with pytest.raises(MaxTokensTooSmallError):
        asyncio.run(roomy_engine.arun_tools("x", [pay], **options))
    assert not runs
    assert roomy_engine.run_tools("x", [], max_tokens=3).rounds == 0


async def _awaited(stream: AsyncStream[Any]) -> AsyncIterator[Any]:
    async for item in await stream:
        yield item


async def _entered(stream: AsyncStream[Any]) -> AsyncIterator[Any]:
    async with stream as entered:
        assert entered is stream
        async for item in entered:
            yield item


async def _awaited_and_entered(stream: AsyncStream[Any]) -> AsyncIterator[Any]:
    async with await stream as entered:
        async for item in entered:
            yield item


Read = Callable[[AsyncStream[Any]], AsyncIterator[Any]]
WAYS = [aiter, _awaited, _entered, _awaited_and_entered]


@pytest.mark.parametrize("read", WAYS)
async def test_async_stream_is_read_with_and_without_await(
    tiny_engine: InferenceEngine, read: Read
) -> None:
    *_, finished = [event async for event in read(tiny_engine.astream("x", YES))]
    assert finished.result.parsed == "yes"
    items = [item async for item in read(tiny_engine.aiter_batch(["x", "y"], YES))]
    assert [item.result.parsed for item in items] == ["yes", "yes"]


@pytest.mark.parametrize("read", WAYS)
async def test_async_stream_raises_the_errors_of_its_request(
    tiny_engine: InferenceEngine, read: Read
) -> None:
    with pytest.raises(InvalidOptionError):
        async for _ in read(tiny_engine.astream("x", temperature=-1)):
            pass


async def test_async_stream_ends_after_an_error(tiny_engine: InferenceEngine) -> None:
    stream = tiny_engine.astream("x", temperature=-1)
    with pytest.raises(InvalidOptionError):
        await stream
    with pytest.raises(RuntimeError, match="no more events"):
        await stream.result()


async def test_async_stream_that_is_never_read_warns_of_nothing(
    tiny_engine: InferenceEngine,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny_engine.astream("x")
        closed = tiny_engine.astream("x")
        await closed.aclose()
        assert [event async for event in closed] == []


async def test_tasks_that_await_one_async_stream_prepare_it_once(
    tiny_engine: InferenceEngine,
) -> None:
    stream = tiny_engine.astream("x", YES)
    first, second = await asyncio.gather(stream, stream)
    assert first is second is stream
    assert (await stream.result()).parsed == "yes"
