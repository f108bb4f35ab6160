"""Array shapes: the arrays that a conjunction of array keywords admits.

:class:`ItemSteps` are the items of a shape as transitions of a small automaton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from state_machines.budgets import Verdict, spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.json_schema.algebra.terms import FALSE, TRUE, Term, TermTable
from state_machines.limits import LIMITS

_COUNTED_CONTAINS = 8
"""``contains`` keywords with counts on one array; the states are a product of the counts."""

COUNTS_PER_STEP = 8
"""Bounds on the number of items that are compared in one step."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A bound on how many items are in ``term``, counted from index ``start`` on.

    ``max_count`` is ``None`` for no upper bound.
    """

    term: Term
    start: int = 0
    min_count: int = 1
    max_count: int | None = None


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """A set of arrays.

    Attributes:
        prefix: Terms of the first items.
        rest: Term of all items after the prefix.
        min_items: Smallest number of items.
        max_items: Largest number of items; ``None`` for no bound.
        counted: Bounds on the number of items in a term; all must hold.
        unique: Whether all items differ.
        lists_items: Whether a schema has ``prefixItems`` and says nothing about further items.
    """

    prefix: tuple[Term, ...] = ()
    rest: Term = TRUE
    min_items: int = 0
    max_items: int | None = None
    counted: tuple[Counted, ...] = ()
    unique: bool = False
    lists_items: bool = False

    @property
    def is_unconstrained(self) -> bool:
        """Whether every array has this shape."""
        return self == ArrayShape()

    @property
    def is_contradictory(self) -> bool:
        """Whether the bounds on the number of items contradict each other."""
        return self.max_items is not None and self.max_items < self.min_items

    def item(self, index: int) -> Term:
        """Return the term of the item at an index."""
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def conjoin(self, other: ArrayShape, table: TermTable) -> ArrayShape:
        """Return the intersection of both sets."""
        width = max(len(self.prefix), len(other.prefix))
        counts = len(self.counted) + len(other.counted)
        if counts >= COUNTS_PER_STEP:
            spend(counts // COUNTS_PER_STEP)
        bounds = [bound for bound in (self.max_items, other.max_items) if bound is not None]
        return _trimmed(
            ArrayShape(
                prefix=tuple(table.all_of((self.item(i), other.item(i))) for i in range(width)),
                rest=table.all_of((self.rest, other.rest)),
                min_items=max(self.min_items, other.min_items),
                max_items=min(bounds) if bounds else None,
                counted=tuple(dict.fromkeys(self.counted + other.counted)),
                unique=self.unique or other.unique,
                lists_items=self.lists_items or other.lists_items,
            )
        )

    def closed(self) -> ArrayShape:
        """Return the arrays without further items, if schemas list items and need no others."""
        width = len(self.prefix)
        if self.lists_items and self.rest is TRUE and not self.counted and self.min_items <= width:
            return _trimmed(replace(self, rest=FALSE))
        return self

    def is_inhabited(self, table: TermTable, has_value: Callable[[Term], bool]) -> bool:
        """Return whether some array has the shape, given which terms have a value."""
        if self.is_contradictory:
            return False
        if self.counted:
            steps = ItemSteps(self, table)
            return steps.can_finish(steps.start, has_value)
        needed = self.prefix[: self.min_items]
        return all(map(has_value, needed)) and (
            self.min_items <= len(self.prefix) or has_value(self.rest)
        )

    def complement(self, table: TermTable) -> tuple[ArrayShape, ...]:
        """Return the complement of the set, as a union of shapes."""
        return tuple(self._failures(table))

    def _failures(self, table: TermTable) -> Iterable[ArrayShape]:
        if self.unique:
            raise UnsupportedSchemaError(
                "the negation of uniqueItems cannot be enforced", keyword="uniqueItems"
            )
        if self.min_items > 0:
            yield ArrayShape(max_items=self.min_items - 1)
        if self.max_items is not None:
            yield ArrayShape(min_items=self.max_items + 1)
        for index, term in enumerate(self.prefix):
            if term is not TRUE:
                before = (TRUE,) * index
                yield ArrayShape(prefix=(*before, table.negation(term)), min_items=index + 1)
        if self.rest is FALSE:
            yield ArrayShape(min_items=len(self.prefix) + 1)
        elif self.rest is not TRUE:
            yield ArrayShape(counted=(Counted(table.negation(self.rest), len(self.prefix)),))
        for bound in self.counted:
            if bound.min_count > 0:
                yield ArrayShape(
                    counted=(replace(bound, min_count=0, max_count=bound.min_count - 1),)
                )
            if bound.max_count is not None:
                yield ArrayShape(
                    counted=(replace(bound, min_count=bound.max_count + 1, max_count=None),)
                )


def _trimmed(shape: ArrayShape) -> ArrayShape:
    """Replace an item term without values by an upper bound on the number of items."""
    max_items = shape.max_items
    for index, term in enumerate((*shape.prefix, shape.rest)):
        if term is FALSE and (max_items is None or index < max_items):
            max_items = index
            break
    return shape if max_items == shape.max_items else replace(shape, max_items=max_items)


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
