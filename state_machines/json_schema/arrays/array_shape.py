"""What a conjunction of array keywords can say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from state_machines.errors import UnsupportedSchemaError
from state_machines.json_schema.terms import FALSE, TRUE, Term, TermTable

__all__ = ["ArrayShape", "Counted"]


@dataclass(frozen=True, slots=True)
class Counted:
    """From index ``start`` on, between ``min_count`` and ``max_count`` items are in ``term``."""

    term: Term
    start: int = 0
    min_count: int = 1
    max_count: int | None = None


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Arrays of ``min_items`` to ``max_items`` items.

    Item *i* is in ``prefix[i]``, items beyond the prefix are in ``rest``; every ``counted``
    requirement holds.
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
        """Whether no array has this shape, as far as can be told without looking at terms."""
        return self.max_items is not None and self.max_items < self.min_items

    def item(self, index: int) -> Term:
        """Return the term of the item at an index."""
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def conjoin(self, other: ArrayShape, table: TermTable) -> ArrayShape:
        """Return the arrays of both shapes."""
        width = max(len(self.prefix), len(other.prefix))
        bounds = [most for most in (self.max_items, other.max_items) if most is not None]
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
        """Return the arrays that lack this shape, as a union of shapes."""
        return tuple(self._failures(table))

    def _failures(self, table: TermTable) -> Iterable[ArrayShape]:
        if self.unique:
            raise UnsupportedSchemaError(
                "that items repeat cannot be enforced", keyword="uniqueItems"
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
        for part in self.counted:
            if part.min_count > 0:
                yield ArrayShape(
                    counted=(replace(part, min_count=0, max_count=part.min_count - 1),)
                )
            if part.max_count is not None:
                yield ArrayShape(
                    counted=(replace(part, min_count=part.max_count + 1, max_count=None),)
                )


def _trimmed(shape: ArrayShape) -> ArrayShape:
    """Turn items that admit nothing into a length bound."""
    most = shape.max_items
    for index, term in enumerate((*shape.prefix, shape.rest)):
        if term is FALSE and (most is None or index < most):
            most = index
            break
    return shape if most == shape.max_items else replace(shape, max_items=most)
