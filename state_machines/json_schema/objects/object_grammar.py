"""Objects of a shape, as nodes.

Where an object stands is a :class:`MemberState`; from it :class:`Members` unfolds what may come
next: a listed name out of one shared trie (:class:`NameChoice`), an unlisted name that is
captured so that it is not written twice (:class:`Unlisted`), or the end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from weakref import ref

from state_machines.caches import LruCache
from state_machines.grammar.capture import Dispatch, SuffixTest, captured, goes_further
from state_machines.grammar.lazy import Lazy, WordTransitions
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    TransientDerivatives,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.symbols import byte_set
from state_machines.json_schema.objects.clauses import bit_indices
from state_machines.json_schema.objects.member_steps import MemberState, MemberSteps
from state_machines.json_schema.objects.names import NameCell, NameTrie, name_trie
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term, TermTable
from state_machines.json_schema.value_syntax import MemberSyntax
from state_machines.limits import LIMITS

__all__ = ["ObjectPlan"]

FEW_WAYS = 8
"""Names that are looked at for a near end, where any of them leads to one."""

MANY_WAYS = 64
"""The same, where it depends on which are written."""


class ObjectPlan:
    """One object shape, prepared: its listed names, the others, and how its states go on.

    ``value_node`` gives the node of a term's values as those of a listed name, or of another.
    """

    def __init__(
        self,
        shape: ObjectShape,
        *,
        table: TermTable,
        syntax: MemberSyntax,
        depth: int,
        any_order: bool,
        is_empty: Callable[[Term], bool],
        is_empty_or_unenforceable: Callable[[Term], bool],
        value_node: Callable[[Term, str | None], Node],
        transient_derivatives: TransientDerivatives,
    ) -> None:
        self.syntax = syntax
        self.depth = depth
        self.transient_derivatives = transient_derivatives
        self.steps = MemberSteps(
            shape,
            table=table,
            any_order=any_order,
            is_empty=is_empty,
            is_empty_or_unenforceable=is_empty_or_unenforceable,
        )
        self._value_node = value_node
        self._unfolded: LruCache[int, ref[Members]] = LruCache(
            LIMITS.unfolded_objects, on_evict=_fold
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
        """Return the node of everything after the members written so far."""
        return intern_node((Members, id(self), state), lambda: Members(self, state))

    def unfolded(self, node: Members) -> None:
        """Note that a state was unfolded; in any order the one longest ago is folded again.

        There are as many states as sets of names, and each holds on to those after it.
        """
        if self.steps.any_order:
            self._unfolded.put(id(node), ref(node))

    def listed_value(self, state: MemberState, index: int) -> Node:
        """Return what follows a listed name: colon, value and the other members."""
        return self._member_tail(
            self.steps.after_listed(state, index), self.steps.listed.names[index]
        )

    def unlisted_value(self, state: MemberState, cell: NameCell, name: str) -> Node:
        """Return what follows an unlisted name."""
        return self._member_tail(self.steps.after_unlisted(state, cell, name, name), None)

    def value_after_any(self, state: MemberState, cell: NameCell, example: str) -> Node:
        """Return what follows an unlisted name that is not remembered, one like the example."""
        return self._member_tail(self.steps.after_unlisted(state, cell, None, example), None)

    def _member_tail(self, ways: Iterator[tuple[Term, MemberState]], name: str | None) -> Node:
        colon, end = self.syntax.colon, self.syntax.value_end
        return union(
            concatenation(colon, self._value_node(term, name), end, self.members(target))
            for term, target in ways
        )


def _fold(state: ref[Members]) -> None:
    node = state()
    if node is not None:
        node.release()


class Members(Lazy):
    """The rest of an object, from after a member (or the opening bracket) to its end."""

    __slots__ = ("plan", "state")

    def __init__(self, plan: ObjectPlan, state: MemberState) -> None:
        is_end = plan.syntax.end.nullable and plan.steps.may_end(state)
        super().__init__(nullable=is_end, min_length=plan.syntax.end.min_length)
        self.plan = plan
        self.state = state

    @property
    def merge_key(self) -> Hashable | None:
        """Objects that differ in which clauses are met."""
        if not self.plan.steps.has_clauses:
            return None
        return (Members, id(self.plan), self.state._replace(satisfied=0))

    def subsumes(self, other: Node) -> bool:
        """Whether every clause that the other has met is met."""
        return isinstance(other, Members) and not other.state.satisfied & ~self.state.satisfied

    def expand(self) -> Node:
        """Return the choice of the next member and the end."""
        plan, state = self.plan, self.state
        plan.unfolded(self)
        syntax, depth = plan.syntax, plan.depth + 1
        ways = []
        if plan.steps.may_end(state):
            closing = EPSILON if state.is_first else syntax.closing(depth)
            ways.append(concatenation(closing, syntax.end))
        if (
            plan.steps.shape.max_members is None
            or state.member_count < plan.steps.shape.max_members
        ):
            gap = syntax.opening(depth) if state.is_first else syntax.comma(depth)
            ways.append(concatenation(gap, syntax.name_begin, self._names()))
        return union(ways)

    def _names(self) -> Node:
        plan, state = self.plan, self.state
        candidates = plan.steps.candidates(state)
        any_name = plan.syntax.any_name
        cell = None if any_name is None else plan.steps.any_name(state)
        if any_name is not None and cell is not None:
            return captured(any_name, AnyName(plan, state, cell, "", candidates))
        names = [
            captured(plan.syntax.names(free), Unlisted(plan, state, cell, example))
            for cell, free, example in plan.steps.unlisted(state)
        ]
        if candidates:
            names.append(
                _names_below(plan, plan.steps.canonical_state(state), plan.names, candidates)
            )
        return union(names)


@dataclass(frozen=True, slots=True)
class Unlisted(Dispatch):
    """What follows an unlisted name, which is then taken.

    ``example`` is a name after which comes the same as after all others, if there is such.
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
    def transient(self) -> TransientDerivatives:
        """Where the derivatives within the name are stored."""
        return self.plan.transient_derivatives

    def after(self, word: bytes) -> Node:
        """Return the node after the name spelled by ``word``, terminator included."""
        name = self.plan.syntax.read_name(word)
        return self.plan.unlisted_value(self.state, self.cell, name)

    def default(self) -> Node | None:
        """Return the node after a name like the example, if there is one."""
        if self.example is None:
            return None
        return _unlisted_value(self.plan, self.state, self.cell, self.example)

    @property
    def context_dependent(self) -> SuffixTest:
        """Suffixes within which another name of the object may end."""
        return goes_further if self.plan.syntax.any_name is None else _holds_another_name


