"""Arrays of a shape, as nodes.

Where items may not be repeated, each is captured. Strings may mostly be begun by others as well,
so that one is looked at only when it ends (:class:`FreeString`); of other values those that are
taken are left out from the beginning (:class:`DistinctItem`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from state_machines.grammar.boolean import counts_any_symbol, difference
from state_machines.grammar.capture import (
    Dispatch,
    SuffixTest,
    always,
    captured,
    goes_further,
)
from state_machines.grammar.encoding import JSON_STRING, encoded
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, TransientDerivatives, intern_node
from state_machines.grammar.nodes import Repetition, concatenation, literal, union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.arrays.item_steps import ItemState, ItemSteps
from state_machines.json_schema.arrays.taken import NOTHING_TAKEN, Taken
from state_machines.json_schema.terms import FALSE, Term, TermTable
from state_machines.json_schema.value_syntax import ValueSyntax

__all__ = ["ArrayPlan"]

_LONG = 8
"""Characters within which no string may have to end, if it is to be looked at only then."""


class ArrayPlan:
    """One array shape, prepared.

    ``strings`` gives the strings among a term's values as a language of code points;
    ``others_without`` the node of its other values less some that are given as JSON, at a depth;
    ``count_values`` how many values a term surely has, counting no further than a number.
    """

    def __init__(
        self,
        shape: ArrayShape,
        *,
        table: TermTable,
        syntax: ValueSyntax,
        depth: int,
        is_empty: Callable[[Term], bool],
        value_node: Callable[[Term, int], Node],
        strings: Callable[[Term], Node],
        others_without: Callable[[Term, Iterable[str], int], Node],
        count_values: Callable[[Term, int], int],
        transient_derivatives: TransientDerivatives,
    ) -> None:
        self.layout = syntax.layout
        self.syntax = syntax
        self.depth = depth
        self.transient_derivatives = transient_derivatives
        self.steps = ItemSteps(shape, table)
        self._is_empty = is_empty
        self._value_node = value_node
        self._strings = strings
        self._others_without = others_without
        self._count_values = count_values
        self._counted: dict[Term, tuple[int, int]] = {}
        self._others: dict[Term, tuple[frozenset[str], Node]] = {}
        self._limits: frozenset[int] | None = None
        if shape.unique and syntax.quotes_strings:
            self._limits = _limits(map(strings, self._terms))

    @property
    def _terms(self) -> list[Term]:
        shape = self.steps.shape
        every = dict.fromkeys((*shape.prefix, shape.rest))
        return [term for term in every if term is not FALSE and not self._is_empty(term)]

    def node(self) -> Node:
        """Return the node of the whole array."""
        return concatenation(
            literal(b"["), self.items(self.steps.start, NOTHING_TAKEN, is_first=True)
        )

    def items(self, state: ItemState, taken: Taken, *, is_first: bool = False) -> Node:
        """Return the node of everything after the items written so far."""
        return intern_node(
            (Items, id(self), state, taken.key, is_first),
            lambda: Items(self, state, taken, is_first),
        )

    def may_follow(self, term: Term, target: ItemState) -> bool:
        """Whether an item of a term exists and the array can be completed after it."""
        if self._is_empty(term):
            return False
        if not self.steps.shape.counted:
            return True
        return self.steps.can_finish(target, lambda other: not self._is_empty(other))

    def member(self, term: Term, target: ItemState, taken: Taken) -> Node:
        """Return the node of one item and everything after it."""
        if not self.steps.shape.unique:
            return concatenation(self._value_node(term, self.depth + 1), self.items(target, taken))
        words = self._strings(term)
        if taken.words is not EMPTY:
            words = difference(words, taken.words, ANY_CODE_POINT)
        others = self._others_of(term, taken)
        if self._limits is None:
            item = union((self.syntax.string(words), others))
            return _unless_empty(item, DistinctItem(self, target, taken))
        strings = encoded(words, JSON_STRING, b'"')
        return union(
            (
                concatenation(literal(b'"'), captured(strings, FreeString(self, target, taken))),
                _unless_empty(others, DistinctItem(self, target, taken)),
            )
        )

    def _others_of(self, term: Term, taken: Taken) -> Node:
        """Return what is left of a term's values that are no strings."""
        texts, node = self._others.get(term, (None, EMPTY))
        if texts != taken.texts:
            node = self._others_without(term, taken.texts, self.depth + 1)
            self._others[term] = (taken.texts, node)
        return node

    def with_string(self, taken: Taken, word: str) -> Taken:
        """Return what is taken after a string."""
        if self._limits is None or len(word) in self._limits:
            return taken.with_string(word)
        return taken.with_free(word)

    def has_items_to_spare(self, taken: Taken) -> bool:
        """Whether taking one more value cannot change what may follow."""
        needed = taken.count + 3
        return not self.steps.shape.counted and all(
            self._count(term, needed) >= needed for term in self._terms
        )

    def _count(self, term: Term, most: int) -> int:
        """Return how many values a term has, counting at least to a number."""
        counted, known = self._counted.get(term, (0, 0))
        if known == counted < most:
            counted = 2 * most
            known = self._count_values(term, counted)
            self._counted[term] = (counted, known)
        return known


