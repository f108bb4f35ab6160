"""The description of response formats in prompts."""

from __future__ import annotations

import copy
from typing import Any

import engine_parts
import pytest
from chat_templates import with_chat_template
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object
from rendered_prompts import encode_prompt

from proxy_engine import GenerationOptions, InferenceEngine, PromptError, RawPrompt
from proxy_engine.conversation.schema_text import schema_text, with_schema_text
from state_machines import JsonSchemaStateMachine
from state_machines.root import Choice, Series, Structured, Text

SCHEMA = closed_object(age={"type": "integer"})
OUTLINE = 'Answer with JSON in this form:\n{\n  "age": integer\n}'
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def prompt_text(
    engine: InferenceEngine, prompt: Any, *, response_format: Any = SCHEMA, **arguments: Any
) -> str:
    """Return the prompt that a request with a schema sends to the model."""
    return engine_parts.prompt_text(
        engine, prompt, response_format, **{"max_tokens": 64, **arguments}
    )


def test_outline_and_json_schema() -> None:
    assert schema_text([("", SCHEMA)], "outline") == OUTLINE
    assert schema_text([("", {"type": "null"})], "json_schema") == (
        'Answer with JSON that matches this JSON Schema:\n{"type": "null"}'
    )
    assert schema_text([("", SCHEMA)], "off") == ""
    assert schema_text([], "outline") == ""


def test_descriptions_lack_reader_languages() -> None:
    day = {"type": "string", "format": "date"}
    schema = {**day, "x-reader-language": {"language": "date", "ge": "2024-01-01"}}
    for form in ("outline", "json_schema"):
        assert schema_text([("", schema)], form) == schema_text([("", day)], form)


def test_json_schema_that_is_too_long_becomes_an_outline() -> None:
    schema = {**SCHEMA, "$comment": "x" * 300}
    assert schema_text([("", schema)], "json_schema", max_chars=200) == OUTLINE


@pytest.mark.parametrize(
    ("described", "outline"),
    [
        ({"properties": {"a": {"type": "null", "description": "no\n one"}}}, '"a"?: null  // no one'),
        ({"type": "null", "description": "nothing"}, "null  // nothing"),
        ({"properties": {}, "description": "empty"}, "{...}  // empty"),
        ({"required": ["a"], "description": "about it"}, '{  // about it\n  "a": any value\n}'),
        ({"items": {"type": "null", "description": "each"}, "description": "all"}, "[null, ...]  // all; each"),
        (
            {
                "properties": {"a": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}},
                "$defs": {"A": {"enum": [1], "description": "one"}},
            },
            '"a"?: 1 | null  // one',
        ),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}},
                "$defs": {"A": {"enum": [1], "description": "one"}},
            },
            "where A is 1  // one",
        ),
    ],
)  # fmt: skip
def test_descriptions_reach_the_model_by_default(
    roomy_engine: InferenceEngine, described: dict[str, Any], outline: str
) -> None:
    text = prompt_text(roomy_engine, "Ada", response_format=described)
    assert outline in text
    assert text.count("//") == 1
    assert outline not in prompt_text(
        roomy_engine, "Ada", response_format=described, schema_in_prompt="off"
    )


def test_schema_without_descriptions_is_not_written_by_default(
    roomy_engine: InferenceEngine,
) -> None:
    assert prompt_text(roomy_engine, "Ada") == "<|start|>user\nAda<|end|><|start|>assistant\n"
    named = {"properties": {"description": {"const": "description"}}}
    assert schema_text([("", named)], "auto") == ""


def test_description_begins_the_first_message_of_the_user(roomy_engine: InferenceEngine) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Ada"},
        {"role": "assistant", "content": "?"},
        {"role": "user", "content": "Her age"},
    ]
    given = copy.deepcopy(messages)
    assert prompt_text(roomy_engine, messages, schema_in_prompt="outline") == (
        f"<|start|>system\nBe brief.<|end|><|start|>user\n{OUTLINE}\n\nAda<|end|>"
        "<|start|>assistant\n?<|end|><|start|>user\nHer age<|end|><|start|>assistant\n"
    )
    assert messages == given


