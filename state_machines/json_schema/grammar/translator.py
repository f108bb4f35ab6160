"""From terms to grammar nodes; arrays and objects are unfolded lazily."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

from state_machines.budgets import step_budget
from state_machines.caches import LruCache, WeakValueLruCache
from state_machines.errors import (
    GrammarBudgetError,
    UnsupportedSchemaError,
)
from state_machines.grammar.encoding import NUMBER, encoded
from state_machines.grammar.exclusion import exclusion
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, SharedDerivatives, intern_node
from state_machines.grammar.nodes import union
from state_machines.grammar.shortest import shortest_word
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.object_shape import ObjectShape
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.algebra.value_sets import (
    ValueSet,
    constant,
    without_scalars,
)
from state_machines.json_schema.emptiness.evaluation import generated, is_empty, shape_is_inhabited
from state_machines.json_schema.emptiness.unique_items import (
    Cardinality,
    check_distinct,
    count_scalars,
)
from state_machines.json_schema.grammar.value_syntax import JSON_SYNTAXES, ValueSyntax
from state_machines.json_schema.reader.context import Context
from state_machines.limits import LIMITS
from state_machines.reader_languages.numbers.number_sets import NumberSet
from state_machines.reader_languages.numbers.number_text import every_spelling, number_language

_LISTED_VALUES = 64
"""Items of an array with ``uniqueItems`` up to which different values are listed."""

_LISTING_STEPS = 10_000
"""Steps to list the different values of one term."""

_CONSTANT_NODES = 16
"""Constants of one schema whose nodes are held although no state needs them now."""


class Translator:
    """Makes the grammar nodes of one compilation's terms.

    The context, the syntax and the order are attributes, too.

    Args:
        context: The compilation.
        syntax: How values are written.
        unfold: Returns the node of the arrays or objects of a shape, at a nesting level.
        any_order: Whether the properties of an object may come in any order.
        any_spelling: Whether a single number may have any spelling. ``True`` where the grammar only
            has to distinguish values.
    """

    def __init__(
        self,
        context: Context,
        syntax: ValueSyntax,
        unfold: Callable[[Translator, ArrayShape | ObjectShape, int], Node],
        *,
        any_order: bool,
        any_spelling: bool = False,
    ) -> None:
        self.context = context
        self._unfold = unfold
        self.syntax = syntax
        self._is_indented = syntax.layout.is_indented
        self.any_order = any_order
        self._any_spelling = any_spelling
        self._nodes: dict[tuple[Term, int], Node] = {}
        self._constants: WeakValueLruCache[tuple[str, int], Node] = WeakValueLruCache(
            _CONSTANT_NODES
        )
        self.shared_derivatives: SharedDerivatives = LruCache(LIMITS.machine_shared_derivatives)
        self._checked: dict[ArrayShape, UnsupportedSchemaError | None] = {}
        self._checking: set[ArrayShape] = set()

    def in_syntax(self, syntax: ValueSyntax) -> Translator:
        """Return a translator of the same terms into another syntax."""
        order, spelling = self.any_order, self._any_spelling
        return Translator(
            self.context, syntax, self._unfold, any_order=order, any_spelling=spelling
        )

    def of_constants(self) -> Translator:
        """Return a translator of other terms, which writes any spelling and property order.

        Its context is new, because the number of values that may be written is unbounded.
        """
        context = self.context.without_terms()
        return Translator(context, self.syntax, self._unfold, any_order=True, any_spelling=True)

    def value(self, term: Term, depth: int = 0) -> Node:
        """Return the node of a term's values at nesting level ``depth``."""
        key = (term, depth if self._is_indented else 0)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = self._value(generated(self.context, term), key[1])
        return node

    def _value(self, values: ValueSet, depth: int) -> Node:
        return union((self._scalars(values), self._containers(values, depth)))

    def _containers(self, values: ValueSet, depth: int) -> Node:
        shapes: tuple[ArrayShape | ObjectShape, ...] = (*values.arrays, *values.objects)
        return union(
            self._container(shape, depth)
            for shape in shapes
            if shape_is_inhabited(self.context, shape)
        )

    def forget(self) -> list[Node]:
        """Give up the stored nodes, and return them. They are made again when they are needed."""
        nodes, self._nodes = self._nodes, {}
        return [*nodes.values(), *self.shared_derivatives.clear()]

    def _scalars(self, values: ValueSet) -> Node:
        syntax = self.syntax
        alternatives = []
        if values.null:
            alternatives.append(syntax.null)
        if values.booleans:
            alternatives.append(syntax.booleans(values.booleans))
        if not values.numbers.is_empty:
            alternatives.append(encoded(self._numbers(values.numbers), NUMBER))
        found = syntax.scalar(union(alternatives))
        return found if values.strings.is_empty else union((found, syntax.string(values.strings)))

    def _numbers(self, numbers: NumberSet) -> Node:
        if self._any_spelling and not numbers.intervals:
            return every_spelling(numbers.points)
        is_plain = self.syntax.plain_integers
        return number_language(
            numbers,
            plain_integers=is_plain or self.context.plain_integers,
            plain_constants=is_plain,
        )

    def strings(self, term: Term) -> Node:
        """Return the strings among a term's values, as a language of code points."""
        return generated(self.context, term).strings

    def others_without(self, term: Term, texts: Iterable[str], depth: int) -> Node:
        """Return the node of a term's values, except strings and some values given as JSON texts.

        Scalars are excluded as values, arrays and objects as texts.
        """
        values = replace(generated(self.context, term), strings=EMPTY)
        ordered = sorted(texts)
        excluded = [self._constant(t, depth) for t in ordered if t.startswith(("[", "{"))]
        scalars = without_scalars(values, [_parsed(t) for t in ordered if t[0] not in "[{"])
        return union((self._scalars(scalars), exclusion(self._containers(values, depth), excluded)))

    def _constant(self, text: str, depth: int) -> Node:
        """Return the node of one JSON value, in any spelling and property order."""

        def make() -> Node:
            translator = self.of_constants()
            terms = translator.context.terms
            return translator.value(terms.evaluated(constant(_parsed(text), terms)), depth)

        return self._constants.get((text, depth), make)

    def _container(self, shape: ArrayShape | ObjectShape, depth: int) -> Node:
        if self.syntax.items.begin is EPSILON:
            # Without brackets a container may be empty.
            return self.unfold(shape, depth)
        return intern_node(
            (Container, id(self), shape, depth), lambda: Container(self, shape, depth)
        )

    def unfold(self, shape: ArrayShape | ObjectShape, depth: int) -> Node:
        """Return the node of the arrays or objects of a shape."""
        return self._unfold(self, shape, depth)

    def has_value(self, term: Term) -> bool:
        """Return whether a term has a value, and all its values can be generated."""
        try:
            if is_empty(self.context, term):
                return False
            for array in generated(self.context, term).arrays:
                self.check_distinct(array)
        except UnsupportedSchemaError:
            return False
        return True

    def check_distinct(self, shape: ArrayShape) -> None:
        """Check that an array of unique items never runs out of distinct values.

        Raises:
            UnsupportedSchemaError: The values are too few, or cannot be counted.
        """
        if not shape.unique:
            return
        if shape not in self._checked:
            if shape in self._checking:
                # Its values are being listed; the list may be shorter without this array.
                raise UnsupportedSchemaError("a recursive array", keyword="uniqueItems")
            self._checking.add(shape)
            error: UnsupportedSchemaError | None = None
            try:
                check_distinct(self.context, shape, self._count_values)
            except UnsupportedSchemaError as raised:
                error = raised
            finally:
                self._checking.discard(shape)
            if error is not None and self._checking:
                raise error  # Without the arrays that are being checked it may be another one.
            self._checked[shape] = error
        error = self._checked[shape]
        if error is not None:
            raise error

    def _count_values(self, term: Term, limit: int) -> int:
        """Return a lower bound on the number of a term's values, at most ``limit``."""
        known = Cardinality(self.context).count(term, limit)
        if known < limit <= _LISTED_VALUES:
            values = generated(self.context, term)
            scalars = count_scalars(values, limit)
            known = max(known, scalars + self._list_containers(values, limit - scalars))
        return known

    def _list_containers(self, values: ValueSet, limit: int) -> int:
        """Return the number of arrays and objects of a set that are found, at most ``limit``.

        The next value is a shortest text without the texts of the values before.
        """
        found: list[Node] = []
        with suppress(GrammarBudgetError), step_budget(_LISTING_STEPS):
            syntax = JSON_SYNTAXES["compact"]
            lister = Translator(self.context, syntax, self._unfold, any_order=False)
            lister._checked, lister._checking = self._checked, self._checking
            containers = lister._containers(values, 0)
            while len(found) < limit:
                text = shortest_word(exclusion(containers, found))
                if text is None:
                    break
                found.append(lister._constant(text.decode(), 0))
        return len(found)


class Container(Lazy):
    """The arrays or the objects of one shape, unfolded on first use."""

    __slots__ = ("depth", "shape", "translator")

    is_composite = True

    def __init__(self, translator: Translator, shape: ArrayShape | ObjectShape, depth: int) -> None:
        super().__init__(min_length=2)
        self.translator = translator
        self.shape = shape
        self.depth = depth
        syntax = translator.syntax
        brackets = syntax.items if isinstance(shape, ArrayShape) else syntax.members
        self.known_first_bytes = brackets.begin.first_bytes

    def expand(self) -> Node:
        """Return the opening bracket and the rest of the value."""
        return self.translator.unfold(self.shape, self.depth)


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)
