"""The values that are in exactly one of several terms.

``oneOf`` needs the complement of an alternative, which is costly, only where alternatives overlap.
Pairs of alternatives are proven disjoint by their types and by *tags*: constants of the value
itself, or of a property that the alternatives require.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import TypeVar

from state_machines.budgets import Verdict, spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.node import EMPTY
from state_machines.grammar.text_languages import list_words
from state_machines.json_schema.algebra.terms import Evaluated, Term, TermTable
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
"""Alternatives up to which every pair is tested for overlap; beyond, tags preselect the pairs."""

MAX_PAIRS = 8192
"""Pairs of alternatives that are tested for overlap."""

_ANY = object()
"""The tag of all values of a type."""

_Tag = tuple[str, Hashable]
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
    known = [each for each in values if each is not None]
    candidates = _not_wholly_in_two(known)
    if candidates != ANY_VALUE:
        terms = [table.all_of((table.evaluated(candidates), term)) for term in terms]
    pairs: Iterable[tuple[int, int]] = combinations(range(len(terms)), 2)
    if len(terms) > FEW_ALTERNATIVES:
        name = _discriminator(known, table)
        tags = [
            None if each is None else set(_tags_of(conjoin(each, candidates, table), name, table))
            for each in values
        ]
        pairs = sorted(_sharing_a_tag(tags))
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


def _tags_of(values: ValueSet, name: str | None, table: TermTable) -> Iterator[_Tag]:
    """Yield tags such that two sets without a common tag are disjoint.

    Args:
        values: The set.
        name: The discriminator; its constants are the tags of objects that require it.
        table: Builds the terms of properties.
    """
    if values.null:
        yield "null", _ANY
    for value in values.booleans:
        yield "boolean", value
    if values.arrays:
        yield "array", _ANY
    for kind, few in (("number", _few_numbers(values)), ("string", _few_strings(values))):
        yield from ((kind, value) for value in ((_ANY,) if few is None else few))
    for shape in values.objects:
        tags = None
        if name is not None and name in shape.required:
            tags = _few_values(shape.value_of(name, table))
        yield from (("object", value) for value in ((_ANY,) if tags is None else tags))


def _few_numbers(values: ValueSet) -> Iterable[Hashable] | None:
    return None if values.numbers.intervals else values.numbers.points


def _few_strings(values: ValueSet) -> Iterable[Hashable] | None:
    if values.strings.max_length is None:
        return None
    return list_words(values.strings, LIMITS.tagged_values)


def _few_values(term: Term) -> list[Hashable] | None:
    """Return the values of a term that contains only a few scalars, else ``None``."""
    if not isinstance(term, Evaluated):
        return None
    values = value_set(term)
    numbers, strings = _few_numbers(values), _few_strings(values)
    if numbers is None or strings is None or values.arrays or values.objects:
        return None
    flags = (None,) if values.null else ()
    return [*flags, *values.booleans, *numbers, *strings]


def _discriminator(known: Sequence[ValueSet], table: TermTable) -> str | None:
    """Return the property that most shapes require with only a few values."""
    names = Counter(
        name
        for values in known
        for shape in values.objects
        for name in shape.required
        if _few_values(shape.value_of(name, table)) is not None
    )
    return max(names, key=names.__getitem__, default=None)


def _sharing_a_tag(tags: Sequence[set[_Tag] | None]) -> set[tuple[int, int]]:
    """Return the pairs of sets with a common tag, and all pairs with a set of unknown tags.

    Raises:
        UnsupportedSchemaError: The pairs are too many. They are counted before they are listed.
    """
    holders: dict[_Tag, list[int]] = {}
    of_kind: dict[str, list[int]] = {}
    unknown = [index for index, found in enumerate(tags) if found is None]
    for index, found in enumerate(tags):
        for tag in found or ():
            holders.setdefault(tag, []).append(index)
        for kind in {kind for kind, _ in found or ()}:
            of_kind.setdefault(kind, []).append(index)
    pairs: set[tuple[int, int]] = set()
    groups: list[tuple[Sequence[int], Sequence[int]]] = [(unknown, range(len(tags)))]
    groups += [
        (indices, of_kind[kind] if value is _ANY else indices)
        for (kind, value), indices in holders.items()
    ]
    for indices, others in groups:
        # All indices are among the others.
        count = len(indices) * (2 * len(others) - len(indices) - 1) // 2
        if count <= MAX_PAIRS:
            spend(count // 8)
            pairs.update((min(i, j), max(i, j)) for i in indices for j in others if i != j)
        if max(count, len(pairs)) > MAX_PAIRS:
            raise UnsupportedSchemaError(
                f"more than {MAX_PAIRS:,} pairs of alternatives may overlap",
                keyword="oneOf",
                hint="Let a required property have a different constant in each alternative, or "
                "write anyOf",
            )
    return pairs
