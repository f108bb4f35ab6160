"""Nodes of the arrays of a shape.

With ``uniqueItems`` each item is remembered. Most strings are prefixes of other strings, so they
are compared with the items before only where they end (:class:`FreeString`). From the language of
other values the values of the items before are subtracted (:class:`DistinctItem`).
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from state_machines.grammar.boolean import counts_any_symbol, difference
from state_machines.grammar.encoding import JSON_STRING, encoded
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, SharedDerivatives, intern_node
from state_machines.grammar.nodes import Repetition, branch, concatenation, literal, union
from state_machines.grammar.remembered import (
    Dispatch,
    SuffixTest,
    always,
    goes_further,
    remembered,
)
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.grammar.text_languages import after_text, contains_word, list_words
from state_machines.grammar.word_lists import without_listed
from state_machines.json_schema.algebra.array_shape import ArrayShape, ItemState, ItemSteps
from state_machines.json_schema.algebra.terms import FALSE, Term
from state_machines.json_schema.emptiness.evaluation import is_empty
from state_machines.json_schema.emptiness.unique_items import Cardinality
from state_machines.json_schema.grammar.translator import Translator

_MAX_TOKEN_CHARS = 8
"""Strings up to this length are not free: one token could complete them."""


def with_word(words: Node, word: str) -> Node:
    """Return a language of code points with one more word, in time linear in its length.

    The language is a trie, so the order in which words came makes no difference.

    Args:
        words: :data:`EMPTY`, or a language that this function returned.
        word: The new word.
    """
    path: list[tuple[Node, int]] = []
    rest = words
    for point in map(ord, word):
        path.append((rest, point))
        rest = rest.character_derivative(point)
    rest = branch(rest.transitions, nullable=True)
    for vertex, point in reversed(path):
        symbol = code_points(point)
        others = (
            (members & ~symbol if point in members else members, target)
            for members, target in vertex.transitions
        )
        pairs = [(members, target) for members, target in (*others, (symbol, rest)) if members]
        rest = branch(sorted(pairs, key=_first_symbol), nullable=vertex.nullable)
    return rest


def _first_symbol(transition: tuple[CodePointSet, Node]) -> int:
    return transition[0].ranges[0][0]


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """The values of the items written so far, which no further item may have.

    Attributes:
        free: Strings that are prefixes of further strings, however many were written, as a language
            of code points. An item needs to be compared with them only where it ends.
        words: All other strings, as a language of code points.
        last: The last of these strings, with the language of those before it.
        texts: Values other than strings, as JSON.
        count: Number of items.
    """

    free: Node = EMPTY
    words: Node = EMPTY
    texts: frozenset[str] = frozenset()
    count: int = 0
    last: tuple[Node, str] = (EMPTY, "")

    @property
    def key(self) -> Hashable:
        """Equal for equal values; holds no node."""
        return (id(self.free), id(self.words), self.texts)

    def with_free(self, word: str) -> DistinctValues:
        """Return the values with one more free string."""
        return replace(self, free=with_word(self.free, word), count=self.count + 1)

    def with_string(self, word: str) -> DistinctValues:
        """Return the values with one more string that is not free."""
        words, last = with_word(self.words, word), (self.words, word)
        return replace(self, words=words, count=self.count + 1, last=last)

    def with_text(self, text: str) -> DistinctValues:
        """Return the values with one more value other than a string."""
        return replace(self, texts=self.texts | {text}, count=self.count + 1)


class ArrayPlan:
    """An array shape with what its nodes share.

    Args:
        shape: The shape.
        translator: Translates the terms of the items.
        depth: Number of brackets around the array.
    """

    def __init__(self, shape: ArrayShape, translator: Translator, depth: int) -> None:
        self.syntax = translator.syntax
        self.depth = depth
        self.shared_derivatives = translator.shared_derivatives
        self.steps = ItemSteps(shape, translator.context.terms)
        self._translator = translator
        self._is_empty = partial(is_empty, translator.context)
        self._counted: dict[Term, tuple[int, int]] = {}
        self._left: dict[Term, tuple[Node, Node]] = {}
        self._others: dict[Term, tuple[frozenset[str], Node]] = {}
        self._max_lengths: frozenset[int] | None = None
        if shape.unique and self.syntax.quotes_strings:
            self._max_lengths = _string_bounds(map(translator.strings, self._terms))

    @property
    def _terms(self) -> list[Term]:
        shape = self.steps.shape
        terms = dict.fromkeys((*shape.prefix, shape.rest))
        return [term for term in terms if term is not FALSE and not self._is_empty(term)]

    def node(self) -> Node:
        """Return the node of the whole array."""
        return concatenation(
            self.syntax.items.begin, self.items(self.steps.start, DistinctValues(), is_first=True)
        )

    def items(self, state: ItemState, seen: DistinctValues, *, is_first: bool = False) -> Node:
        """Return the node of the rest of the array after some items."""
        return intern_node(
            (RemainingItems, id(self), state, seen.key, is_first),
            lambda: RemainingItems(self, state, seen, is_first),
        )

    def may_follow(self, term: Term, target: ItemState) -> bool:
        """Return whether an item of the term exists after which the array can be completed."""
        if self._is_empty(term):
            return False
        if not self.steps.shape.counted:
            return True
        return self.steps.can_finish(target, lambda other: not self._is_empty(other))

    def item(self, term: Term, target: ItemState, seen: DistinctValues) -> Node:
        """Return the node of an item and the rest of the array."""
        if not self.steps.shape.unique:
            return concatenation(
                self._translator.value(term, self.depth + 1), self.items(target, seen)
            )
        words = self._strings_of(term, seen)
        others = self._others_of(term, seen)
        if self._max_lengths is None:
            item = union((self.syntax.string(words), others))
            return _unless_empty(item, DistinctItem(self, target, seen))
        strings = encoded(words, JSON_STRING, b'"')
        return union(
            (
                concatenation(literal(b'"'), remembered(strings, FreeString(self, target, seen))),
                _unless_empty(others, DistinctItem(self, target, seen)),
            )
        )

    def _strings_of(self, term: Term, seen: DistinctValues) -> Node:
        """Return the strings among a term's values that were not seen."""
        if seen.words is EMPTY:
            return self._translator.strings(term)
        words, left = self._left.get(term, (EMPTY, self._translator.strings(term)))
        if words is not seen.words:
            before, last = seen.last
            added = [last]
            if words is not before:
                left, added = (
                    self._translator.strings(term),
                    list_words(seen.words, seen.count + 1) or [],
                )
            listed = without_listed(left, added)
            if listed is None:
                listed = difference(self._translator.strings(term), seen.words, ANY_CODE_POINT)
            left = listed
            self._left[term] = (seen.words, left)
        return left

    def _others_of(self, term: Term, seen: DistinctValues) -> Node:
        """Return the node of a term's values that are neither strings nor seen."""
        texts, node = self._others.get(term, (None, EMPTY))
        if texts != seen.texts:
            node = self._translator.others_without(term, seen.texts, self.depth + 1)
            self._others[term] = (seen.texts, node)
        return node

    def with_string(self, seen: DistinctValues, word: str) -> DistinctValues:
        """Return the seen values after a string."""
        if self._max_lengths is None or len(word) in self._max_lengths:
            return seen.with_string(word)
        return seen.with_free(word)

    def has_items_to_spare(self, seen: DistinctValues) -> bool:
        """Return whether the next items are possible whatever value the current item has."""
        needed = seen.count + 3
        return not self.steps.shape.counted and all(
            self._count(term, needed) >= needed for term in self._terms
        )

    def _count(self, term: Term, limit: int) -> int:
        """Return a lower bound on the number of a term's values, at least up to a limit."""
        counted, known = self._counted.get(term, (0, 0))
        if known == counted < limit:
            counted = 2 * limit
            known = Cardinality(self._translator.context).count(term, counted)
            self._counted[term] = (counted, known)
        return known