def _limits(languages: Iterator[Node]) -> frozenset[int] | None:
    """Return the greatest lengths of strings, if nothing else is said of any of them.

    Then every string that is shorter may go on, in more ways than items can ever be written. And
    one that is begun within what a token writes need not end there.
    """
    limits = set()
    for language in languages:
        if language is EMPTY:
            continue
        if not isinstance(language, Repetition) or not counts_any_symbol(language):
            return None
        if language.max_count is not None:
            if language.max_count <= _LONG:
                return None
            limits.add(language.max_count)
    return frozenset(limits)


def _unless_empty(item: Node, dispatch: Dispatch) -> Node:
    return EMPTY if item.is_empty else captured(item, dispatch)


@dataclass(frozen=True, slots=True)
class DistinctItem(Dispatch):
    """What follows an item that may not come again."""

    plan: ArrayPlan
    target: ItemState
    taken: Taken

    @property
    def key(self) -> Hashable:
        """Equal for dispatches that behave equally."""
        return (type(self), id(self.plan), self.target, self.taken.key)

    @property
    def transient(self) -> TransientDerivatives:
        """Where the derivatives within the item are stored."""
        return self.plan.transient_derivatives

    def after(self, word: bytes) -> Node:
        """Return the node after the item written as ``word``."""
        plan, taken = self.plan, self.taken
        written = plan.syntax.as_json(word)
        if written.startswith('"'):
            taken = plan.with_string(taken, json.loads(written))
        else:
            taken = taken.with_text(written)
        return plan.items(self.target, taken)

    def default(self) -> Node | None:
        """Return the node after an item that is not recorded."""
        return self.plan.items(self.target, self.taken)

    @property
    def context_dependent(self) -> SuffixTest:
        """Suffixes within which another item may end; all, where few values are left."""
        return goes_further if self.plan.has_items_to_spare(self.taken) else always


@dataclass(frozen=True, slots=True)
class FreeString(DistinctItem):
    """The same, where the item is a string that others begin with as well.

    What is captured is the text after the opening quote. It matters to nothing but another string,
    and only when that ends.
    """

    def after(self, word: bytes) -> Node:
        """Return the node after the string spelled by ``word``, closing quote included."""
        string = json.loads(b'"' + word)
        if string in self.taken.free:
            return EMPTY
        return self.plan.items(self.target, self.plan.with_string(self.taken, string))

    @property
    def context_dependent(self) -> SuffixTest:
        """Suffixes within which another string may end, or reach its greatest length."""
        return _holds_another_string

    @property
    def has_exceptions(self) -> bool:
        """Whether a string is taken."""
        return len(self.taken.free) > 0

    def exceptions(self, written: bytes) -> Iterator[str]:
        """Yield the rest of every taken string that begins with ``written``."""
        prefix = json.loads(b'"' + written + b'"')
        return (word[len(prefix) :] for word in self.taken.free if word.startswith(prefix))


def _holds_another_string(suffix: bytes) -> bool:
    opening = suffix.find(b'"')
    return opening >= 0 and (suffix.count(b'"') > 1 or len(suffix) - opening > _LONG)


class Items(Lazy):
    """The rest of an array, from after an item (or the opening bracket) to its end."""

    __slots__ = ("is_first", "plan", "state", "taken")

    def __init__(self, plan: ArrayPlan, state: ItemState, taken: Taken, is_first: bool) -> None:
        super().__init__(min_length=1)
        self.plan = plan
        self.state = state
        self.taken = taken
        self.is_first = is_first

    def expand(self) -> Node:
        """Return the choice of the next item and the end."""
        plan, layout, depth = self.plan, self.plan.layout, self.plan.depth + 1
        ways = []
        if plan.steps.is_final(self.state):
            closing = EPSILON if self.is_first else layout.closing(depth)
            ways.append(concatenation(closing, literal(b"]")))
        gap = layout.opening(depth) if self.is_first else layout.comma(depth)
        ways.extend(
            concatenation(gap, plan.member(term, target, self.taken))
            for term, target in plan.steps.steps(self.state)
            if plan.may_follow(term, target)
        )
        return union(ways)
