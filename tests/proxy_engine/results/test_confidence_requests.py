"""Confidences of a model's answers."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import pytest
from object_schemas import closed_object, function_tool
from pydantic import BaseModel, Field

from proxy_engine import Choice, InferenceEngine
from state_machines import ChoiceStateMachine, JsonSchemaStateMachine
from state_machines.root import Marker, Series, Structured

TOOLS = [function_tool(name, closed_object(on={"type": "boolean"})) for name in ("set", "reset")]


class Lamp(BaseModel):
    """A type whose JSON names differ from those of its attributes."""

    is_on: bool = Field(alias="on")
    level: int = Field(ge=0, le=3)


def test_parts_of_a_composition_have_the_probabilities_of_their_choices(
    roomy_engine: InferenceEngine,
) -> None:
    answer = Series(
        Structured("word", grammar=ChoiceStateMachine(["cat", "catfish", "dog"])),
        Marker("word", ": "),
        Structured("flag", grammar=JsonSchemaStateMachine({"type": "boolean"}), reader=json.loads),
    )
    exact = roomy_engine.generate(
        "Lamp?", answer, exact_choices=True, temperature=1.0, seed=3, max_tokens=96
    )
    shares = [choice.chosen.probability for choice in exact.scored_choices]
    assert [exact.confidence(f"/{name}") for name in ("word", "flag")] == pytest.approx(shares)


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


FINITE = closed(
    colour={"enum": ["red", "green", "blue"]},
    pet={"enum": ["animal-cat", "animal-dog"]},
    on={"type": ["boolean", "null"]},
    level={"type": "integer", "minimum": 0, "maximum": 12},
)


@pytest.mark.parametrize(
    "more",
    [{}, {"fast_forward": False}, {"logprobs": 0}],
    ids=lambda more: next(iter(more), "plain"),
)
def test_finite_values_have_the_probabilities_of_their_options(
    roomy_engine: InferenceEngine, more: dict[str, Any]
) -> None:
    result = roomy_engine.generate(
        "Lamp?",
        response_format=FINITE,
        exact_choices=True,
        temperature=1.0,
        seed=5,
        max_tokens=120,
        **more,
    )
    output = "".join(part.text for part in result.parts).encode()
    for choice in result.scored_choices:
        assert output[choice.offset :].startswith(choice.chosen.text.encode())
        assert sum(option.probability for option in choice.options) == pytest.approx(1)
    found = result.confidences()
    shares = [choice.chosen.probability for choice in result.scored_choices]
    assert list(found) == ["", "/colour", "/pet", "/on", "/level"]
    assert list(found.values())[1:] == pytest.approx(shares)
    assert found[""] == pytest.approx(math.prod(shares))


def test_value_whose_beginning_was_sampled_has_no_confidence(roomy_engine: InferenceEngine) -> None:
    """After the first digits, what is left of the value is a finite choice."""
    schema = closed(code={"type": "string", "pattern": "^[0-9]{3}(cat|dog)$"})
    result = roomy_engine.generate(
        "Lamp?", response_format=schema, exact_choices=True, max_tokens=120
    )
    assert result.scored_choices
    assert result.confidences() == {}


@pytest.mark.parametrize(
    "response_format", [Choice(["cat", "catfish", "dog"]), Literal["yes", "no"], bool]
)
def test_enumerations_have_a_confidence_without_options(
    roomy_engine: InferenceEngine, response_format: Any
) -> None:
    options: Any = {"temperature": 1.0, "seed": 5, "max_tokens": 30}
    result = roomy_engine.generate("x", response_format, **options)
    recorded = roomy_engine.generate("x", response_format, confidence=True, **options)
    confidence = result.confidence()
    assert confidence is not None
    assert 0 < confidence < 1
    assert result.confidences() == recorded.confidences()
    product = math.exp(sum(filter(None, result.token_logprobs)))
    assert confidence == pytest.approx(product)
    off = roomy_engine.generate("x", response_format, confidence=False, **options)
    assert off.confidence() is None
    assert off.text == result.text


def test_exactly_scored_tools_have_confidences(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate(
        "Lamp?",
        tools=TOOLS,
        tool_choice="required",
        parallel_tool_calls=False,
        exact_choices=True,
        max_tokens=120,
    )
    shares = {choice.chosen.text: choice.chosen.probability for choice in result.scored_choices}
    (call,) = result.tool_calls
    found = result.confidences()
    assert found["/tool_calls/0/name"] == pytest.approx(shares[call.name])
    assert found["/tool_calls/0/arguments/on"] == pytest.approx(
        shares[json.dumps(call.arguments["on"])]
    )
    assert found[""] == pytest.approx(math.prod(shares.values()))


def test_answer_without_alternatives_has_no_confidence(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate("Lamp?", response_format=Lamp, max_tokens=96, logprobs=1)
    assert result.confidences() == {}
    assert result.confidence("/on") is None