def test_conversation_without_a_user_gets_a_message() -> None:
    messages = [{"role": "system", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert [m["role"] for m in with_schema_text(messages, "x")] == ["system", "user", "assistant"]
    assert with_schema_text(messages[:1], "x")[1] == {"role": "user", "content": "x"}
    assert with_schema_text([{"role": "user", "content": ""}], "x")[0]["content"] == "x"


def test_tokenizer_without_a_chat_template_gets_the_description(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    plain = with_chat_template(tiny_tokenizer, None)
    assert plain.decode(encode_prompt("Ada", plain, schema_text="JSON!")) == (
        "user: JSON!\n\nAda\nassistant:"
    )


def test_description_follows_that_of_tools(roomy_engine: InferenceEngine) -> None:
    text = prompt_text(roomy_engine, "Ada", tools=[TOOL], schema_in_prompt="outline")
    assert "You can call these tools" in text
    assert f"user\nCall tools if they are needed. If you call none:\n\n{OUTLINE}\n\nAda" in text


def test_required_call_leaves_the_description_out(roomy_engine: InferenceEngine) -> None:
    text = prompt_text(
        roomy_engine, "Ada", tools=[TOOL], tool_choice="required", schema_in_prompt="outline"
    )
    assert "Answer with JSON" not in text


def test_parts_of_a_composition_are_described_by_name(roomy_engine: InferenceEngine) -> None:
    plan = Structured("plan", grammar=JsonSchemaStateMachine({"type": "null"}))
    score = Structured("score", grammar=JsonSchemaStateMachine({"type": "integer"}))
    answer = Series(Text("thought", end="\n"), Choice(plan, Series(plan, score)))
    text = prompt_text(
        roomy_engine, "Ada", response_format=answer, schema_in_prompt="outline", max_tokens=200
    )
    assert (
        "user\nWrite the part plan as JSON in this form:\nnull\n\n"
        "Write the part score as JSON in this form:\ninteger\n\nAda" in text
    )


def test_formats_without_a_schema_are_not_described(roomy_engine: InferenceEngine) -> None:
    for response_format in (None, {"type": "text"}):
        text = prompt_text(
            roomy_engine, "Ada", response_format=response_format, schema_in_prompt="outline"
        )
        assert text == "<|start|>user\nAda<|end|><|start|>assistant\n"


def test_long_description_is_cut() -> None:
    properties = {f"property{n}": {"type": "null"} for n in range(500)}
    text = schema_text([("", {"properties": properties})], "json_schema", max_chars=200)
    assert len(text) < 250
    assert text.endswith("\n...")


def test_parts_share_the_length() -> None:
    schema = {"properties": {f"property{n}": {"type": "null"} for n in range(500)}}
    text = schema_text([("a", schema), ("b", schema)], "outline", max_chars=400)
    assert 300 < len(text) < 500
    assert text.count("\n...") == 2


def test_raw_prompt_refuses_the_option_of_a_request(roomy_engine: InferenceEngine) -> None:
    with pytest.raises(PromptError, match="raw prompt"):
        prompt_text(roomy_engine, RawPrompt("a"), schema_in_prompt="outline")


def test_raw_prompt_ignores_the_engines_option(
    roomy_model: Any, tiny_tokenizer: TokenizerWrapper
) -> None:
    options = GenerationOptions(schema_in_prompt="outline")
    with InferenceEngine(roomy_model, tiny_tokenizer, options=options) as engine:
        assert prompt_text(engine, RawPrompt("a")) == "a"
        assert OUTLINE in prompt_text(engine, "a")


def test_next_turn_shares_the_description(roomy_engine: InferenceEngine) -> None:
    first = [{"role": "user", "content": "Ada"}]
    later = [*first, {"role": "assistant", "content": "1"}, {"role": "user", "content": "Eva"}]
    texts = [prompt_text(roomy_engine, talk, schema_in_prompt="outline") for talk in (first, later)]
    assert texts[1].startswith(texts[0].removesuffix("<|start|>assistant\n"))
