"""The items of an array shape as steps of a small automaton."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from state_machines.errors import UnsupportedSchemaError
from state_machines.json_schema.arrays.array_shape import ArrayShape, Counted
from state_machines.json_schema.terms import FALSE, TRUE, Term, TermTable
from state_machines.limits import LIMITS

__all__ = ["ItemState", "ItemSteps"]


@dataclass(frozen=True, slots=True)
class ItemState:
    """``index`` items are written; ``counts[k]`` of them answer the k-th counted requirement.

    Both are kept only as far as the shape can tell them apart.
    """

    index: int
    counts: tuple[int, ...]


class ItemSteps:
    """How an array of a shape goes on: which items may come next, and when it may end."""

    def __init__(self, shape: ArrayShape, table: TermTable) -> None:
        if len(shape.counted) > LIMITS.counted_contains:
            raise UnsupportedSchemaError(
                f"more than {LIMITS.counted_contains} requirements "
                "on how many items match a schema",
                keyword="contains",
            )
        self.shape = shape
        self._table = table
        self.start = ItemState(0, (0,) * len(shape.counted))
        starts = [part.start for part in shape.counted]
        self._last_index = max([len(shape.prefix), shape.min_items, *starts])

    def is_final(self, state: ItemState) -> bool:
        """Whether the array may end here."""
        return state.index >= self.shape.min_items and all(
            count >= part.min_count
            for count, part in zip(state.counts, self.shape.counted, strict=True)
        )

    def steps(self, state: ItemState) -> Iterator[tuple[Term, ItemState]]:
        """Yield the terms that the next item may be in, with the state each leads to."""
        shape = self.shape
        if shape.max_items is not None and state.index >= shape.max_items:
            return
        index = state.index + 1
        if shape.max_items is None:
            index = min(index, self._last_index)
        item = shape.item(state.index)
        ways: list[tuple[Term, tuple[int, ...]]] = [(item, ())]
        for part, count in zip(shape.counted, state.counts, strict=True):
            ways = [
                (self._table.all_of((term, claimed)), (*counts, now))
                for term, counts in ways
                for claimed, now in self._ways(part, count, state.index)
            ]
            ways = [way for way in ways if way[0] is not FALSE]
        for term, counts in ways:
            yield term, ItemState(index, counts)

    def _ways(self, part: Counted, count: int, index: int) -> Iterator[tuple[Term, int]]:
        """Yield how an item can stand to a counted requirement: (its term, the new count)."""
        if index < part.start:
            yield TRUE, count
            return
        if part.max_count is None:
            # Only a minimum: an item that is not claimed may be anything.
            yield TRUE, count
            if count < part.min_count:
                yield part.term, count + 1
            return
        yield self._table.negation(part.term), count
        if count < part.max_count:
            yield part.term, count + 1

    def terms(self) -> Iterator[Term]:
        """Yield the terms that steps can be in; of several requirements, each alone and all."""
        shape, table = self.shape, self._table
        for index in range(max([len(shape.prefix), *(part.start for part in shape.counted)]) + 1):
            item = shape.item(index)
            yield item
            counted = [part for part in shape.counted if index >= part.start]
            for part in counted:
                yield table.all_of((item, part.term))
                if part.max_count is not None:
                    yield table.all_of((item, table.negation(part.term)))
            if len(counted) > 1:
                yield table.all_of((item, *(part.term for part in counted)))

    def can_finish(self, start: ItemState, ask: Callable[[Term], bool]) -> bool:
        """Whether some final state is reached from ``start`` through items that exist."""
        seen = {start}
        stack = [start]
        while stack:
            state = stack.pop()
            if self.is_final(state):
                return True
            for term, target in self.steps(state):
                if target not in seen and ask(term):
                    seen.add(target)
                    stack.append(target)
            if len(seen) > LIMITS.array_states:
                raise UnsupportedSchemaError(
                    "counting items within such bounds takes too many states", keyword="contains"
                )
        return False
