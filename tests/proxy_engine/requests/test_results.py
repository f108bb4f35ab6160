"""Results: origins and lengths of tokens, captured texts."""

from __future__ import annotations

from typing import Any

import pytest
from object_schemas import closed_object
from patched_limits import patch_limits

from proxy_engine import GenerationResult, InferenceEngine
from proxy_engine.answers.reader import captured_texts
from state_machines import GrammarStateMachine
from state_machines.root import Series, Structured

SCHEMA = closed_object(name={"enum": ["é", "日本"]}, size={"type": "integer"})


def check_origins(result: GenerationResult[Any]) -> None:
    usage = result.usage
    assert len(result.token_origins) == len(result.token_lengths) == len(result.token_ids)
    assert result.token_origins.count("d") == usage.accepted_tokens
    assert result.token_origins.count("f") == usage.forced_tokens


def check(result: GenerationResult[Any]) -> None:
    check_origins(result)
    written = sum(len(part.text.encode()) for part in result.parts)
    assert sum(result.token_lengths) == written


def test_structured_answer(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate("Hi", response_format=SCHEMA, max_tokens=60)
    check(result)
    assert result.usage.forced_tokens


def test_answer_with_reasoning_and_a_call(roomy_engine: InferenceEngine) -> None:
    def look(word: str) -> str:
        """Look a word up."""
        return word

    check(
        roomy_engine.generate(
            "Hi", tools=[look], tool_choice="required", reasoning=True, max_tokens=200, seed=1
        )
    )


def test_drafted_tokens_are_those_accepted(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate(
        "ab ab ab", temperature=0, max_tokens=80, speculation={"is_adaptive": False}
    )
    check_origins(result)
    assert result.usage.accepted_tokens


def test_options_that_were_drawn_are_no_forced_text(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate("Hi", response_format=SCHEMA, exact_choices=True, max_tokens=60)
    (choice, *_) = result.scored_choices
    written = b"".join(part.text.encode() for part in result.parts)
    option = choice.chosen.text.encode()
    assert written[choice.offset :].startswith(option)
    drawn = [
        length
        for origin, length in zip(result.token_origins, result.token_lengths, strict=True)
        if origin == "c"
    ]
    assert sum(drawn) >= len(option)
    assert set(result.token_origins) <= set("sfdc")


def test_several_answers_have_their_own_tokens(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate("Hi", response_format=SCHEMA, n=2, max_tokens=60)
    for choice in result.choices:
        assert len(choice.token_origins) == len(choice.token_ids) == len(choice.token_lengths)


@pytest.mark.parametrize("reasoning", [False, True])
def test_forced_text_of_a_request_cancelled_during_its_prefill(
    roomy_engine: InferenceEngine, reasoning: bool
) -> None:
    with roomy_engine.stream(
        "a prompt " * 20,
        response_format=SCHEMA,
        reasoning=reasoning,
        prefill_step_size=1,
        max_tokens=60,
    ) as stream:
        next(stream)
        stream.cancel()
        result = stream.result()
    assert result.finish_reason == "cancelled"
    assert result.text == ("" if reasoning else '{"name": "')
    check(result)


def test_special_tokens_of_a_grammar_are_written_by_their_names(
    tiny_engine: InferenceEngine,
) -> None:
    mark, ends = tiny_engine.vocabulary.SPECIAL_MARK, tiny_engine.vocabulary.end_token_ids
    name = next(
        form.removeprefix(mark).decode()
        for token_id, form in enumerate(tiny_engine.vocabulary.token_bytes)
        if form is not None and form.startswith(mark) and token_id not in ends
    )
    grammar = GrammarStateMachine.from_lark(f'start: "a" {name} "b"')
    result = tiny_engine.generate("hello", response_format=grammar, max_tokens=10)
    assert result.text == f"a{name}b"
    check(result)


def test_captures_of_all_parts_are_together(tiny_engine: InferenceEngine) -> None:
    grammar = GrammarStateMachine.from_lark('start: w "!"\nw[capture]: /[a-z]{2}/')
    parts = [Structured(name, grammar=grammar) for name in "xy"]
    result = tiny_engine.generate("hello", response_format=Series(*parts), max_tokens=20)
    assert result.captures == {"w": [part.text.removesuffix("!") for part in result.parts]}
    assert len(result.parts) == 2


def test_captures_that_take_too_much_work_are_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = GrammarStateMachine.from_lark('start: w "!"\nw[capture]: /[a-z]+/')
    patch_limits(monkeypatch, mask_steps=100)
    part = Structured("words", grammar=grammar)
    assert captured_texts([(part, "a" * 500 + "!")]) == {}
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "'words'" in record.getMessage()
    assert "100 steps" in record.getMessage()


def test_result_has_the_captured_text_without_its_suffix(tiny_engine: InferenceEngine) -> None:
    grammar = GrammarStateMachine.from_lark('start: w "!"\nw[capture="x", suffix=";"]: /[a-z]{3}/')
    result = tiny_engine.generate("hello", response_format=grammar, max_tokens=10)
    assert result.captures == {"x": result.text.removesuffix(";!")}
