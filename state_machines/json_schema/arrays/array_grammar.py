"""Arrays of a shape, as nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from state_machines.grammar.capture import Continuation, captured
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, intern_node
from state_machines.grammar.nodes import choice, literal, sequence
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.arrays.item_steps import ItemState, ItemSteps
from state_machines.json_schema.layout import Layout
from state_machines.json_schema.terms import FALSE, Term, TermTable

__all__ = ["ArrayPlan"]


class ArrayPlan:
    """One array shape, prepared.

    ``value_without`` gives the node of a term's values less some JSON values, given its depth;
    ``has_values_to_spare`` tells whether a term has more than n values.
    """

    def __init__(
        self,
        shape: ArrayShape,
        *,
        table: TermTable,
        layout: Layout,
        depth: int,
        is_empty: Callable[[Term], bool],
        value_node: Callable[[Term, int], Node],
        value_without: Callable[[Term, Sequence[Any], int], Node],
        has_values_to_spare: Callable[[Term, int], bool],
    ) -> None:
        self.layout = layout
        self.depth = depth
        self.steps = ItemSteps(shape, table)
        self._is_empty = is_empty
        self._value_node = value_node
        self._value_without = value_without
        self._has_values_to_spare = has_values_to_spare

    def node(self) -> Node:
        """Return the node of the whole array."""
        return sequence(literal(b"["), self.items(self.steps.start, frozenset(), is_first=True))

    def items(self, state: ItemState, taken: frozenset[str], *, is_first: bool = False) -> Node:
        """Return the node of everything after the items written so far."""
        return intern_node(
            (Items, id(self), state, taken, is_first), lambda: Items(self, state, taken, is_first)
        )

    def may_follow(self, term: Term, target: ItemState) -> bool:
        """Whether an item of a term exists and the array can be completed after it."""
        if self._is_empty(term):
            return False
        if not self.steps.shape.counted:
            return True
        return self.steps.can_finish(target, lambda other: not self._is_empty(other))

    def member(self, term: Term, target: ItemState, taken: frozenset[str]) -> Node:
        """Return the node of one item and everything after it."""
        if not self.steps.shape.unique:
            return sequence(self._value_node(term, self.depth + 1), self.items(target, taken))
        values = [json.loads(text, parse_float=Decimal) for text in sorted(taken)]
        item = self._value_without(term, values, self.depth + 1)
        if item.is_empty:
            return EMPTY
        return captured(item, DistinctItem(self, target, taken))

    def has_items_to_spare(self, taken: frozenset[str]) -> bool:
        """Whether taking one more value cannot change what may follow."""
        shape = self.steps.shape
        return not shape.counted and all(
            self._has_values_to_spare(term, len(taken) + 3)
            for term in dict.fromkeys((*shape.prefix, shape.rest))
            if term is not FALSE
        )


@dataclass(frozen=True, slots=True)
class DistinctItem(Continuation):
    """What follows an item that may not come again."""

    plan: ArrayPlan
    target: ItemState
    taken: frozenset[str]

    @property
    def key(self) -> Hashable:
        """What tells this continuation from others."""
        return (DistinctItem, id(self.plan), self.target, self.taken)

    def after(self, text: bytes) -> Node:
        """Return the node after the item written as ``text``."""
        return self.plan.items(self.target, self.taken | {text.decode()})

    def after_any(self) -> Node | None:
        """Return the node after an item that is not remembered."""
        return self.plan.items(self.target, self.taken)

    @property
    def is_unsure(self) -> bool:
        """Whether what was written may matter at once."""
        return not self.plan.has_items_to_spare(self.taken)

    def may_end_another(self, suffix: bytes) -> bool:
        """Whether another item may end in these bytes."""
        return len(suffix) > 1


class Items(Lazy):
    """The rest of an array, from after an item (or the opening bracket) to its end."""

    __slots__ = ("is_first", "plan", "state", "taken")

    def __init__(
        self, plan: ArrayPlan, state: ItemState, taken: frozenset[str], is_first: bool
    ) -> None:
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
            ways.append(sequence(closing, literal(b"]")))
        gap = layout.opening(depth) if self.is_first else layout.comma(depth)
        ways.extend(
            sequence(gap, plan.member(term, target, self.taken))
            for term, target in plan.steps.steps(self.state)
            if plan.may_follow(term, target)
        )
        return choice(ways)
