"""Invalid values: wrong types, out of range, lone surrogates, too deep; and mutated valid values.

Most examples are mutations, because values that are valid except in one place reach code that random
values do not.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["DEEP", "mutated", "wrong_json", "wrong_values"]

DEEP = 10_000
"""Brackets in one another: far more than Python follows."""


def _nested(kind: str) -> Any:
    value: Any = {} if kind == "object" else []
    for _ in range(DEEP):
        value = {"a": value} if kind == "object" else [value]
    return value


_DEEP_LIST, _DEEP_OBJECT = _nested("array"), _nested("object")

_TEXTS = st.sampled_from(
    [
        "",
        "a",
        "text",
        "\ud800",
        "a\udfffb",
        "\x00",
        "é",
        "😀",
        "root",
        "none",
        "#/x",
        "[" * 99,
        "$ref",
    ]
) | st.text(max_size=5)
_NUMBERS = st.sampled_from(
    [0, 1, -1, 2, 1.5, -0.0, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400, 1e308, -1e-308, 1e-320]
)
_SCALARS = st.none() | st.booleans() | _NUMBERS | _TEXTS
_SHALLOW = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)

wrong_json = _SHALLOW | st.sampled_from([[], {}, [[]], {"": {}}])
"""Values as a JSON parser returns them, not nested too deeply."""

deep_json = st.sampled_from([_DEEP_LIST, _DEEP_OBJECT])
"""Values that no recursion follows. Not drawn among others: they cannot be shown or compared."""

wrong_values = st.one_of(
    wrong_json,
    st.sampled_from([math.nan, math.inf, -math.inf, 10**5000, b"x", 3j, ..., object, object()]),
    st.sampled_from([np.int64(3), np.float32(0.5), np.bool_(True), np.array([1, 2]), np.zeros(())]),
    st.sampled_from([{1, 2}, (1, 2), range(3), {1: 2}, {(1, 2): 3}, len, int, iter(())]),
)
"""Values that only a program can give, and those of JSON."""


@st.composite
def mutated(
    draw: st.DrawFn, valid: Sequence[Any], values: st.SearchStrategy[Any] = wrong_json
) -> Any:
    """One of some valid JSON-like values, changed at one to three places."""
    # Drawn values are changed later and drawn again in other examples.
    values = values.map(copy.deepcopy)
    value = copy.deepcopy(draw(st.sampled_from(list(valid))))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(value))
        if not places:
            return draw(values)
        owner, key = draw(st.sampled_from(places))
        action = draw(st.sampled_from(["replace", "replace", "remove", "add", "wrap", "copy"]))
        if action == "replace":
            owner[key] = draw(values)
        elif action == "remove":
            del owner[key]
        elif action == "wrap":
            owner[key] = draw(st.sampled_from([[owner[key]], {"a": owner[key]}]))
        elif action == "copy":
            other, place = draw(st.sampled_from(places))
            if place in other if isinstance(other, dict) else place < len(other):
                owner[key] = copy.deepcopy(other[place])
        elif isinstance(owner, dict):
            owner[draw(_TEXTS)] = draw(values)
        else:
            owner.append(draw(values))
    return value


def _places(value: Any) -> Any:
    """All places of a value that hold another: the list or dict, and the index or key."""
    left = [value]
    while left:
        owner = left.pop()
        if isinstance(owner, dict | list):
            items = list(owner.items() if isinstance(owner, dict) else enumerate(owner))
            for key, inner in items:
                yield owner, key
                left.append(inner)
