"""The values that are in exactly one of several terms.

``oneOf`` needs the complement of an alternative, which is costly, only where alternatives overlap.
Most pairs of many alternatives are proven disjoint by bit sets: by their types and constants, and
by the types and constants of the properties that they require. The pairs that are left are tested.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias, TypeVar

from state_machines.budgets import Verdict, spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.node import EMPTY
from state_machines.grammar.text_languages import list_words
from state_machines.json_schema.algebra.object_shape import ObjectShape, bit_indices
from state_machines.json_schema.algebra.terms import FALSE, Evaluated, Term, TermTable
from state_machines.json_schema.algebra.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    ValueSet,
    conjoin,
    value_set,
)
from state_machines.limits import LIMITS
from state_machines.reader_languages.numbers.number_sets import ALL_NUMBERS, NO_NUMBERS

FEW_ALTERNATIVES = 8
"""Alternatives up to which every pair is tested for overlap."""

MAX_PAIRS = 32_768
"""Pairs of alternatives that are tested for overlap."""

PAIRS_PER_STEP = 4
"""Pairs of alternatives that are listed in one step."""

_Place: TypeAlias = tuple[Hashable, ...]
"""A set of values: all, those of a type, or a constant of a type. A prefix is a superset."""

_Kind = TypeVar("_Kind")


def in_exactly_one(
    terms: Sequence[Term],
    within: Term,
    table: TermTable,
    values_of: Callable[[Term], ValueSet | None],
    are_disjoint: Callable[[Term, Term], Verdict],
) -> Term:
    """Return the values that are in exactly one of the terms.

    Args:
        terms: The terms.
        within: The values for which the result has to be right.
        table: The terms of the compilation.
        values_of: Returns the head normal form of a term; ``None`` if it is not known.
        are_disjoint: Whether two terms share no value.
    """
    inside = [table.all_of((within, term)) for term in terms]
    values = [values_of(term) for term in inside]
    candidates = _not_wholly_in_two([each for each in values if each is not None])
    if candidates != ANY_VALUE:
        terms = [table.all_of((table.evaluated(candidates), term)) for term in terms]
    pairs: Iterable[tuple[int, int]] = combinations(range(len(terms)), 2)
    if len(terms) > FEW_ALTERNATIVES:
        values = [None if each is None else conjoin(each, candidates, table) for each in values]
        pairs = _pairs(_may_overlap(values, table))
    overlapping = []
    for i, j in pairs:
        spend()
        # A pair that may be disjoint costs a complement, which changes no value.
        if are_disjoint(inside[i], terms[j]) is not Verdict.YES:
            overlapping.append((i, j))
    return table.exactly_one(terms, overlapping)


def _not_wholly_in_two(known: Sequence[ValueSet]) -> ValueSet:
    """Return all values, without the types that are wholly in two of the sets.

    Alternatives without ``type`` admit every value of the types that they do not constrain.
    """
    return ValueSet(
        null=sum(values.null for values in known) < 2,
        booleans=frozenset(
            flag for flag in (True, False) if sum(flag in values.booleans for values in known) < 2
        ),
        numbers=_unless_shared(ALL_NUMBERS, NO_NUMBERS, [values.numbers for values in known]),
        strings=_unless_shared(ANY_TEXT, EMPTY, [values.strings for values in known]),
        arrays=_unless_shared(ANY_VALUE.arrays, (), [values.arrays for values in known]),
        objects=_unless_shared(ANY_VALUE.objects, (), [values.objects for values in known]),
    )


def _unless_shared(every: _Kind, none: _Kind, sets: Sequence[_Kind]) -> _Kind:
    return none if sum(each == every for each in sets) > 1 else every


class _Index:
    """The indices of sets by the places of their values, as bit sets."""

    def __init__(self) -> None:
        self._at: dict[_Place, int] = {}
        self._below: dict[_Place, int] = {}

    def add(self, index: int, places: Iterable[_Place]) -> None:
        """Add the places that cover a set."""
        bit, at, below = 1 << index, self._at, self._below
        for place in places:
            at[place] = at.get(place, 0) | bit
            below[()] = below.get((), 0) | bit
            for end in range(1, len(place) + 1):
                prefix = place[:end]
                below[prefix] = below.get(prefix, 0) | bit

    def near(self, places: Iterable[_Place]) -> int:
        """Return the sets that may share a value with a set that the places cover."""
        found = 0
        for place in places:
            found |= self._below.get(place, 0)
            for end in range(len(place)):
                found |= self._at.get(place[:end], 0)
        return found


class _Objects:
    """The indices of sets of objects by required and forbidden properties, as bit sets."""

    def __init__(self) -> None:
        self._all = 0
        self._requiring: dict[str, int] = {}
        self._values: dict[str, _Index] = {}
        self._closed = 0
        self._listing: dict[str, int] = {}
        self._forbidding: dict[str, int] = {}

    def add(
        self, index: int, shapes: Sequence[ObjectShape], required: Mapping[str, set[_Place]]
    ) -> None:
        """Add the union of shapes, with the places of the values of its required properties."""
        bit = 1 << index
        self._all |= bit
        for name, places in required.items():
            self._requiring[name] = self._requiring.get(name, 0) | bit
            self._values.setdefault(name, _Index()).add(index, places)
        by_name = self._forbidding
        if all(shape.has_listed_names for shape in shapes):
            self._closed |= bit
            by_name = self._listing
            names = {
                n for shape in shapes for n, term in shape.properties.items() if term is not FALSE
            }
        else:
            names = set.intersection(
                *({n for n, term in s.properties.items() if term is FALSE} for s in shapes)
            )
        spend(len(names) // 16)
        for name in names:
            by_name[name] = by_name.get(name, 0) | bit

    def near(self, required: Mapping[str, set[_Place]]) -> int:
        """Return the sets that may share an object with a set that requires some properties."""
        found = self._all
        for name, places in required.items():
            forbidding = self._closed & ~self._listing.get(name, 0) | self._forbidding.get(name, 0)
            found &= ~(self._requiring[name] | forbidding) | self._values[name].near(places)
        return found


def _may_overlap(sets: Sequence[ValueSet | None], table: TermTable) -> list[int]:
    """Return for each set the bit set of the sets that may share a value with it.

    A set that is ``None`` may share a value with every set. Each pair of sets has to be looked up
    from both sides: a set that requires a property does not overlap with one that forbids it.
    """
    scalars, objects = _Index(), _Objects()
    every = (1 << len(sets)) - 1
    unknown = 0
    entries: list[tuple[list[_Place], Mapping[str, set[_Place]] | None] | None] = []
    for index, values in enumerate(sets):
        spend()
        if values is None:
            unknown |= 1 << index
            entries.append(None)
            continue
        places = list(_places(values))
        scalars.add(index, places)
        required = _required_places(values.objects, table) if values.objects else None
        if required is not None:
            objects.add(index, values.objects, required)
        entries.append((places, required))
    overlapping = []
    for entry in entries:
        if entry is None:
            overlapping.append(every)
            continue
        places, required = entry
        shared = unknown | scalars.near(places)
        overlapping.append(shared if required is None else shared | objects.near(required))
    return overlapping


def _required_places(shapes: Sequence[ObjectShape], table: TermTable) -> Mapping[str, set[_Place]]:
    """Return the properties that all shapes require, with places that cover their values."""
    required: dict[str, set[_Place]] = {}
    for name in shapes[0].required:
        if all(name in shape.required for shape in shapes[1:]):
            spend()
            terms = (shape.value_of(name, table) for shape in shapes)
            required[name] = {place for term in terms for place in _term_places(term)}
    return required


def _term_places(term: Term) -> Iterable[_Place]:
    if not isinstance(term, Evaluated):
        return ((),)
    values = value_set(term)
    return (*_places(values), *((("object",),) if values.objects else ()))


def _places(values: ValueSet) -> Iterator[_Place]:
    """Yield places that cover the values of a set other than objects."""
    if values.null:
        yield ("null",)
    for flag in values.booleans:
        yield "boolean", flag
    if values.arrays:
        yield ("array",)
    if values.numbers.intervals:
        yield ("number",)
    else:
        yield from (("number", number) for number in values.numbers.points)
    texts = None
    if values.strings.max_length is not None:
        texts = list_words(values.strings, LIMITS.tagged_values)
    if texts is None:
        yield ("string",)
    else:
        yield from (("string", text) for text in texts)


def _pairs(overlapping: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of sets that may have a value in common.

    Raises:
        UnsupportedSchemaError: The pairs are too many. They are counted before they are listed.
    """
    pairs: list[tuple[int, int]] = []
    for i, others in enumerate(overlapping):
        after = others >> (i + 1) << (i + 1)
        spend(after.bit_count() // PAIRS_PER_STEP)
        pairs += [(i, j) for j in bit_indices(after) if overlapping[j] >> i & 1]
        if len(pairs) > MAX_PAIRS:
            raise UnsupportedSchemaError(
                f"more than {MAX_PAIRS:,} pairs of alternatives may overlap",
                keyword="oneOf",
                hint="Let a required property have a different constant or type in each "
                "alternative, or write anyOf",
            )
    return pairs
