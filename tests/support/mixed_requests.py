"""Requests of all kinds, their answers alone, and rounds of an engine that serves several of them."""

from __future__ import annotations

import io
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

import mlx.core as mx
import pydantic
import pytest
from adversarial_drafters import Mistaken
from engine_parts import core_of
from object_schemas import closed_object
from speculation_checks import check_logprobs, complete_masks, merged, outcome
from vision_models import sample_image

from proxy_engine import (
    Event,
    Finished,
    FreeformFirstOptions,
    GenerationResult,
    ImageContent,
    InferenceEngine,
    Interaction,
    InvalidOptionError,
    OutputValidationError,
    ReasoningOptions,
    Role,
    SpeculationOptions,
    TextContent,
    TokenGenerated,
)
from proxy_engine.generation.batch import Batch
from proxy_engine.generation.choice_scores import ChoiceScorer
from proxy_engine.generation.restrictions import GuardedGrammar, SlowMaskError
from proxy_engine.generation.speculation import CopyDrafter, draft_length
from proxy_engine.generation.speculation.draft_model import DraftModel
from proxy_engine.generation.speculation.head_drafter import HeadDrafter
from proxy_engine.requests.sequence_factory import SequenceFactory
from state_machines import GrammarStateMachine, RegexStateMachine
from state_machines.budgets import spend
from state_machines.limits import LIMITS

__all__ = ["DRAFTS", "IMAGE", "KINDS", "Alone", "Mixed", "Spec", "drafting", "slow_masks"]

RECORD = closed_object(
    name={"type": "string", "maxLength": 14},
    color={"enum": ["red", "green", "abc", "ab"]},
    ok={"type": "boolean"},
)
LIST = {
    "type": "array",
    "items": {"enum": ["red", "ab", "abc", 12, 1]},
    "minItems": 2,
    "maxItems": 5,
}
TOOL = {"type": "function", "function": {"name": "paint", "parameters": RECORD}}
IMAGE = "<image>"
SLOW_MASK_SECONDS = 0.003
SOURCE = "the quick brown fox jumps over the lazy dog, abc 12"


class Rejected(pydantic.BaseModel):
    """A record that its validator rejects."""

    ok: bool

    @pydantic.field_validator("ok")
    @classmethod
    def _reject(cls, value: bool) -> bool:
        raise ValueError("never right")


def _argmax(logprobs: mx.array) -> mx.array:
    return mx.argmax(logprobs, axis=-1)


