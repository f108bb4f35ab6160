"""``uniqueItems``: the distinct values an array has taken, and how many values a term has."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.tries import with_word
from state_machines.grammar.words import count_words
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.numbers.number_sets import NumberSet
from state_machines.json_schema.objects.names import name_cells
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term

_BUCKETS = 64


class WordSet:
    """An immutable set of strings.

    Adding a string copies one of 64 buckets and shares the others: each item of an array makes a
    new set, so copying the whole set would take quadratic time.
    """

    __slots__ = ("_buckets", "_hash")

    def __init__(self, buckets: tuple[frozenset[str], ...] = (frozenset(),) * _BUCKETS) -> None:
        self._buckets = buckets
        self._hash = hash(buckets)

    def with_word(self, word: str) -> WordSet:
        """Return the set with one more string."""
        at = hash(word) % _BUCKETS
        buckets = self._buckets
        return WordSet((*buckets[:at], buckets[at] | {word}, *buckets[at + 1 :]))

    def __contains__(self, word: str) -> bool:
        return word in self._buckets[hash(word) % _BUCKETS]

    def __iter__(self) -> Iterator[str]:
        for bucket in self._buckets:
            yield from bucket

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WordSet) and self._buckets == other._buckets

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """The values of the items written so far, which no further item may have.

    Attributes:
        free: Strings that are prefixes of further strings, however many were written. So an item
            needs to be compared with them only where it ends.
        words: All other strings, as a language of code points.
        texts: Values other than strings, as JSON.
        count: Number of items.
    """

    free: WordSet = WordSet()  # noqa: RUF009, it is immutable
    words: Node = EMPTY
    texts: frozenset[str] = frozenset()
    count: int = 0

    @property
    def key(self) -> Hashable:
        """Equal for equal values; holds no node."""
        return (self.free, id(self.words), self.texts)

    def with_free(self, word: str) -> DistinctValues:
        """Return the values with one more free string."""
        return DistinctValues(self.free.with_word(word), self.words, self.texts, self.count + 1)

    def with_string(self, word: str) -> DistinctValues:
        """Return the values with one more string that is not free."""
        return DistinctValues(self.free, with_word(self.words, word), self.texts, self.count + 1)

    def with_text(self, text: str) -> DistinctValues:
        """Return the values with one more value other than a string."""
        return DistinctValues(self.free, self.words, self.texts | {text}, self.count + 1)


class Cardinality:
    """Lower bounds on the number of values of terms.

    Values that several shapes of arrays or objects share are counted once, so only the shape with
    the most values is counted.
    """

    def __init__(self, evaluator: TermEvaluator) -> None:
        self._evaluator = evaluator
        self._counts: dict[Term, tuple[int, int]] = {}
        self._running: set[Term] = set()

    def count(self, term: Term, limit: int) -> int:
        """Return a lower bound on the number of values of a term, at most ``limit``."""
        if term in self._running:
            return 0  # A recursive term: its values are counted where the recursion starts.
        known_limit, known = self._counts.get(term, (0, 0))
        if known == known_limit < limit:  # Otherwise ``known`` was not capped.
            self._running.add(term)
            try:
                known = min(limit, self._count(term, limit))
            finally:
                self._running.discard(term)
            self._counts[term] = (limit, known)
        return min(known, limit)

    def _count(self, term: Term, limit: int) -> int:
        values = self._evaluator.values(term)
        total = int(values.null) + len(values.booleans)
        total += _count_numbers(values.numbers, limit) + count_words(values.strings, limit)
        total += max((self._count_arrays(shape, limit) for shape in values.arrays), default=0)
        total += max((self._count_objects(shape, limit) for shape in values.objects), default=0)
        return total

    def _count_arrays(self, shape: ArrayShape, limit: int) -> int:
        if shape.counted or not self._evaluator.shape_is_inhabited(shape):
            return int(self._evaluator.shape_is_inhabited(shape))
        max_items = shape.min_items + limit if shape.max_items is None else shape.max_items
        total, sequences = 0, 1
        for index in range(max_items + 1):
            spend()
            if index >= shape.min_items:
                total += sequences
            if total >= limit or not sequences:
                break
            # Whatever the items before, a unique item has all values but theirs.
            excluded = index if shape.unique else 0
            choices = self.count(shape.item(index), limit + excluded) - excluded
            sequences = min(limit, sequences * max(0, choices))
        return min(total, limit)

    def _count_objects(self, shape: ObjectShape, limit: int) -> int:
        evaluator = self._evaluator
        if not evaluator.shape_is_inhabited(shape):
            return 0
        if (
            shape.clauses
            or shape.min_members > len(shape.required)
            or shape.max_members is not None
        ):
            return 1
        has_unbounded_names = any(
            not evaluator.is_empty(cell.term) and cell.names.max_length is None
            for cell in name_cells(shape, evaluator.table)
        )
        if has_unbounded_names:
            return limit
        total = 1
        for name, term in shape.properties.items():
            total *= self.count(term, limit) + (name not in shape.required)
        return min(total, limit)


def _count_numbers(numbers: NumberSet, limit: int) -> int:
    members = set(numbers.points)
    for interval in numbers.intervals:
        listed = interval.members(limit=limit)
        if listed is None:
            return limit
        members.update(number for number in listed if number not in numbers.holes)
    return len(members)


def check_distinct(shape: ArrayShape, evaluator: TermEvaluator) -> None:
    """Check that an array of unique items never runs out of distinct values.

    That holds if the item at index *i* has more than *i* values, since only *i* are excluded.

    Raises:
        UnsupportedSchemaError: The values are too few, or cannot be counted.
    """
    if not shape.unique:
        return
    if shape.counted:
        raise UnsupportedSchemaError(
            "uniqueItems cannot be enforced beside contains or a negation of items",
            keyword="uniqueItems",
        )
    if shape.min_items < 2 or not evaluator.shape_is_inhabited(shape):
        return
    cardinality, min_items = Cardinality(evaluator), shape.min_items
    in_prefix = min(min_items, len(shape.prefix))
    terms = [*((shape.item(index), index + 1) for index in range(in_prefix))]
    if in_prefix < min_items:
        terms.append((shape.rest, min_items))
    if any(cardinality.count(term, needed) < needed for term, needed in terms):
        raise UnsupportedSchemaError(
            f"there may be fewer than {min_items} different items",
            keyword="uniqueItems",
            hint="Lower minItems, or admit more values",
        )
