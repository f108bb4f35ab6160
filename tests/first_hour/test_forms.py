"""Schemas of a newcomer's first hour, with the embedded model.

Before: an object with one listed property got 2,000 tokens of invented members, also with
``"strict": true``, and a list that ran into ``max_tokens`` had the finish reason ``stop``.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import openai
import pytest
from live_server import serving_engine
from pydantic import BaseModel

from proxy_engine import CutShort, InferenceEngine
from state_machines import JsonSchemaStateMachine
from state_machines.budgets import step_budget
from state_machines.tool_calls import format_named

SCHEMA = {"properties": {"city": {"type": "string"}}, "required": ["city"], "type": "object"}
QUESTION = "Give the city of this sentence as JSON: It rains in Oslo."


class Tags(BaseModel):
    tags: list[str]


@pytest.mark.model
def test_objects_have_the_listed_properties(embedded_engine: InferenceEngine) -> None:
    result = embedded_engine.generate(QUESTION, SCHEMA, temperature=0, max_tokens=24)
    assert result.parsed.keys() == {"city"}
    assert (result.finish_reason, result.cut_short) == ("stop", None)


@pytest.mark.model
def test_answer_that_a_limit_ended_says_so(embedded_engine: InferenceEngine) -> None:
    prompt = "List tags: Ada Ada Ada Ada Ada Ada Ada Ada"
    result = embedded_engine.generate(prompt, Tags, temperature=0, max_tokens=12)
    assert result.finish_reason == "length"
    assert result.cut_short == CutShort("/tags", "max_tokens")
    with serving_engine(embedded_engine) as live:
        client = live.client()
        with pytest.raises(openai.LengthFinishReasonError) as caught:
            client.chat.completions.parse(
                model="",
                messages=[{"role": "user", "content": prompt}],
                response_format=Tags,
                temperature=0,
                max_tokens=12,
            )
    # The text is complete all the same.
    choice = caught.value.completion.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("length", result.text)
    extension = (choice.model_extra or {})["proxy_engine"]
    assert extension["cut_short"] == {"reason": "max_tokens", "pointer": "/tags"}


# Schemas and tool calls of the first hour: unique items, long lists, texts beside numbers.


@pytest.mark.parametrize(
    "item",
    [
        {
            "type": "object",
            "properties": {"wifi": {"type": "boolean"}, "sound": {"type": "boolean"}},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
        {"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 1}, "maxItems": 3},
    ],
)
def test_lists_of_different_items_are_generated(
    embedded_engine: InferenceEngine, item: Any
) -> None:
    """They were refused: "there may be fewer than 2 different items"."""
    schema = {"type": "array", "uniqueItems": True, "minItems": 2, "maxItems": 3, "items": item}
    result = embedded_engine.generate("Three settings:", response_format=schema, max_tokens=60)
    items = [json.dumps(each, sort_keys=True) for each in result.parsed]
    assert len(set(items)) == len(items) >= 2


def test_long_list_of_features_is_checked_at_once() -> None:
    """A configuration file that lists 250 of 250 features took seconds."""
    areas = ("css", "dom", "svg", "es6", "net")
    features = [f"{area}/feature-{n}" for n in range(50) for area in areas]
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": features}}
    machine = JsonSchemaStateMachine(schema)
    with step_budget(60_000):
        assert machine.matches(json.dumps(features))


def test_mlx_lm_reads_a_text_or_number_as_it_was_meant() -> None:
    """Texts came back with their quotes."""
    parser = pytest.importorskip("mlx_lm.tool_parsers.minicpm5")
    parameters = {"type": "object", "properties": {"id": {"type": ["string", "integer"]}}}
    notation = format_named("minicpm5").notation
    arguments = notation.compile(parameters)
    tools = [{"type": "function", "function": {"name": "find", "parameters": parameters}}]
    for value in ("Oslo", 7):
        text = notation.write({"id": value})
        assert arguments.node.matches(text.encode())
        call = parser.parse_tool_call(f'<function name="find">{text}</function>', tools)
        assert call["arguments"] == {"id": value} == arguments.read(text)


# Tools and lists in a newcomer's first hour, with the embedded model.


class Person(BaseModel):
    name: str
    tags: list[str]


def test_no_call_and_no_item_comes_again_and_again(embedded_engine: InferenceEngine) -> None:
    made = []

    def weather(city: Literal["Lima", "Oslo"]) -> str:
        """Return the weather."""
        made.append(city)
        return f"sun in {city}"

    run = embedded_engine.run_tools(
        "Will it rain in Oslo?", [weather], tool_choice="required", max_rounds=2, max_tokens=40
    )
    assert len(run.conversation[1].tool_calls) == 1
    assert len(made) == len(set(made)) > 0

    tagged = embedded_engine.generate(
        "Tags for Ada, Ada, Ada, Ada, Ada:", response_format=Person, temperature=0
    )
    assert tagged.cut_short == CutShort("/tags", "repetition")
    assert tagged.finish_reason == "stop"
    assert 3 < len(tagged.parsed.tags) < 20
