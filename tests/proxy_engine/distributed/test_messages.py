"""Messages state the arguments of operations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replicated_objects import replicated_list

from proxy_engine.distributed.messages import Message, broadcast, read_argument

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner),
    max_leaves=8,
)


def read(message: Message) -> list[Any]:
    return [
        read_argument(value, lambda number: f"object {number}", lambda array: array)
        for value in Message.decode(message.encode()).arguments
    ]


@given(st.lists(PLAIN))
def test_plain_arguments_are_read_as_they_were_given(arguments: list[Any]) -> None:
    assert read(Message("f", arguments)) == arguments


@given(st.text(), st.none() | st.integers(1), st.lists(st.integers(1)), st.booleans())
def test_message_is_read_as_it_was_written(
    name: str, creates: int | None, unused: list[int], has_failed: bool
) -> None:
    message = Message(name, [], creates, unused, has_failed)
    assert Message.decode(message.encode()) == message


def test_objects_are_stated_by_their_numbers() -> None:
    arguments = [
        replicated_list(number=3),
        [replicated_list(number=4), 1],
        {"cache": replicated_list(number=5)},
    ]
    assert read(Message("f", arguments)) == ["object 3", ["object 4", 1], {"cache": "object 5"}]


def test_arrays_are_stated_by_shape_and_type() -> None:
    for dtype in (mx.int32, mx.uint32, mx.float32, mx.bfloat16):
        (found,) = read(Message("f", [mx.ones((2, 3), dtype)]))
        assert found.shape == (2, 3)
        assert found.dtype == dtype
        assert not found.any().item()


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
