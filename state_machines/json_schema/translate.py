"""From head normal forms to grammar nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.exclusion import exclusion
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.memo import NodeMemo
from state_machines.grammar.node import EMPTY, Node, TransientDerivatives, intern_node, release
from state_machines.grammar.nodes import union
from state_machines.json_schema.arrays.array_grammar import ArrayPlan
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.arrays.cardinality import Cardinality, check_distinct
from state_machines.json_schema.constants import constant, without_scalars
from state_machines.json_schema.normal_form import Normaliser
from state_machines.json_schema.numbers.number_sets import NumberSet
from state_machines.json_schema.numbers.number_text import every_spelling, number_language
from state_machines.json_schema.objects.object_grammar import ObjectPlan
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.syntax import MemberSyntax, Syntax
from state_machines.json_schema.terms import Term
from state_machines.json_schema.values import Values
from state_machines.limits import LIMITS

__all__ = ["Translator"]


class Translator:
    """Makes the nodes of one compilation's terms; arrays and objects unfold when they are met.

    ``any_spelling`` is for telling values apart: single numbers are taken however they are spelled.
    """

    def __init__(
        self,
        normaliser: Normaliser,
        syntax: Syntax,
        *,
        any_order: bool,
        any_spelling: bool = False,
    ) -> None:
        self._normaliser = normaliser
        self._syntax = syntax
        self._is_indented = syntax.layout.is_indented
        self._any_order = any_order
        self._any_spelling = any_spelling
        self._nodes: dict[tuple[Term, int], Node] = {}
        self._constants = NodeMemo(LIMITS.constant_nodes)
        self._fleeting = TransientDerivatives(LIMITS.machine_transient_derivatives)

    def value(self, term: Term, depth: int = 0) -> Node:
        """Return the node of a term's values, ``depth`` brackets deep."""
        key = (term, depth if self._is_indented else 0)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = self._value(self._normaliser.values(term), key[1])
        return node

    def _value(self, values: Values, depth: int) -> Node:
        return union((self._scalars(values), self._containers(values, depth)))

    def _containers(self, values: Values, depth: int) -> Node:
        shapes: tuple[ArrayShape | ObjectShape, ...] = (*values.arrays, *values.objects)
        return union(
            self._container(shape, depth)
            for shape in shapes
            if self._normaliser.shape_is_inhabited(shape)
        )

    def release(self, start: Node) -> None:
        """Let go of what was made for a machine that nobody holds, from its first node on.

        Matchers that are still about make it anew.
        """
        nodes, self._nodes = self._nodes, {}
        release((start, *nodes.values(), *self._fleeting.release()))

    def _scalars(self, values: Values) -> Node:
        syntax = self._syntax
        ways = []
        if values.null:
            ways.append(syntax.null)
        if values.booleans:
            ways.append(syntax.booleans(values.booleans))
        if not values.numbers.is_empty:
            ways.append(encoded(_numbers(values.numbers, self._any_spelling), RAW))
        if not values.strings.is_empty:
            ways.append(syntax.string(values.strings))
        return union(ways)

    def strings(self, term: Term) -> Node:
        """Return the strings among a term's values, as a language of code points."""
        return self._normaliser.values(term).strings

    def others_without(self, term: Term, texts: Iterable[str], depth: int) -> Node:
        """Return the node of a term's values, less strings and some values written as JSON.

        Scalars are left out as values, arrays and objects as texts.
        """
        values = replace(self._normaliser.values(term), strings=EMPTY)
        ordered = sorted(texts)
        taken = [self._constant(t, depth) for t in ordered if t.startswith(("[", "{"))]
        left = without_scalars(values, [_parsed(t) for t in ordered if t[0] not in "[{"])
        return union((self._scalars(left), exclusion(self._containers(values, depth), taken)))

    def _constant(self, text: str, depth: int) -> Node:
        """Return the node of one JSON value, in any spelling and order of its members."""

        def make() -> Node:
            # Apart, since there is no end of the values that may be written.
            normaliser = self._normaliser.apart()
            table = normaliser.table
            apart = Translator(normaliser, self._syntax, any_order=True, any_spelling=True)
            return apart.value(table.given(constant(_parsed(text), table)), depth)

        return self._constants.get((text, depth), make)

    def _container(self, shape: ArrayShape | ObjectShape, depth: int) -> Node:
        return intern_node(
            (Container, id(self), shape, depth), lambda: Container(self, shape, depth)
        )

    def unfold(self, shape: ArrayShape | ObjectShape, depth: int) -> Node:
        """Return the node of the arrays or objects of a shape."""
        table, is_empty = self._normaliser.table, self._normaliser.is_empty
        if isinstance(shape, ArrayShape):
            return ArrayPlan(
                shape,
                table=table,
                syntax=self._syntax,
                depth=depth,
                is_empty=is_empty,
                value_node=self.value,
                strings=self.strings,
                others_without=self.others_without,
                count_values=lambda term, most: Cardinality(self._normaliser, most).count(term),
                fleeting=self._fleeting,
            ).node()
        members = self._syntax.members
        return self.object(shape, members, lambda term, _: self.value(term, depth + 1), depth)

    def object(
        self,
        shape: ObjectShape,
        syntax: MemberSyntax,
        value_node: Callable[[Term, str | None], Node],
        depth: int = 0,
    ) -> Node:
        """Return the node of the objects of a shape, their values written as is given."""
        return ObjectPlan(
            shape,
            table=self._normaliser.table,
            syntax=syntax,
            depth=depth,
            any_order=self._any_order,
            is_empty=self._normaliser.is_empty,
            is_barred=self._is_barred,
            value_node=value_node,
            fleeting=self._fleeting,
        ).node()

    def _is_barred(self, term: Term) -> bool:
        """Whether no value of a term is offered: it is empty, or cannot be enforced."""
        try:
            if self._normaliser.is_empty(term):
                return True
            for array in self._normaliser.values(term).arrays:
                check_distinct(array, self._normaliser)
        except UnsupportedSchemaError:
            return True
        return False


class Container(Lazy):
    """The arrays or the objects of one shape."""

    __slots__ = ("depth", "shape", "translator")

    def __init__(self, translator: Translator, shape: ArrayShape | ObjectShape, depth: int) -> None:
        super().__init__(min_length=2)
        self.translator = translator
        self.shape = shape
        self.depth = depth
        self._first = 1 << ord("[" if isinstance(shape, ArrayShape) else "{")

    def expand(self) -> Node:
        """Return the bracket and what follows it."""
        return self.translator.unfold(self.shape, self.depth)


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _numbers(numbers: NumberSet, any_spelling: bool) -> Node:
    if any_spelling and not numbers.intervals:
        return union(map(every_spelling, sorted(numbers.points)))
    return number_language(numbers)
