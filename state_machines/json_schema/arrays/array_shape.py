"""Array shapes: the arrays that a conjunction of array keywords admits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from state_machines.errors import UnsupportedSchemaError
from state_machines.json_schema.terms import FALSE, TRUE, Term, TermTable


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
    """

    prefix: tuple[Term, ...] = ()
    rest: Term = TRUE
    min_items: int = 0
    max_items: int | None = None
    counted: tuple[Counted, ...] = ()
    unique: bool = False

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
        bounds = [bound for bound in (self.max_items, other.max_items) if bound is not None]
        return _trimmed(
            ArrayShape(
                prefix=tuple(table.all_of((self.item(i), other.item(i))) for i in range(width)),
                rest=table.all_of((self.rest, other.rest)),
                min_items=max(self.min_items, other.min_items),
                max_items=min(bounds) if bounds else None,
                counted=tuple(dict.fromkeys(self.counted + other.counted)),
                unique=self.unique or other.unique,
            )
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
