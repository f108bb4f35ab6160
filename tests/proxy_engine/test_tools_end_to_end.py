"""Tools and reasoning with the embedded model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jsonschema
import pytest
from object_schemas import closed_object
from pydantic import Field

from proxy_engine import InferenceEngine, Interaction, ReasoningOptions, Role

pytestmark = pytest.mark.model

ANSWER = closed_object(warm={"type": "boolean"})


def weather(city: Literal["Lima", "Oslo"], days: Annotated[int, Field(ge=1, le=9)] = 1) -> str:
    """Forecast the weather.

    Args:
        city: Where.
        days: For how many days.
    """
    return f"{days} days of sun in {city}"


def fails(reason: Literal["now", "always"]) -> str:
    """Fail."""
    raise RuntimeError(f"it fails {reason}")


def whole(result: Any) -> str:
    return "".join(part.text for part in result.parts)


def test_parallel_calls(embedded_engine: InferenceEngine) -> None:
    calls = "<tool_call>\n"
    result = embedded_engine.generate(
        "How is the weather in Oslo and in Lima?",
        tools=[weather],
        tool_choice="required",
        max_tool_calls=2,
        max_tokens=400,
    )
    assert 1 <= len(result.tool_calls) <= 2
    assert whole(result).count(calls) == len(result.tool_calls)
    for call in result.tool_calls:
        weather(**call.arguments)


def test_reasoning_then_json(embedded_engine: InferenceEngine) -> None:
    result = embedded_engine.generate(
        "Is it warm in Lima?",
        response_format=ANSWER,
        reasoning=ReasoningOptions(min_chars=10, max_chars=60),
    )
    assert 10 <= len(result.reasoning) <= 60
    jsonschema.validate(result.parsed, ANSWER)
    assert whole(result).startswith("<think>")


def test_a_tool_loop(embedded_engine: InferenceEngine) -> None:
    turns: list[Interaction] = []
    run = embedded_engine.run_tools(
        "How is the weather in Oslo?",
        [weather, fails],
        tool_choice="fails",
        max_rounds=1,
        max_tokens=30,
        on_turn=turns.append,
    )
    assert [turn.role for turn in run.conversation] == [
        *(Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT)
    ]
    assert list(run.conversation[1:]) == turns
    assert "RuntimeError: it fails" in run.conversation[2].text
    assert run.rounds == 1
    assert not run.result.tool_calls
