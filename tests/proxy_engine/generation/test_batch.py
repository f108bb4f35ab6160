"""Sequences in a batch compute the same as alone, with every kind of cache."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

import mlx.core as mx
import numpy as np
import pytest
from cached_models import KINDS, VOCABULARY, cold, is_close, model_of
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine import InvalidOptionError
from proxy_engine.generation import (
    Batch,
    Constraint,
    DeviceMasks,
    ForwardPass,
    GeneratedSequence,
    Prefill,
    Status,
    Token,
)
from proxy_engine.generation.cache_layers import can_merge
from proxy_engine.generation.forward_pass import NextLogits
from proxy_engine.generation.sampling import NextToken

TOGETHER = [kind for kind in KINDS if kind != "chunked"]


class ScriptedConstraint(Constraint):
    """Accepts the next token of a script."""

    sequence: ScriptedSequence

    def accepts(self, token_id: int) -> bool:
        return token_id == self.sequence.stretches[0][0]

    def refuse(self, token_id: int) -> None:
        assert not self.accepts(token_id)
        self.sequence.is_exact = True

    @property
    def expects_fast_forward(self) -> bool:
        return self.sequence.chosen % 3 == 0


class ScriptedSequence(GeneratedSequence):
    """A sequence with scripted tokens.

    Args:
        prompt: The prompt.
        stretches: Tokens of each step: a sampled one and forced ones.
        rejected: Indices of steps that first sample a token that is not accepted.
    """

    def __init__(
        self, prompt: Sequence[int], stretches: Sequence[Sequence[int]], rejected: set[int]
    ) -> None:
        constraint = ScriptedConstraint([], (), 10**6)
        super().__init__(prompt, constraint, cast(Any, None), masks=DeviceMasks())
        constraint.sequence = self
        self.is_free = False
        self.mask = self.masks.on_device(np.arange(VOCABULARY) < 2)
        self.stretches = [list(stretch) for stretch in stretches]
        self.rejected = rejected
        self.invalid: set[int] = set()
        self.is_exact = False
        self.chosen = 0

    @property
    def is_at_limit(self) -> bool:
        return len(self.stretches) == 1

    @property
    def row_parameters(self) -> object:
        return None

    def prepare(self, *, unread: int = 0) -> None:
        pass

    def sample(self, logits: NextLogits, proposed: Any = None) -> NextToken:
        assert logits.all().shape == (1, VOCABULARY)
        token = self.stretches[0][0]
        if self.chosen in self.rejected and not self.is_exact:
            token = (token + 1) % VOCABULARY
        return NextToken(logits, mx.array([token]))

    def check(self, token: NextToken) -> None:
        if self.chosen in self.invalid:
            raise InvalidOptionError("an invalid token", option="sampler")

    def advance(self, sampled: NextToken) -> Token:
        self.chosen += 1
        self.is_exact = False
        return self.write(self.stretches[0].pop(0))

    def advance_forced(self) -> list[Token]:
        if self.finished:
            return []
        written = [self.write(token) for token in self.stretches.pop(0)]
        if not self.stretches:
            self.status = Status.DONE
        return written

    def write(self, token_id: int) -> Token:
        self.tokens.append(token_id)
        return Token(token_id)


def sequence_of(draw: random.Random, *, rejects: bool) -> ScriptedSequence:
    def some(min_tokens: int, max_tokens: int) -> list[int]:
        return [draw.randrange(VOCABULARY) for _ in range(draw.randint(min_tokens, max_tokens))]

    stretches = [some(1, draw.choice((1, 1, 4))) for _ in range(draw.randint(1, 12))]
    rejected = {draw.randrange(12)} if rejects else set()
    return ScriptedSequence(some(1, 30), stretches, rejected)


def joined(batch: Batch, sequence: Any, model: Module, step_size: int = 7) -> None:
    prefill = Prefill(sequence, ForwardPass(model), make_prompt_cache(model), step_size)
    while not prefill.next_pass():
        pass
    assert batch.can_add(prefill.cache)
    batch.add(sequence, prefill.cache)


def step(batch: Batch) -> None:
    batch.sample()
    batch.run_ahead()
    batch.commit()


def logits_of(sequence: Any) -> Any:
    return np.array(sequence.logits.all()[0].astype(mx.float32))


@pytest.mark.parametrize("pads", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("kind", TOGETHER)
def test_sequences_join_and_leave_a_batch_without_changing_the_others(
    kind: str, pads: bool
) -> None:
    model = model_of(kind)
    draw = random.Random(kind)
    batch = Batch(model, pads=pads)
    coming = [sequence_of(draw, rejects=number % 2 == 0) for number in range(6)]
    done = 0
    while coming or batch.sequences:
        if coming and (not batch.sequences or (len(batch.sequences) < 4 and draw.random() < 0.4)):
            joined(batch, coming.pop(), model)
        elif draw.random() < 0.2:
            batch.unmerge()
        step(batch)
        for sequence in batch.sequences:
            assert sequence.error is None
            if sequence.finished:
                layers = batch.remove(sequence)
                assert layers is not None
                done += 1
                fed = sequence.tokens[: sequence.processed]
                again = [*fed[-1:], 5]
                # The extracted cache continues as if the sequence had always been alone.
                expected = cold(model, [*fed, *again])
                logits = model(mx.array([again]), cache=layers)[0, -1]
                assert is_close(np.array(logits.astype(mx.float32)), expected)
        batch.run_pass()
        for sequence in batch.sequences:
            if not sequence.pending:
                assert is_close(logits_of(sequence), cold(model, sequence.tokens)), (
                    kind,
                    sequence.tokens,
                )
    assert done == 6


def test_caches_that_cannot_be_merged_stay_apart() -> None:
    model = model_of("chunked")
    batch, draw = Batch(model), random.Random(1)
    joined(batch, sequence_of(draw, rejects=False), model)
    assert not batch.can_add(make_prompt_cache(model))
    plain = model_of("default")
    assert not can_merge(make_prompt_cache(plain, max_kv_size=20))
    quantizing = Batch(plain, quantize=lambda layers: None)
    joined(quantizing, sequence_of(draw, rejects=False), plain)
    assert not quantizing.can_add(make_prompt_cache(plain))


def test_failing_sequence_does_not_affect_others() -> None:
    model = model_of("plain")
    batch, draw = Batch(model), random.Random(2)
    good, bad = sequence_of(draw, rejects=False), sequence_of(draw, rejects=False)
    bad.prepare = lambda **_: 1 / 0  # type: ignore
    for sequence in (good, bad):
        joined(batch, sequence, model)
    step(batch)
    assert isinstance(bad.error, ZeroDivisionError)
    assert bad.finished
    batch.remove(bad, wants_cache=False)
    batch.run_pass()
    while not good.finished:
        step(batch)
        batch.run_pass()
        if not good.finished:
            assert is_close(logits_of(good), cold(model, good.tokens))


@pytest.mark.parametrize("kind", ["plain", "sliding"])
def test_sequence_that_fails_while_another_is_sampled_again_does_not_affect_it(kind: str) -> None:
    model = model_of(kind)
    batch, draw = Batch(model), random.Random(3)
    good, bad = (
        ScriptedSequence(
            [draw.randrange(VOCABULARY) for _ in range(length)],
            [[draw.randrange(VOCABULARY)] for _ in range(6)],
            {1},
        )
        for length in (3, 5)
    )

    for sequence in (good, bad):
        joined(batch, sequence, model)
    step(batch)
    batch.run_pass()
    bad.invalid = {1}
    # This pass is dispatched before its tokens are read.
    step(batch)
    assert isinstance(bad.error, InvalidOptionError)
    assert len(good.output) == 2
    batch.remove(bad, wants_cache=False)
    while not good.finished:
        batch.run_pass()
        assert is_close(logits_of(good), cold(model, good.tokens))
        step(batch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("prompt", "opening"), [(1, 50), (90, 3)])
def test_prefill_is_independent_of_the_step_size(kind: str, prompt: int, opening: int) -> None:
    model = model_of(kind)
    draw = random.Random(prompt)
    for step_size in (7, 1000):
        sequence: Any = ScriptedSequence(
            [draw.randrange(VOCABULARY) for _ in range(prompt)], [], set()
        )
        forced = [draw.randrange(VOCABULARY) for _ in range(opening)]
        sequence.tokens += forced
        prefill = Prefill(sequence, ForwardPass(model), make_prompt_cache(model), step_size)
        while not prefill.next_pass():
            pass
        assert not sequence.pending
        assert is_close(logits_of(sequence), cold(model, sequence.tokens))
