"""Short waiting prompts share a prefill pass, and the answers do not change."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from engine_parts import core_of

from proxy_engine import BatchRequest, CacheOptions, InferenceEngine, PromptProgress, RawPrompt
from proxy_engine.requests import prefills, scheduler
from proxy_engine.requests.preparation import Preparation
from proxy_engine.requests.request import Request, ignore
from proxy_engine.results.events import Event

OPTIONS: Any = {"max_tokens": 12, "min_tokens": 12, "temperature": 0.0}


FORMATS: list[Any] = [
    {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 2, "maxItems": 5},
    None,
    {"type": "string", "maxLength": 30},
]


def varied(number: int) -> BatchRequest:
    """A request whose format, sampler, seed and limits depend on ``number``."""
    return BatchRequest(
        f"prompt {'x' * (7 * number % 50)} {number}",
        response_format=FORMATS[number % 3],
        options={
            "temperature": 0.0 if number % 2 else 1.0,
            "seed": number,
            "max_tokens": 20 + number,
        },
    )


def answered(engine: InferenceEngine, requests: Sequence[Any], **options: Any) -> list[Any]:
    """Return the results of requests that are all queued before the first one begins."""
    queued = threading.Event()
    core_of(engine).worker.submit(lambda: queued.wait(20))

    def watched() -> Iterator[Any]:
        yield from requests
        queued.set()

    stream = engine.iter_batch(watched(), **options)
    # The read-ahead of a batch; later requests are read as others finish.
    assert len(requests) <= 2 * engine.batch_size
    return [item.result for item in stream]


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of prompts of each joint pass; joint prefill is enabled on every device."""
    sizes: list[int] = []
    prefill_together = prefills.prefill_together

    def counting(prefills: Sequence[Any]) -> list[Any]:
        sizes.append(len(prefills))
        return prefill_together(prefills)

    monkeypatch.setattr(prefills, "default_prefill_step_size", lambda: 512)
    monkeypatch.setattr(prefills, "joint_prefill_tokens", lambda step, others_wait: 2048)
    monkeypatch.setattr(prefills, "prefill_together", counting)
    return sizes


def alone(model: Any, tokenizer: Any, requests: Sequence[Any], **options: Any) -> list[Any]:
    cache = CacheOptions(max_bytes=0)
    with InferenceEngine(model, tokenizer, batch_size=1, cache=cache) as engine:
        return engine.generate_batch(requests, **options)


def test_joint_prefill_does_not_change_the_answers(
    tiny_model: Any, tiny_tokenizer: Any, groups: list[int]
) -> None:
    requests = [varied(number) for number in range(8)]
    expected = alone(tiny_model, tiny_tokenizer, requests)
    assert not groups
    with InferenceEngine(tiny_model, tiny_tokenizer, batch_size=4) as engine:
        together = answered(engine, requests)
    assert [one.token_ids for one in together] == [one.token_ids for one in expected]
    assert max(groups) > 1


def test_waiting_prompts_share_a_prefill_pass(
    tiny_model: Any, tiny_tokenizer: Any, groups: list[int]
) -> None:
    prompts = [f"{letter} asks" for letter in "abcdefgh"]
    raw = [RawPrompt(prompt) for prompt in prompts]
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        results = answered(engine, raw, **OPTIONS)
    assert groups == [8]
    expected = alone(tiny_model, tiny_tokenizer, raw, **OPTIONS)
    assert [one.token_ids for one in results] == [one.token_ids for one in expected]


def test_shared_prefix_is_processed_once(
    tiny_model: Any, tiny_tokenizer: Any, groups: list[int]
) -> None:
    shared = "You are asked for a word that has something to do with the following: "
    raw = [RawPrompt(shared + letter * 3) for letter in "abcdef"]
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        results = answered(engine, raw, **OPTIONS)
    cached = sorted(result.usage.cached_tokens for result in results)
    assert cached[0] == 0
    assert all(count >= len(shared) // 2 for count in cached[1:])
    assert groups
    expected = alone(tiny_model, tiny_tokenizer, raw, **OPTIONS)
    assert [one.token_ids for one in results] == [one.token_ids for one in expected]


def test_prompts_of_different_lengths_are_processed_separately(
    tiny_model: Any, tiny_tokenizer: Any, groups: list[int]
) -> None:
    raw = [RawPrompt("a"), RawPrompt("b" * 200)]
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        assert None not in answered(engine, raw, **OPTIONS)
    assert not groups


def test_failed_joint_prefill_falls_back_to_single_prefills(
    tiny_model: Any, tiny_tokenizer: Any, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(prefills: Sequence[Any]) -> list[Any]:
        groups.append(len(prefills))
        raise RuntimeError("out of memory")

    monkeypatch.setattr(prefills, "prefill_together", failing)
    raw = [RawPrompt(f"{letter} asks") for letter in "abcdefgh"]
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        results = answered(engine, raw, **OPTIONS)
        assert len(groups) == 1
        # Later prompts are joined again.
        answered(engine, [RawPrompt(f"{letter} asks") for letter in "ijklmnop"], **OPTIONS)
        assert len(groups) == 2
    expected = alone(tiny_model, tiny_tokenizer, raw, **OPTIONS)
    assert [one.token_ids for one in results] == [one.token_ids for one in expected]


def test_cancelled_requests_are_left_out_of_a_joint_prefill(
    tiny_model: Any, tiny_tokenizer: Any, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancel when all have begun and none is processed: at the first progress of the last one."""
    requests: list[Request] = []
    told: dict[int, list[PromptProgress]] = {}
    submit = scheduler.Scheduler.submit
    prepare = Preparation.request

    def prepared(self: Preparation, *arguments: Any) -> Request:
        requests.append(prepare(self, *arguments))
        return requests[-1]

    def submitted(self: scheduler.Scheduler, request: Request, emit: Any = ignore) -> Any:
        own = told.setdefault(id(request), [])

        def watched(event: Event) -> None:
            if isinstance(event, PromptProgress):
                own.append(event)
                if request is requests[-1] and event.processed == 0:
                    requests[1].cancelled.set()
                    requests[3].cancelled.set()
            emit(event)

        return submit(self, request, watched)

    monkeypatch.setattr(Preparation, "request", prepared)
    monkeypatch.setattr(scheduler.Scheduler, "submit", submitted)
    raw = [RawPrompt(f"{letter} asks") for letter in "abcdef"]
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        results = answered(engine, raw, **OPTIONS)
    reasons = [result.finish_reason for result in results]
    assert reasons.count("cancelled") == 2
    assert groups == [4]
    assert reasons[1] == reasons[3] == "cancelled"
    for request in (requests[0], requests[-1]):
        progress = told[id(request)]
        assert progress[0].processed == 0
        assert progress[-1].processed == progress[-1].total == len(request.prompt.token_ids)
