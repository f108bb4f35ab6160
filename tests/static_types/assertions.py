"""Static types of the public API. Checked by type checkers; never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, assert_type

import msgspec
from annotated_types import Gt
from pydantic import BaseModel, TypeAdapter

from proxy_engine import (
    AsyncBatchStream,
    AsyncEventStream,
    BatchRequest,
    BatchStream,
    Choice,
    EventStream,
    ExtractedRecord,
    ExtractionResults,
    ExtractionStream,
    GenerationOptions,
    GenerationResult,
    InferenceEngine,
    PartOptions,
    Regex,
    SpeculationOptions,
    ToolRun,
)
from state_machines import RegexStateMachine


class Person(BaseModel):
    name: str


@dataclass
class Weather:
    city: str


class Visit(msgspec.Struct, tag=True):
    city: str


class Call(msgspec.Struct, tag=True):
    number: str


SCHEMA: dict[str, Any] = {"type": "object"}


def formats(engine: InferenceEngine) -> None:
    assert_type(engine.generate("x", response_format=Person).parsed, Person)
    assert_type(engine.generate("x", response_format=Weather).parsed, Weather)
    assert_type(engine.generate("x", response_format=list[Person]).parsed, list[Person])
    assert_type(engine.generate("x", response_format=int | str).parsed, int | str)
    assert_type(engine.generate("x", response_format=Annotated[int, Gt(0)]).parsed, int)
    assert_type(
        engine.generate("x", response_format=Literal["yes", "no"]).parsed, Literal["yes", "no"]
    )
    assert_type(engine.generate("x", response_format=Visit).parsed, Visit)
    assert_type(engine.generate("x", response_format=Visit | Call).parsed, Visit | Call)
    adapter = TypeAdapter(list[Person])
    assert_type(engine.generate("x", response_format=adapter).parsed, list[Person])
    assert_type(engine.generate("x", response_format=SCHEMA), GenerationResult[Any])
    assert_type(engine.generate("x", response_format=RegexStateMachine("a")), GenerationResult[Any])
    assert_type(engine.generate("x", response_format=Regex("a")), GenerationResult[str])
    assert_type(engine.stream("x", Choice(["a", "b"])), EventStream[str])
    assert_type(engine.generate("x"), GenerationResult[Any])
    assert_type(engine.generate("x", Person).parsed, Person)
    assert_type(engine.generate("x", SCHEMA, max_tokens=9), GenerationResult[Any])


def tools(engine: InferenceEngine) -> None:
    with_tools = engine.generate("x", response_format=Person, tools=[Weather], temperature=0.5)
    assert_type(with_tools.parsed, Person | None)
    assert_type(
        engine.generate("x", tools=[Weather], tool_choice="required"), GenerationResult[Any]
    )
    run = engine.run_tools("x", [Weather], response_format=Person, max_tokens=30)
    assert_type(run, ToolRun[GenerationResult[Person | None]])
    assert_type(run.result.parsed, Person | None)


def streams(engine: InferenceEngine) -> None:
    adapter = TypeAdapter(list[Person])
    assert_type(engine.stream("x", response_format=Person), EventStream[Person])
    assert_type(engine.stream("x", response_format=Person, tools=[]), EventStream[Person])
    # A cancelled answer has no value.
    assert_type(engine.stream("x", Person).result().parsed, Person | None)
    assert_type(engine.stream("x", response_format=int | None), EventStream[int | None])
    assert_type(engine.stream("x", adapter), EventStream[list[Person]])
    assert_type(engine.stream("x", SCHEMA), EventStream[Any])
    assert_type(engine.stream("x", RegexStateMachine("a"), seed=1), EventStream[Any])
    assert_type(engine.stream("x"), EventStream[Any])
    engine.stream("x", 5)  # type: ignore[call-overload]  # pyright: ignore


def formats_of_several_kinds(
    engine: InferenceEngine, unknown: Any, either: type[Person] | dict[str, Any] | None
) -> None:
    assert_type(engine.stream("x", unknown), EventStream[Any])
    assert_type(engine.generate("x", unknown), GenerationResult[Any])
    engine.stream("x", either)
    engine.generate("x", either, temperature=0.5)
    engine.generate("x", either, tools=[Weather])


def batches(engine: InferenceEngine) -> None:
    prompts = ["x", "y"]
    assert_type(
        engine.generate_batch(prompts, response_format=Person), list[GenerationResult[Person]]
    )
    assert_type(
        engine.generate_batch(prompts, response_format=Person, tools=[Weather]),
        list[GenerationResult[Person | None]],
    )
    assert_type(engine.generate_batch(prompts, temperature=1), list[GenerationResult[Any]])
    assert_type(
        engine.generate_batch([BatchRequest("x", Person), "y"]), list[GenerationResult[Any]]
    )
    assert_type(
        engine.generate_batch(prompts, return_exceptions=True),
        list[GenerationResult[Any] | Exception],
    )
    assert_type(engine.iter_batch(prompts, response_format=Person), BatchStream[Person])
    assert_type(
        engine.iter_batch(iter(prompts), response_format=TypeAdapter(list[Person]), ordered=False),
        BatchStream[list[Person]],
    )
    assert_type(
        engine.iter_batch(prompts, response_format=Person, tools=[Weather]),
        BatchStream[Person],
    )
    assert_type(engine.iter_batch(prompts, Person), BatchStream[Person])
    assert_type(engine.generate_batch(prompts, int | str), list[GenerationResult[int | str]])
    assert_type(engine.iter_batch(prompts, temperature=1), BatchStream[Any])
    assert_type(engine.iter_batch([BatchRequest("x", Person), "y"]), BatchStream[Any])
    for item in engine.iter_batch(prompts, response_format=Person):
        assert_type(item.result, GenerationResult[Person | None] | None)


def extractions(engine: InferenceEngine) -> None:
    records = [{"text": "x"}]
    results = engine.extract(records, Person, text="text", temperature=0.0)
    assert_type(results, ExtractionResults[Person])
    assert_type(results.values, list[Person | None])
    assert_type(results[0], ExtractedRecord[Person])
    assert_type(engine.extract(["x"], TypeAdapter(list[Person])), ExtractionResults[list[Person]])
    assert_type(engine.extract(["x"], SCHEMA), ExtractionResults[Any])
    assert_type(engine.iter_extract(iter(["x"]), int | None), ExtractionStream[int | None])
    engine.extract(["x"], Person, txt="text")  # type: ignore[call-overload]  # pyright: ignore


async def asynchronous(engine: InferenceEngine) -> None:
    async with engine:
        assert_type(await engine.agenerate("x", response_format=Person), GenerationResult[Person])
        assert_type(await engine.astream("x", Person), AsyncEventStream[Person])
        assert_type(
            await engine.agenerate("x", response_format=Person, tools=[Weather]),
            GenerationResult[Person | None],
        )
        assert_type(engine.astream("x", response_format=Person), AsyncEventStream[Person])
        async with engine.astream("x", Person) as stream:
            assert_type(stream, AsyncEventStream[Person])
        assert_type(engine.aiter_batch(["x"], response_format=Person), AsyncBatchStream[Person])
        assert_type(
            await engine.arun_tools("x", [Weather], response_format=Person),
            ToolRun[GenerationResult[Person | None]],
        )


def options(engine: InferenceEngine) -> None:
    given = GenerationOptions(
        temperature=0.5, stop="x", logit_bias={1: 2.0}, parts={"text": PartOptions(top_k=3)}
    )
    assert_type(given.max_tokens, int | None)
    assert_type(given.stop_strings, tuple[str, ...])
    engine.generate("x", stop=["a"], parts=given.parts, seed=None)
    engine.generate("x", speculation="off")
    engine.generate("x", speculation=SpeculationOptions(max_draft_tokens=4))
    engine.generate("x", speculation="on")  # type: ignore[call-overload]  # pyright: ignore
    assert_type(given.speculation_options, SpeculationOptions | None)
    engine.generate("x", temprature=1)  # type: ignore[call-overload]  # pyright: ignore
    engine.generate("x", max_tokens="3")  # type: ignore[call-overload]  # pyright: ignore
    GenerationOptions(max_tokens="3")  # type: ignore[arg-type]  # pyright: ignore
