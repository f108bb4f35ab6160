"""Operations that all ranks perform."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from replicated_objects import RecordingLeader, replicated_list

from proxy_engine.replication import OPERATIONS, replicated


@replicated()
def total(numbers: list[int], more: int = 0) -> int:
    return sum(numbers) + more


@replicated()
def total_of_all(lists: Sequence[list[int]]) -> int:
    return sum(map(sum, lists))


def test_operation_on_ordinary_objects_is_a_function() -> None:
    assert total([1, 2], more=3) == 6
    assert total_of_all([[1], [2]]) == 3


def test_operation_on_a_replicated_object_is_performed_by_the_leader() -> None:
    leader = RecordingLeader()
    given = replicated_list(1, 2, leader=leader)
    assert total(given, 3) == 6
    assert leader.performed == [(f"{__name__}.total", (given, 3))]


def test_replicated_object_is_found_within_a_list() -> None:
    leader = RecordingLeader()
    assert total_of_all([replicated_list(1, leader=leader), replicated_list(2, leader=leader)]) == 3
    assert len(leader.performed) == 1


def test_operation_on_a_replicated_object_takes_no_named_arguments() -> None:
    with pytest.raises(TypeError, match="positional"):
        total(replicated_list(1), more=3)


def test_operations_are_registered_by_name() -> None:
    assert OPERATIONS[f"{__name__}.total"].function([1]) == 1
