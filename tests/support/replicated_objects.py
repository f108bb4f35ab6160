"""Replicated objects without other ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy_engine.replication import Operation, Replica, ReplicatedList


@dataclass
class RecordingLeader:
    """Performs operations on one rank, and records them."""

    performed: list[tuple[str, Sequence[Any]]] = field(default_factory=list)

    def perform(self, operation: Operation, arguments: Sequence[Any]) -> Any:
        self.performed.append((operation.name, arguments))
        return operation.function(*arguments)


def replicated_list(
    *items: Any, number: int = 1, leader: RecordingLeader | None = None
) -> ReplicatedList:
    """A replicated list with a number."""
    found = ReplicatedList(items)
    found.replica = Replica(leader or RecordingLeader(), number)
    return found
