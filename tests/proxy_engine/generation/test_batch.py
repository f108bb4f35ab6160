"""Rows that are run together, with every kind of cache: each as if it were alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from cached_models import KINDS, VOCABULARY, cold, is_close, model_of
from mlx.nn.layers.base import Module
from mlx_lm.models import gpt_bigcode
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.generation import Batch, Prefill, SampledToken, Timings, Token
from proxy_engine.generation.cache_layers import can_merge

TOGETHER = [kind for kind in KINDS if kind != "chunked"]


class ScriptedRow:
    """Writes what it is told to: now and then some tokens at once, as if they were forced.

    ``refused`` are numbers of tokens that are first chosen wrongly, and not taken.
    """

    def __init__(
        self, prompt: Sequence[int], stretches: Sequence[Sequence[int]], refused: set[int]
    ) -> None:
        self.tokens = list(prompt)
        self.prompt_tokens = len(prompt)
        self.pending: list[int] = []
        self.logits: mx.array | None = None
        self.finished = False
        self.expects_fast_forward = False
        self.may_reject = bool(refused)
        self.timings = Timings()
        self.sizes: list[int] = []
        self._stretches = [list(stretch) for stretch in stretches]
        self._refused = refused
        self._chosen = 0

    @property
    def processed(self) -> int:
        return len(self.tokens) - len(self.pending)

    @property
    def is_at_limit(self) -> bool:
        return len(self._stretches) == 1

    def sample(self, logits: mx.array, *, exact: bool = False) -> SampledToken:
        assert logits.shape == (1, VOCABULARY)
        self.expects_fast_forward = self._chosen % 3 == 0
        token = self._stretches[0][0]
        if self._chosen in self._refused and not exact:
            token = (token + 1) % VOCABULARY
        return SampledToken(mx.array([token]))

    def accepts(self, token_id: int) -> bool:
        return token_id == self._stretches[0][0]

    def advance(self, sampled: SampledToken, token_id: int) -> Token:
        self._chosen += 1
        return self._write(self._stretches[0].pop(0))

    def advance_forced(self) -> list[Token]:
        if self.finished:
            return []
        written = [self._write(token) for token in self._stretches.pop(0)]
        self.finished = not self._stretches
        return written

    def _write(self, token_id: int) -> Token:
        self.tokens.append(token_id)
        self.pending.append(token_id)
        return Token(token_id)


def row_of(draw: random.Random, *, refuses: bool) -> ScriptedRow:
    def some(least: int, most: int) -> list[int]:
        return [draw.randrange(VOCABULARY) for _ in range(draw.randint(least, most))]

    stretches = [some(1, draw.choice((1, 1, 4))) for _ in range(draw.randint(1, 12))]
    refused = {draw.randrange(12)} if refuses else set()
    return ScriptedRow(some(1, 30), stretches, refused)


def joined(batch: Batch, row: Any, model: Module, step_size: int = 7) -> None:
    reading = Prefill(row, model, make_prompt_cache(model), step_size)
    while not reading.next_pass():
        pass
    assert batch.can_add(reading.cache)
    batch.add(row, reading.cache)


def logits_of(row: Any) -> Any:
    return np.array(row.logits[0].astype(mx.float32))


@pytest.mark.parametrize("pads", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("refuses", [False, True], ids=["", "refused"])
@pytest.mark.parametrize("kind", TOGETHER)
def test_rows_come_and_go(kind: str, refuses: bool, pads: bool) -> None:
    model = model_of(kind)
    draw = random.Random(f"{kind} {refuses}")
    batch = Batch(model, pads=pads)
    coming = [row_of(draw, refuses=refuses) for _ in range(9)]
    done = 0
    while coming or batch.sequences:
        if coming and (not batch.sequences or (len(batch) < 4 and draw.random() < 0.4)):
            joined(batch, coming.pop(), model)
        elif draw.random() < 0.2:
            batch.unmerge()
        steps = batch.generate_step()
        for step in steps:
            assert step.error is None
            if step.sequence.finished:
                layers = batch.remove(step.sequence)
                assert layers is not None
                done += 1
                row = step.sequence
                fed = row.tokens[: row.processed]
                again = [*fed[-1:], 5]
                # What is left goes on as if the row had always been alone.
                expected = cold(model, [*fed, *again])
                logits = model(mx.array([again]), cache=layers)[0, -1]
                assert is_close(np.array(logits.astype(mx.float32)), expected)
        batch.feed()
        for row in batch.sequences:
            if not row.pending:
                assert is_close(logits_of(row), cold(model, row.tokens)), (kind, row.tokens)
    assert done == 9


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_alone(kind: str) -> None:
    model = model_of(kind)
    draw = random.Random(kind)
    for _ in range(4):
        batch, row = Batch(model), row_of(draw, refuses=True)
        joined(batch, row, model)
        while not row.finished:
            batch.generate_step()
            if not row.finished:
                batch.feed()
                assert is_close(logits_of(row), cold(model, row.tokens))


def test_what_cannot_be_put_together_is_not() -> None:
    model = model_of("chunked")
    batch, draw = Batch(model), random.Random(1)
    joined(batch, row_of(draw, refuses=False), model)
    assert not batch.can_add(make_prompt_cache(model))
    plain = model_of("default")
    assert not can_merge(make_prompt_cache(plain, max_kv_size=20))
    quantizing = Batch(plain, quantize=lambda layers: None)
    joined(quantizing, row_of(draw, refuses=False), plain)
    assert not quantizing.can_add(make_prompt_cache(plain))


def test_a_row_that_fails_does_not_harm_others() -> None:
    model = model_of("plain")
    batch, draw = Batch(model), random.Random(2)
    good, bad = row_of(draw, refuses=False), row_of(draw, refuses=False)
    bad.sample = lambda *_, **__: 1 / 0  # type: ignore[assignment, method-assign]
    for row in (good, bad):
        joined(batch, row, model)
    steps = {id(step.sequence): step for step in batch.generate_step()}
    assert isinstance(steps[id(bad)].error, ZeroDivisionError)
    assert bad.finished
    batch.remove(bad, wants_cache=False)
    batch.feed()
    while not good.finished:
        batch.generate_step()
        batch.feed()
        if not good.finished:
            assert is_close(logits_of(good), cold(model, good.tokens))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("prompt", "opening"), [(1, 0), (1, 50), (33, 40), (34, 0), (90, 3)])
def test_prompts_are_read_in_any_passes(kind: str, prompt: int, opening: int) -> None:
    model = model_of(kind)
    draw = random.Random(prompt)
    for step_size in (7, 1000):
        row: Any = ScriptedRow([draw.randrange(VOCABULARY) for _ in range(prompt)], [], set())
        forced = [draw.randrange(VOCABULARY) for _ in range(opening)]
        row.tokens += forced
        row.pending += forced
        reading = Prefill(row, model, make_prompt_cache(model), step_size)
        while not reading.next_pass():
            pass
        assert not row.pending
        assert is_close(logits_of(row), cold(model, row.tokens))


@pytest.mark.parametrize("method", ["accepts", "sample"])
def test_a_row_that_fails_when_it_chooses_again(method: str) -> None:
    model = model_of("plain")
    batch = Batch(model)
    good = ScriptedRow([1, 2, 3], [[4], [5], [6], [7]], {1})
    bad = ScriptedRow([1, 2], [[4], [5], [6], [7]], {1})
    choose, count = bad.sample, 0

    def fails(*arguments: Any, exact: bool = True) -> Any:
        nonlocal count
        count += 1
        if exact and count > 1:
            raise ZeroDivisionError
        return choose(*arguments, exact=exact) if method == "sample" else True

    setattr(bad, method, fails)
    for row in (good, bad):
        joined(batch, row, model)
    errors: list[Exception] = []
    while batch.sequences:
        for step in batch.generate_step():
            errors += [step.error] if step.error else []
            if step.sequence.finished:
                batch.remove(step.sequence, wants_cache=False)
        batch.feed()
        for row in batch.sequences:
            assert is_close(logits_of(row), cold(model, row.tokens))
    assert [type(error) for error in errors] == [ZeroDivisionError]
    assert good.finished


def test_models_that_know_one_offset_only() -> None:
    sizes = {"n_embd": 16, "n_layer": 1, "n_inner": 32, "n_head": 2, "n_positions": 64}
    arguments = gpt_bigcode.ModelArgs(
        "gpt_bigcode", **sizes, layer_norm_epsilon=1e-5, vocab_size=VOCABULARY
    )
    model = gpt_bigcode.Model(arguments)
    batch, draw = Batch(model), random.Random(4)
    joined(batch, row_of(draw, refuses=False), model)
    assert not batch.can_add(make_prompt_cache(model))
    assert len(batch) == 1


def test_a_token_is_there_before_the_pass_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("plain")
    batch = Batch(model)
    joined(batch, ScriptedRow([1, 2, 3], [[4], [5], [6]], set()), model)
    evaluated: list[set[tuple[int, ...]]] = []

    def together(*arrays: mx.array) -> None:
        # What is evaluated by one call is there when all of it is.
        evaluated.append({array.shape for array in arrays})
        mx.eval(*arrays)

    monkeypatch.setattr(mx, "async_eval", together)
    batch.generate_step()
    batch.feed()
    batch.generate_step()
    assert evaluated.count({(1,)}) == 2
    assert evaluated.count({(1, VOCABULARY)}) == 2
    assert len(evaluated) == 4
