"""Tokens that are drawn before those in front of them are read are the tokens of the plain loop."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from architectures import small_model
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.generation import (
    Batch,
    Constraint,
    DeviceMasks,
    ForwardPass,
    GeneratedSequence,
    MinTokens,
    Prefill,
    SequenceSamplers,
)
from proxy_engine.generation.sampling import NextToken
from proxy_engine.options.generation import GenerationOptions

# More tokens than a small mask has, whose logits are computed for each text alone.
_VOCABULARY = 99
_MASKS = DeviceMasks()
_ENDS = tuple(range(0, _VOCABULARY, 5))


@cache
def model_of(architecture: str) -> Module:
    return small_model(architecture, vocab_size=_VOCABULARY)


@dataclass(frozen=True)
class FreeText:
    """A text without a grammar.

    Attributes:
        seed: Seed of its sampler, and its first prompt token.
        joins: The step before which it joins the batch.
        leaves: The steps that it takes part in, at most.
        options: Its options.
    """

    seed: int
    joins: int
    leaves: int
    options: GenerationOptions

    def sequence(self) -> GeneratedSequence:
        options = self.options
        at_least = MinTokens(options.min_tokens, _MASKS, _VOCABULARY)
        constraint = Constraint([at_least], _ENDS, options.max_tokens or 1)
        prompt = [self.seed % _VOCABULARY, 1, 2]
        return GeneratedSequence(prompt, constraint, SequenceSamplers(options), masks=_MASKS)


@st.composite
def free_texts(draw: st.DrawFn) -> FreeText:
    max_tokens = draw(st.integers(1, 12))
    seed = draw(st.integers(0, 100))
    kinds: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"temperature": 1.0},
        {"temperature": 1.0, "top_k": 5},
        {"temperature": 1.0, "presence_penalty": 1.0},
    ]
    # Mostly equal parameters, so that texts can be sampled together.
    kind = draw(st.sampled_from([kinds[1]] * 6 + kinds))
    options = GenerationOptions(
        max_tokens=max_tokens, min_tokens=draw(st.integers(0, max_tokens)), seed=seed, **kind
    )
    return FreeText(seed, draw(st.integers(0, 4)), draw(st.integers(1, 12)), options)


def written(texts: Sequence[FreeText], architecture: str) -> list[tuple[Any, ...]]:
    """Return the tokens, the used random keys and the tokens in the cache of each text."""
    model = model_of(architecture)
    forward = ForwardPass(model)
    batch = Batch(forward)
    sequences = [text.sequence() for text in texts]
    steps = dict.fromkeys(sequences, 0)
    number = 0
    while number <= 4 or batch.sequences:
        for text, sequence in zip(texts, sequences, strict=True):
            if text.joins == number:
                prefill = Prefill(sequence, forward, make_prompt_cache(model), 7)
                while not prefill.next_pass():
                    pass
                batch.add(sequence, prefill.cache)
        if batch.sequences:
            batch.sample()
            batch.run_ahead()
            batch.commit()
            for sequence in batch.sequences:
                assert sequence.error is None
                steps[sequence] += 1
            for text, sequence in zip(texts, sequences, strict=True):
                if sequence in batch.sequences and (
                    sequence.finished or steps[sequence] == text.leaves
                ):
                    batch.remove(sequence)
            batch.run_pass()
        number += 1
    return [
        (sequence.tokens, sequence.output, sequence.processed, sequence.forward_passes)
        for sequence in sequences
    ]


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "mamba"])
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(free_texts(), min_size=1, max_size=4))
def test_drawing_ahead_changes_no_token(architecture: str, texts: list[FreeText]) -> None:
    found = written(texts, architecture)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batch, "_draw_ahead", lambda batch: [])
        assert found == written(texts, architecture)


def test_free_texts_are_drawn_ahead() -> None:
    options = GenerationOptions(max_tokens=8, temperature=1.0, seed=1, min_tokens=8)
    drawn: list[int] = []
    read = NextToken.read

    def counted(tokens: Sequence[NextToken]) -> None:
        texts = [text for text in sequences if text.drawn_ahead is not None]
        drawn.append(len(texts))
        read(tokens)

    texts = [FreeText(1, 0, 8, options), FreeText(2, 0, 8, options)]
    sequences: list[GeneratedSequence] = []
    make = FreeText.sequence
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NextToken, "read", staticmethod(counted))
        patch.setattr(
            FreeText, "sequence", lambda text: sequences.append(make(text)) or sequences[-1]
        )
        written(texts, "llama")
    # The last pass has nothing behind it.
    assert drawn == [2] * 7 + [0]


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_batch_releases_sequences_that_left(penalty: float) -> None:
    text = GenerationOptions(max_tokens=9, temperature=1.0, presence_penalty=penalty)
    sequence = FreeText(1, 0, 9, text).sequence()
    forward = ForwardPass(model_of("llama"))
    batch = Batch(forward)
    prefill = Prefill(sequence, forward, make_prompt_cache(forward.model), 7)
    while not prefill.next_pass():
        pass
    batch.add(sequence, prefill.cache)
    batch.sample()
    batch.run_ahead()
    batch.commit()
    batch.remove(sequence)
    left = weakref.ref(sequence)
    del sequence, prefill
    gc.collect()
    assert left() is None
