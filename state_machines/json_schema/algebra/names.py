"""The names of an object shape: listed names by number and as a trie, unlisted names by cells."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, reduce
from itertools import islice, takewhile
from operator import itemgetter, or_

from state_machines.grammar.boolean import difference, everything, intersection
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.text_languages import without_words
from state_machines.json_schema.algebra.object_shape import ObjectShape, bit_indices
from state_machines.json_schema.algebra.terms import FALSE, TRUE, Term, TermTable


def listed_names(shape: ObjectShape) -> tuple[str, ...]:
    """Return the names that a shape lists: first in the order of the schema, then all others."""
    return tuple(dict.fromkeys((*shape.order, *shape.required, *shape.properties)))


class ListedNames:
    """The listed names of a shape, numbered, with the terms of their values.

    Sets of listed names are bit sets of these numbers.
    """

    def __init__(self, shape: ObjectShape, table: TermTable) -> None:
        self.names = listed_names(shape)
        self.terms = [shape.value_of(name, table) for name in self.names]
        self._indices = {name: index for index, name in enumerate(self.names)}
        self._rests: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int | None:
        """Return the number of a name; ``None`` if it is not listed."""
        return self._indices.get(name)

    def bit_set(self, names: Iterable[str]) -> int:
        """Return the bit set of listed names."""
        return reduce(or_, (1 << self._indices[name] for name in names), 0)

    def subset(self, bits: int) -> Mapping[str, Term]:
        """Return a view of the names in a bit set, with their terms."""
        return _Subset(self, bits)

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.names)

    def rests_after(self, prefix: str) -> tuple[str, ...]:
        """Return the rest of each name that begins with a prefix."""
        known = self._rests.get(prefix)
        if known is None:
            names = islice(self._sorted, bisect_left(self._sorted, prefix), None)
            known = tuple(
                name[len(prefix) :]
                for name in takewhile(lambda name: name.startswith(prefix), names)
            )
            # Prefixes of no name are unbounded in number.
            if known:
                self._rests[prefix] = known
        return known


class _Subset(Mapping[str, Term]):
    __slots__ = ("_bits", "_listed")

    def __init__(self, listed: ListedNames, bits: int) -> None:
        self._listed = listed
        self._bits = bits

    def __contains__(self, name: object) -> bool:
        index = self._listed.index(name) if isinstance(name, str) else None
        return index is not None and bool(self._bits >> index & 1)

    def __getitem__(self, name: str) -> Term:
        index = self._listed.index(name)
        if index is None or not self._bits >> index & 1:
            raise KeyError(name)
        return self._listed.terms[index]

    def __iter__(self) -> Iterator[str]:
        return (self._listed.names[index] for index in bit_indices(self._bits))

    def __len__(self) -> int:
        return self._bits.bit_count()


class NameCell:
    """A language of unlisted names whose values have the same term."""

    __slots__ = ("_excluded", "_language", "_names", "term")

    def __init__(self, language: Node, excluded: tuple[str, ...], term: Term) -> None:
        self._language = language
        self._excluded = excluded
        self._names: Node | None = None
        self.term = term

    @property
    def names(self) -> Node:
        """The names, as a language of code points; may be empty."""
        if self._names is None:
            self._names = without_words(self._language, self._excluded)
        return self._names

    def without(self, names: Iterable[str]) -> NameCell:
        """Return the cell without some names."""
        return NameCell(self.names, tuple(names), self.term)

    @property
    def holds_all_unlisted(self) -> bool:
        """Whether every unlisted name is in the cell."""
        return self._language is everything(ANY_CODE_POINT)


def name_cells(shape: ObjectShape, table: TermTable) -> tuple[NameCell, ...]:
    """Partition the unlisted names of a shape by the term of their values."""
    if shape.has_listed_names:
        return ()
    every = everything(ANY_CODE_POINT)
    cells: list[tuple[Node, Term]] = [(every, TRUE)]
    for rule in shape.name_rules:
        if rule.names is every:  # Fast path: additionalProperties without patternProperties.
            cells = [(names, table.all_of((term, rule.term))) for names, term in cells]
            continue
        refined = []
        for names, term in cells:
            both = table.all_of((term, rule.term))
            if both is term or (inside := intersection((names, rule.names))).is_empty:
                refined.append((names, term))
                continue
            refined.append((inside, both))
            refined.append((difference(names, rule.names, ANY_CODE_POINT), term))
        cells = refined
    listed = listed_names(shape)
    # The names outside a rule may be empty. That is searched once for each cell, not for each rule.
    live = [(names, term) for names, term in cells if term is not FALSE and not names.is_empty]
    return tuple(NameCell(names, listed, term) for names, term in live)


class NameTrie:
    """A vertex of the trie over the spellings of listed names, expanded on demand.

    A vertex is a range of the sorted spellings: those with the same first ``depth`` bytes. A
    spelling includes its terminator, so none is a prefix of another.
    """

    __slots__ = ("_children", "_first", "_indices", "_last", "_spellings", "depth")

    def __init__(
        self, spellings: list[tuple[bytes, int]], first: int, last: int, depth: int
    ) -> None:
        self._spellings = spellings
        self._first = first
        self._last = last
        self._indices: int | None = None
        self._children: dict[int, NameTrie] | None = None
        self.depth = depth

    @property
    def only(self) -> tuple[bytes, int] | None:
        """The only spelling, with the number of its name; ``None`` if there are several."""
        return self._spellings[self._first] if self._last - self._first == 1 else None

    @property
    def prefix(self) -> bytes:
        """The bytes that all spellings share."""
        return self._spellings[self._first][0][: self.depth]

    @property
    def indices(self) -> int:
        """The bit set of the names."""
        indices = self._indices
        if indices is None:
            spellings = self._spellings[self._first : self._last]
            indices = self._indices = reduce(or_, (1 << index for _, index in spellings), 0)
        return indices

    @property
    def children(self) -> dict[int, NameTrie]:
        """The next vertices by byte."""
        children = self._children
        if children is None:
            children = self._children = dict(self._expanded())
        return children

    def _expanded(self) -> Iterator[tuple[int, NameTrie]]:
        spellings, depth, start = self._spellings, self.depth, self._first
        while start < self._last:
            byte = spellings[start][0][depth]
            stop = bisect_right(spellings, byte, start, self._last, key=lambda pair: pair[0][depth])
            yield byte, NameTrie(spellings, start, stop, depth + 1)
            start = stop


def name_trie(
    names: Iterable[tuple[str, int]], spellings: Callable[[str], Iterable[bytes]]
) -> NameTrie:
    """Return the root of the trie over the spellings of numbered names."""
    spelled = {spelling: number for name, number in names for spelling in spellings(name)}
    ordered = sorted(spelled.items(), key=itemgetter(0))
    return NameTrie(ordered, 0, len(ordered), 0)