def _holds_another_name(suffix: bytes) -> bool:
    return suffix.partition(b",")[2].count(b'"') > 1


@dataclass(frozen=True, slots=True)
class AnyName(Unlisted):
    """What follows a name where any may stand: a listed one as well as any other."""

    candidates: int

    def after(self, word: bytes) -> Node:
        """Return the node after the name spelled by ``word``, terminator included."""
        name = self.plan.syntax.read_name(word)
        index = self.plan.steps.listed.index(name)
        if index is not None:
            is_open = self.candidates >> index & 1
            if not is_open:
                return EMPTY
            return _listed_value(self.plan, self.plan.steps.canonical_state(self.state), index)
        if name in self.state.unlisted:
            return EMPTY
        return self.plan.unlisted_value(self.state, self.cell, name)

    def default(self) -> Node:
        """Return the node after a name that is neither listed nor taken."""
        return _unlisted_value(self.plan, self.state, self.cell, "")

    @property
    def has_exceptions(self) -> bool:
        """Whether a name is listed or taken."""
        return bool(self.plan.steps.listed.names or self.state.unlisted)

    def exceptions(self, written: bytes) -> Iterator[str]:
        """Yield the rest of every name that is listed or taken and begins with ``written``."""
        prefix = self.plan.syntax.read_name(written + b'"')
        for name in self.plan.steps.listed.starting_with(prefix):
            yield name[len(prefix) :]
        for name in self.state.unlisted:
            if name.startswith(prefix):
                yield name[len(prefix) :]

    def required(self, written: bytes) -> str | None:
        """Return the rest of the first missing required name that begins with ``written``."""
        prefix = self.plan.syntax.read_name(written + b'"')
        steps = self.plan.steps
        missing = self.state.missing & self.candidates
        listed = (steps.listed.names[index] for index in bit_indices(missing))
        return next((name[len(prefix) :] for name in listed if name.startswith(prefix)), None)


