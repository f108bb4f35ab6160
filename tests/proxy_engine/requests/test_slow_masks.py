"""A sequence with a slow mask leaves the batch, and the others continue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from engine_parts import core_of

from proxy_engine import InferenceEngine
from proxy_engine.errors import RequestCancelledError
from proxy_engine.generation.restrictions import GuardedGrammar, SlowMaskError
from proxy_engine.requests.request import Request
from state_machines import GrammarBudgetError, Matcher

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


class Held:
    """Masks are slow on the model thread, and wait for ``release`` on other threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = threading.Event()
        self.release = threading.Event()
        self.error: Exception | None = None
        self.before_error: Callable[[], None] = lambda: None

        def compute(grammar: GuardedGrammar) -> None:
            self.began.set()
            self.release.wait(10)
            self.before_error()
            if self.error is not None:
                raise self.error

        def slow(grammar: GuardedGrammar) -> Any:
            if self.release.is_set():
                return grammar.matcher.allowed_tokens()
            raise SlowMaskError

        monkeypatch.setattr(GuardedGrammar, "compute_slow", compute)
        monkeypatch.setattr(GuardedGrammar, "compute", slow)


def submitted(engine: InferenceEngine, **options: Any) -> tuple[Request, Future[Any]]:
    arguments = {"temperature": 1.0, **options}
    request = core_of(engine).preparation.request("x", SCHEMAS[0], arguments)
    return request, core_of(engine).scheduler.submit(request)


def test_slow_mask_does_not_delay_other_requests(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    _, future = submitted(engine, max_tokens=60)
    held.began.wait(10)
    assert engine.generate("y", max_tokens=9).text
    assert not future.done()
    held.release.set()
    assert future.result(10)().finish_reason == "stop"


def test_request_with_a_slow_mask_can_be_cancelled(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    request, future = submitted(engine, max_tokens=60)
    held.began.wait(10)
    request.cancelled.set()
    assert future.result(10)().finish_reason == "cancelled"
    held.release.set()


@pytest.mark.parametrize("options", [{}, {"n": 2}], ids=str)
def test_cancelling_while_masks_are_computed_is_no_error(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    held = Held(monkeypatch)
    request, future = submitted(engine, **options)

    def cancel() -> None:
        # As a mask that notices the cancelling ends: the error is there before the next round.
        request.cancelled.set()
        raise RequestCancelledError("the request was cancelled")

    held.before_error = cancel
    held.began.wait(10)
    held.release.set()
    assert future.result(10)().finish_reason == "cancelled"


def test_answer_follows_the_plan_when_masks_exceed_their_budget(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed_tokens = Matcher.allowed_tokens
    begun = False

    def beyond(matcher: Matcher, *, steps: int | None = None) -> Any:
        # The first mask is made when the request is prepared.
        nonlocal begun
        if not begun:
            begun = True
            return allowed_tokens(matcher)
        raise GrammarBudgetError("too much", budget=1)

    monkeypatch.setattr(Matcher, "allowed_tokens", beyond)
    result = engine.generate("x", response_format=SCHEMAS[0], max_tokens=60)
    assert 3 <= len(result.parsed) <= 4


@pytest.mark.parametrize("options", [{}, {"n": 3}], ids=str)
def test_error_of_slow_masks_fails_their_request_only(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    held = Held(monkeypatch)
    held.error = LookupError("broken")
    _, future = submitted(engine, max_tokens=60, **options)
    held.began.wait(10)
    held.release.set()
    with pytest.raises(LookupError):
        future.result(10)()
    assert engine.generate("y", response_format=SCHEMAS[1], max_tokens=60).parsed is not None
