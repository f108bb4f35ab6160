"""Drafts change no answer, whatever the drafters propose.

The drafters know the answer of the run without drafts, and misuse it. The model computes exactly
the same logits in passes of any width, so tokens are compared, not probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest
from adversarial_drafters import ALWAYS, KINDS, Replay, drafters
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from speculation_checks import Comparison, babbling_model, complete_masks, merged

from proxy_engine import (
    InferenceEngine,
    PartialValue,
    PartOptions,
    ReasoningOptions,
    TokenGenerated,
)
from proxy_engine.generation import drafting, verification
from state_machines import ChoiceStateMachine, MaxTokensTooSmallError, RegexStateMachine
from state_machines.completion import Guard
from state_machines.root import Choice, Loop, Marker, Structured, Text
from state_machines.root import Sequence as Parts

RECORD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ab": {"type": "string", "maxLength": 8},
        "n": {"type": "integer", "minimum": 0, "maximum": 212},
        "kind": {"enum": ["a", "ab", "abx", "12"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["ab", "n", "kind"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": RECORD}} for name in ("ab", "abx")
]
COMPOSITION = Loop(
    Choice(
        Parts(Marker("sign", "<"), Structured("price", grammar=RegexStateMachine("[12]{1,3}>"))),
        Text("text", min_chars=1, max_chars=9),
    ),
    min_count=2,
    max_count=3,
)

ANSWERS: dict[str, dict[str, Any]] = {
    "text": {},
    "text with stop strings": {"stop": ["ab", '1"', "xx"]},
    "pattern": {"response_format": RegexStateMachine("(ab|a|b|:){1,12}x?|12{1,9}")},
    "choice": {"response_format": ChoiceStateMachine(["ab", "abx", "abxab:12", "12", "122"])},
    "object": {"response_format": RECORD},
    "open object": {
        "response_format": {"type": "object", "minProperties": 1, "maxProperties": 2},
        "max_tokens": 35,
    },
    "composition": {"response_format": COMPOSITION},
    "reasoning": {
        "response_format": RECORD,
        "reasoning": ReasoningOptions(min_chars=2, max_chars=12),
    },
    "parts": {
        "response_format": RECORD,
        "reasoning": ReasoningOptions(),
        "parts": {
            "reasoning": PartOptions(temperature=1.3, top_p=0.9, max_tokens=7),
            "structured": PartOptions(temperature=0.7, presence_penalty=0.5, max_tokens=25),
        },
    },
    "tools": {"tools": TOOLS, "max_tool_calls": 2},
    "required tools": {"tools": TOOLS, "tool_choice": "required", "max_tool_calls": 2},
}
SAMPLING: dict[str, dict[str, Any]] = {
    "greedy": {},
    "greedy, penalties": {"repetition_penalty": 1.4, "frequency_penalty": 0.3},
    "sampled": {"temperature": 1.0},
    "filters": {"temperature": 1.2, "top_p": 0.8, "min_p": 0.02, "top_k": 12},
    "penalties": {
        "temperature": 0.9,
        "presence_penalty": 1.1,
        "repetition_penalty": 1.2,
        "repetition_context_size": 9,
        "logit_bias": {64: 1.5, 70: -2.0},
    },
}
LIMITS: dict[str, dict[str, Any]] = {
    "none": {},
    "minimum": {"min_tokens": 9},
    "soft limit": {"soft_max_tokens": 4},
    "logprobs": {"logprobs": 2},
    "no forced text": {"fast_forward": False},
    "exact choices": {"exact_choices": True},
    "exact choices, every token sampled": {"exact_choices": True, "logprobs": 0},
}


@pytest.fixture(scope="module")
def engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    model = babbling_model(tiny_tokenizer)
    with complete_masks(), InferenceEngine(model, tiny_tokenizer) as engine:
        yield engine


def arguments(answer: str, sampling: str, limit: str, seed: int) -> dict[str, Any]:
    seeded = {"seed": seed} if "temperature" in SAMPLING[sampling] or answer == "parts" else {}
    tokens = {"max_tokens": 30 if "text" in answer else 70}
    return tokens | ANSWERS[answer] | SAMPLING[sampling] | LIMITS[limit] | seeded


EXAMPLES = settings(suppress_health_check=list(HealthCheck))


@given(
    st.sampled_from(list(ANSWERS)),
    st.sampled_from(list(SAMPLING)),
    st.sampled_from(list(LIMITS)),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True),
    st.integers(0, 1000),
)
@settings(EXAMPLES, max_examples=8)
def test_answer_is_that_of_a_run_without_drafts(
    engine: InferenceEngine, answer: str, sampling: str, limit: str, kinds: list[str], seed: int
) -> None:
    options = arguments(answer, sampling, limit, seed)
    Comparison(engine, "hello", **options).run(*kinds, seed=seed)


@given(
    st.sampled_from(list(ANSWERS)),
    st.sampled_from(KINDS),
    st.integers(0, 1000),
)
@settings(EXAMPLES, max_examples=5)
def test_events_are_those_of_a_run_without_drafts(
    engine: InferenceEngine, answer: str, kind: str, seed: int
) -> None:
    options = arguments(answer, "sampled", "none", seed)
    compared = Comparison(engine, "hello", **options)
    plain = list(engine.stream("hello", **options, speculation="off"))
    drafted = compared.stream(kind, seed=seed)
    assert merged(drafted) == merged(plain)
    tokens = [one for one in drafted if isinstance(one, TokenGenerated)]
    assert tokens == [one for one in plain if isinstance(one, TokenGenerated)]
    values = [one.value for one in drafted if isinstance(one, PartialValue)]
    assert values[-1:] == [one.value for one in plain if isinstance(one, PartialValue)][-1:]


@pytest.mark.parametrize("kind", ["right", "ending", "excessive"])
@pytest.mark.parametrize("answer", ["text", "object", "composition", "parts"])
def test_answers_are_complete_within_every_limit(
    engine: InferenceEngine, answer: str, kind: str
) -> None:
    options = arguments(answer, "sampled", "none", 4)
    needed = 1
    if answer != "text":
        with pytest.raises(MaxTokensTooSmallError) as caught:
            engine.generate("hello", **{**options, "max_tokens": 1})
        needed = caught.value.needed
    for max_tokens in range(needed, needed + 8):
        compared = Comparison(engine, "hello", **{**options, "max_tokens": max_tokens})
        assert compared.run(kind).usage.completion_tokens <= max_tokens


@pytest.mark.parametrize("kind", ["right", "mistaken", "ending"])
def test_answers_with_little_time_are_complete(engine: InferenceEngine, kind: str) -> None:
    slow = Comparison(engine, "hello", response_format=RECORD, temperature=1.0, seed=2)
    for seconds in (1e-6, 0.003, 0.01, 0.03):
        with drafters(slow.maker([kind], 0, [])):
            result = engine.generate(
                "hello",
                response_format=RECORD,
                temperature=1.0,
                seed=2,
                max_seconds=seconds,
                speculation=ALWAYS,
            )
        jsonschema.validate(result.parsed, RECORD)
        assert result.finish_reason == ("length" if result.cut_short else "stop")


@pytest.mark.parametrize("steps", [0, 300])
@pytest.mark.parametrize("limited", [(drafting, "ADVANCE_STEPS"), (verification, "MASK_STEPS")])
def test_drafts_that_exceed_their_step_budget_do_not_change_answers(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, limited: Any, steps: int
) -> None:
    schema = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}
    monkeypatch.setattr(*limited, steps)
    options = {"max_tokens": 25, "temperature": 1.0, "seed": 7 + steps}
    Comparison(engine, "hello", response_format=schema, **options).run("right", "mistaken")


@pytest.mark.parametrize("kind", ["right", "mistaken", "wrong"])
def test_tokens_that_the_guard_refuses_are_sampled_again(
    engine: InferenceEngine, kind: str
) -> None:
    """A first byte begins a text that is too long; the mask admits it far from the limit."""
    first = engine.vocabulary.token_bytes.index("é".encode()[:1])
    machine = RegexStateMachine("([ab]{1,2}|é[0-9]{200}|:){9,20}")
    refusals = []
    accepts = Guard.accepts

    def counted(guard: Guard, token_id: int) -> bool:
        is_accepted = accepts(guard, token_id)
        refusals.extend([token_id] * (not is_accepted and token_id == first))
        return is_accepted

    with patch.object(Guard, "accepts", counted):
        for seed in range(4):
            Comparison(
                engine,
                "hello",
                response_format=machine,
                max_tokens=150,
                temperature=1.0,
                seed=seed,
                logit_bias={first: 4.0},
            ).run(kind)
    assert len(refusals) > 8


def test_right_drafts_save_passes(engine: InferenceEngine) -> None:
    compared = Comparison(engine, "hello", max_tokens=40, temperature=1.0, seed=1)
    for kind in ("right", "excessive"):
        usage = compared.run(kind).usage
        assert usage.accepted_tokens == usage.drafted_tokens > 30
        assert usage.forward_passes <= 1 + 40 / 7


def test_refused_drafts_are_counted(engine: InferenceEngine) -> None:
    compared = Comparison(engine, "hello", max_tokens=20, temperature=1.0, seed=1)
    usage = compared.run("wrong").usage
    assert usage.accepted_tokens == 0
    assert usage.drafted_tokens > 19


@pytest.mark.parametrize("seed", [0, 7, 14], ids=["update", "propose", "expects_draft"])
def test_drafter_that_fails_is_dropped(
    engine: InferenceEngine, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    usage = Comparison(engine, "hello", max_tokens=30).run("failing", "right", seed=seed).usage
    assert usage.accepted_tokens > 15
    assert len(caplog.records) == 1
    assert "failing" in caplog.text


def test_run_without_speculation_asks_no_drafter(engine: InferenceEngine) -> None:
    def none(prompt_ids: Sequence[int]) -> list[Replay]:
        raise AssertionError("a drafter is made")

    with drafters(none):
        engine.generate("hello", max_tokens=9, speculation="off")


def test_particles_are_not_drafted(engine: InferenceEngine) -> None:
    options = {"response_format": RECORD, "temperature": 1.0, "seed": 3}
    with InferenceEngine(engine._core.loaded.model, engine.tokenizer, batch_size=4) as own:
        compared = Comparison(own, "hello", particles=4, **options)
        assert compared.run("right").usage.drafted_tokens == 0


def test_error_behind_a_proposed_token_fails_the_request(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise LookupError("broken")

    compared = Comparison(engine, "hello", max_tokens=20)
    monkeypatch.setattr(verification.Verification, "_sample_behind", broken)
    with pytest.raises(LookupError):
        compared.run("right")


@pytest.mark.parametrize("kind", ["right", "mistaken"])
def test_sampled_tokens_that_a_guard_refuses_twice_are_those_of_its_plan(
    engine: InferenceEngine, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the search behind an exact mask had a larger budget than that behind a token."""
    monkeypatch.setattr(Guard, "mask", lambda guard, allowed, exact=False: allowed)
    schema = {"type": "array", "items": {"enum": ["abab", 12]}, "minItems": 3}
    comparison = Comparison(
        engine, "hello", response_format=schema, max_tokens=18, temperature=1.0, seed=3
    )
    assert len(comparison.plain.parsed) >= 3
    comparison.run(kind)
