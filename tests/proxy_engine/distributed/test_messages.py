"""Messages state the arguments of operations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.distributed.channel import broadcast


def test_broadcast_within_a_single_rank_keeps_the_values() -> None:
    tokens = mx.array([[1, 2**31]], mx.uint32)
    assert broadcast(tokens, mx.distributed.init()).tolist() == [[1, 2**31]]


@given(st.lists(st.integers(0, 2**31), min_size=1), st.data())
def test_failed_broadcast_leaves_no_undefined_token_ids(
    ids: list[int], data: st.DataObject
) -> None:
    """MLX goes on with the result of a collective operation that has failed."""
    sent: list[mx.array] = []
    undefined = data.draw(
        st.lists(st.integers(0, 2**31 - 1), min_size=2 * len(ids), max_size=2 * len(ids))
    )

    def failed(array: mx.array, group: Any) -> mx.array:
        sent.append(array)
        return mx.array(undefined[: array.size], mx.uint32).reshape(array.shape)

    def summed(array: mx.array, group: Any) -> mx.array:
        return array + sent[0]

    def received(array: mx.array, rank: int) -> Any:
        group: Any = SimpleNamespace(rank=lambda: rank)
        return broadcast(array, group).tolist()

    tokens = mx.array([ids], mx.uint32)
    nothing = mx.zeros_like(tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mx.distributed, "all_sum", failed)
        assert received(tokens, 0) == [ids]
        assert received(nothing, 1) == nothing.tolist()
        patch.setattr(mx.distributed, "all_sum", summed)
        assert received(nothing, 1) == [ids]
