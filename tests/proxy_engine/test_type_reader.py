"""Answers of pydantic types: defaults, members that no JSON is read as, and gaps."""

from __future__ import annotations

import datetime
import enum
import json
import warnings
from collections.abc import Callable
from typing import Annotated, Literal

import pydantic
import pytest
from pydantic import BaseModel, Field

from proxy_engine import InferenceEngine, OutputValidationError, gaps
from proxy_engine.type_reader import type_reader
from state_machines.errors import UnsatisfiableSchemaError


class Order(BaseModel):
    due: datetime.date | None = None
    count: int = Field(1, ge=0, le=9)


def refuse(value: int) -> int:
    raise ValueError("never")


class Refused(BaseModel):
    count: Annotated[int, pydantic.AfterValidator(refuse)] = Field(ge=0, le=9)


class Corner(enum.Enum):
    TOP = (0, 0)
    NONE = None


class Box(BaseModel):
    corner: Corner
    call: Callable[[int], int] = abs


def written(engine: InferenceEngine, *, write_defaults: bool = True) -> set[frozenset[str]]:
    """Return the names of properties in answers of several seeds."""
    requests = (
        engine.generate(
            "x",
            Order,
            temperature=1.0,
            seed=seed,
            max_tokens=80,
            write_defaults=write_defaults,
        )
        for seed in range(8)
    )
    return {frozenset(json.loads(result.text)) for result in requests}


def test_answers_write_properties_with_defaults(tiny_engine: InferenceEngine) -> None:
    assert written(tiny_engine) == {frozenset({"due", "count"})}


def test_answers_may_leave_out_defaults_if_the_caller_says_so(tiny_engine: InferenceEngine) -> None:
    found = written(tiny_engine, write_defaults=False)
    assert any("due" not in names or "count" not in names for names in found)


def test_extraction_sets_properties_with_defaults(tiny_engine: InferenceEngine) -> None:
    values = tiny_engine.extract(["a", "b"], Order, max_tokens=80).values
    assert [value.model_fields_set for value in values if value] == [{"due", "count"}] * 2


def test_required_rules_a_json_schema(tiny_engine: InferenceEngine) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}}
    texts = {
        tiny_engine.generate("x", schema, temperature=1.0, seed=seed, max_tokens=40).text
        for seed in range(8)
    }
    assert texts - {'{"a": null, "b": null}'}


def test_parts_that_no_json_is_read_as_are_named_in_warnings() -> None:
    with pytest.warns(UserWarning, match="leave out") as raised:
        reader = type_reader(Box)
    messages = [str(warning.message) for warning in raised]
    assert len(messages) == 2
    assert any("Corner.TOP" in message and "(at #/$defs/Corner)" in message for message in messages)
    assert any("'call'" in message for message in messages)
    assert reader.read('{"corner": null}').corner is Corner.NONE


def test_type_without_left_out_parts_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        type_reader(Order)


def test_type_that_no_json_is_read_as_is_refused_before_the_model_runs(
    tiny_engine: InferenceEngine,
) -> None:
    class Choice(BaseModel):
        corner: Literal[Corner.TOP]

    with pytest.raises(UnsatisfiableSchemaError) as raised:
        tiny_engine.generate("x", Choice)
    assert raised.value.pointer == "/properties/corner"
    assert "pydantic" not in str(raised.value)


def test_gaps_name_validators() -> None:
    (gap,) = gaps(Refused)
    assert (gap.pointer, gap.reason) == (
        "/properties/count",
        "the validator refuse of the type",
    )
    assert gaps(Order) == ()


def test_rejected_answer_names_the_gap(tiny_engine: InferenceEngine) -> None:
    with pytest.raises(OutputValidationError, match="the validator refuse of the type"):
        tiny_engine.generate("x", Refused, max_tokens=40)
