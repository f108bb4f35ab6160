"""Objects of a shape, as nodes.

Where an object stands is a :class:`MemberState`; from it :class:`Members` unfolds what may come
next: a listed name out of one shared trie (:class:`NameChoice`), an unlisted name that is
captured so that it is not written twice (:class:`Unlisted`), or the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from state_machines.grammar.capture import captured
from state_machines.grammar.encoding import JSON_STRING, encoded
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EPSILON, Node, intern_node
from state_machines.grammar.nodes import branch, choice, literal, sequence
from state_machines.json_schema.demands import can_all_be_met
from state_machines.json_schema.layout import Layout
from state_machines.json_schema.names import NameCell, count_words, listed_names, name_cells
from state_machines.json_schema.object_shape import ObjectShape, without_names, word_in
from state_machines.json_schema.terms import Term, TermTable

__all__ = ["ObjectPlan"]


@dataclass(frozen=True, slots=True)
class MemberState:
    """What the members written so far leave open.

    ``allowed`` and ``missing`` are sets of listed names as bits: those that may still come, and
    the required ones that must. ``unlisted`` are the other names already taken. ``met`` holds,
    as bits, which of the shape's ``some`` are met. ``count`` is kept as far as bounds need it.
    """

    allowed: int
    missing: int
    unlisted: frozenset[str] = frozenset()
    met: int = 0
    count: int = 0
    is_first: bool = True


class _Vertex:
    """A vertex of the trie of listed names; ``below`` has the bits of all names under it."""

    __slots__ = ("below", "children", "entry")

    def __init__(self) -> None:
        self.below = 0
        self.children: dict[int, _Vertex] = {}
        self.entry: int | None = None


class ObjectPlan:
    """One object shape, prepared: its listed names, the others, and how its states go on."""

    def __init__(
        self,
        shape: ObjectShape,
        *,
        table: TermTable,
        layout: Layout,
        depth: int,
        any_order: bool,
        is_empty: Callable[[Term], bool],
        value_node: Callable[[Term, int], Node],
    ) -> None:
        self.shape = shape
        self.layout = layout
        self.depth = depth
        self.any_order = any_order
        self._table = table
        self._is_empty = is_empty
        self._value_node = value_node
        self.names = listed_names(shape)
        self.terms = [shape.value_of(name, table) for name in self.names]
        self.cells = [cell for cell in name_cells(shape, table) if not is_empty(cell.term)]
        self._counts_to = max(shape.least, shape.most or 0)
        present = [not is_empty(term) for term in self.terms]
        self.root = _Vertex()
        for index, name in enumerate(self.names):
            if present[index]:
                self._enter(name, index)
        self.start = MemberState(
            allowed=sum(1 << index for index, there in enumerate(present) if there),
            missing=sum(1 << i for i, name in enumerate(self.names) if name in shape.required),
        )

    def _enter(self, name: str, index: int) -> None:
        for ensure_ascii in (False, True):
            vertex = self.root
            vertex.below |= 1 << index
            for byte in json.dumps(name, ensure_ascii=ensure_ascii).encode()[1:]:
                vertex = vertex.children.setdefault(byte, _Vertex())
                vertex.below |= 1 << index
            vertex.entry = index

    def node(self) -> Node:
        """Return the node of the whole object."""
        return sequence(literal(b"{"), self.members(self.start))

    def members(self, state: MemberState) -> Node:
        """Return the node of everything after the members written so far."""
        return intern_node((Members, id(self), state), lambda: Members(self, state))

    def may_end(self, state: MemberState) -> bool:
        """Whether the object may be closed."""
        return (
            not state.missing
            and state.met == (1 << len(self.shape.some)) - 1
            and state.count >= self.shape.least
        )

    def candidates(self, state: MemberState) -> int:
        """Return the listed names, as bits, that may come next."""
        allowed = state.allowed
        if state.missing and not self.any_order:
            first = state.missing & -state.missing
            allowed &= (first << 1) - 1
        if not self._counts_to and not self.shape.some:
            return allowed
        kept = 0
        for index in _bits(allowed):
            if any(True for _ in self._after_listed(state, index)):
                kept |= 1 << index
        return kept

    def listed_value(self, state: MemberState, index: int) -> Node:
        """Return what follows a listed name: colon, value and the other members."""
        return self._member_tail(self._after_listed(state, index))

    def unlisted_value(self, state: MemberState, cell: NameCell, name: str | None) -> Node:
        """Return what follows an unlisted name (``None``: one that is not remembered)."""
        return self._member_tail(self._after_unlisted(state, cell, name))

    def unlisted(self, state: MemberState) -> Iterator[tuple[NameCell, Node]]:
        """Yield the cells of names that may come next, with the names not yet taken."""
        if state.missing and not self.any_order:
            return
        after = self._counted(replace(state, allowed=state.allowed if self.any_order else 0))
        for cell in self.cells:
            names = without_names(cell.names, state.unlisted) if state.unlisted else cell.names
            if names.is_empty:
                continue
            if not self._bounded or self._can_finish(after, taken=1):
                yield cell, names

    def has_names_to_spare(self, state: MemberState, cell: NameCell) -> bool:
        """Whether taking one more name of a cell cannot change what may follow."""
        spare = len(state.unlisted) + self.shape.least + 3
        return not self.shape.some and (
            cell.names.max_length is None or count_words(cell.names, spare) >= spare
        )

    def _member_tail(self, ways: Iterator[tuple[Term, MemberState]]) -> Node:
        colon = self.layout.colon
        return choice(
            sequence(colon, self._value_node(term, self.depth + 1), self.members(target))
            for term, target in ways
        )

    def _after_listed(self, state: MemberState, index: int) -> Iterator[tuple[Term, MemberState]]:
        bit = 1 << index
        left = state.allowed & ~bit if self.any_order else state.allowed & ~((bit << 1) - 1)
        target = self._counted(replace(state, allowed=left, missing=state.missing & ~bit))
        yield from self._claims(target, self.names[index], self.terms[index])

    def _after_unlisted(
        self, state: MemberState, cell: NameCell, name: str | None
    ) -> Iterator[tuple[Term, MemberState]]:
        target = self._counted(
            replace(
                state,
                allowed=state.allowed if self.any_order else 0,
                unlisted=state.unlisted if name is None else state.unlisted | {name},
            )
        )
        yield from self._claims(target, name or "", cell.term)

    def _counted(self, state: MemberState) -> MemberState:
        return replace(state, is_first=False, count=min(state.count + 1, self._counts_to))

    def _claims(
        self, state: MemberState, name: str, term: Term
    ) -> Iterator[tuple[Term, MemberState]]:
        """Yield the ways in which a member may meet some of what is to be met."""
        unmet = [
            k
            for k, rule in enumerate(self.shape.some)
            if not state.met >> k & 1 and word_in(rule.names, name)
        ]
        for size in range(len(unmet) + 1):
            for claimed in combinations(unmet, size):
                value = self._table.all_of((term, *(self.shape.some[k].term for k in claimed)))
                target = replace(state, met=state.met | sum(1 << k for k in claimed))
                if (not claimed or not self._is_empty(value)) and (
                    not self._bounded or self._can_finish(target)
                ):
                    yield value, target

    @property
    def _bounded(self) -> bool:
        return bool(self._counts_to or self.shape.some)

    def _can_finish(self, state: MemberState, *, taken: int = 0) -> bool:
        """Whether members that make the object complete are still to be had.

        ``taken`` unlisted names are about to be used up beside those of the state.
        """
        shape = self.shape
        if shape.most is not None and state.count + state.missing.bit_count() > shape.most:
            return False
        if shape.most is not None and state.count == shape.most and not self.may_end(state):
            return False
        if shape.least > state.count:
            needed = shape.least - state.count
            available = state.allowed.bit_count()
            taken += len(state.unlisted)
            for cell in self.cells:
                if available - taken < needed:
                    available += count_words(cell.names, needed + taken)
            if available - (taken if self.cells else 0) < needed:
                return False
        return not shape.some or self._can_meet_the_rest(state)

    def _can_meet_the_rest(self, state: MemberState) -> bool:
        unmet = [rule for k, rule in enumerate(self.shape.some) if not state.met >> k & 1]
        listed = [(self.names[index], self.terms[index]) for index in _bits(state.allowed)]
        cells = [
            (without_names(cell.names, state.unlisted) if state.unlisted else cell.names, cell.term)
            for cell in self.cells
        ]
        return can_all_be_met(
            unmet, listed, cells, self._table, lambda term: not self._is_empty(term)
        )


class Members(Lazy):
    """The rest of an object, from after a member (or the opening bracket) to its end."""

    __slots__ = ("plan", "state")

    def __init__(self, plan: ObjectPlan, state: MemberState) -> None:
        super().__init__(min_length=1)
        self.plan = plan
        self.state = state

    def expand(self) -> Node:
        """Return the choice of the next member and the end."""
        plan, state = self.plan, self.state
        layout, depth = plan.layout, plan.depth + 1
        ways = []
        if plan.may_end(state):
            closing = EPSILON if state.is_first else layout.closing(depth)
            ways.append(sequence(closing, literal(b"}")))
        if plan.shape.most is None or state.count < plan.shape.most:
            names = [
                captured(encoded(free, JSON_STRING, b'"'), Unlisted(plan, state, cell))
                for cell, free in plan.unlisted(state)
            ]
            candidates = plan.candidates(state)
            if candidates:
                names.append(_names_below(plan, state, plan.root, candidates))
            gap = layout.opening(depth) if state.is_first else layout.comma(depth)
            ways.append(sequence(gap, literal(b'"'), choice(names)))
        return choice(ways)


@dataclass(frozen=True, slots=True)
class Unlisted:
    """What follows an unlisted name, which is then taken."""

    plan: ObjectPlan
    state: MemberState
    cell: NameCell

    @property
    def key(self) -> Hashable:
        """What tells this continuation from others."""
        return (Unlisted, id(self.plan), self.state, id(self.cell))

    def after(self, text: bytes) -> Node:
        """Return the node after the name spelled by ``text``, closing quote included."""
        name = json.loads(b'"' + text)
        return self.plan.unlisted_value(self.state, self.cell, name)

    def after_any(self) -> Node | None:
        """Return the node after a name that plays no part in what follows, if that can be."""
        if not self.plan.has_names_to_spare(self.state, self.cell):
            return None
        return self.plan.unlisted_value(self.state, self.cell, None)

    def may_end_another(self, suffix: bytes) -> bool:
        """Whether another name may end in these bytes."""
        return suffix.count(b'"') > 1


class NameChoice(Lazy):
    """The rest of a listed name, out of those below a vertex of the trie, and what follows."""

    __slots__ = ("candidates", "plan", "state", "vertex")

    def __init__(
        self, plan: ObjectPlan, state: MemberState, vertex: _Vertex, candidates: int
    ) -> None:
        super().__init__(min_length=1)
        self.plan = plan
        self.state = state
        self.vertex = vertex
        self.candidates = candidates

    def expand(self) -> Node:
        """Return the choice of the next byte of a name."""
        return branch(
            (1 << byte, _names_below(self.plan, self.state, child, self.candidates))
            for byte, child in self.vertex.children.items()
            if child.below & self.candidates
        )


def _names_below(plan: ObjectPlan, state: MemberState, vertex: _Vertex, candidates: int) -> Node:
    """Return the node at a vertex; a stretch without choice is one literal."""
    text = bytearray()
    while vertex.entry is None:
        open_children = [
            (byte, child) for byte, child in vertex.children.items() if child.below & candidates
        ]
        if len(open_children) != 1:
            break
        text.append(open_children[0][0])
        vertex = open_children[0][1]
    return sequence(literal(bytes(text)), _name_rest(plan, state, vertex, candidates))


def _name_rest(plan: ObjectPlan, state: MemberState, vertex: _Vertex, candidates: int) -> Node:
    entry = vertex.entry
    if entry is not None:
        return intern_node(
            (_ListedValue, id(plan), state, entry), lambda: _ListedValue(plan, state, entry)
        )
    left = candidates & vertex.below
    return intern_node(
        (NameChoice, id(plan), state, id(vertex), left),
        lambda: NameChoice(plan, state, vertex, left),
    )


class _ListedValue(Lazy):
    """What follows a listed name, unfolded only once the name is written."""

    __slots__ = ("index", "plan", "state")

    def __init__(self, plan: ObjectPlan, state: MemberState, index: int) -> None:
        super().__init__(min_length=2)
        self.plan = plan
        self.state = state
        self.index = index

    def expand(self) -> Node:
        """Return colon, value and the other members."""
        return self.plan.listed_value(self.state, self.index)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
