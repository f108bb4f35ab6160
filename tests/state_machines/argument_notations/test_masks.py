"""Masks over tokens that reach across names, values and markers."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation_families import FAMILIES, Family
from schema_strategies import examples
from small_vocabulary import brute_force_mask

from state_machines import Matcher, Vocabulary
from state_machines.grammar.node import EMPTY

VALUES: list[dict[str, Any]] = [
    {"a": "x", "b": None, "c": [1, "x"], "ab": "5 x"},
    {"a": "", "d": "x\n\n"},
    {"c": [], "d": "x"},
    {},
]
SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
            "c": {"type": "array", "uniqueItems": True},
            "ab": {"type": "string", "pattern": "^[0-9] *x?$"},
        },
    },
    {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3},
    {"type": "object", "patternProperties": {"^a": {"enum": ["x", 1]}}},
]


@cache
def vocabulary_of(texts: tuple[str, ...]) -> Vocabulary:
    """Every byte, and every stretch of up to nine bytes of the texts."""
    pieces = {
        text[start : start + length]
        for text in map(str.encode, texts)
        for length in (2, 3, 5, 9)
        for start in range(len(text) - length + 1)
    }
    forms = [*(bytes((byte,)) for byte in range(256)), *sorted(pieces), b"</s>"]
    return Vocabulary(forms, end_token_ids=[len(forms) - 1])


def texts_of(family: Family) -> tuple[str, ...]:
    scalars = ({k: v for k, v in value.items() if k != "c"} for value in VALUES)
    values = [*VALUES, *scalars]
    return tuple(sorted({next(iter(family.template(value))) for value in values}))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.notation.name)
@examples(4)
@given(st.sampled_from(range(len(SCHEMAS))), st.integers(0, 2**32))
def test_masks_equal_brute_force(family: Family, which: int, seed: int) -> None:
    schema = SCHEMAS[which]
    if family.notation.name == "function-gemma":
        schema = {**schema, "properties": {"a": {"type": "string"}, "ab": {"type": "integer"}}}
    texts = texts_of(family)
    vocabulary = vocabulary_of(texts)
    random = Random(seed)
    text = random.choice(texts).encode()
    matcher = Matcher(family.notation.compile(schema).node, vocabulary)
    at = 0
    for _ in range(25):
        expected = brute_force_mask(matcher.state, vocabulary)
        allowed = matcher.allowed_tokens()
        wrong = [vocabulary.token_bytes[i] for i in (allowed != expected).nonzero()[0].tolist()]
        assert not wrong, wrong
        ids = expected.nonzero()[0].tolist()
        forms = {i: vocabulary.token_bytes[i] or b"" for i in ids if i < len(expected) - 1}
        along = [i for i, form in forms.items() if text.startswith(form, at)]
        if not forms:
            return
        chosen = random.choice(along if along and random.random() < 0.9 else list(forms))
        at = at + len(forms[chosen]) if chosen in along else len(text)
        matcher.advance(chosen)
        assert matcher.state is not EMPTY
