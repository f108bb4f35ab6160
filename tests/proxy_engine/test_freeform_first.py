"""Constrained answers behind a freeform one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import TINY_CONTEXT, make_tiny_model, make_tiny_tokenizer

from proxy_engine import (
    BatchRequest,
    Finished,
    FreeformFirstOptions,
    GenerationOptions,
    InferenceEngine,
    InvalidOptionError,
    PartOptions,
    PromptError,
    RawPrompt,
    ReasoningDelta,
    ReasoningOptions,
    TextDelta,
)
from state_machines import GrammarStateMachine, MaxTokensTooSmallError, RegexStateMachine
from state_machines.root import Series, Structured, Text

FREEFORM = FreeformFirstOptions(instruction="J", max_tokens=12)
ASKED = "<|end|><|start|>user\nJ<|end|><|start|>assistant\n"
ASKED_TOKENS = 20
END = 264
RECORD = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 4}, "ok": {"type": "boolean"}},
    "required": ["name", "ok"],
}
TOOL = {"type": "function", "function": {"name": "paint", "parameters": RECORD}}


class Color(Enum):
    RED = "red"
    GREEN = "green"


KINDS: dict[str, dict[str, Any]] = {
    "schema": {"response_format": RECORD},
    "type": {"response_format": Color},
    "pattern": {"response_format": RegexStateMachine("(ab|c){1,4}")},
    "grammar": {"response_format": GrammarStateMachine.from_gbnf('root ::= "a" root "b" | "c"')},
    "composition": {
        "response_format": Series(
            Text(begin="<", end=">", max_chars=5),
            Structured("n", grammar=RegexStateMachine("[0-9]")),
        )
    },
    "tool": {"tools": [TOOL], "tool_choice": "required"},
    "tool or record": {"tools": [TOOL], "response_format": RECORD},
    "tool or text": {"tools": [TOOL]},
    "reasoning": {
        "response_format": RECORD,
        "reasoning": ReasoningOptions(begin="<t>", end="</t>", max_chars=6),
    },
    "exact choices": {"response_format": Color, "exact_choices": True},
    "several": {"response_format": RECORD, "n": 3, "temperature": 1.0},
}


@pytest.fixture(scope="module")
def engine() -> Iterator[InferenceEngine]:
    with InferenceEngine(make_tiny_model(), make_tiny_tokenizer(), batch_size=4) as engine:
        assert engine.vocabulary.special_tokens["<|end|>"] == END
        yield engine


def check(result: Any, kind: str, max_tokens: int) -> None:
    """Check the parts of an answer, which the engine has validated."""
    for answer in result.choices or (result,):
        usage = answer.usage
        written = [(part.name, part.is_marker, part.text) for part in answer.parts]
        assert ("reasoning", True, ASKED) in written
        place = written.index(("reasoning", True, ASKED))
        assert all(name == "reasoning" for name, _, _ in written[:place])
        assert all(name != "reasoning" for name, _, _ in written[place + 1 :])
        assert ASKED not in answer.text
        assert usage.completion_tokens == len(answer.token_ids) <= max_tokens
        # The freeform answer and the message.
        assert ASKED_TOKENS <= usage.reasoning_tokens < usage.completion_tokens
        if kind in ("schema", "reasoning", "several"):
            assert json.loads(answer.text) == answer.parsed
        if kind == "tool":
            assert answer.tool_calls


@settings(max_examples=25)
@given(
    kind=st.sampled_from(list(KINDS)),
    seed=st.integers(0, 99),
    end_bias=st.sampled_from([0.0, 4.0, 9.0]),
    max_tokens=st.integers(120, 200),
)
def test_answer_behind_a_freeform_one_is_valid_and_streams_equal(
    engine: InferenceEngine, kind: str, seed: int, end_bias: float, max_tokens: int
) -> None:
    arguments = {
        "freeform_first": FREEFORM,
        "temperature": float(seed % 2),
        "seed": seed,
        "max_tokens": max_tokens,
        "logit_bias": {END: end_bias},
        **KINDS[kind],
    }
    result = engine.generate("12 abc", **arguments)
    check(result, kind, max_tokens)
    if result.choices:
        return
    events = list(engine.stream("12 abc", **arguments))
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.result.token_ids == result.token_ids
    freeform = [event.text for event in events if isinstance(event, ReasoningDelta)]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert ("".join(freeform), "".join(texts)) == (result.reasoning, result.text)


def test_batches_equal_single_requests(engine: InferenceEngine) -> None:
    options: dict[str, Any] = {"freeform_first": FREEFORM, "max_tokens": 160, "temperature": 0.0}
    kinds = [kind for kind, arguments in KINDS.items() if "temperature" not in arguments]
    requests = [BatchRequest(f"{kind}?", **_request(kind, options)) for kind in kinds]
    together = engine.generate_batch(requests)
    for kind, request, result in zip(kinds, requests, together, strict=True):
        check(result, kind, 160)
        assert engine.generate(request.prompt, **KINDS[kind], **options).text == result.text


def _request(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    names = ("response_format", "tools", "tool_choice")
    own = KINDS[kind]
    others = {name: value for name, value in own.items() if name not in names}
    return {
        **{name: value for name, value in own.items() if name in names},
        "options": {**options, **others},
    }


def test_freeform_answer_ends_with_the_end_token_of_the_model(engine: InferenceEngine) -> None:
    result = engine.generate("a", RECORD, freeform_first=FREEFORM, logit_bias={END: 100.0})
    assert result.reasoning == ""
    assert result.token_ids[0] == END
    assert result.finish_reason == "stop"
    assert result.parsed.keys() == {"name", "ok"}


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"freeform_first": FREEFORM}, 12),
        ({"freeform_first": True, "max_tokens": 220}, 110),
        ({"freeform_first": FREEFORM, "parts": {"reasoning": PartOptions(max_tokens=5)}}, 5),
    ],
    ids=["own limit", "half of max_tokens", "limit of the part"],
)
def test_freeform_answer_ends_at_its_limit(
    engine: InferenceEngine, options: dict[str, Any], limit: int
) -> None:
    result = engine.generate("a", RECORD, logit_bias={END: -100.0}, temperature=0, **options)
    assert result.token_ids.index(END) == limit
    assert result.parsed.keys() == {"name", "ok"}


def test_freeform_answer_leaves_half_of_a_short_context_to_the_answer(
    engine: InferenceEngine,
) -> None:
    result = engine.generate("b" * 300, RECORD, freeform_first=True, logit_bias={END: -100.0})
    room = TINY_CONTEXT - result.usage.prompt_tokens
    # A character that has begun is completed.
    assert 0 <= result.token_ids.index(END) - room // 2 < 4
    assert result.parsed.keys() == {"name", "ok"}


def test_descriptions_are_in_the_message_behind_the_freeform_answer(
    engine: InferenceEngine,
) -> None:
    described = {"type": "null", "description": "Nothing."}
    options: dict[str, Any] = {"freeform_first": FREEFORM, "max_tokens": 150, "temperature": 0.0}
    result = engine.generate("hi", described, **options)
    tokenizer = engine.tokenizer
    assert "J\n\nAnswer with JSON in this form:\nnull  // Nothing.<|end|>" in tokenizer.decode(
        result.token_ids
    )
    assert (
        result.usage.prompt_tokens
        == engine.generate("hi", {"type": "null"}, **options).usage.prompt_tokens
    )


@pytest.mark.parametrize(("text", "is_in_prompt"), [("a flag", False), ("not <|end|>", True)])
def test_description_that_spells_a_control_token_is_in_the_prompt(
    engine: InferenceEngine, text: str, is_in_prompt: bool
) -> None:
    schema = {"type": "boolean", "description": text}
    result = engine.generate("a", schema, freeform_first=FREEFORM, max_tokens=300)
    plain = engine.generate("a", {"type": "boolean"}, freeform_first=FREEFORM, max_tokens=300)
    assert (result.usage.prompt_tokens > plain.usage.prompt_tokens) is is_in_prompt
    assert any(text in part.text for part in result.parts) is not is_in_prompt


def test_max_tokens_must_have_room_for_message_and_answer(engine: InferenceEngine) -> None:
    with pytest.raises(MaxTokensTooSmallError) as caught:
        engine.generate("a", RECORD, freeform_first=FREEFORM, max_tokens=30)
    needed = caught.value.needed
    result = engine.generate("a", RECORD, freeform_first=FREEFORM, max_tokens=needed)
    assert result.usage.completion_tokens <= needed
    assert result.parsed.keys() == {"name", "ok"}


def test_answer_of_the_assistant_is_continued_by_the_freeform_one(engine: InferenceEngine) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    result = engine.generate(messages, RECORD, freeform_first=FREEFORM, max_tokens=120)
    check(result, "schema", 120)


@pytest.mark.parametrize(
    ("prompt", "arguments", "error", "text"),
    [
        (RawPrompt("a"), {"response_format": RECORD}, PromptError, "raw prompt"),
        ("a", {}, InvalidOptionError, "no effect"),
        (
            "a",
            {
                "response_format": RECORD,
                "freeform_first": FreeformFirstOptions(instruction="<|end|>"),
            },
            PromptError,
            "control token",
        ),
    ],
    ids=["raw prompt", "free text", "control token"],
)
def test_freeform_answer_that_cannot_be_is_refused(
    engine: InferenceEngine, prompt: Any, arguments: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        engine.generate(prompt, **{"freeform_first": True, **arguments})


def test_loop_of_tools_ends_with_an_answer_without_a_freeform_one(engine: InferenceEngine) -> None:
    def tick(is_on: bool) -> str:
        return "ticked"

    run = engine.run_tools(
        "a", [tick], tool_choice="required", max_rounds=1, freeform_first=FREEFORM, max_tokens=120
    )
    assert run.rounds == 1
    assert run.conversation[1].reasoning
    assert run.result.reasoning == ""


def test_default_of_an_engine_leaves_free_text_alone() -> None:
    options = GenerationOptions(freeform_first=FREEFORM, max_tokens=120)
    with InferenceEngine(make_tiny_model(), make_tiny_tokenizer(), options=options) as engine:
        assert engine.generate("a", max_tokens=4).reasoning == ""
        assert engine.generate(RawPrompt("a"), RECORD).reasoning == ""
        check(engine.generate("a", RECORD), "schema", 120)
