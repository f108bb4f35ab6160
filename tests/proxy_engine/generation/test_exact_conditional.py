"""The enumeration that tests of faithful sampling compare against, itself against brute force."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
from distributions import chi_square_p_value
from engine_parts import core_of
from exact_conditional import Enumeration, model_logits
from prefix_model import ids_of

from proxy_engine import InferenceEngine, RawPrompt
from state_machines import RegexStateMachine

TEXTS = ["ab", "abc", "abca", "ca"]
PATTERN = "abca?|ab|ca"


@pytest.mark.parametrize(("max_tokens", "temperature"), [(2, 1.0), (5, 0.7)])
def test_enumeration_equals_brute_force(
    tiny_engine: InferenceEngine, max_tokens: int, temperature: float
) -> None:
    tokenizer, prompt = tiny_engine.tokenizer, [3, 1, 4, 1, 5]
    found = Enumeration.of(
        tiny_engine,
        RawPrompt(prompt),
        response_format=RegexStateMachine(PATTERN),
        temperature=temperature,
        max_tokens=max_tokens,
        fast_forward=False,
    ).run()
    letters = ids_of(tokenizer, "a", "b", "c", "ab", "abc")
    end = tokenizer.eos_token_id
    valid = [
        text + ((end,) if len(text) < max_tokens else ())
        for length in range(1, max_tokens + 1)
        for text in product(letters, repeat=length)
        if "".join(map(tokenizer.decode, text)) in TEXTS
    ]
    logits = model_logits(core_of(tiny_engine).loaded.model)
    beginnings = sorted({text[:n] for text in valid for n in range(len(text))})
    rows = {
        one: logits([[*prompt, *one]])[0].astype(np.float64) / temperature for one in beginnings
    }
    base, masked = {}, {}
    for text in valid:
        base[text], masked[text] = 1.0, 1.0
        for n in range(len(text)):
            weights = np.exp(rows[text[:n]] - rows[text[:n]].max())
            follow = {other[n] for other in valid if len(other) > n and other[:n] == text[:n]}
            base[text] *= weights[text[n]] / weights.sum()
            masked[text] *= weights[text[n]] / weights[sorted(follow)].sum()
    evidence = sum(base.values())
    assert found.log_evidence == pytest.approx(math.log(evidence), abs=1e-5)
    assert found.by_tokens == pytest.approx({k: v / evidence for k, v in base.items()}, rel=1e-4)
    assert found.masked_by_tokens == pytest.approx(masked, rel=1e-4)


def test_fast_forward_leaves_the_tokenizers_own_tokens(tiny_engine: InferenceEngine) -> None:
    formats = Literal["ab: yes", "ab: no", "ab, d"]

    def found(*, fast_forward: bool) -> Any:
        request = Enumeration.of(
            tiny_engine,
            "hi",
            response_format=formats,
            temperature=1.0,
            max_tokens=20,
            fast_forward=fast_forward,
        )
        return request.run()

    all_tokens, own = found(fast_forward=False), found(fast_forward=True)
    base = {one.token_ids: one.log_base for one in all_tokens.sequences}
    assert len(own.sequences) < len(all_tokens.sequences)
    for one in own.sequences:
        assert base[one.token_ids] == pytest.approx(one.log_base, abs=1e-4)
    assert own.log_evidence < all_tokens.log_evidence
    for one in (own, all_tokens):
        assert set(one.by_text) == {'"ab: yes"', '"ab: no"', '"ab, d"'}
        assert sum(one.masked_by_text.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5, "top_p": 0.6},
        {"top_k": 2, "presence_penalty": 1.5, "repetition_penalty": 1.3},
        {"min_tokens": 3, "min_p": 0.2, "logit_bias": {97: 2.0}},
    ],
    ids=lambda options: ",".join(options) or "plain",
)
def test_masking_draws_from_its_enumerated_distribution(
    tiny_engine: InferenceEngine, options: dict[str, Any]
) -> None:
    given = {"temperature": 1.0, "max_tokens": 8, **options}
    machine = RegexStateMachine("(ab|a|b){1,4}c?|12")
    exact = Enumeration.of(tiny_engine, "hi", response_format=machine, **given).run()
    draws = [
        tiny_engine.generate("hi", response_format=machine, seed=seed, **given).token_ids
        for seed in range(150)
    ]
    assert chi_square_p_value(draws, exact.masked_by_tokens) > 0.01
