"""The items of an array shape as transitions of a small automaton."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from state_machines.errors import UnsupportedSchemaError
from state_machines.json_schema.arrays.array_shape import ArrayShape, Counted
from state_machines.json_schema.terms import FALSE, TRUE, Term, TermTable
from state_machines.limits import LIMITS


@dataclass(frozen=True, slots=True)
class ItemState:
    """The state of an array after some items.

    Attributes:
        index: Number of items, counted up to where the shape no longer depends on it.
        counts: For each bound of the shape, the items in its term, counted as far as needed.
    """

    index: int
    counts: tuple[int, ...]


class ItemSteps:
    """The automaton of an array's items: which may come next, and when the array may end."""

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
        starts = [bound.start for bound in shape.counted]
        self._last_index = max([len(shape.prefix), shape.min_items, *starts])

    def is_final(self, state: ItemState) -> bool:
        """Return whether the array may end."""
        return state.index >= self.shape.min_items and all(
            count >= bound.min_count
            for count, bound in zip(state.counts, self.shape.counted, strict=True)
        )

    def transitions(self, state: ItemState) -> Iterator[tuple[Term, ItemState]]:
        """Yield the terms of the next item, each with the state after it."""
        shape = self.shape
        if shape.max_items is not None and state.index >= shape.max_items:
            return
        index = state.index + 1
        if shape.max_items is None:
            index = min(index, self._last_index)
        item = shape.item(state.index)
        alternatives: list[tuple[Term, tuple[int, ...]]] = [(item, ())]
        for bound, count in zip(shape.counted, state.counts, strict=True):
            alternatives = [
                (self._table.all_of((term, counted_term)), (*counts, now))
                for term, counts in alternatives
                for counted_term, now in self._countings(bound, count, state.index)
            ]
            alternatives = [each for each in alternatives if each[0] is not FALSE]
        for term, counts in alternatives:
            yield term, ItemState(index, counts)

    def _countings(self, bound: Counted, count: int, index: int) -> Iterator[tuple[Term, int]]:
        """Yield the terms of an item by which it is counted or not, each with the new count."""
        if index < bound.start:
            yield TRUE, count
            return
        if bound.max_count is None:
            # Without an upper bound an item that is not counted may have any value.
            yield TRUE, count
            if count < bound.min_count:
                yield bound.term, count + 1
            return
        yield self._table.negation(bound.term), count
        if count < bound.max_count:
            yield bound.term, count + 1

    def terms(self) -> Iterator[Term]:
        """Yield the terms of items: with no bound, with each bound alone, and with all bounds."""
        shape, table = self.shape, self._table
        for index in range(max([len(shape.prefix), *(bound.start for bound in shape.counted)]) + 1):
            item = shape.item(index)
            yield item
            counted = [bound for bound in shape.counted if index >= bound.start]
            for bound in counted:
                yield table.all_of((item, bound.term))
                if bound.max_count is not None:
                    yield table.all_of((item, table.negation(bound.term)))
            if len(counted) > 1:
                yield table.all_of((item, *(bound.term for bound in counted)))

    def can_finish(self, start: ItemState, has_value: Callable[[Term], bool]) -> bool:
        """Return whether a final state can be reached from ``start`` by items that exist."""
        seen = {start}
        stack = [start]
        while stack:
            state = stack.pop()
            if self.is_final(state):
                return True
            for term, target in self.transitions(state):
                if target not in seen and has_value(term):
                    seen.add(target)
                    stack.append(target)
            if len(seen) > LIMITS.array_states:
                raise UnsupportedSchemaError(
                    "counting the items that match a schema takes too many states",
                    keyword="contains",
                )
        return False