def _string_bounds(languages: Iterator[Node]) -> frozenset[int] | None:
    """Return the upper bounds on the length of strings; ``None`` if strings are not free.

    Strings are free if only their length is bounded: a string below the bound is a prefix of more
    strings than items are ever written, and no token writes a string up to its bound.
    """
    bounds = set()
    for language in languages:
        if language is EMPTY:
            continue
        if not isinstance(language, Repetition) or not counts_any_symbol(language):
            return None
        if language.max_count is not None:
            if language.max_count <= _MAX_TOKEN_CHARS:
                return None
            bounds.add(language.max_count)
    return frozenset(bounds)


def _unless_empty(item: Node, dispatch: Dispatch) -> Node:
    return EMPTY if item.is_empty else remembered(item, dispatch)


@dataclass(frozen=True, slots=True)
class DistinctItem(Dispatch):
    """Maps an item, whose value must not come again, to the rest of the array."""

    plan: ArrayPlan
    target: ItemState
    seen: DistinctValues

    @property
    def key(self) -> Hashable:
        """Equal for dispatches that behave equally."""
        return (type(self), id(self.plan), self.target, self.seen.key)

    @property
    def shared_derivatives(self) -> SharedDerivatives:
        """Where the derivatives within the item are stored."""
        return self.plan.shared_derivatives

    def after(self, word: bytes) -> Node:
        """Return the node after the item written as ``word``."""
        plan, seen = self.plan, self.seen
        written = plan.syntax.as_json(word)
        if written.startswith('"'):
            seen = plan.with_string(seen, json.loads(written))
        else:
            seen = seen.with_text(written)
        return plan.items(self.target, seen)

    def default(self) -> Node | None:
        """Return the node after an item that is not recorded."""
        return self.plan.items(self.target, self.seen)

    @property
    def context_dependent(self) -> SuffixTest:
        """Suffixes in which another item can end; all, if few values are left."""
        if not self.plan.has_items_to_spare(self.seen):
            return always
        return _begins_another_item if self.plan.syntax.quotes_strings else goes_further


