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
from adversarial_drafters import ALWAYS, Replay, drafters
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object
from speculation_checks import Comparison, babbling_model, complete_masks

from proxy_engine import (
    InferenceEngine,
    PartOptions,
    ReasoningOptions,
)
from proxy_engine.generation import GeneratedSequence, step
from proxy_engine.generation.sampling import NextToken
from proxy_engine.generation.speculation import drafting
from state_machines import MaxTokensTooSmallError, RegexStateMachine
from state_machines.completion import Guard
from state_machines.root import Choice, Marker, Repeat, Series, Structured, Text

RECORD: dict[str, Any] = closed_object(
    ["ab", "n", "kind"],
    ab={"type": "string", "maxLength": 8},
    n={"type": "integer", "minimum": 0, "maximum": 212},
    kind={"enum": ["a", "ab", "abx", "12"]},
    tags={"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
)
COMPOSITION = Repeat(
    Choice(
        Series(Marker("sign", "<"), Structured("price", grammar=RegexStateMachine("[12]{1,3}>"))),
        Text("text", min_chars=1, max_chars=9),
    ),
    min_count=2,
    max_count=3,
)

ANSWERS: dict[str, dict[str, Any]] = {
    "text": {},
    "object": {"response_format": RECORD},
    "composition": {"response_format": COMPOSITION},
    "parts": {
        "response_format": RECORD,
        "reasoning": ReasoningOptions(),
        "parts": {
            "reasoning": PartOptions(temperature=1.3, top_p=0.9, max_tokens=7),
            "structured": PartOptions(temperature=0.7, presence_penalty=0.5, max_tokens=25),
        },
    },
}


@pytest.fixture(scope="module")
def engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    model = babbling_model(tiny_tokenizer)
    with complete_masks(), InferenceEngine(model, tiny_tokenizer) as engine:
        yield engine


@pytest.mark.parametrize("kind", ["ending", "excessive"])
@pytest.mark.parametrize("answer", ["text", "object", "composition", "parts"])
def test_answers_are_complete_within_every_limit(
    engine: InferenceEngine, answer: str, kind: str
) -> None:
    options = {"max_tokens": 70, **ANSWERS[answer], "temperature": 1.0, "seed": 4}
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


@pytest.mark.parametrize("limited", [(drafting, "ADVANCE_STEPS"), (step, "MASK_STEPS")])
def test_drafts_that_exceed_their_step_budget_do_not_change_answers(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, limited: Any
) -> None:
    schema = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}
    monkeypatch.setattr(*limited, 300)
    options = {"max_tokens": 25, "temperature": 1.0, "seed": 7}
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


def test_error_behind_a_proposed_token_fails_the_request(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = GeneratedSequence.sample

    def broken(self: GeneratedSequence, *arguments: Any) -> NextToken:
        # Behind tokens of a draft, these are an argument.
        if len(arguments) == 3:
            raise LookupError("broken")
        return sample(self, *arguments)

    compared = Comparison(engine, "hello", max_tokens=20)
    monkeypatch.setattr(GeneratedSequence, "sample", broken)
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
