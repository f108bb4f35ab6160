"""Options of the loop, through the engine: limits, probabilities, traces, saved prompts."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from object_schemas import closed_object

from proxy_engine import (
    CacheOptions,
    InferenceEngine,
    PromptCacheFileError,
    PromptCacheMismatchError,
    RawPrompt,
    SpeculationOptions,
    TokenGenerated,
)
from proxy_engine.answers.response_format import ResponseFormatCompiler

LIST = {"type": "array", "items": {"type": "string"}}
PERSON = closed_object(name={"type": "string"}, age={"type": "integer"})
TOOL = {"type": "function", "function": {"name": "a", "parameters": PERSON}}


@pytest.fixture(scope="module")
def engine(tiny_model: Any, tiny_tokenizer: Any) -> Iterator[InferenceEngine]:
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        yield engine


@pytest.mark.parametrize("seconds", [1e-6, 0.02])
def test_deadline_keeps_output_complete(engine: InferenceEngine, seconds: float) -> None:
    for seed in range(3):
        options: Any = {"max_seconds": seconds, "temperature": 1.0, "seed": seed}
        result = engine.generate("x", response_format=PERSON, **options)
        assert set(result.parsed) == {"name", "age"}
        called = engine.generate("x", tools=[TOOL], tool_choice="required", **options)
        assert set(called.tool_calls[0].arguments) == {"name", "age"}


def test_passed_deadline_completes_the_answer_briefly(engine: InferenceEngine) -> None:
    result = engine.generate("x", response_format=LIST, max_seconds=1e-6)
    assert result.parsed == []
    free = engine.generate("x", max_seconds=1e-6, min_tokens=3)
    assert free.finish_reason == "length"
    assert free.usage.completion_tokens == 1
    with_tools = engine.generate("x", tools=[TOOL], max_seconds=1e-6)
    assert with_tools.usage.completion_tokens <= 2


def test_distant_deadline_changes_nothing(engine: InferenceEngine) -> None:
    options: Any = {"response_format": LIST, "temperature": 1.0, "seed": 5, "max_tokens": 60}
    plain = engine.generate("x", **options)
    assert engine.generate("x", max_seconds=3600.0, **options).token_ids == plain.token_ids


def log_softmax(logits: mx.array) -> Any:
    wide = np.array(logits.astype(mx.float32), np.float64)
    return wide - np.log(np.exp(wide - wide.max()).sum()) - wide.max()


@pytest.mark.parametrize("schema", [None, PERSON, {"enum": ["red", "green", 12]}], ids=str)
def test_logprobs_match_the_model(
    engine: InferenceEngine, tiny_model: Any, tiny_tokenizer: Any, schema: Any
) -> None:
    options: Any = {"response_format": schema, "max_tokens": 40}
    result = engine.generate("hello", logprobs=4, **options)
    assert result.logprobs is not None
    assert [entry.chosen.token_id for entry in result.logprobs] == list(result.token_ids)
    assert engine.generate("hello", **options).text == result.text
    assert result.usage.forced_tokens == 0
    prompt = tiny_tokenizer.apply_chat_template(
        [{"role": "user", "content": "hello"}], add_generation_prompt=True
    )
    logits = tiny_model(mx.array([[*prompt, *result.token_ids]]))[0]
    for place, entry in enumerate(result.logprobs, len(prompt) - 1):
        expected = log_softmax(logits[place])
        for one in (entry.chosen, *entry.top_before_mask, *entry.top_after_mask):
            assert one.before_mask == pytest.approx(expected[one.token_id], abs=1e-3)
            assert one.before_mask <= one.after_mask + 1e-6 or one.after_mask == -math.inf
        assert len(entry.top_before_mask) == 4
        assert [one.token_id for one in entry.top_before_mask] == list(
            np.argsort(-expected, kind="stable")[:4]
        )
        # Greedy: the likeliest of those that are allowed.
        assert entry.top_after_mask[0] == entry.chosen
        after = [one.after_mask for one in entry.top_after_mask]
        assert after == sorted(after, reverse=True)
        assert sum(map(math.exp, after)) <= 1 + 1e-5


def test_logprobs_of_the_chosen_token_alone(engine: InferenceEngine) -> None:
    result = engine.generate("x", response_format={"const": "x"}, logprobs=0)
    assert result.logprobs is not None
    assert all(entry.top_before_mask == entry.top_after_mask == () for entry in result.logprobs)
    # Nothing else was allowed.
    assert all(entry.chosen.after_mask == pytest.approx(0, abs=1e-5) for entry in result.logprobs)
    assert engine.generate("x").logprobs is None


def test_streams_have_token_events(engine: InferenceEngine) -> None:
    stream = engine.stream("x", response_format=PERSON, logprobs=2, max_tokens=60)
    tokens = []
    for event in stream:
        if isinstance(event, TokenGenerated):
            tokens.append(event)
        elif event.type == "finished":
            result = event.result
    assert [event.token_id for event in tokens] == list(result.token_ids)
    assert tuple(event.logprobs for event in tokens) == result.logprobs
    ends = engine.vocabulary.end_token_ids
    spelled = "".join(event.text for event in tokens if event.token_id not in ends)
    assert json.loads(spelled) == result.parsed
    assert {event.part for event in tokens} == {"structured"}


def test_trace_has_the_time_spans_of_the_loop(engine: InferenceEngine) -> None:
    result = engine.generate(
        "x" * 300, response_format=PERSON, max_tokens=60, trace=True, speculation="off"
    )
    spans = result.trace
    assert {span.name for span in spans} == {
        "prompt",
        "mask",
        "sample",
        "dispatch",
        "wait",
        "advance",
    }
    assert all(0 <= span.started <= span.ended for span in spans)
    assert [span.started for span in spans] == sorted(span.started for span in spans)
    assert spans[0].name == "prompt"
    # The prompt's last pass, and every pass after it but for the last token's.
    passes = sum(span.name == "dispatch" for span in spans)
    sampled = result.usage.completion_tokens - result.usage.forced_tokens
    assert passes in (sampled - 1, sampled)
    usage = result.usage
    whole = usage.mask_seconds + usage.sample_seconds + usage.forward_seconds
    assert 0 < whole <= usage.completion_seconds
    assert engine.generate("x").trace == ()


def test_trace_has_the_time_spans_of_drafts(engine: InferenceEngine) -> None:
    # The random model repeats itself.
    result = engine.generate(
        "Hello", max_tokens=120, trace=True, speculation=SpeculationOptions(is_adaptive=False)
    )
    spans, usage = result.trace, result.usage
    drafts = [span for span in spans if span.name == "draft"]
    assert [span.started for span in spans] == sorted(span.started for span in spans)
    assert 0 < usage.accepted_tokens <= usage.drafted_tokens
    assert usage.draft_seconds == pytest.approx(sum(one.ended - one.started for one in drafts))
    assert {span.step for span in drafts} <= set(range(usage.forward_passes + 1))
    # Every token but the first one is sampled behind a pass, or was accepted from a draft.
    assert usage.completion_tokens <= 1 + usage.forward_passes + usage.accepted_tokens


def test_stream_result_waits_for_the_end(engine: InferenceEngine) -> None:
    options: Any = {"response_format": PERSON, "max_tokens": 60}
    stream = engine.stream("x", **options)
    assert stream.result().text == engine.generate("x", **options).text
    with pytest.raises(RuntimeError, match="no more events"):
        stream.result()


def test_prompts_are_saved_and_loaded(tiny_model: Any, tiny_tokenizer: Any, tmp_path: Path) -> None:
    file = tmp_path / "prompt.safetensors"
    instructions = {"role": "system", "content": "These are instructions. " * 4}
    question = {"role": "user", "content": "question"}
    options: Any = {"response_format": PERSON, "temperature": 1.0, "seed": 1}
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        # A forced answer needs no forward pass over the prompt.
        forced = engine.save_prompt_cache(tmp_path / "a.safetensors", "x", {"const": 1})
        assert forced == engine.generate("x").usage.prompt_tokens
        saved = engine.save_prompt_cache(file, [instructions, question], response_format=PERSON)
        expected = engine.generate([instructions, question], **options)
        assert saved == expected.usage.prompt_tokens
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        assert engine.load_prompt_cache(file) == saved
        result = engine.generate([instructions, question], **options)
        assert result.usage.cached_tokens == saved - 1
        assert result.text == expected.text
        other = engine.generate([instructions, {"role": "user", "content": "other"}], **options)
        assert other.usage.cached_tokens > 90
        (tmp_path / "other.safetensors").write_bytes(b"nothing")
        with pytest.raises(PromptCacheFileError):
            engine.load_prompt_cache(tmp_path / "other.safetensors")
    with (
        InferenceEngine(tiny_model, tiny_tokenizer, cache=CacheOptions(max_kv_size=100)) as engine,
        pytest.raises(PromptCacheMismatchError),
    ):
        engine.load_prompt_cache(file)


def test_time_until_a_stream_is_read_does_not_count_for_max_seconds(
    engine: InferenceEngine,
) -> None:
    stream = engine.stream("x", max_seconds=0.5, max_tokens=8, min_tokens=8)
    time.sleep(0.6)
    assert stream.result().usage.completion_tokens == 8


def test_preparation_counts_for_max_seconds(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = ResponseFormatCompiler.compile

    def compile_slowly(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.3)
        return compiled(*arguments, **options)

    monkeypatch.setattr(ResponseFormatCompiler, "compile", compile_slowly)
    options: Any = {"response_format": LIST, "max_seconds": 0.3}
    results = [
        engine.generate("x", **options),
        engine.stream("x", **options).result(),
        asyncio.run(engine.agenerate("x", **options)),
    ]
    for result in results:
        assert result.parsed == []
        assert 0.3 <= result.usage.preparation_seconds < 5


def test_presence_and_frequency_penalties_leave_the_prompt_alone(engine: InferenceEngine) -> None:
    """The first token has no answer before it, so these penalties change nothing about it."""
    random = Random(1)
    ids = [random.sample(range(256), 120) for _ in range(12)]
    prompts = [RawPrompt(prompt) for prompt in ids]
    options: Any = {"max_tokens": 6, "repetition_context_size": 1000}
    plain = engine.generate_batch(prompts, **options)
    # What the model would write first is often in the prompt already.
    assert any(free.token_ids[0] in prompt for free, prompt in zip(plain, ids, strict=True))
    for name in ("presence_penalty", "frequency_penalty"):
        together = engine.generate_batch(prompts, **options, **{name: 100.0})
        for free, result in zip(plain, together, strict=True):
            assert result.token_ids[0] == free.token_ids[0]
            assert len(set(result.token_ids)) == len(result.token_ids)
        alone = engine.generate(prompts[0], **options, **{name: 100.0})
        assert alone.token_ids == together[0].token_ids
    repeated = engine.generate_batch(prompts, **options, repetition_penalty=100.0)
    assert [r.token_ids[0] for r in repeated] != [r.token_ids[0] for r in plain]


def test_answers_without_a_limit_end_with_the_context(brief_engine: InferenceEngine) -> None:
    result = brief_engine.generate("x", max_tokens=None, min_tokens=200)
    assert result.finish_reason == "length"
    assert result.usage.prompt_tokens + result.usage.completion_tokens == 160
    result = brief_engine.generate(
        "x", response_format=LIST, max_tokens=None, temperature=1.0, seed=1
    )
    assert isinstance(result.parsed, list)
