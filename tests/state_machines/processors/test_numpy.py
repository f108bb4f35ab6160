"""Logits processors on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, TypeAdapter

from state_machines import (
    InvalidArgumentError,
    JsonSchemaStateMachine,
    RegexStateMachine,
    TokenRejectedError,
    UnsatisfiableSchemaError,
    Vocabulary,
    VocabularyError,
)
from state_machines.processors.arguments import machine_of
from state_machines.processors.numpy import logits_processor

VOCABULARY = Vocabulary([b"a", b"b", b"</s>"], end_token_ids=[2])


class Point(BaseModel):
    x: int


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("width", [3, 5])
def test_logits_keep_shape_and_type(dtype: Any, width: int) -> None:
    for tokens, shape in (([5, 5], (width,)), ([[5, 5]], (1, width)), ([[5], [6]], (2, width))):
        scores = np.ones(shape, dtype)
        processor = logits_processor(RegexStateMachine("a"), VOCABULARY)
        masked = processor(np.array(tokens, np.intc), scores)
        assert masked.dtype == dtype
        assert masked.shape == shape
        assert [np.flatnonzero(row == 1).tolist() for row in masked.reshape(-1, width)] == [
            [0]
        ] * masked.reshape(-1, width).shape[0]
        assert (scores == 1).all()


def test_column_of_records_is_masked() -> None:
    records = np.zeros(3, [("id", np.intc), ("logit", np.single)])
    processor = logits_processor(RegexStateMachine("ab"), VOCABULARY)
    records["logit"][:] = processor(np.array([5], np.intc), records["logit"])
    assert records["logit"].tolist() == [0, -np.inf, -np.inf]


def test_after_an_error_only_end_tokens_are_allowed() -> None:
    processor = logits_processor(RegexStateMachine("a"), VOCABULARY)
    processor(np.array([5]), np.zeros(3))
    scores = np.ones(3)
    with pytest.raises(TokenRejectedError):
        processor(np.array([5, 1]), scores)
    assert scores.tolist() == [-np.inf, -np.inf, 0]


def test_logits_narrower_than_the_vocabulary_are_refused() -> None:
    with pytest.raises(VocabularyError, match="logits for 2 tokens"):
        logits_processor(RegexStateMachine("a"), VOCABULARY)(np.array([5]), np.zeros(2))


def test_schemas_and_types_are_outputs() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    for output in (schema, Point, TypeAdapter(Point), JsonSchemaStateMachine(schema)):
        assert machine_of(output).matches('{"x": 1}')
        assert not machine_of(output).matches('{"x": 1.5}')
    # Extra properties would be dropped by the model.
    assert not machine_of(Point).matches('{"x": 1, "y": 2}')
    assert machine_of(Point) is machine_of(Point)


@pytest.mark.parametrize("output", [None, 3, "a string", {"const": {1, 2}}, int])
def test_other_outputs_are_refused(output: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        logits_processor(output, VOCABULARY)
    assert caught.value.argument == "output"


class Waiting(BaseModel):
    call: Callable[[], int]


@pytest.mark.parametrize("output", [Waiting, TypeAdapter(Waiting)])
def test_type_that_no_json_is_read_as_is_an_error_with_the_pointer(output: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError) as caught:
        logits_processor(output, VOCABULARY)
    assert caught.value.pointer == "/properties/call"


def test_end_tokens_of_a_vocabulary_cannot_be_replaced() -> None:
    assert logits_processor(
        {"const": "a"}, Vocabulary([b'"', b"a", b"</s>"], end_token_ids=[2]), end_token_ids=2
    )
    with pytest.raises(InvalidArgumentError) as caught:
        logits_processor(RegexStateMachine("a"), VOCABULARY, end_token_ids=[1])
    assert caught.value.argument == "end_token_ids"
