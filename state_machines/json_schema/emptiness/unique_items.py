"""``uniqueItems``: how many values a term has, and whether an array has enough of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.shortest import shortest_text
from state_machines.grammar.text_languages import count_words
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.names import listed_names, name_cells
from state_machines.json_schema.algebra.object_shape import NO_OTHER_NAMES, ObjectShape
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.algebra.value_sets import ValueSet
from state_machines.json_schema.emptiness.clause_solver import find_members
from state_machines.json_schema.emptiness.evaluation import generated, is_empty, shape_is_inhabited
from state_machines.json_schema.reader.context import Context

_MAX_ROUNDS = 256
"""Rounds in which the values of recursive terms are counted."""


class Cardinality:
    """Lower bounds on the number of values of terms.

    A bound counts values of finite depth, so a term with a bound above 0 is inhabited. It is
    computed in rounds: where a term contains itself, a round takes the bound of the round before,
    which is 0 in the first. Values that several shapes of arrays or objects share are
    counted once: of shapes with one value the different values are counted, and of the others only
    the shape with the most values.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._table = context.terms
        self._counts: dict[Term, tuple[int, int]] = {}
        self._running: set[Term] = set()
        self._recursive: dict[Term, int] = {}
        """The recursive terms, with their bounds of the round before."""
        self._constants: dict[Term, Hashable | None] = {}
        """The only value of each term; ``None`` for terms that may have several or none."""

    def count(self, term: Term, limit: int) -> int:
        """Return a lower bound on the number of values of a term, at most ``limit``."""
        counted = 0
        for _ in range(_MAX_ROUNDS):
            self._counts.clear()
            counted = self._bound(term, limit)
            known = {each: self._counts[each][1] for each in self._recursive}
            if counted >= limit or known == self._recursive:
                break
            self._recursive = known
        return counted

    def _bound(self, term: Term, limit: int) -> int:
        if term in self._running:
            return min(limit, self._recursive.setdefault(term, 0))
        known_limit, known = self._counts.get(term, (0, 0))
        if known == known_limit < limit:  # Otherwise ``known`` was not capped.
            self._running.add(term)
            try:
                known = self._count(term, limit)
            finally:
                self._running.discard(term)
            self._counts[term] = (limit, known)
        return min(known, limit)

    def _has_value(self, term: Term) -> bool:
        return self._bound(term, 1) > 0

    def _count(self, term: Term, limit: int) -> int:
        values = generated(self._context, term)
        total = count_scalars(values, limit)
        for shapes in (values.arrays, values.objects):
            most, constants = 0, set[Hashable]()
            for shape in shapes:
                if total + max(most, len(constants)) >= limit:
                    break
                only = self._only_container(shape)
                if only is None:
                    most = max(most, self._count_shape(shape, limit))
                else:
                    constants.add(only)
            total += max(most, len(constants))
        return min(total, limit)

    def _only_value(self, term: Term) -> Hashable | None:
        """Return the only value of a term, in a form that is equal for equal JSON values.

        Returns:
            ``None`` if the term may have no value or several.
        """
        if term not in self._constants:
            self._constants[term] = None  # A term that contains itself is no constant.
            self._constants[term] = self._find_only_value(generated(self._context, term))
        return self._constants[term]

    def _find_only_value(self, values: ValueSet) -> Hashable | None:
        spend()
        shapes: tuple[ArrayShape | ObjectShape, ...] = (*values.arrays, *values.objects)
        scalars = count_scalars(values, 2)
        if scalars + len(shapes) != 1:
            return None
        if shapes:
            return self._only_container(shapes[0])
        if values.strings.is_empty:
            return "scalar", values.null, values.booleans, values.numbers
        return "string", shortest_text(values.strings)

    def _only_container(self, shape: ArrayShape | ObjectShape) -> Hashable | None:
        """Return the only array or object of a shape, in the same form."""
        parts: Iterable[tuple[Hashable, Term]]
        if isinstance(shape, ArrayShape):
            parts, width = enumerate(shape.prefix), len(shape.prefix)
            is_open = shape.unique or bool(shape.counted)
            is_single = not is_open and shape.min_items == width == shape.max_items
        else:
            parts, width = shape.properties.items(), len(shape.properties)
            is_closed = NO_OTHER_NAMES[0] in shape.name_rules and not shape.clauses
            is_single = is_closed and shape.properties.keys() == set(shape.required)
            is_single = is_single and shape.min_members <= width and not shape.is_contradictory
        members = []
        for place, term in parts if is_single else ():
            only = self._only_value(term)
            if only is None:
                return None
            members.append((place, only))
        return (type(shape), frozenset(members)) if is_single else None

    def _count_shape(self, shape: ArrayShape | ObjectShape, limit: int) -> int:
        if shape.is_contradictory:
            return 0
        if isinstance(shape, ObjectShape):
            return self._count_objects(shape, limit)
        return (self._count_counted if shape.counted else self._count_arrays)(shape, limit)

    def _count_counted(self, shape: ArrayShape, limit: int) -> int:
        """Count the arrays of a shape with bounds on how many items are in some terms."""
        if shape.unique or not shape.is_inhabited(self._table, self._has_value):
            return 0
        uncounted = (self._table.negation(b.term) for b in shape.counted if b.max_count is not None)
        if shape.max_items is None and self._has_value(
            self._table.all_of((shape.rest, *uncounted))
        ):
            return limit  # Any number of items that no bound restricts may follow.
        return 1

    def _count_arrays(self, shape: ArrayShape, limit: int) -> int:
        max_items = shape.min_items + limit if shape.max_items is None else shape.max_items
        total, sequences, index = 0, 1, 0
        while index <= max_items:
            spend()
            if index >= shape.min_items:
                total += sequences
            if total >= limit or not sequences:
                break
            # Whatever the items before, a unique item has all values but theirs.
            excluded = index if shape.unique else 0
            choices = max(0, self._bound(shape.item(index), limit + excluded) - excluded)
            skipped = 1
            if not shape.unique and index >= len(shape.prefix):
                skipped = max(1, shape.min_items - index)
            sequences = min(limit, sequences * choices ** min(skipped, limit.bit_length()))
            index += skipped
        return min(total, limit)

    def _count_objects(self, shape: ObjectShape, limit: int) -> int:
        listed = {name: shape.value_of(name, self._table) for name in listed_names(shape)}
        if not all(self._has_value(listed[name]) for name in shape.required):
            return 0
        cells = [cell for cell in name_cells(shape, self._table) if self._has_value(cell.term)]
        has_unbounded_names = any(cell.names.max_length is None for cell in cells)
        least, most = shape.min_members, shape.max_members
        if shape.clauses or least > len(shape.required) or most is not None:
            found = find_members(shape, self._table, self._has_value)
            if found is None:
                return 0
            # No clause needs an unlisted name to be absent.
            if has_unbounded_names and (most is None or found.size < most):
                return limit
            return self._product(found.present, found.present, limit)
        return limit if has_unbounded_names else self._product(listed, shape.required, limit)

    def _product(self, members: Mapping[str, Term], required: Container[str], limit: int) -> int:
        total = 1
        for name, term in members.items():
            if total < limit:
                total *= self._bound(term, limit) + (name not in required)
        return min(total, limit)