def _begins_another_item(suffix: bytes) -> bool:
    return bool(suffix.partition(b",")[2].strip())


@dataclass(frozen=True, slots=True)
class FreeString(DistinctItem):
    """Maps a free string, remembered after its opening quote, to the rest of the array.

    The string affects only whether another string may end.
    """

    def after(self, word: bytes) -> Node:
        """Return the node after the string spelled by ``word``, closing quote included."""
        string = json.loads(b'"' + word)
        if contains_word(self.seen.free, string):
            return EMPTY
        return self.plan.items(self.target, self.plan.with_string(self.seen, string))

    @property
    def context_dependent(self) -> SuffixTest:
        """Suffixes in which another string can end or reach its greatest length."""
        return _holds_another_string

    @property
    def has_exceptions(self) -> bool:
        """Whether a free string was seen."""
        return self.seen.free is not EMPTY

    def exceptions(self, written: bytes) -> tuple[str, ...]:
        """Return the rest of every free string that begins with ``written``."""
        rest = after_text(self.seen.free, json.loads(b'"' + written + b'"'))
        return tuple(list_words(rest, self.seen.count + 1) or ())


def _holds_another_string(suffix: bytes) -> bool:
    opening = suffix.find(b'"')
    return opening >= 0 and (suffix.count(b'"') > 1 or len(suffix) - opening > _MAX_TOKEN_CHARS)


class RemainingItems(Lazy):
    """The rest of an array, after an item or the opening bracket."""

    __slots__ = ("is_first", "plan", "seen", "state")

    is_composite = True

    def __init__(
        self, plan: ArrayPlan, state: ItemState, seen: DistinctValues, is_first: bool
    ) -> None:
        syntax = plan.syntax.items
        is_end = syntax.end.nullable and plan.steps.is_final(state)
        is_end = is_end and (is_first or syntax.closing(plan.depth + 1).nullable)
        super().__init__(nullable=is_end, min_length=syntax.end.min_length)
        self.plan = plan
        self.state = state
        self.seen = seen
        self.is_first = is_first

    @property
    def merge_key(self) -> Hashable | None:
        """Equal for the rests of arrays that differ in the counts of items."""
        if not self.state.counts:
            return None
        return (RemainingItems, id(self.plan), self.state.index, self.seen.key, self.is_first)

    def subsumes(self, other: Node) -> bool:
        """Whether another rest needs as many counted items or more."""
        bounds = self.plan.steps.shape.counted
        return isinstance(other, RemainingItems) and all(
            count == others or (bound.max_count is None and count > others)
            for bound, count, others in zip(
                bounds, self.state.counts, other.state.counts, strict=True
            )
        )

    def expand(self) -> Node:
        """Return the union of the next items and the end."""
        plan, syntax, depth = self.plan, self.plan.syntax.items, self.plan.depth + 1
        alternatives = []
        if plan.steps.is_final(self.state):
            closing = EPSILON if self.is_first else syntax.closing(depth)
            alternatives.append(concatenation(closing, syntax.end))
        gap = syntax.opening(depth) if self.is_first else syntax.comma(depth)
        alternatives.extend(
            concatenation(gap, plan.item(term, target, self.seen))
            for term, target in plan.steps.transitions(self.state)
            if plan.may_follow(term, target)
        )
        return union(alternatives)
