"""Options of how prompts are rendered and where free text ends."""

from __future__ import annotations

from typing import Any

import pytest
from chat_templates import with_chat_template
from engine_parts import prompt_text
from object_schemas import closed_object, function_tool
from tiny_models import make_tiny_model, make_tiny_tokenizer

from proxy_engine import GenerationOptions, InferenceEngine, InvalidOptionError
from proxy_engine.options.generation import ReasoningOptions
from state_machines.root import Marker, Series, Text
from state_machines.tool_calls import FORMATS

TOOL = function_tool("add", closed_object(a={"enum": [1, 2]}))


@pytest.fixture(scope="module")
def mood_engine() -> InferenceEngine:
    """An engine whose chat template writes a variable."""
    tokenizer = make_tiny_tokenizer()
    template = "[{{ mood | default('none') }}]" + tokenizer.chat_template
    return InferenceEngine(make_tiny_model(), with_chat_template(tokenizer, template))


def test_template_variables_reach_the_chat_template(mood_engine: InferenceEngine) -> None:
    assert prompt_text(mood_engine, "x").startswith("[none]")
    given = {"mood": "glad"}
    assert prompt_text(mood_engine, "x", chat_template_kwargs=given).startswith("[glad]")
    assert given == {"mood": "glad"}


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt", "tokenize"])
def test_variables_that_the_engine_sets_are_refused(name: str) -> None:
    with pytest.raises(InvalidOptionError, match=name):
        GenerationOptions(chat_template_kwargs={name: 1})


def test_template_variables_decide_on_reasoning_unless_it_is_given() -> None:
    for name in ("enable_thinking", "thinking"):
        for value in (True, False):
            variables = {"chat_template_kwargs": {name: value}}
            assert GenerationOptions(**variables).reasoning_option is value
            own = ReasoningOptions()
            assert GenerationOptions(**variables, reasoning=own).reasoning_option is own
    assert GenerationOptions(chat_template_kwargs={"mood": True}).reasoning_option is None


def test_final_message_is_continued_or_followed_by_an_answer(tiny_engine: InferenceEngine) -> None:
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The"}]
    assert prompt_text(tiny_engine, talk).endswith("<|start|>assistant\nThe")
    followed = prompt_text(tiny_engine, talk, continue_final_message=False)
    assert followed.endswith("<|start|>assistant\nThe<|end|><|start|>assistant\n")


def test_free_text_ends_at_a_stop_token(tiny_engine: InferenceEngine) -> None:
    whole = tiny_engine.generate("x", max_tokens=24, min_tokens=24)
    stop = next(
        token_id
        for at, token_id in enumerate(whole.token_ids)
        if at and token_id not in whole.token_ids[:at]
    )
    result = tiny_engine.generate("x", max_tokens=24, min_tokens=1, stop_token_ids=[stop])
    end = whole.token_ids.index(stop)
    assert result.finish_reason == "stop"
    assert result.token_ids == whole.token_ids[: end + 1]
    written = b"".join(
        tiny_engine.vocabulary.token_bytes[token_id] or b"" for token_id in whole.token_ids[:end]
    )
    assert result.text == written.decode("utf-8", "replace")


def test_stop_tokens_hold_before_tool_calls(roomy_engine: InferenceEngine) -> None:
    """The text of the token ends the free text of an answer that may call tools."""
    token_id = next(
        token_id
        for token_id, form in enumerate(roomy_engine.vocabulary.token_bytes)
        if form == b"e"
    )
    for seed in range(6):
        result = roomy_engine.generate(
            "x", tools=[TOOL], temperature=1.0, seed=seed, max_tokens=60, stop_token_ids=[token_id]
        )
        assert "e" not in result.text


@pytest.mark.parametrize("option", [{"stop": "\n"}, {"stop_token_ids": [5]}], ids=str)
@pytest.mark.parametrize(
    "arguments",
    [
        {"response_format": {"type": "integer"}},
        {"response_format": Series(Text("a"), Marker("b", "-"), Text("c"))},
        {"tools": [TOOL], "tool_choice": "required"},
    ],
    ids=["schema", "composition", "call"],
)
def test_ends_of_free_text_are_refused_without_free_text(
    roomy_engine: InferenceEngine, option: dict[str, Any], arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOptionError, match="end free text") as caught:
        roomy_engine.generate("x", **option, **arguments)
    assert caught.value.option == next(iter(option))


@pytest.mark.parametrize("value", ["5", [-1], [True], [1.0], ["a"], 5])
def test_stop_tokens_are_token_ids(value: Any) -> None:
    with pytest.raises(InvalidOptionError, match="stop_token_ids"):
        GenerationOptions(stop_token_ids=value)


@pytest.mark.parametrize(
    "options",
    [
        {"stop_token_ids": [10**6]},
        {"logit_bias": {10**6: 1.0}},
        {"parts": {"text": {"logit_bias": {10**6: 1.0}}}},
    ],
    ids=str,
)
def test_tokens_outside_of_the_vocabulary_are_refused(
    tiny_engine: InferenceEngine, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOptionError, match="names token 1000000; the model has"):
        tiny_engine.generate("x", **options)


@pytest.mark.parametrize("tool_format", ["llama3", FORMATS["llama3"]], ids=["name", "format"])
def test_tool_format_of_a_request(roomy_engine: InferenceEngine, tool_format: Any) -> None:
    arguments: Any = {"tools": [TOOL], "tool_choice": "required", "max_tokens": 80}
    result = roomy_engine.generate("x", tool_format=tool_format, **arguments)
    assert result.tool_calls[0].arguments["a"] in (1, 2)
    assert "<tool_call>" not in "".join(part.text for part in result.parts)
    # Other requests keep the engine's own.
    result = roomy_engine.generate("x", **arguments)
    assert "<tool_call>" in "".join(part.text for part in result.parts)


def test_tool_delimiters_of_a_request(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate(
        "x", tools=[TOOL], tool_choice="required", tool_delimiters=("```tool", "```"), max_tokens=80
    )
    text = "".join(part.text for part in result.parts)
    assert text.startswith("```tool")
    assert text.endswith("```")
    assert result.tool_calls[0].name == "add"
    described = prompt_text(roomy_engine, "x", tools=[TOOL], tool_delimiters=("```tool", "```"))
    assert "```tool" in described


def test_unknown_tool_format_is_refused(roomy_engine: InferenceEngine) -> None:
    with pytest.raises(InvalidOptionError, match="no tool format 'hermess'"):
        roomy_engine.generate("x", tools=[TOOL], tool_format="hermess")
    for delimiters in (("", "x"), ("a", "b" * 1001), ("a",), "ab", ("a", 1), ("\ud800", "")):
        with pytest.raises(InvalidOptionError, match="tool_delimiters"):
            roomy_engine.generate("x", tools=[TOOL], tool_delimiters=delimiters)  # type: ignore[arg-type]


def test_cleared_prompt_cache_is_empty(engine: InferenceEngine) -> None:
    prompt = "What is the sum of one and two, and why is it so?"
    engine.generate(prompt, max_tokens=4)
    assert engine.generate(prompt, max_tokens=4).usage.cached_tokens
    engine.clear_prompt_cache()
    assert not engine.generate(prompt, max_tokens=4).usage.cached_tokens
