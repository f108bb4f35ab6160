"""The embedded model, real schemas, and a judge that is not ours."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from object_schemas import closed_object

from proxy_engine import InferenceEngine

# Bounded throughout: at temperature 1 a model this small wanders through anything that is not.
SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    "flat object": (
        "Extract name, age, city as JSON: Ada, 36, lives in London.",
        closed_object(
            name={"type": "string", "minLength": 1, "maxLength": 12},
            age={"type": "integer", "minimum": 0, "maximum": 130},
            city={"type": "string", "maxLength": 12},
        ),
    ),
    "recursion": (
        "Write a task with one subtask as JSON.",
        {
            # Left to itself the model nests for ever; the second part ends the third level.
            "allOf": [
                {"$ref": "#/$defs/task"},
                {
                    "properties": {
                        "subtask": {
                            "properties": {"subtask": {"properties": {"subtask": {"type": "null"}}}}
                        }
                    }
                },
            ],
            "$defs": {
                "task": {
                    "type": "object",
                    "properties": {
                        "hours": {"type": "integer", "minimum": 1, "maximum": 40},
                        "subtask": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/task"}]},
                    },
                    "required": ["hours"],
                    "additionalProperties": False,
                }
            },
        },
    ),
    "choice of objects": (
        "Describe a circle or a square as JSON.",
        {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": kind}, size: {"enum": [1, 2.5, 10]}},
                    "required": ["kind", size],
                    "additionalProperties": False,
                }
                for kind, size in (("circle", "radius"), ("square", "side"))
            ]
        },
    ),
    "patterns": (
        "Give a date and an order number as JSON.",
        closed_object(
            date={"type": "string", "pattern": r"^20\d\d-(0[1-9]|1[0-2])-[0-2]\d$"},
            order={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
        ),
    ),
    "arrays and numbers": (
        "Write coordinates and tags as JSON.",
        closed_object(
            point={
                "type": "array",
                "prefixItems": [{"type": "integer", "minimum": -9, "maximum": 9}] * 2,
                "items": False,
                "minItems": 2,
            },
            tags={"type": "array", "items": {"enum": ["a", "b", None]}, "maxItems": 3},
        ),
    ),
}


def check(engine: InferenceEngine, name: str, seed: int) -> None:
    prompt, schema = SCHEMAS[name]
    result = engine.generate(
        [{"role": "system", "content": "Answer in JSON."}, {"role": "user", "content": prompt}],
        response_format=schema,
        temperature=1.0,
        seed=seed,
        max_tokens=400,
    )
    jsonschema.Draft202012Validator(schema).validate(json.loads(result.text))
    assert result.finish_reason == "stop"


@pytest.mark.model
@pytest.mark.parametrize("name", SCHEMAS)
def test_every_output_validates(embedded_engine: InferenceEngine, name: str) -> None:
    check(embedded_engine, name, 0)


@pytest.mark.soak
@pytest.mark.model
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", SCHEMAS)
def test_many_requests_leave_no_residue(
    embedded_engine: InferenceEngine, name: str, seed: int
) -> None:
    check(embedded_engine, name, seed)


@pytest.mark.model
def test_the_embedded_tokenizer(embedded_engine: InferenceEngine) -> None:
    tokenizer = embedded_engine.tokenizer

    def pieces(text: str) -> list[str]:
        return [tokenizer.decode([i]) for i in tokenizer.encode(text, add_special_tokens=False)]

    assert pieces("Hello 1234") == ["Hello", " ", "1", "2", "3", "4"]
    for text in ("naïve 日本 🙂\n\n\tit's", "  two spaces", "<|im_start|>x", ""):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
    assert tokenizer.encode("<|im_end|>", add_special_tokens=False) == [2]
    assert tokenizer.eos_token_ids == {2}
    assert len(tokenizer.get_added_vocab()) == 17
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "x"}], add_generation_prompt=True, tokenize=False
    )
    assert chat.endswith("<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n")