def _without_letters(_: mx.array, logits: mx.array) -> mx.array:
    return logits + mx.where(mx.arange(logits.shape[-1]) % 5 == 0, -3.0, 0.0)


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "text": dict,
    "schema": lambda: {"response_format": RECORD},
    "schema token by token": lambda: {"response_format": RECORD, "fast_forward": False},
    "pattern": lambda: {"response_format": RegexStateMachine("(ab|a|b|:){1,12}x?|12{1,9}")},
    "gbnf": lambda: {
        "response_format": GrammarStateMachine.from_gbnf(
            'root ::= item ("," item)*\nitem ::= [a-c]+ | "(" root ")"'
        )
    },
    "lark": lambda: {
        "response_format": GrammarStateMachine.from_lark(
            'start: WORD+ "."\nWORD: /[a-z]{1,4}/\n%ignore " "'
        )
    },
    "tools": lambda: {"tools": [TOOL], "tool_choice": "auto", "max_tokens": 70},
    "required tool": lambda: {"tools": [TOOL], "tool_choice": "required", "max_tokens": 90},
    "several calls": lambda: {
        "tools": [TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": True,
        "max_tokens": 90,
    },
    "reasoning": lambda: {
        "response_format": LIST,
        "reasoning": ReasoningOptions(begin="<t>", end="</t>", max_chars=12),
    },
    "freeform first": lambda: {
        "response_format": LIST,
        "freeform_first": FreeformFirstOptions(instruction="J", max_tokens=9),
        "max_tokens": 90,
        # The end token.
        "logit_bias": {264: 3.0},
    },
    "exact choices": lambda: {"response_format": LIST, "exact_choices": True},
    "exact record": lambda: {"response_format": RECORD, "exact_choices": True, "logprobs": 1},
    "exact choices token by token": lambda: {
        "response_format": LIST,
        "exact_choices": True,
        "fast_forward": False,
    },
    "several exact answers": lambda: {
        "response_format": LIST,
        "n": 3,
        "temperature": 1.0,
        "exact_choices": True,
    },
    "repetition": lambda: {
        "response_format": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        # The letters a and b.
        "logit_bias": {64: 6.0, 65: 5.0},
    },
    "several answers": lambda: {"response_format": LIST, "n": 2, "temperature": 1.0},
    "several texts": lambda: {"n": 3, "temperature": 1.0, "max_tokens": 9},
    "log-probabilities": lambda: {"response_format": RECORD, "logprobs": 2},
    "penalties": lambda: {
        "repetition_penalty": 1.3,
        "frequency_penalty": 0.4,
        "repetition_context_size": 9,
    },
    "filters": lambda: {"response_format": RECORD, "top_p": 0.8, "top_k": 40, "min_p": 0.01},
    "minimum": lambda: {"response_format": LIST, "min_tokens": 12},
    "sampler": lambda: {"response_format": RECORD, "sampler": _argmax},
    "processors": lambda: {"response_format": RECORD, "logits_processors": [_without_letters]},
    "quote": lambda: {
        "response_format": {"type": "string", "maxLength": 20, "x-substring-of": "source"},
        "sources": {"source": SOURCE},
    },
    "rejected": lambda: {"response_format": Rejected},
    "stop": lambda: {"stop": ["a", "12"]},
    # The letter a.
    "stop token": lambda: {"stop_token_ids": [64]},
    "tight": lambda: {"response_format": RECORD, "max_tokens": 31},
    "part limits": lambda: {
        "response_format": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "reasoning": ReasoningOptions(begin="<t>", end="</t>"),
        "parts": {"reasoning": {"max_tokens": 6}, "structured": {"max_tokens": 11}},
        # The end of a string is less likely, so that limits are reached.
        "logit_bias": {1: -9.0},
    },
    "rule limits": lambda: {
        "response_format": GrammarStateMachine.from_lark(
            'start: name "=" value\n'
            "name[max_tokens=3]: /[a-z]+/\n"
            "value[max_tokens=5, temperature=1.5]: /[a-z0-9]+/"
        )
    },
    "confidence": lambda: {"response_format": RECORD, "confidence": True},
    "calls in text": lambda: {"tools": [TOOL], "calls_in_text": "lines", "max_tokens": 70},
    "late": lambda: {"response_format": LIST, "max_seconds": 1e-9},
}
"""Arguments of requests, by the name of a feature."""


USAGE = (
    *("prompt_tokens", "completion_tokens", "forced_tokens", "inexact_choice_tokens"),
    *("image_tokens", "audio_tokens"),
)
"""The figures of ``usage`` that describe no time, no caching and no passes."""

DRAFTS: dict[str, Any] = {
    "auto": "auto",
    "always": SpeculationOptions(is_adaptive=False, max_draft_tokens=5),
    "model": SpeculationOptions(is_adaptive=False, max_draft_tokens=5, prompt_lookup=False),
    "off": "off",
}
"""The option ``speculation``, by name."""


class InjectedError(Exception):
    """A component was made to fail."""


