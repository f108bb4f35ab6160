"""A sequence with a slow mask leaves the batch, and the others continue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy_engine import BatchRequest, InferenceEngine
from proxy_engine.errors import RequestCancelledError
from proxy_engine.generation import next_mask, sequence_state
from state_machines import GrammarBudgetError
from state_machines.matcher import Matcher

SCHEMAS: list[Any] = [
    {"type": "array", "items": {"enum": ["red", "blue"]}, "minItems": 3, "maxItems": 4},
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    None,
    {"type": "string", "pattern": "^[a-f]{3,9}-[0-9]+$", "maxLength": 20},
]


@pytest.fixture
def engine(tiny_model: Any, tiny_tokenizer: Any) -> Iterator[InferenceEngine]:
    with InferenceEngine(tiny_model, tiny_tokenizer, batch_size=3) as engine:
        yield engine


def answers(engine: InferenceEngine) -> list[tuple[str, str]]:
    results = [
        begun.result()
        for begun in [
            engine._begin(f"prompt {number}", schema, {"temperature": 0, "max_tokens": 60})
            for number, schema in enumerate(SCHEMAS)
        ]
    ]
    return [(result.text, result.finish_reason) for result in results]


def test_slow_masks_do_not_change_the_answers(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []
    compute = sequence_state.SequenceState.compute_mask

    def counted(sequence: sequence_state.SequenceState) -> None:
        computed.append(threading.current_thread())
        compute(sequence)

    with monkeypatch.context() as patched:
        patched.setattr(next_mask, "MASK_STEPS", 0)
        patched.setattr(next_mask, "SLOW_MASK_STEPS", 0)
        patched.setattr(sequence_state.SequenceState, "compute_mask", counted)
        slow = answers(engine)
    assert len(computed) > 3
    assert not any(thread.name == "proxy-engine" for thread in computed)
    assert slow == answers(engine)
    assert engine.running_requests == engine.queued_requests == 0


class Held:
    """Masks are slow on the model thread, and wait for ``release`` on other threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = threading.Event()
        self.release = threading.Event()
        self.error: Exception | None = None
        self.before_error: Callable[[], None] = lambda: None

        def compute(sequence: sequence_state.SequenceState) -> None:
            self.began.set()
            self.release.wait(10)
            self.before_error()
            if self.error is not None:
                raise self.error

        def slow(mask: next_mask.NextMask, matcher: Matcher) -> Any:
            if self.release.is_set():
                return matcher.allowed_tokens()
            raise next_mask.SlowMaskError

        monkeypatch.setattr(sequence_state.SequenceState, "compute_mask", compute)
        monkeypatch.setattr(next_mask.NextMask, "_in_time", slow)


def test_slow_mask_does_not_delay_other_requests(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    slow = engine._begin("x", SCHEMAS[0], {"max_tokens": 60})
    held.began.wait(10)
    assert engine.generate("y", max_tokens=9).text
    assert not slow.future.done()
    held.release.set()
    assert slow.result(10).finish_reason == "stop"


def test_request_with_a_slow_mask_can_be_cancelled(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    slow = engine._begin("x", SCHEMAS[0], {"max_tokens": 60})
    held.began.wait(10)
    slow.cancelled.set()
    assert slow.result(10).finish_reason == "cancelled"
    held.release.set()


@pytest.mark.parametrize("options", [{}, {"n": 2}, {"particles": 2}], ids=str)
def test_cancelling_while_masks_are_computed_is_no_error(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    held = Held(monkeypatch)
    slow = engine._begin("x", SCHEMAS[0], {"temperature": 1.0, **options})

    def cancel() -> None:
        # As a mask that notices the cancelling ends: the error is there before the next round.
        slow.cancelled.set()
        raise RequestCancelledError("the request was cancelled")

    held.before_error = cancel
    held.began.wait(10)
    held.release.set()
    assert slow.result(10).finish_reason == "cancelled"


def test_answer_follows_the_plan_when_masks_exceed_their_budget(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed_tokens = Matcher.allowed_tokens
    begun = False

    def beyond(matcher: Matcher) -> Any:
        # The first mask is made when the request is prepared.
        nonlocal begun
        if not begun:
            begun = True
            return allowed_tokens(matcher)
        raise GrammarBudgetError("too much", budget=1)

    monkeypatch.setattr(Matcher, "allowed_tokens", beyond)
    result = engine.generate("x", response_format=SCHEMAS[0], max_tokens=60)
    assert 3 <= len(result.parsed) <= 4


def test_error_of_a_slow_mask_fails_its_request_only(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    held.error = LookupError("broken")
    slow = engine._begin("x", SCHEMAS[0], {"max_tokens": 60})
    held.began.wait(10)
    held.release.set()
    with pytest.raises(LookupError):
        slow.result(10)
    assert engine.generate("y", response_format=SCHEMAS[1], max_tokens=60).parsed is not None


def test_slow_masks_do_not_change_particles(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def particles() -> list[Any]:
        requests: list[Any] = [
            BatchRequest("x", SCHEMAS[0], options={"particles": 3}),
            BatchRequest("y", SCHEMAS[0], options={"particles": 2}),
        ]
        results = engine.generate_batch(requests, temperature=1.0, seed=1, max_tokens=40)
        return [[one.text for one in result.particles] for result in results]

    with monkeypatch.context() as patched:
        patched.setattr(next_mask, "MASK_STEPS", 0)
        patched.setattr(next_mask, "SLOW_MASK_STEPS", 0)
        slow = particles()
    assert slow == particles()
    assert engine.running_requests == engine.queued_requests == 0


def test_particles_with_slow_masks_can_be_cancelled(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    slow = engine._begin("x", SCHEMAS[0], {"temperature": 1.0, "particles": 3})
    held.began.wait(10)
    slow.cancelled.set()
    assert slow.result(10).finish_reason == "cancelled"
    held.release.set()
    assert len(engine.generate("x", particles=3, temperature=1.0, max_tokens=4).particles) == 3


def test_error_of_slow_masks_fails_particles_only_if_all_have_failed(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    held.error = LookupError("broken")
    slow = engine._begin("x", SCHEMAS[0], {"temperature": 1.0, "particles": 3})
    held.began.wait(10)
    held.release.set()
    with pytest.raises(LookupError):
        slow.result(10)
    assert engine.generate("y", response_format=SCHEMAS[1], max_tokens=60).parsed is not None