class NameChoice(WordTransitions):
    """The rest of a listed name, out of those below a vertex of the trie, and what follows.

    Only those children are unfolded that are asked for.
    """

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
        """Yield names with what follows them; the first that is missing, where that is enough."""
        plan, below = self.plan, self.candidates & self.vertex.indices
        missing = below & self.state.missing
        if plan.steps.is_bounded:
            listed = [*bit_indices(missing), *bit_indices(below & ~missing)][:MANY_WAYS]
        else:
            listed = [*bit_indices(missing & -missing or below)][:FEW_WAYS]
        for index in listed:
            yield self._spelled(index), _listed_value(plan, self.state, index)

    def common_transition(self) -> tuple[bytes, Node] | None:
        """Return the rest of the first missing name, if members come in any order."""
        steps, missing = self.plan.steps, self.state.missing & self.candidates
        if not missing or not steps.any_order or steps.is_bounded:
            return None
        index = next(bit_indices(missing))
        return self._spelled(index), _listed_value(self.plan, self.state, index)

    def _spelled(self, index: int) -> bytes:
        """Return the rest of a name's spelling, from the vertex on."""
        vertex = self.vertex
        while vertex.only is None:
            children = vertex.children.values()
            vertex = next(child for child in children if child.indices >> index & 1)
        return vertex.only[0][self.vertex.depth :]


def _names_below(plan: ObjectPlan, state: MemberState, vertex: NameTrie, candidates: int) -> Node:
    """Return the node at a vertex; a stretch without choice is one literal."""
    written = vertex.depth
    while vertex.only is None:
        open_children = [child for child in vertex.children.values() if child.indices & candidates]
        if len(open_children) != 1:
            names = _name_choice(plan, state, vertex, candidates & vertex.indices)
            return concatenation(literal(vertex.prefix[written:]), names)
        vertex = open_children[0]
    text, index = vertex.only
    return concatenation(literal(text[written:]), _listed_value(plan, state, index))


def _name_choice(plan: ObjectPlan, state: MemberState, vertex: NameTrie, candidates: int) -> Node:
    return intern_node(
        (NameChoice, id(plan), state, id(vertex), candidates),
        lambda: NameChoice(plan, state, vertex, candidates),
    )


def _listed_value(plan: ObjectPlan, state: MemberState, index: int) -> Node:
    return intern_node(
        (_ListedValue, id(plan), state, index), lambda: _ListedValue(plan, state, index)
    )


class _ListedValue(Lazy):
    """What follows a listed name, unfolded only once the name is written."""

    __slots__ = ("index", "plan", "state")

    def __init__(self, plan: ObjectPlan, state: MemberState, index: int) -> None:
        super().__init__(min_length=2)
        self.plan = plan
        self.state = state
        self.index = index
        if not plan.syntax.colon.nullable:
            self._first = plan.syntax.colon.first_bytes

    def expand(self) -> Node:
        """Return colon, value and the other members."""
        return self.plan.listed_value(self.state, self.index)


def _unlisted_value(plan: ObjectPlan, state: MemberState, cell: NameCell, example: str) -> Node:
    return intern_node(
        (_UnlistedValue, id(plan), state, id(cell), example),
        lambda: _UnlistedValue(plan, state, cell, example),
    )


class _UnlistedValue(Lazy):
    """What follows an unlisted name that is not remembered."""

    __slots__ = ("cell", "example", "plan", "state")

    def __init__(self, plan: ObjectPlan, state: MemberState, cell: NameCell, example: str) -> None:
        super().__init__(min_length=2)
        self.plan = plan
        self.state = state
        self.cell = cell
        self.example = example
        if not plan.syntax.colon.nullable:
            self._first = plan.syntax.colon.first_bytes

    def expand(self) -> Node:
        """Return colon, value and the other members."""
        return self.plan.value_after_any(self.state, self.cell, self.example)
