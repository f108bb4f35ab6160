"""The names that an object shape does not list, grouped by what their values must be."""

from __future__ import annotations

from dataclasses import dataclass

from state_machines.grammar.boolean import complement, everything, intersection
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.object_shape import ObjectShape, without_names
from state_machines.json_schema.terms import TRUE, Term, TermTable

__all__ = ["NameCell", "count_words", "listed_names", "name_cells"]


@dataclass(frozen=True, slots=True)
class NameCell:
    """Names (a language of code points) whose properties all have values in ``term``."""

    names: Node
    term: Term


def listed_names(shape: ObjectShape) -> tuple[str, ...]:
    """Return the names a shape speaks of: its properties in order, then what else it requires."""
    return tuple(dict.fromkeys((*shape.properties, *shape.required)))


def name_cells(shape: ObjectShape, table: TermTable) -> tuple[NameCell, ...]:
    """Partition the unlisted names of a shape by the term of their values."""
    cells = [(everything(ANY_CODE_POINT), TRUE)]
    for rule in shape.others:
        refined = []
        for names, term in cells:
            inside = intersection((names, rule.names))
            outside = intersection((names, complement(rule.names, ANY_CODE_POINT)))
            refined.append((inside, table.all_of((term, rule.term))))
            refined.append((outside, term))
        cells = [(names, term) for names, term in refined if not names.is_empty]
    listed = listed_names(shape)
    remaining = ((without_names(names, listed), term) for names, term in cells)
    return tuple(NameCell(names, term) for names, term in remaining if not names.is_empty)


def count_words(language: Node, most: int) -> int:
    """Return how many words a language has, counting no further than ``most``."""
    counted = 0
    layer: dict[Node, int] = {language: 1}
    while layer and counted < most:
        below: dict[Node, int] = {}
        for node, ways in layer.items():
            counted += ways * node.nullable
            for symbols, target in node.row:
                below[target] = min(most, below.get(target, 0) + ways * len(symbols))
        layer = below
    return min(counted, most)
