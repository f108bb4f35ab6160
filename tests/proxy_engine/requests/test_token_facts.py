"""Origins and lengths of the tokens of a result."""

from __future__ import annotations

from typing import Any

from proxy_engine import GenerationResult, InferenceEngine

SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["é", "日本"]}, "size": {"type": "integer"}},
    "required": ["name", "size"],
    "additionalProperties": False,
}


def check_origins(result: GenerationResult[Any]) -> None:
    usage = result.usage
    assert len(result.token_origins) == len(result.token_lengths) == len(result.token_ids)
    assert result.token_origins.count("d") == usage.accepted_tokens
    assert result.token_origins.count("f") == usage.fast_forwarded_tokens


def check(result: GenerationResult[Any]) -> None:
    check_origins(result)
    written = sum(len(part.text.encode()) for part in result.parts)
    assert sum(result.token_lengths) == written


def test_structured_answer(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate("Hi", response_format=SCHEMA, max_tokens=60)
    check(result)
    assert result.usage.fast_forwarded_tokens


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
