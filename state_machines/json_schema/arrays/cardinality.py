"""How many different values a term has, as far as ``uniqueItems`` needs to know."""

from __future__ import annotations

from math import prod

from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.words import count_words
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.numbers.number_sets import NumberSet
from state_machines.json_schema.objects.names import name_cells
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term

__all__ = ["Cardinality", "check_distinct"]


class Cardinality:
    """Counts the values of terms, no further than ``most``.

    Counts are lower bounds: what shapes of arrays and objects have in common is counted once.
    """

    def __init__(self, evaluator: TermEvaluator, most: int) -> None:
        self._evaluator = evaluator
        self._most = most
        self._known: dict[Term, int] = {}

    def count(self, term: Term) -> int:
        """Return how many values a term has, or at least has."""
        known = self._known.get(term)
        if known is None:
            # A term within itself counts as nothing: its values are counted from the outside.
            self._known[term] = 0
            known = self._known[term] = min(self._most, self._count(term))
        return known

    def _count(self, term: Term) -> int:
        values = self._evaluator.values(term)
        total = int(values.null) + len(values.booleans)
        total += self._numbers(values.numbers) + count_words(values.strings, self._most)
        # Two shapes may share values, so only the largest is sure to add its own.
        total += max(map(self._arrays, values.arrays), default=0)
        total += max(map(self._objects, values.objects), default=0)
        return total

    def _numbers(self, numbers: NumberSet) -> int:
        members = set(numbers.points)
        for interval in numbers.intervals:
            few = interval.members(limit=self._most)
            if few is None:
                return self._most
            members.update(number for number in few if number not in numbers.holes)
        return len(members)

    def _arrays(self, shape: ArrayShape) -> int:
        if shape.counted or shape.unique or not self._evaluator.shape_is_inhabited(shape):
            return int(self._evaluator.shape_is_inhabited(shape))
        total = 0
        longest = shape.min_items + self._most if shape.max_items is None else shape.max_items
        ways = prod(self.count(shape.item(index)) for index in range(shape.min_items))
        for length in range(shape.min_items, longest + 1):
            total += ways
            if total >= self._most or not ways:
                break
            ways = min(self._most, ways * self.count(shape.item(length)))
        return min(total, self._most)

    def _objects(self, shape: ObjectShape) -> int:
        evaluator = self._evaluator
        if not evaluator.shape_is_inhabited(shape):
            return 0
        if (
            shape.clauses
            or shape.min_members > len(shape.required)
            or shape.max_members is not None
        ):
            return 1
        open_ended = any(
            not evaluator.is_empty(cell.term) and cell.names.max_length is None
            for cell in name_cells(shape, evaluator.table)
        )
        if open_ended:
            return self._most
        total = 1
        for name, term in shape.properties.items():
            total *= self.count(term) + (name not in shape.required)
        return min(total, self._most)


def check_distinct(shape: ArrayShape, evaluator: TermEvaluator) -> None:
    """Raise if different items could run out before an array of unique items is long enough.

    If item *i* has more than *i* values, there is always one that has not been taken.
    """
    if not shape.unique:
        return
    if shape.counted:
        raise UnsupportedSchemaError(
            "uniqueItems together with items that must (or must not) match a schema",
            keyword="uniqueItems",
        )
    if shape.min_items < 2 or not evaluator.shape_is_inhabited(shape):
        return
    cardinality = Cardinality(evaluator, shape.min_items)
    beyond = min(shape.min_items, len(shape.prefix))
    enough = all(cardinality.count(shape.item(index)) > index for index in range(beyond))
    if not enough or (shape.min_items > beyond and cardinality.count(shape.rest) < shape.min_items):
        raise UnsupportedSchemaError(
            f"there may not be {shape.min_items} different items",
            keyword="uniqueItems",
            hint="Lower minItems, or allow more values",
        )
