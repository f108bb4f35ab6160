"""Finish reasons: ``length`` exactly where a limit changed the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from schema_strategies import examples
from speculation_checks import babbling_model, complete_masks

from proxy_engine import Finished, InferenceEngine, PartOptions, ReasoningOptions, Tool
from state_machines import MaxTokensTooSmallError

ENOUGH = 400

SCALARS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "maxLength": 9},
        {"type": "integer"},
        {"type": "boolean"},
        {"enum": ["a", "ab", "abcdefgh", None]},
    ]
)


def _containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.builds(lambda items: {"type": "array", "items": items, "maxItems": 4}, inner)
    objects = st.builds(
        lambda members, is_required: {
            "type": "object",
            "properties": members,
            "required": list(members) if is_required else [],
        },
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1),
        st.booleans(),
    )
    return lists | objects


SCHEMAS = st.recursive(SCALARS, _containers, max_leaves=4)


@pytest.fixture(scope="module")
def engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    with (
        complete_masks(),
        InferenceEngine(babbling_model(tiny_tokenizer), tiny_tokenizer) as engine,
    ):
        yield engine


@examples(40)
@given(SCHEMAS, st.integers(0, 30), st.integers(0, 99))
def test_reason_is_length_exactly_where_the_limit_changed_the_text(
    engine: InferenceEngine, schema: dict[str, Any], spare: int, seed: int
) -> None:
    options: dict[str, Any] = {"response_format": schema, "temperature": 1.0, "seed": seed}
    options |= {"stop_repetition": False}
    needed = 1
    try:
        engine.generate("x", **options, max_tokens=1)
    except MaxTokensTooSmallError as error:
        needed = error.needed
    free = engine.generate("x", **options, max_tokens=ENOUGH)
    result = engine.generate("x", **options, max_tokens=needed + spare)
    jsonschema.validate(result.parsed, schema)
    # Without the limit, the sampled tokens are the model's own.
    is_own = result.text == free.text
    assert result.finish_reason == ("stop" if is_own else "length")
    assert (result.cut_short is None) == is_own
    *_, last = engine.stream("x", **options, max_tokens=needed + spare)
    assert isinstance(last, Finished)
    assert last.result.finish_reason == result.finish_reason
    assert last.result.cut_short == result.cut_short


TOOL = Tool(
    "note", parameters={"type": "object", "properties": {"text": {"type": "string"}},
    "required": ["text"]}, function=str,
)  # fmt: skip


def test_call_that_a_limit_cut_short_has_the_reason_length(roomy_engine: InferenceEngine) -> None:
    seen = set()
    for seed in range(6):
        asked: dict[str, Any] = {"tools": [TOOL], "tool_choice": "required", "temperature": 1.0}
        asked |= {"seed": seed}
        with pytest.raises(MaxTokensTooSmallError) as caught:
            roomy_engine.generate("x", **asked, max_tokens=1)
        for spare in (1, 400):
            result = roomy_engine.generate("x", **asked, max_tokens=caught.value.needed + spare)
            assert len(result.tool_calls) == 1
            is_cut = result.cut_short is not None and result.cut_short.reason == "max_tokens"
            assert result.finish_reason == ("length" if is_cut else "tool_calls")
            seen.add(result.finish_reason)
            if is_cut and spare == 1:
                assert result.cut_short is not None
                assert result.cut_short.pointer.startswith("/tool_calls/0/arguments")
    assert seen == {"length", "tool_calls"}


def test_limit_of_a_text_cuts_the_answer_and_a_budget_of_reasoning_does_not(
    roomy_engine: InferenceEngine,
) -> None:
    (end,) = roomy_engine.vocabulary.end_token_ids
    thinks = ReasoningOptions(begin="<t>", end="</t>")
    asked: dict[str, Any] = {"temperature": 1.0, "seed": 1, "max_tokens": 60}
    unlimited = {"logit_bias": {end: -1000.0}}
    text = roomy_engine.generate(
        "x", **asked, tools=[TOOL], parts={"text": PartOptions(max_tokens=5)}, **unlimited
    )
    assert (text.finish_reason, len(text.tool_calls)) == ("length", 0)
    assert text.cut_short is not None
    assert (text.cut_short.reason, text.cut_short.pointer) == ("max_tokens", "")
    assert text.usage.completion_tokens < 60
    budget = roomy_engine.generate(
        "x", {"enum": ["a", "b"]}, **asked, reasoning=thinks,
        parts={"reasoning": PartOptions(max_tokens=5)},
    )  # fmt: skip
    assert len(budget.reasoning) > 0
    assert (budget.finish_reason, budget.cut_short) == ("stop", None)
    # Where the limit of the whole answer ends the reasoning, the answer is not the model's own.
    late = roomy_engine.generate("x", {"enum": ["a", "b"]}, **{**asked, "max_tokens": 20},
        reasoning=thinks)  # fmt: skip
    assert late.finish_reason == "length"
