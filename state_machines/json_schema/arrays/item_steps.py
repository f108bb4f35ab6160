"""The items of an array shape as transitions of a small automaton."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from state_machines.budgets import Verdict, spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.json_schema.arrays.array_shape import ArrayShape, Counted
from state_machines.json_schema.terms import FALSE, TRUE, Term, TermTable
from state_machines.limits import LIMITS

_COUNTED_CONTAINS = 8
"""``contains`` keywords with counts on one array; the states are a product of the counts."""


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
        if len(shape.counted) > _COUNTED_CONTAINS:
            raise UnsupportedSchemaError(
                f"more than {_COUNTED_CONTAINS} requirements on how many items match a schema",
                keyword="contains",
            )
        self.shape = shape
        self._table = table
        self.start = ItemState(0, (0,) * len(shape.counted))
        starts = [bound.start for bound in shape.counted]
        self._last_index = max([len(shape.prefix), shape.min_items, *starts])
        self._can_finish: dict[ItemState, bool] = {}

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
        needs_more = bound.max_count is None and count < bound.min_count
        if bound.max_count is None and not (needs_more and self.shape.unique):
            # Without an upper bound an item that is not counted may have any value. Unique items
            # are counted exactly, since each uses up a value.
            yield TRUE, count
        else:
            yield self._table.negation(bound.term), count
        if needs_more or (bound.max_count is not None and count < bound.max_count):
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
                if bound.max_count is not None or shape.unique:
                    yield table.all_of((item, table.negation(bound.term)))
            if len(counted) > 1:
                yield table.all_of((item, *(bound.term for bound in counted)))

    def can_finish(self, start: ItemState, has_value: Callable[[Term], bool]) -> bool:
        """Return whether a final state can be reached from ``start`` by items that exist.

        The results are stored, so ``has_value`` must not change.

        Raises:
            GrammarBudgetError: That is not known within ``LIMITS.array_states`` states. The schema
                is refused then; in a mask the completion plan continues.
        """
        return self._find_end(start, has_value).decided(
            "whether an array can have all items that it needs", LIMITS.array_states
        )

    def _find_end(self, start: ItemState, has_value: Callable[[Term], bool]) -> Verdict:
        """Search depth first, for items that are counted first."""
        known = self._can_finish
        if len(known) > LIMITS.array_states:
            known.clear()
        seen = {start}
        path = [(start, self._following(start, has_value))]
        while path:
            state, following = path[-1]
            if known.get(state) or self.is_final(state):
                known.update((state, True) for state, _ in path)
                return Verdict.YES
            target = next(following, None)
            if target is None:
                path.pop()
            elif target not in seen and known.get(target) is not False:
                if len(seen) >= LIMITS.array_states:
                    return Verdict.UNKNOWN
                seen.add(target)
                path.append((target, self._following(target, has_value)))
        known.update(dict.fromkeys(seen, False))
        return Verdict.NO

    def _following(
        self, state: ItemState, has_value: Callable[[Term], bool]
    ) -> Iterator[ItemState]:
        spend()
        for term, target in reversed(list(self.transitions(state))):
            if has_value(term):
                yield target
