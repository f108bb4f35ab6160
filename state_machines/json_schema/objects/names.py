"""The names that an object shape does not list, grouped by what their values must be."""

from __future__ import annotations

from collections.abc import Iterable

from state_machines.grammar.boolean import complement, everything, intersection
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.words import without_words
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import FALSE, TRUE, Term, TermTable

__all__ = ["NameCell", "listed_names", "name_cells"]


class NameCell:
    """Names that no listed one is among, and the term of their properties' values."""

    __slots__ = ("_listed", "_names", "_unlisted", "term")

    def __init__(self, names: Node, listed: tuple[str, ...], term: Term) -> None:
        self._names = names
        self._listed = listed
        self._unlisted: Node | None = None
        self.term = term

    @property
    def names(self) -> Node:
        """The names, as a language of code points; may be empty."""
        if self._unlisted is None:
            self._unlisted = without_words(self._names, self._listed)
        return self._unlisted

    def without(self, names: Iterable[str]) -> NameCell:
        """Return the cell less some names."""
        return NameCell(self.names, tuple(names), self.term)

    @property
    def holds_all_others(self) -> bool:
        """Whether all names are in it that are not listed."""
        return self._names is everything(ANY_CODE_POINT)


def listed_names(shape: ObjectShape) -> tuple[str, ...]:
    """Return the names a shape speaks of: in the schema's order, then what else it requires."""
    return tuple(dict.fromkeys((*shape.order, *shape.required, *shape.properties)))


def name_cells(shape: ObjectShape, table: TermTable) -> tuple[NameCell, ...]:
    """Partition the unlisted names of a shape by the term of their values."""
    every = everything(ANY_CODE_POINT)
    cells: list[tuple[Node, Term]] = [(every, TRUE)]
    for rule in shape.others:
        if rule.names is every:  # Mostly it is, and there are objects by the thousand.
            cells = [(names, table.all_of((term, rule.term))) for names, term in cells]
            continue
        refined = []
        for names, term in cells:
            inside = intersection((names, rule.names))
            outside = intersection((names, complement(rule.names, ANY_CODE_POINT)))
            refined.append((inside, table.all_of((term, rule.term))))
            refined.append((outside, term))
        cells = [(names, term) for names, term in refined if not names.is_empty]
    listed = listed_names(shape)
    return tuple(NameCell(names, listed, term) for names, term in cells if term is not FALSE)
