"""Arrays of a shape, as nodes."""

from __future__ import annotations

from collections.abc import Callable

from state_machines.grammar.node import Node, intern_node
from state_machines.grammar.nodes import Lazy, choice, literal, sequence
from state_machines.json_schema.array_shape import ArrayShape
from state_machines.json_schema.item_steps import ItemState, ItemSteps
from state_machines.json_schema.layout import Layout
from state_machines.json_schema.terms import Term, TermTable

__all__ = ["ArrayPlan"]


class ArrayPlan:
    """One array shape, prepared."""

    def __init__(
        self,
        shape: ArrayShape,
        *,
        table: TermTable,
        layout: Layout,
        depth: int,
        is_empty: Callable[[Term], bool],
        value_node: Callable[[Term, int], Node],
    ) -> None:
        self.layout = layout
        self.depth = depth
        self.steps = ItemSteps(shape, table)
        self._is_empty = is_empty
        self._value_node = value_node

    def node(self) -> Node:
        """Return the node of the whole array."""
        return sequence(literal(b"["), self.items(self.steps.start, is_first=True))

    def items(self, state: ItemState, *, is_first: bool = False) -> Node:
        """Return the node of everything after the items written so far."""
        return intern_node(
            (Items, self, state, is_first), lambda: Items(self, state, is_first)
        )

    def may_follow(self, term: Term, target: ItemState) -> bool:
        """Whether an item of a term exists and the array can be completed after it."""
        if self._is_empty(term):
            return False
        if not self.steps.shape.counted:
            return True
        return self.steps.can_finish(target, lambda other: not self._is_empty(other))

    def item(self, term: Term) -> Node:
        """Return the node of one item."""
        return self._value_node(term, self.depth + 1)


class Items(Lazy):
    """The rest of an array, from after an item (or the opening bracket) to its end."""

    __slots__ = ("is_first", "plan", "state")

    def __init__(self, plan: ArrayPlan, state: ItemState, is_first: bool) -> None:
        super().__init__(min_length=1)
        self.plan = plan
        self.state = state
        self.is_first = is_first

    def expand(self) -> Node:
        """Return the choice of the next item and the end."""
        plan, layout, depth = self.plan, self.plan.layout, self.plan.depth + 1
        ways = []
        if plan.steps.is_final(self.state):
            closing = literal(b"") if self.is_first else layout.closing(depth)
            ways.append(sequence(closing, literal(b"]")))
        gap = layout.opening(depth) if self.is_first else layout.comma(depth)
        ways.extend(
            sequence(gap, plan.item(term), plan.items(target))
            for term, target in plan.steps.steps(self.state)
            if plan.may_follow(term, target)
        )
        return choice(ways)
