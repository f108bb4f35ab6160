"""Tools, reasoning, compositions and streams, with a tiny random model."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from object_schemas import closed_object

from proxy_engine import (
    EngineError,
    Finished,
    GenerationOptions,
    InferenceEngine,
    InvalidOptionError,
    InvalidToolError,
    PartialValue,
    PartOptions,
    ReasoningDelta,
    ReasoningOptions,
    TextDelta,
    Tool,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolChoice,
    ToolSchemaError,
)
from proxy_engine.answers.compiler import AnswerCompiler, ModelMarkup
from proxy_engine.answers.composition import Calls, compose_answer
from proxy_engine.answers.response_format import ResponseFormatCompiler
from state_machines import (
    ChoiceStateMachine,
    CompositionError,
    InvalidSchemaError,
    JsonSchemaStateMachine,
    RegexStateMachine,
    SchemaError,
    StateMachine,
)
from state_machines.root import (
    Choice,
    Marker,
    Optional,
    Repeat,
    RootStateMachine,
    Series,
    Structured,
    SubState,
    Text,
)
from state_machines.tool_calls import FORMATS, Delimiters, ToolSignature

CITY = closed_object(["city"], city={"type": "string", "maxLength": 3}, days={"enum": [1, 2]})
ANSWER = closed_object(ok={"type": "boolean"})


def tool(name: str, parameters: Any = CITY) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("get"), tool("get_weather"), tool("none", {"type": "object", "maxProperties": 0})]


def without_end(engine: InferenceEngine) -> dict[int, float]:
    """A bias that keeps the model from ending by itself."""
    return dict.fromkeys(engine.vocabulary.end_token_ids, -1000.0)


def check_call(call: Any) -> None:
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in TOOLS}
    jsonschema.validate(call.arguments, schemas[call.name])
    assert json.loads(call.raw) == {"name": call.name, "arguments": call.arguments}
    assert call.id


@pytest.mark.parametrize("seed", range(4))
def test_required_calls_are_well_formed(roomy_engine: InferenceEngine, seed: int) -> None:
    result = roomy_engine.generate(
        "x",
        tools=TOOLS,
        tool_choice="required",
        parallel_tool_calls=seed % 2 == 0,
        max_tool_calls=2,
        temperature=1.0,
        seed=seed,
        max_tokens=300,
    )
    assert result.finish_reason == "tool_calls"
    assert 1 <= len(result.tool_calls) <= (1 if seed % 2 else 2)
    for call in result.tool_calls:
        check_call(call)
    assert len({call.id for call in result.tool_calls}) == len(result.tool_calls)
    assert result.text == ""
    assert result.parsed is None
    whole = "".join(part.text for part in result.parts)
    assert whole.count("<tool_call>") == len(result.tool_calls) == whole.count("</tool_call>")
    assert {part.name for part in result.parts} == {"tool_call"}


def test_a_named_tool_is_called(roomy_engine: InferenceEngine) -> None:
    for choice in ("none", {"type": "function", "function": {"name": "none"}}):
        result = roomy_engine.generate(
            "x",
            tools=TOOLS,
            tool_choice=choice,
            parallel_tool_calls=False,
            max_tokens=60,
            logit_bias=without_end(roomy_engine),
        )
        names = [call.name for call in result.tool_calls]
        assert names == ([] if choice == "none" else ["none"])
        assert result.finish_reason == ("length" if choice == "none" else "tool_calls")


def test_answer_in_a_schema_or_call(roomy_engine: InferenceEngine) -> None:
    seen = set()
    for seed in range(12):
        result = roomy_engine.generate(
            "x",
            tools=TOOLS,
            response_format=ANSWER,
            max_tool_calls=1,
            temperature=1.5,
            seed=seed,
            max_tokens=200,
        )
        if result.finish_reason == "stop":
            jsonschema.validate(result.parsed, ANSWER)
            assert not result.tool_calls
        else:
            assert result.finish_reason == "tool_calls"
            assert result.parsed is None
            check_call(result.tool_calls[0])
        seen.add(result.finish_reason)
    assert seen == {"stop", "tool_calls"}


@pytest.mark.parametrize("seed", range(3))
def test_reasoning_comes_before_the_answer(roomy_engine: InferenceEngine, seed: int) -> None:
    result = roomy_engine.generate(
        "x",
        response_format=ANSWER,
        reasoning=ReasoningOptions(min_chars=3, max_chars=20),
        temperature=1.0,
        seed=seed,
    )
    jsonschema.validate(result.parsed, ANSWER)
    assert 3 <= len(result.reasoning) <= 20
    assert json.loads(result.text) == result.parsed
    marked = [(s.name, s.text) for s in result.parts if s.is_marker]
    assert marked[0] == ("reasoning", "<think>")
    assert ("reasoning", "</think>") in marked


def test_reasoning_has_markers_of_ones_own(roomy_engine: InferenceEngine) -> None:
    reasoning = ReasoningOptions(max_chars=5, begin="```thoughts\n", end="\n```")
    result = roomy_engine.generate("x", response_format={"const": 1}, reasoning=reasoning)
    whole = "".join(part.text for part in result.parts)
    assert whole.startswith("```thoughts\n")
    assert "\n```" in whole
    assert result.parsed == 1


def test_stream_events_are_complete_and_final(roomy_engine: InferenceEngine) -> None:
    stream = roomy_engine.stream(
        "x",
        tools=TOOLS,
        tool_choice="required",
        max_tool_calls=2,
        reasoning=ReasoningOptions(min_chars=2, max_chars=10),
        temperature=1.0,
        seed=4,
        max_tokens=300,
    )
    *events, last = stream
    assert isinstance(last, Finished)
    result = last.result
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == result.reasoning
    for index, call in enumerate(result.tool_calls):
        (started,) = [e for e in events if isinstance(e, ToolCallStarted) and e.index == index]
        assert (started.id, started.name) == (call.id, call.name)
        deltas = [e for e in events if isinstance(e, ToolCallDelta) and e.index == index]
        assert json.loads("".join(e.arguments for e in deltas)) == call.arguments
        (finished,) = [e for e in events if isinstance(e, ToolCallFinished) and e.index == index]
        assert finished.arguments == call.arguments
        own = [e for e in events if getattr(e, "index", None) == index]
        assert own == [started, *deltas, finished]
    assert not any("tool_call" in e.text for e in events if isinstance(e, TextDelta))


def test_a_stream_shows_the_value_as_it_grows(roomy_engine: InferenceEngine) -> None:
    schema = {"type": "array", "items": {"enum": ["ab", "cd"]}, "minItems": 3, "maxItems": 3}
    *events, last = roomy_engine.stream("x", response_format=schema, temperature=1.0, seed=0)
    values = [event.value for event in events if isinstance(event, PartialValue)]
    assert isinstance(last, Finished)
    assert values[-1] == last.result.parsed
    assert [len(value) for value in values] == sorted(len(value) for value in values)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == last.result.text


def test_an_async_stream_is_the_same(roomy_engine: InferenceEngine) -> None:
    options: Any = {"tools": TOOLS, "tool_choice": "required", "max_tool_calls": 1, "seed": 3}

    async def run() -> list[Any]:
        stream = await roomy_engine.astream("x", temperature=1.0, max_tokens=200, **options)
        return [event async for event in stream]

    *_, last = roomy_engine.stream("x", temperature=1.0, max_tokens=200, **options)
    *_, other = asyncio.run(run())
    assert other.result.token_ids == last.result.token_ids  # type: ignore[union-attr]


def test_an_async_stream_can_be_left(engine: InferenceEngine) -> None:
    async def run() -> None:
        async with engine.astream("x", max_tokens=400) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break

    asyncio.run(run())
    assert engine.generate("x", max_tokens=1).usage.completion_tokens == 1


def test_cancelled_stream_returns_partial_result(engine: InferenceEngine) -> None:
    stream = engine.stream("x", max_tokens=400, temperature=1.0, seed=0)
    texts = []
    for event in stream:
        if isinstance(event, TextDelta):
            texts.append(event.text)
            stream.cancel()
        if isinstance(event, Finished):
            assert event.result.finish_reason == "cancelled"
            assert event.result.text == "".join(texts)
            assert event.result.usage.completion_tokens < 400
            return
    raise AssertionError("there is a last event")


def test_parts_have_their_own_options(roomy_engine: InferenceEngine) -> None:
    x = roomy_engine.vocabulary.token_bytes.index(b"x")
    y = roomy_engine.vocabulary.token_bytes.index(b"y")
    result = roomy_engine.generate(
        "x",
        response_format={"type": "string", "minLength": 3, "maxLength": 3},
        reasoning=ReasoningOptions(min_chars=4),
        parts={
            "reasoning": PartOptions(logit_bias={x: 1000.0}, max_tokens=6),
            "structured": PartOptions(logit_bias={y: 1000.0}),
        },
    )
    assert result.reasoning == "xxxxxx"
    assert result.parsed == "yyy"


def test_custom_parts_have_options(roomy_engine: InferenceEngine) -> None:
    answer = Repeat(Choice(Series(Marker("sign", "-"), Price())), min_count=1, max_count=1)
    one = roomy_engine.vocabulary.token_bytes.index(b"1")
    states = {"price": PartOptions(logit_bias={one: 1000.0})}
    result = roomy_engine.generate("x", response_format=answer, parts=states)
    assert str(result.parsed).startswith("111")
    with pytest.raises(InvalidOptionError, match="price"):
        roomy_engine.generate("x", parts=states)


def test_structured_output_and_calls_have_limits_too(roomy_engine: InferenceEngine) -> None:
    name = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    for seed in range(4):
        structured = roomy_engine.generate(
            "x",
            response_format=name,
            reasoning=ReasoningOptions(min_chars=2, max_chars=6),
            parts={"structured": PartOptions(max_tokens=24)},
            temperature=1.0,
            seed=seed,
        )
        jsonschema.validate(structured.parsed, name)
        assert len(structured.text.encode()) < 120
        assert structured.usage.completion_tokens < 70
        called = roomy_engine.generate(
            "x",
            tools=[tool("a", name)],
            tool_choice="required",
            parts={"tool_call": PartOptions(max_tokens=90)},
            temperature=1.0,
            seed=seed,
        )
        assert called.tool_calls
        assert called.usage.completion_tokens <= 92


def test_part_limit_below_the_minimum_yields_the_shortest_text(
    roomy_engine: InferenceEngine,
) -> None:
    limits = {"structured": PartOptions(max_tokens=1)}
    result = roomy_engine.generate("x", response_format=CITY, parts=limits)
    assert "city" in result.parsed
    assert len(result.parsed["city"]) <= 1


def test_limit_of_free_text_holds_with_and_without_tools(
    tiny_model: Any, tiny_tokenizer: Any
) -> None:
    options = GenerationOptions(parts={"text": PartOptions(max_tokens=3)}, max_tokens=20)
    with InferenceEngine(tiny_model, tiny_tokenizer, options=options) as engine:
        for tools in (None, [tool("a", ANSWER)]):
            result = engine.generate("x", tools=tools, logit_bias=without_end(engine))
            assert result.usage.completion_tokens <= 5


@pytest.mark.parametrize("tools", [None, [tool("a", ANSWER)]], ids=["text", "tools"])
def test_stop_strings_end_free_text(roomy_engine: InferenceEngine, tools: Any) -> None:
    stopped = 0
    for seed in range(8):
        result = roomy_engine.generate(
            "x",
            tools=tools,
            max_tokens=60,
            temperature=1.0,
            seed=seed,
            stop=["b", "never written", "ab"],
            logit_bias=without_end(roomy_engine),
        )
        assert "b" not in result.text
        if result.finish_reason == "stop":
            stopped += 1
            assert result.parts[-1].is_marker
            assert result.parts[-1].text in ("b", "ab")
    assert stopped


@pytest.mark.parametrize("stop", ["<", "tool"])
def test_stop_string_within_a_tool_marker_is_named(
    roomy_engine: InferenceEngine, stop: str
) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        roomy_engine.generate("x", tools=[tool("a", ANSWER)], stop=["never", stop], max_tokens=5)
    assert caught.value.option == "stop"
    assert f"{stop!r} is a part of '<tool_call>'" in str(caught.value)


def test_stop_strings_end_custom_texts(roomy_engine: InferenceEngine) -> None:
    for seed in range(8):
        result = roomy_engine.generate(
            "x",
            response_format=Text("own", stop=("c",), max_chars=50),
            temperature=1.0,
            seed=seed,
            stop=["b"],
            logit_bias=without_end(roomy_engine),
        )
        assert not set("bc") & set(result.text)
        assert result.parts[-1].text in "bc" or len(result.text) == 50


def test_stop_strings_of_an_engine_hold_where_there_is_free_text(
    tiny_model: Any, tiny_tokenizer: Any
) -> None:
    options = GenerationOptions(stop="a", max_tokens=60)
    with InferenceEngine(tiny_model, tiny_tokenizer, options=options) as engine:
        assert "city" in engine.generate("x", response_format=CITY).parsed
        for seed in range(4):
            result = engine.generate("x", temperature=1.0, seed=seed)
            assert "a" not in result.text


@pytest.mark.parametrize(
    ("chosen", "is_open"), [({}, False), ({"additional_properties": "schema"}, True)]
)
def test_arguments_of_tools_have_the_properties_that_schemas_list(
    engine: InferenceEngine, chosen: dict[str, Any], is_open: bool
) -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    answer = AnswerCompiler(engine.vocabulary).compile(
        ResponseFormatCompiler().compile(None),
        ToolChoice.of("required", [Tool("get", "", parameters)]),
        GenerationOptions(**chosen),
        ModelMarkup(FORMATS["hermes"], None),
        has_tools=True,
        open_reasoning=None,
    )
    assert answer.machine is not None
    call = '<tool_call>\n{"name": "get", "arguments": {"a": 1, %s'
    assert answer.machine.begins(call % '"b": 2') is is_open


def test_text_before_calls_of_channels_has_no_stop_string() -> None:
    """There, calls must follow the text, and could not if the stop string ended the answer."""
    entry = FORMATS["gpt_oss"]
    calls = Calls(format=entry, tools=[ToolSignature("f", CITY)])
    machine = RootStateMachine(compose_answer(calls=calls, stop=("b",)))
    preamble, final = entry.preamble.begin, entry.answer.begin
    assert machine.begins(f"{preamble}a".encode())
    assert not machine.begins(f"{preamble}ab".encode())
    assert machine.begins(f"{final}ab".encode())
    assert not machine.begins(f"{final}abc".encode())


def test_min_tokens_is_respected(roomy_engine: InferenceEngine) -> None:
    ends = dict.fromkeys(roomy_engine.vocabulary.end_token_ids, 1000.0)
    result = roomy_engine.generate("x", min_tokens=5, max_tokens=9, logit_bias=ends)
    assert result.usage.completion_tokens == 6
    # Where nothing else can come, the end does.
    short = roomy_engine.generate("x", min_tokens=5, response_format={"const": 1})
    assert short.parsed == 1


@dataclass(frozen=True, eq=False)
class Price(SubState):
    """Some money: a sub-state that a user wrote."""

    name: str = "price"

    def machine(self) -> StateMachine:
        return RegexStateMachine(r"\d{1,3}\.\d\d EUR")

    def parse(self, text: str) -> Decimal:
        return Decimal(text.removesuffix(" EUR"))


def test_compositions_are_response_formats(roomy_engine: InferenceEngine) -> None:
    flag = Structured(
        "flag",
        grammar=JsonSchemaStateMachine({"type": "boolean"}),
        reader=json.loads,
        begin="```json\n",
        end="\n```",
    )
    answer = Series(
        Text("why", min_chars=2, max_chars=6), Marker("total", "\nTotal: "), Price(), flag
    )
    result = roomy_engine.generate("x", response_format=answer, temperature=1.0, seed=2)
    assert set(result.parsed) == {"price", "flag"}
    assert isinstance(result.parsed["flag"], bool)
    assert [s.name for s in result.parts if not s.is_marker] == ["why", "price", "flag"]
    assert 2 <= len(result.parts[0].text) <= 6


def test_repeated_parts_become_lists(roomy_engine: InferenceEngine) -> None:
    prices = Repeat(Price(), min_count=2, max_count=3, between=Marker("comma", ", "))
    result = roomy_engine.generate("x", response_format=prices, temperature=1.0, seed=0)
    assert 2 <= len(result.parsed) <= 3
    assert all(isinstance(price, Decimal) for price in result.parsed)


def test_choice_of_parts_yields_the_chosen_value(roomy_engine: InferenceEngine) -> None:
    answer = Choice(Price(), Structured("word", grammar=ChoiceStateMachine(["yes", "no"])))
    seen = {
        tuple(s.name for s in result.parts)
        for seed in range(10)
        for result in [
            roomy_engine.generate("x", response_format=answer, temperature=2.0, seed=seed)
        ]
    }
    assert seen == {("price",), ("word",)}


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"tools": TOOLS, "tool_choice": "get_wether"}, InvalidOptionError, "get_weather"),
        ({"tool_choice": "required"}, InvalidOptionError, "tool_choice"),
        ({"tools": [*TOOLS, tool("get")]}, InvalidToolError, "get"),
        ({"tools": [tool("a b")]}, InvalidToolError, "a b"),
        ({"tools": [tool("bad", {"type": "object", "minProperties": -1})]}, SchemaError, "bad"),
        (
            {
                "tools": [
                    tool("void", {"type": "object", "properties": {"a": False}, "required": ["a"]})
                ]
            },
            SchemaError,
            "void",
        ),
        ({"response_format": Series(Optional(Price()), "x")}, CompositionError, "x"),
        ({"response_format": Repeat(Price(), max_count=2)}, CompositionError, "between"),
        ({"reasoning": "yes"}, InvalidOptionError, "reasoning"),
        ({"parts": {"text": 1}}, InvalidOptionError, "parts"),
        ({"parts": {"tool_calls": PartOptions()}}, InvalidOptionError, "'tool_call'"),
        ({"parallel_tool_calls": 3}, InvalidOptionError, "parallel_tool_calls"),
        ({"max_tool_calls": 0}, InvalidOptionError, "max_tool_calls"),
        ({"min_tokens": 9, "max_tokens": 8}, InvalidOptionError, "min_tokens"),
        ({"stop": ["a", ""]}, InvalidOptionError, "stop"),
        ({"stop": "a", "response_format": CITY}, InvalidOptionError, "structured"),
        ({"stop": "a", "response_format": RegexStateMachine("a+")}, InvalidOptionError, "struct"),
        ({"stop": "a", "response_format": CITY, "tools": TOOLS}, InvalidOptionError, "struct"),
        (
            {"stop": "a", "tools": TOOLS, "tool_choice": "required"},
            InvalidOptionError,
            "a tool call",
        ),
        (
            {"stop": "a", "response_format": Series(Text("b"), Marker("b", "c"), Price())},
            InvalidOptionError,
            "Text(stop",
        ),
        ({"tools": "get"}, EngineError, "list"),
    ],
)
def test_invalid_requests_raise_before_the_model_runs(
    roomy_engine: InferenceEngine,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    error: type[Exception],
    told: str,
) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("the model must not run")

    monkeypatch.setattr("proxy_engine.requests.scheduler.Scheduler.submit", forbidden)
    with pytest.raises(error) as caught:
        roomy_engine.generate("x", **arguments)
    assert told in str(caught.value)


def test_the_refusal_of_a_tools_schema_is_one_of_tools(roomy_engine: InferenceEngine) -> None:
    with pytest.raises(ToolSchemaError) as caught:
        roomy_engine.generate("x", tools=[*TOOLS, tool("odd", {"properties": {"a": {"type": 1}}})])
    assert (caught.value.tool, caught.value.pointer) == ("odd", "/properties/a/type")
    assert isinstance(caught.value.__cause__, InvalidSchemaError)


def test_text_exclusions_apply_with_tools(roomy_engine: InferenceEngine) -> None:
    letters = tuple(set(map(chr, range(ord("!"), 127))) - set("<tool_call>"))
    result = roomy_engine.generate(
        "x",
        response_format=Text("text", min_chars=8, max_chars=8, excluding=letters),
        tools=TOOLS,
        temperature=1.0,
        max_tokens=300,
        seed=0,
    )
    assert not set(result.text) & set(letters)


def answer_of(
    engine: InferenceEngine, *, opened: Delimiters | None = None, **options: Any
) -> StateMachine | None:
    """What a model with markers for reasoning may answer in free text."""
    return (
        AnswerCompiler(engine.vocabulary)
        .compile(
            ResponseFormatCompiler().compile(None),
            ToolChoice.of(None, ()),
            GenerationOptions(**options),
            ModelMarkup(FORMATS["hermes"], Delimiters("<think>", "</think>")),
            has_tools=False,
            open_reasoning=opened,
        )
        .machine
    )


def test_disabled_reasoning_cannot_begin(tiny_engine: InferenceEngine) -> None:
    machine = answer_of(tiny_engine, reasoning=False)
    assert machine is not None
    assert machine.matches("two < three")
    assert not machine.matches("<think>so</think>two")
    assert not machine.matches("so</think>two")


def test_reasoning_ends_as_the_prompt_began_it(tiny_engine: InferenceEngine) -> None:
    own = ReasoningOptions(begin="[", end="]")
    for opened in (Delimiters("<think>", "</think>"), Delimiters("[", "]")):
        machine = answer_of(tiny_engine, opened=opened, reasoning=own)
        assert machine is not None
        assert machine.matches(f"so{opened.end}two")
        assert not machine.matches("so")


def test_an_async_stream_can_be_closed_while_it_is_read(engine: InferenceEngine) -> None:
    async def run() -> list[Any]:
        stream = await engine.astream("x", max_tokens=400, logit_bias=without_end(engine))
        read: list[Any] = []

        async def follow() -> None:
            async for event in stream:
                read.append(event)

        task = asyncio.create_task(follow())
        while not read:
            await asyncio.sleep(0)
        await stream.aclose()
        await asyncio.wait_for(task, 30)
        return read

    last = asyncio.run(run())[-1]
    assert not isinstance(last, Finished) or last.result.finish_reason == "cancelled"