def count_scalars(values: ValueSet, limit: int) -> int:
    """Return the number of a set's values other than arrays and objects, at most ``limit``."""
    total = int(values.null) + len(values.booleans) + count_words(values.strings, limit)
    members = set(values.numbers.points)
    for interval in values.numbers.intervals:
        listed = interval.members(limit=limit)
        if listed is None:
            return limit
        members.update(number for number in listed if number in values.numbers)
    return min(limit, total + len(members))


def check_distinct(context: Context, shape: ArrayShape, count: Callable[[Term, int], int]) -> None:
    """Check that an array of unique items never runs out of distinct values.

    That holds if each item has more values than there are items before it that may share one.

    Args:
        context: The compilation.
        shape: The array.
        count: Returns a lower bound on the number of a term's values, up to a limit.

    Raises:
        UnsupportedSchemaError: The values are too few, or cannot be counted.
    """
    if not shape.unique or not shape_is_inhabited(context, shape):
        return
    enough, min_items = True, shape.min_items
    if shape.counted:
        enough = _has_enough_counted(context, shape, count)
    elif min_items >= 2:
        indices = [*range(min(min_items, len(shape.prefix)))]
        if len(indices) < min_items:
            indices.append(min_items - 1)
        enough = all(_has_enough(context, shape, index, count) for index in indices)
    if not enough:
        raise UnsupportedSchemaError(
            f"there may be fewer than {max(2, min_items)} different items",
            keyword="uniqueItems",
            hint="Lower minItems, or admit more values",
        )


def _has_enough(
    context: Context, shape: ArrayShape, index: int, count: Callable[[Term, int], int]
) -> bool:
    """Return whether an item has a value whatever the items before it are."""
    term, all_of = shape.item(index), context.terms.all_of
    if count(term, index + 1) > index:
        return True
    before = shape.prefix[:index]
    disjoint = sum(is_empty(context, all_of((term, other))) for other in before)
    return count(term, index + 1 - disjoint) > index - disjoint


def _has_enough_counted(
    context: Context, shape: ArrayShape, count: Callable[[Term, int], int]
) -> bool:
    """Return whether unique items have values where one bound counts the items of a term.

    An item is counted exactly if it is in the term (:class:`ItemSteps`), so items that are counted
    use up no value of the others.
    """
    bound = shape.counted[0]
    if len(shape.counted) > 1 or shape.prefix or bound.start:
        return False
    others = context.terms.all_of((shape.rest, context.terms.negation(bound.term)))
    needed = max(bound.min_count, shape.min_items)
    among = count(context.terms.all_of((shape.rest, bound.term)), needed)
    if bound.max_count is not None:
        among = min(among, bound.max_count)
    return among >= bound.min_count and among + count(others, needed) >= shape.min_items
