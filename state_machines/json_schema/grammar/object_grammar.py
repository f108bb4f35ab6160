"""Nodes of the objects of a shape.

The state between two members is a :class:`MemberState`. :class:`RemainingMembers` expands it to the
union of the next listed names, as a view of one shared trie (:class:`NameChoice`), of the unlisted
names, which are remembered so that none is written twice (:class:`UnlistedName`), and of the end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias
from weakref import ref

from state_machines.caches import LruCache
from state_machines.grammar.lazy import Lazy, WordTransitions
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    SharedDerivatives,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.remembered import Dispatch, SuffixTest, goes_further, remembered
from state_machines.grammar.symbols import ANY_BYTE, byte_set
from state_machines.json_schema.algebra.names import NameCell, NameTrie, name_trie
from state_machines.json_schema.algebra.object_shape import ObjectShape, bit_indices
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.grammar.member_steps import MemberState, MemberSteps
from state_machines.json_schema.grammar.translator import Translator
from state_machines.json_schema.grammar.value_syntax import MemberSyntax

_UNFOLDED_OBJECTS = 256
"""States of one unordered object whose members are held."""


MAX_NAMES = 8
"""Maximum number of listed names that are tried to complete an object."""

MAX_NAMES_BOUNDED = 64
"""The same, where it depends on the names whether the object can be completed."""


class ObjectPlan:
    """An object shape with what its nodes share.

    Args:
        shape: The shape.
        translator: Translates the terms of the values.
        syntax: How members are written.
        depth: Number of brackets around the object.
        value_node: Returns the node of a term's values, given the name of the member if it is
            listed.
    """

    def __init__(
        self,
        shape: ObjectShape,
        translator: Translator,
        syntax: MemberSyntax,
        depth: int,
        value_node: Callable[[Term, str | None], Node],
    ) -> None:
        self.syntax = syntax
        self.depth = depth
        self.shared_derivatives = translator.shared_derivatives
        self.steps = MemberSteps(shape, translator)
        self._value_node = value_node
        self._expanded: LruCache[int, ref[RemainingMembers]] = LruCache(
            _UNFOLDED_OBJECTS, on_evict=_release
        )
        allowed = self.steps.start.allowed
        listed = enumerate(self.steps.listed.names)
        self.names = name_trie(
            ((name, index) for index, name in listed if allowed >> index & 1), syntax.spellings
        )

    def node(self) -> Node:
        """Return the node of the whole object."""
        return concatenation(self.syntax.begin, self.members(self.steps.start))

    def members(self, state: MemberState) -> Node:
        """Return the node of the rest of the object after some members."""
        return intern_node(
            (RemainingMembers, id(self), state), lambda: RemainingMembers(self, state)
        )

    def record_expansion(self, node: RemainingMembers) -> None:
        """Hold the expansion of a state; without an order, release the least recent one.

        Without an order there is a state for each set of names, and each holds its successors.
        """
        if self.steps.any_order:
            self._expanded.put(id(node), ref(node))

    def after_listed(self, state: MemberState, index: int) -> Node:
        """Return the node after a listed name: colon, value and further members."""
        transitions = self.steps.after_listed(state, index)
        return self._after_name(transitions, self.steps.listed.names[index])

    def after_unlisted(
        self, state: MemberState, cell: NameCell, name: str | None, example: str
    ) -> Node:
        """Return the node after an unlisted name; ``name`` is ``None`` if it is not recorded."""
        return self._after_name(self.steps.after_unlisted(state, cell, name, example), None)

    def _after_name(
        self, transitions: Iterator[tuple[Term, MemberState]], name: str | None
    ) -> Node:
        colon, end = self.syntax.colon, self.syntax.value_end(name)
        return union(
            concatenation(colon, self._value_node(term, name), end, self.members(target))
            for term, target in transitions
        )


def _release(state: ref[RemainingMembers]) -> None:
    node = state()
    if node is not None:
        node.release()


class RemainingMembers(Lazy):
    """The rest of an object, after a member or the opening bracket."""

    __slots__ = ("plan", "state")

    is_composite = True

    def __init__(self, plan: ObjectPlan, state: MemberState) -> None:
        is_end = plan.syntax.end.nullable and plan.steps.may_end(state)
        super().__init__(nullable=is_end, min_length=plan.syntax.end.min_length)
        self.plan = plan
        self.state = state

    @property
    def merge_key(self) -> Hashable | None:
        """Equal for states that differ only in the satisfied clauses."""
        if not self.plan.steps.has_clauses:
            return None
        return (RemainingMembers, id(self.plan), self.state._replace(satisfied=0))

    def subsumes(self, other: Node) -> bool:
        """Return whether all clauses that are satisfied in the other state are satisfied here."""
        if not isinstance(other, RemainingMembers):
            return False
        return not other.state.satisfied & ~self.state.satisfied

    def expand(self) -> Node:
        """Return the union of the next members and the end."""
        plan, state = self.plan, self.state
        plan.record_expansion(self)
        syntax, depth = plan.syntax, plan.depth + 1
        max_members = plan.steps.shape.max_members
        alternatives = []
        if plan.steps.may_end(state):
            closing = EPSILON if state.is_first else syntax.closing(depth)
            alternatives.append(concatenation(closing, syntax.end))
        if max_members is None or state.member_count < max_members:
            gap = syntax.opening(depth) if state.is_first else syntax.comma(depth)
            alternatives.append(concatenation(gap, syntax.name_begin, self._names()))
        return union(alternatives)

    def _names(self) -> Node:
        plan, state = self.plan, self.state
        candidates = plan.steps.candidates(state)
        any_name = plan.syntax.any_name
        cell = None if any_name is None else plan.steps.any_name(state)
        if any_name is not None and cell is not None:
            return remembered(any_name, AnyName(plan, state, cell, "", candidates))
        names = [
            remembered(plan.syntax.names(language), UnlistedName(plan, state, cell, example))
            for cell, language, example in plan.steps.unlisted(state)
        ]
        if candidates:
            names.append(
                _names_below(plan, plan.steps.canonical_state(state), plan.names, candidates)
            )
        return union(names)


@dataclass(frozen=True, slots=True)
class UnlistedName(Dispatch):
    """Maps an unlisted name to the rest of the object, in which it must not come again.

    ``example`` is a name after which the same follows as after all others, if there is one.
    """

    plan: ObjectPlan
    state: MemberState
    cell: NameCell
    example: str | None

    @property
    def key(self) -> Hashable:
        """Equal for dispatches that behave equally."""
        return (type(self), id(self.plan), self.state, id(self.cell), self.example)

    @property
    def shared_derivatives(self) -> SharedDerivatives:
        """Where the derivatives within the name are stored."""
        return self.plan.shared_derivatives

    def after(self, word: bytes) -> Node:
        """Return the node after the name spelled by ``word``, terminator included."""
        name = self.plan.syntax.read_name(word)
        return self.plan.after_unlisted(self.state, self.cell, name, name)

    def default(self) -> Node | None:
        """Return the node after a name like the example, if there is one."""
        if self.example is None:
            return None
        return _after_name(self.plan, self.state, (self.cell, self.example))

    @property
    def following_bytes(self) -> int:
        """A superset of the bytes that continuations begin with."""
        colon = self.plan.syntax.colon
        return ANY_BYTE if colon.nullable else colon.first_bytes

    @property
    def context_dependent(self) -> SuffixTest:
        """Suffixes in which another name of the object can end."""
        return goes_further if self.plan.syntax.any_name is None else _holds_another_name


def _holds_another_name(suffix: bytes) -> bool:
    return suffix.partition(b",")[2].count(b'"') > 1


@dataclass(frozen=True, slots=True)
class AnyName(UnlistedName):
    """Maps any name, listed or not, to the rest of the object."""

    candidates: int

    def after(self, word: bytes) -> Node:
        """Return the node after the name spelled by ``word``, terminator included."""
        name = self.plan.syntax.read_name(word)
        index = self.plan.steps.listed.index(name)
        if index is not None:
            if not self.candidates >> index & 1:
                return EMPTY
            return _after_name(self.plan, self.plan.steps.canonical_state(self.state), index)
        if name in self.state.unlisted:
            return EMPTY
        return self.plan.after_unlisted(self.state, self.cell, name, name)

    def default(self) -> Node:
        """Return the node after a name that is neither listed nor written before."""
        return _after_name(self.plan, self.state, (self.cell, ""))

    @property
    def has_exceptions(self) -> bool:
        """Whether a name is listed or was written before."""
        return bool(self.plan.steps.listed.names or self.state.unlisted)

    def exceptions(self, written: bytes) -> tuple[str, ...]:
        """Return the rest of every listed or written name that begins with ``written``."""
        prefix = self.plan.syntax.read_name(written + b'"') if written else ""
        listed = self.plan.steps.listed.rests_after(prefix)
        unlisted = self.state.unlisted
        if not unlisted:
            return listed
        begun = (name[len(prefix) :] for name in sorted(unlisted) if name.startswith(prefix))
        return (*listed, *begun)

    def required(self, written: bytes) -> str | None:
        """Return the rest of the first missing required name that begins with ``written``."""
        prefix = self.plan.syntax.read_name(written + b'"')
        steps = self.plan.steps
        missing = self.state.missing & self.candidates
        listed = (steps.listed.names[index] for index in bit_indices(missing))
        return next((name[len(prefix) :] for name in listed if name.startswith(prefix)), None)


class NameChoice(WordTransitions):
    """The rest of a listed name below a vertex of the trie, and the text behind the name."""

    __slots__ = ("candidates", "plan", "state", "vertex")

    def __init__(
        self, plan: ObjectPlan, state: MemberState, vertex: NameTrie, candidates: int
    ) -> None:
        super().__init__(nullable=False, min_length=1, max_length=None)
        self.plan = plan
        self.state = state
        self.vertex = vertex
        self.candidates = candidates

    def compute_first_bytes(self) -> int:
        return byte_set(byte for byte, _ in self._open_children())

    def _open_children(self) -> Iterator[tuple[int, NameTrie]]:
        for byte, child in self.vertex.children.items():
            if child.indices & self.candidates:
                yield byte, child

    def compute_transitions(self) -> Transitions:
        return collect_transitions(
            (1 << byte, self.derivative(byte)) for byte, _ in self._open_children()
        )

    def compute_derivative(self, byte: int) -> Node:
        child = self.vertex.children.get(byte)
        if child is None or not child.indices & self.candidates:
            return EMPTY
        return _names_below(self.plan, self.state, child, self.candidates)

    def word_transitions(self) -> Iterator[tuple[bytes, Node]]:
        """Yield the rests of some names, missing names first, each with the node after it."""
        plan, below = self.plan, self.candidates & self.vertex.indices
        missing = below & self.state.missing
        if plan.steps.is_bounded:
            listed = [*bit_indices(missing), *bit_indices(below & ~missing)][:MAX_NAMES_BOUNDED]
        else:
            listed = [*bit_indices(missing & -missing or below)][:MAX_NAMES]
        for index in listed:
            yield self._rest_of(index), _after_name(plan, self.state, index)

    def common_transition(self) -> tuple[bytes, Node] | None:
        """Return the rest of the first missing name, if members come in any order."""
        steps, missing = self.plan.steps, self.state.missing & self.candidates
        if not missing or not steps.any_order or steps.is_bounded:
            return None
        index = next(bit_indices(missing))
        return self._rest_of(index), _after_name(self.plan, self.state, index)

    def _rest_of(self, index: int) -> bytes:
        """Return the rest of the spelling of a name."""
        vertex = self.vertex
        while vertex.only is None:
            children = vertex.children.values()
            vertex = next(child for child in children if child.indices >> index & 1)
        return vertex.only[0][self.vertex.depth :]


def _names_below(plan: ObjectPlan, state: MemberState, vertex: NameTrie, candidates: int) -> Node:
    """Return the node of a vertex; bytes without an alternative are one literal."""
    written = vertex.depth
    while vertex.only is None:
        open_children = [child for child in vertex.children.values() if child.indices & candidates]
        if len(open_children) != 1:
            prefix, candidates = vertex.prefix, candidates & vertex.indices
            names = intern_node(
                (NameChoice, id(plan), state, id(vertex), candidates),
                partial(NameChoice, plan, state, vertex, candidates),
            )
            return concatenation(literal(prefix[written:]), names)
        vertex = open_children[0]
    text, index = vertex.only
    return concatenation(literal(text[written:]), _after_name(plan, state, index))


_Name: TypeAlias = int | tuple[NameCell, str]
"""A listed name by its number, or an unlisted one by its cell and a name with the same effect."""


def _after_name(plan: ObjectPlan, state: MemberState, name: _Name) -> Node:
    key = name if isinstance(name, int) else (id(name[0]), name[1])
    return intern_node((_AfterName, id(plan), state, key), lambda: _AfterName(plan, state, name))


class _AfterName(Lazy):
    """Colon, value and further members after a name that is not recorded."""

    __slots__ = ("name", "plan", "state")

    def __init__(self, plan: ObjectPlan, state: MemberState, name: _Name) -> None:
        super().__init__(min_length=2)
        self.plan = plan
        self.state = state
        self.name = name
        if not plan.syntax.colon.nullable:
            self.known_first_bytes = plan.syntax.colon.first_bytes

    def expand(self) -> Node:
        """Return the expanded node."""
        if isinstance(self.name, int):
            return self.plan.after_listed(self.state, self.name)
        cell, example = self.name
        return self.plan.after_unlisted(self.state, cell, None, example)
