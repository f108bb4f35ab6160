"""Messages state the arguments of operations."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
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