@dataclass(frozen=True)
class Spec:
    """A request.

    Attributes:
        kind: A name of :data:`KINDS`.
        prompt: The prompt; the text after ``IMAGE`` follows an image.
        seed: Seed of its samples; at temperature 0 for even ones, unless the kind has its own.
        drafts: A name of :data:`DRAFTS`.
    """

    kind: str
    prompt: str
    seed: int
    drafts: str = "auto"

    @property
    def conversation(self) -> Any:
        """The prompt of ``engine.generate``."""
        if not self.prompt.startswith(IMAGE):
            return self.prompt
        data = io.BytesIO()
        sample_image(len(self.prompt)).save(data, "PNG")
        image = ImageContent(data=data.getvalue(), media_type="image/png")
        return [Interaction(Role.USER, [image, TextContent(self.prompt.removeprefix(IMAGE))])]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``engine.generate`` besides the prompt."""
        arguments = {
            "max_tokens": 48,
            "speculation": DRAFTS[self.drafts],
            **KINDS[self.kind](),
        }
        if "sampler" in arguments:
            return arguments
        return {"seed": self.seed, "temperature": float(self.seed % 2), **arguments}


@dataclass
class Answer:
    """The outcome of a request: a result with its events, or an error."""

    result: GenerationResult[Any] | None
    error: str = ""
    events: Sequence[Event] = ()

    @property
    def texts(self) -> list[tuple[int, ...]]:
        """The tokens of each known answer."""
        return [] if self.result is None else [self.result.token_ids]


@dataclass
class Alone:
    """The answers of requests to an engine that serves no other, without drafts and cached prompts."""

    engine: InferenceEngine
    _known: dict[Spec, Answer] = field(default_factory=dict)

    def answer(self, spec: Spec) -> Answer:
        """Return the answer of a request."""
        if spec not in self._known:
            self._known[spec] = self._ask(spec)
        return self._known[spec]

    def drafters(self, factory: SequenceFactory, prompt_ids: Sequence[int]) -> list[Any]:
        """Return the copy drafter, behind a drafter that knows the answers to a prompt, and makes mistakes."""
        key = tuple(prompt_ids)
        texts = [
            [*key, *tokens]
            for known in self._known.values()
            for tokens in known.texts
            if known.result is not None and known.result.usage.prompt_tokens == len(key)
        ]
        return [
            Mistaken(texts, len(key), 320),
            CopyDrafter(prompt_ids, factory.vocabulary, factory.fast_forward),
        ]

    def _ask(self, spec: Spec) -> Answer:
        arguments = {**spec.arguments, "speculation": "off"}
        events: list[Event] = []
        try:
            for event in self.engine.stream(spec.conversation, **arguments):
                events.append(event)
        except (InvalidOptionError, OutputValidationError) as error:
            return Answer(None, type(error).__name__)
        last = events.pop()
        assert isinstance(last, Finished)
        return Answer(last.result, events=events)


@contextmanager
def slow_masks() -> Iterator[None]:
    """Let other threads compute every third mask, for a while."""
    compute, compute_slow = GuardedGrammar.compute, GuardedGrammar.compute_slow
    computed: WeakSet[GuardedGrammar] = WeakSet()
    count = itertools.count()

    def sometimes_in_time(grammar: GuardedGrammar) -> Any:
        if grammar in computed:
            computed.discard(grammar)
        elif next(count) % 3 == 0:
            raise SlowMaskError
        return compute(grammar)

    def compute_slowly(grammar: GuardedGrammar) -> None:
        time.sleep(SLOW_MASK_SECONDS)
        spend(LIMITS.checkpoint_steps + 1)
        compute_slow(grammar)
        computed.add(grammar)

    with (
        patch.object(GuardedGrammar, "compute", sometimes_in_time),
        patch.object(GuardedGrammar, "compute_slow", compute_slowly),
    ):
        yield


@contextmanager
def drafting(alone: Alone) -> Iterator[None]:
    """Let drafts pay on every machine, and some of them be right."""
    with (
        patch.object(draft_length, "device_base", lambda: 32.0),
        patch.object(Batch, "_measure", lambda *_, **__: None),
        patch.object(SequenceFactory, "drafters", lambda *given: alone.drafters(*given)),
        complete_masks(),
    ):
        yield


class _Running:
    """A request that was given to the engine, with its events so far."""

    def __init__(self, engine: InferenceEngine, spec: Spec, leaves_after: int | None) -> None:
        self.spec = spec
        self.events: list[Event] = []
        self.is_cancelled = False
        self._left = leaves_after
        core = core_of(engine)
        self.request = core.preparation.request(spec.conversation, **_split(spec.arguments))
        self.request.watches = True
        self._future = core.scheduler.submit(self.request, self._take)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, TokenGenerated) and self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.cancel()

    def cancel(self) -> None:
        """Cancel the request, as a closed stream does."""
        self.is_cancelled = True
        self.request.cancelled.set()

    @property
    def is_done(self) -> bool:
        """Whether all tokens are generated."""
        return self._future.done()

    def answer(self) -> Answer:
        """Return the outcome."""
        try:
            return Answer(self._future.result(60)(), events=self.events)
        except Exception as error:
            return Answer(None, type(error).__name__)


def _split(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "response_format": arguments.pop("response_format", None),
        "arguments": arguments,
    }


class Mixed:
    """An engine whose model thread runs round by round, so that every run has the same rounds."""

    def __init__(self, engine: InferenceEngine, alone: Alone) -> None:
        self.engine = engine
        self.drafted = 0
        self.accepted = 0
        self.failed: list[str] = []
        self._armed: set[str] = set()
        self._alone = alone
        self._running: list[_Running] = []
        self._gate: _Gate | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the model thread between rounds; afterwards, end the requests that are left."""
        self._gate = self._hold()
        try:
            yield
        finally:
            for one in self._running:
                one.cancel()
            self._gate.set()
            for one in self._running:
                one.answer()
            self._running.clear()

    def begin(self, spec: Spec, leaves_after: int | None = None) -> None:
        """Queue a request, which is cancelled after a number of tokens."""
        if self._alone.answer(spec).error == "InvalidOptionError":
            with pytest.raises(InvalidOptionError):
                _Running(self.engine, spec, leaves_after)
        else:
            self._running.append(_Running(self.engine, spec, leaves_after))

    def cancel(self, number: int) -> None:
        """Cancel one of the requests; a mask that another thread computes for it notices that."""
        if self._running:
            self._running[number % len(self._running)].cancel()
            time.sleep(2 * SLOW_MASK_SECONDS)

    def fail_next(self, component: str) -> None:
        """Let the next scoring of choices or draft of the draft model fail, once."""
        self._armed.add(component)

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Run the block with components that fail as :meth:`fail_next` says."""
        score, draft, read = ChoiceScorer.scores, DraftModel._forward, HeadDrafter._forward

        def failing_score(scorer: ChoiceScorer, *arguments: Any) -> Any:
            self._fail("choices")
            return score(scorer, *arguments)

        def failing_draft(drafter: DraftModel, *arguments: Any) -> Any:
            self._fail("draft")
            return draft(drafter, *arguments)

        def failing_read(drafter: HeadDrafter, *arguments: Any) -> Any:
            self._fail("draft")
            return read(drafter, *arguments)

        with (
            patch.object(ChoiceScorer, "scores", failing_score),
            patch.object(DraftModel, "_forward", failing_draft),
            patch.object(HeadDrafter, "_forward", failing_read),
        ):
            yield

    def _fail(self, component: str) -> None:
        # Not in the engine that answers requests alone.
        if component in self._armed and core_of(self.engine).worker.is_current:
            self._armed.remove(component)
            self.failed.append(component)
            raise InjectedError

    def round(self) -> None:
        """Run one round of the model thread."""
        # The scheduler returns after a round while another call is queued.
        assert self._gate is not None
        gate, self._gate = self._gate, self._hold()
        gate.set()
        assert self._gate.entered.wait(60)
        for one in [one for one in self._running if one.is_done]:
            self._running.remove(one)
            self._check(one)

    def finish(self) -> None:
        """Run rounds until all requests are finished."""
        for _ in range(2000):
            if not self._running:
                return
            self.round()
        raise AssertionError(f"requests do not end: {[one.spec for one in self._running]}")

    def _hold(self) -> _Gate:
        gate = _Gate()
        core_of(self.engine).worker.submit(gate.pass_through)
        return gate

    def _check(self, one: _Running) -> None:
        alone, answer = self._alone.answer(one.spec), one.answer()
        if "choices" in self.failed and answer.error == "InjectedError":
            return
        result, expected = answer.result, alone.result
        if result is not None:
            self.drafted += result.usage.drafted_tokens
            self.accepted += result.usage.accepted_tokens
        if one.is_cancelled:
            assert answer.error in ("", alone.error), one.spec
            if result is not None and expected is not None and one.request.options.n == 1:
                assert result.token_ids == expected.token_ids[: len(result.token_ids)], one.spec
            if result is None or result.finish_reason == "cancelled" or one.request.options.n > 1:
                return
        assert answer.error == alone.error, (answer.error, alone.error, one.spec)
        if result is None or expected is None:
            return
        check_same(result, expected, one.spec)
        assert merged(answer.events) == merged(alone.events), one.spec


def check_same(result: GenerationResult[Any], expected: GenerationResult[Any], spec: Any) -> None:
    """Compare everything in two results that does not describe time, caching and drafts."""
    assert outcome(result) == outcome(expected), spec
    assert result.token_lengths == expected.token_lengths, spec
    assert result.token_origins.replace("d", "s") == expected.token_origins, spec
    assert result.quotes == expected.quotes, spec
    for name in USAGE:
        assert getattr(result.usage, name) == getattr(expected.usage, name), (name, spec)
    check_logprobs(result.logprobs, expected.logprobs)
    for one, other in zip(result.scored_choices, expected.scored_choices, strict=True):
        assert {o.text: o.probability for o in one.options} == pytest.approx(
            {o.text: o.probability for o in other.options}, abs=1e-4
        ), spec
    assert len(result.choices) == len(expected.choices), spec
    for one, other in zip(result.choices[1:], expected.choices[1:], strict=True):
        check_same(one, other, spec)


class _Gate:
    """A call that holds the model thread until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._released = threading.Event()

    def pass_through(self) -> None:
        """Wait."""
        self.entered.set()
        self._released.wait(120)

    def set(self) -> None:
        """Let the model thread go on."""
        self._released.set()
