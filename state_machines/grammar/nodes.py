"""The positive half of the algebra: sets, literals, sequence, choice, repetition.

==========================  =============================================
constructor                 language
==========================  =============================================
:func:`symbols`             one symbol of a set
:func:`branch`              a node given by its row
:func:`literal`             one byte string
:func:`concatenation`            one after the other
:func:`union`              any of several
:func:`optional`            the node or nothing
:func:`repetition`          between m and n times, counted, never unrolled
==========================  =============================================
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.grammar import atoms
from state_machines.grammar.atoms import (
    MAX_LITERAL,
    Branch,
    Literal,
    SymbolNode,
    branch,
    symbols,
)
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Transitions,
    collect_transitions,
    intern_node,
    known_node,
    merge_transitions,
)
from state_machines.grammar.symbols import is_whole_alphabet

__all__ = [
    "FEW_MEMBERS",
    "Branch",
    "Concatenation",
    "Literal",
    "Repetition",
    "SymbolNode",
    "Union",
    "branch",
    "concatenation",
    "literal",
    "optional",
    "repetition",
    "symbols",
    "union",
]

FEW_MEMBERS = 4
"""Members of a choice that take about a step."""


class Concatenation(Node):
    """``head`` then ``tail``; right-nested, so ``head`` is never a sequence."""

    __slots__ = ("head", "tail")

    def __init__(self, head: Node, tail: Node) -> None:
        first, rest = head.max_length, tail.max_length
        super().__init__(
            nullable=head.nullable and tail.nullable,
            min_length=head.min_length + tail.min_length,
            max_length=None if first is None or rest is None else first + rest,
            boolean=head.boolean or tail.boolean,
        )
        self.head = head
        self.tail = tail
        self.transient = head.transient or (tail.transient if head.nullable else None)

    @property
    def is_empty(self) -> bool:
        return self.boolean and (self.head.is_empty or self.tail.is_empty)

    @property
    def leading_text(self) -> bytes:
        return b"" if self.head.nullable else self.head.leading_text

    def compute_transitions(self) -> Transitions:
        # A loop, since thousands of nullable heads may stand in a row.
        rows = [self._step_head()]
        node: Node = self
        while isinstance(node, Concatenation) and node.head.nullable:
            node = node.tail
            if isinstance(node, Concatenation) and node._transitions is None:
                rows.append(node._step_head())
            else:
                rows.append(node.transitions)
                break
        return merge_transitions(rows, union) if len(rows) > 1 else rows[0]

    def _step_head(self) -> Transitions:
        return collect_transitions(
            (s, concatenation(target, self.tail)) for s, target in self.head.transitions
        )

    def compute_first_bytes(self) -> int:
        first = 0
        node: Node = self
        while isinstance(node, Concatenation) and node._first is None:
            first |= node.head.first_bytes
            if not node.head.nullable:
                return first
            node = node.tail
        return first | node.first_bytes

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        if self.head.nullable:
            return position + 1, self.derivative(text[position])
        position, head = self.head.run_derivative(text, position)
        return position, concatenation(head, self.tail)

    def release(self) -> Iterable[Node]:
        # Most nodes are sequences: this is short, not general.
        steps, row = self._derivatives, self._transitions
        self._derivatives = self._transitions = None
        found = [self.tail, self.head]
        if steps:
            found += steps.values()
        if row:
            found += [target for _, target in row]
        return found

    def compute_derivative(self, byte: int) -> Node:
        if not self.head.nullable:
            return concatenation(self.head.derivative(byte), self.tail)
        found = []
        node: Node = self
        while isinstance(node, Concatenation):
            found.append(concatenation(node.head.derivative(byte), node.tail))
            if not node.head.nullable:
                break
            node = node.tail
        else:
            found.append(node.derivative(byte))
        return union(found)


def concatenation(*parts: Node) -> Node:
    """Return the language of one word of each part, joined."""
    result = EPSILON
    for part in reversed(parts):
        result = _join(part, result)
    return result


def _join(head: Node, tail: Node) -> Node:
    if head is EPSILON:
        return tail
    if tail is EPSILON:
        return head
    if head is EMPTY or tail is EMPTY or (tail.boolean and tail.is_empty):
        return EMPTY
    if type(head) is not Concatenation:
        return _cons(head, tail)
    spine = []
    while isinstance(head, Concatenation):
        spine.append(head.head)
        head = head.tail
    node = _cons(head, tail)
    for part in reversed(spine):
        node = _cons(part, node)
    return node


def _cons(head: Node, tail: Node) -> Node:
    if head.is_closed and (tail is head or (type(tail) is Concatenation and tail.head is head)):
        return tail
    key = ("Sequence", id(head), id(tail))
    return known_node(key) or intern_node(key, lambda: Concatenation(head, tail))


def literal(text: bytes) -> Node:
    """Return the language of exactly one byte string."""
    if len(text) <= MAX_LITERAL:
        return atoms.literal(text)
    node = EPSILON
    last = (len(text) - 1) // MAX_LITERAL * MAX_LITERAL
    for start in range(last, -1, -MAX_LITERAL):
        node = _join(atoms.literal(text[start : start + MAX_LITERAL]), node)
    return node


class Union(Node):
    """Any of ``members``: at least two, none of them a choice."""

    __slots__ = ("members",)

    def __init__(self, members: tuple[Node, ...]) -> None:
        longest = 0
        for member in members:
            if member.max_length is None:
                break
            longest = max(longest, member.max_length)
        super().__init__(
            nullable=any(member.nullable for member in members),
            min_length=min(member.min_length for member in members),
            max_length=None if any(m.max_length is None for m in members) else longest,
            boolean=any(member.boolean for member in members),
        )
        self.members = members
        self.transient = next(filter(None, (member.transient for member in members)), None)

    @property
    def is_empty(self) -> bool:
        return self.boolean and all(member.is_empty for member in self.members)

    def compute_transitions(self) -> Transitions:
        return merge_transitions((member.transitions for member in self.members), union)

    def compute_first_bytes(self) -> int:
        first = 0
        for member in self.members:
            first |= member.first_bytes
        return first

    def release(self) -> Iterable[Node]:
        return (*super().release(), *self.members)

    def compute_derivative(self, byte: int) -> Node:
        bit = 1 << byte
        return union(m.derivative(byte) for m in self.members if m.first_bytes & bit)


def union(members: Iterable[Node]) -> Node:
    """Return the union of languages.

    Sequences with a common head or a common tail are factored, so that alternatives that have
    met again stay one state.
    """
    flat = _simplified(members)
    if len(flat) <= 1:
        return next(iter(flat), EMPTY)
    return _factored(flat) if _can_be_factored(flat) else _any_of(flat)


def _any_of(flat: dict[Node, None]) -> Node:
    found = tuple(flat)
    return intern_node(("Choice", *sorted(map(id, found))), lambda: Union(found))


def _simplified(members: Iterable[Node]) -> dict[Node, None]:
    """Flatten the members of a choice and drop the subsumed ones."""
    flat: dict[Node, None] = {}
    for member in members:
        if isinstance(member, Union):
            flat.update(dict.fromkeys(member.members))
        elif member is not EMPTY:
            flat[member] = None
    if len(flat) > FEW_MEMBERS:
        spend(len(flat) // FEW_MEMBERS)
    return _absorb(flat) if len(flat) > 1 else flat


def _absorb(flat: dict[Node, None]) -> dict[Node, None]:
    """Unite symbol sets and counters of one body; drop what another member holds."""
    sets: list[Node] = []
    counters: dict[Node, list[Repetition]] = {}
    families: dict[Hashable, list[Node]] = {}
    optional_heads: list[Concatenation] = []
    nullable = 0
    for node in flat:
        nullable += node.nullable
        if type(node) is Concatenation:
            if node.head.nullable:
                optional_heads.append(node)
        elif node.subsumption_key is not None:
            families.setdefault(node.subsumption_key, []).append(node)
        elif isinstance(node, SymbolNode):
            sets.append(node)
        elif isinstance(node, Repetition):
            if node.is_universal:
                return {node: None}
            counters.setdefault(node.body, []).append(node)
    dropped: set[Node] = set()
    if nullable > 1 and EPSILON in flat:
        dropped.add(EPSILON)
    for member in optional_heads:
        dropped.update(_tails_within(member, flat))
    for kin in families.values():
        if len(kin) > 1:
            dropped.update(_held_by_kin(kin))
    if len(sets) > 1:
        dropped.update(sets)
    united: list[Node] = []
    for body, group in counters.items():
        if len(group) > 1:
            dropped.update(group)
            united += _united_counters(body, group)
    if dropped:
        flat = {node: None for node in flat if node not in dropped}
    if len(sets) > 1:
        members = sets[0].symbols  # type: ignore[attr-defined]
        for node in sets[1:]:
            members = members | node.symbols  # type: ignore[attr-defined]
        flat[symbols(members)] = None
    flat.update(dict.fromkeys(united))
    return flat


def _tails_within(member: Concatenation, flat: dict[Node, None]) -> Iterator[Node]:
    """Yield the members that equal a sequence without its first, nullable parts."""
    node: Node = member
    length = 0
    while type(node) is Concatenation and node.head.nullable:
        node = node.tail
        length += 1
        if node in flat:
            yield node
        elif type(node) is Union:
            yield from (each for each in node.members if each in flat)
    spend(length // 32)


def _held_by_kin(kin: list[Node]) -> set[Node]:
    held: set[Node] = set()
    for node in kin:
        spend(1 + len(kin) // FEW_MEMBERS)
        if any(other.subsumes(node) for other in kin if other is not node and other not in held):
            held.add(node)
    return held


def _united_counters(body: Node, group: list[Repetition]) -> list[Node]:
    """Unite ``body{a,b}`` and ``body{c,d}`` where the intervals touch."""
    united: list[tuple[int, int | None]] = []
    for least, most in sorted(
        ((n.min_count, n.max_count) for n in group), key=lambda span: span[0]
    ):
        if united:
            low, high = united[-1]
            if high is None or least <= high + 1:
                top = None if high is None or most is None else max(high, most)
                united[-1] = (low, top)
                continue
        united.append((least, most))
    return [repetition(body, least, most) for least, most in united]


def _can_be_factored(flat: dict[Node, None]) -> bool:
    heads: set[Node] = set()
    tails: set[Node] = set()
    for node in flat:
        if type(node) is Concatenation:
            if node.head in heads or node.tail in tails:
                return True
            heads.add(node.head)
            tails.add(node.tail)
    return bool(tails) and not tails.isdisjoint(flat)


_Factoring: TypeAlias = "Generator[list[Node], Node | None, Node]"


def _factored(flat: dict[Node, None]) -> Node:
    """Return the choice of members with common heads or tails.

    The states of ambiguous grammars are as deep as their texts are long, and share most of their
    parts. So there is no recursion here, and no choice among the same members is made twice.
    """
    known: dict[frozenset[Node], Node] = {}
    stack: list[tuple[frozenset[Node], _Factoring]] = [(frozenset(flat), _factoring(flat))]
    answer: Node | None = None
    while stack:
        key, work = stack[-1]
        try:
            group = work.send(answer)
        except StopIteration as done:
            answer = known[key] = done.value
            stack.pop()
            continue
        flat = _simplified(group)
        if len(flat) <= 1:
            answer = next(iter(flat), EMPTY)
            continue
        key = frozenset(flat)
        answer = known.get(key)
        if answer is None:
            stack.append((key, _factoring(flat)))
    assert answer is not None, "the last one to be taken off the stack has answered"
    return answer


def _factoring(flat: dict[Node, None]) -> _Factoring:
    """Factor heads, then tails. Yields members of a choice, and is sent that choice."""
    tails: dict[Node, list[Node]] = {}
    for node in flat:
        if isinstance(node, Concatenation):
            tails.setdefault(node.head, []).append(node.tail)
    if any(len(group) > 1 for group in tails.values()):
        flat = {node: None for node in flat if not isinstance(node, Concatenation)}
        for head, group in tails.items():
            rest = group[0] if len(group) == 1 else (yield group)
            flat[_join(head, rest or EMPTY)] = None
    heads: dict[Node, list[Node]] = {}
    for node in flat:
        if isinstance(node, Concatenation):
            heads.setdefault(node.tail, []).append(node.head)
    for node in flat:
        if node in heads and not isinstance(node, Concatenation):
            heads[node].append(EPSILON)
    if any(len(group) > 1 for group in heads.values()):
        factored = {tail for tail, group in heads.items() if EPSILON in group}
        flat = {n: None for n in flat if not isinstance(n, Concatenation) and n not in factored}
        for tail, group in heads.items():
            united = group[0] if len(group) == 1 else (yield group)
            flat[_join(united or EMPTY, tail)] = None
    return _any_of(flat) if len(flat) > 1 else next(iter(flat), EMPTY)


class Repetition(Node):
    """``body`` between ``least`` and ``most`` times (``None``: without bound)."""

    __slots__ = ("body", "is_closed", "is_universal", "max_count", "min_count")

    def __init__(self, body: Node, least: int, most: int | None) -> None:
        bounded = most is not None and body.max_length is not None
        super().__init__(
            nullable=least == 0,
            min_length=least * body.min_length,
            max_length=most * body.max_length if bounded else None,  # type: ignore[operator]
            boolean=body.boolean,
        )
        self.body = body
        self.min_count = least
        self.max_count = most
        self.is_closed = least == 0 and most is None
        self.is_universal = (
            least == 0
            and most is None
            and isinstance(body, SymbolNode)
            and is_whole_alphabet(body.symbols)
        )

    def compute_transitions(self) -> Transitions:
        rest = self._rest()
        return collect_transitions(
            (s, concatenation(target, rest)) for s, target in self.body.transitions
        )

    def compute_derivative(self, byte: int) -> Node:
        return concatenation(self.body.derivative(byte), self._rest())

    def compute_first_bytes(self) -> int:
        return self.body.first_bytes

    def _rest(self) -> Node:
        most = None if self.max_count is None else self.max_count - 1
        return repetition(self.body, max(self.min_count - 1, 0), most)


def repetition(body: Node, least: int, most: int | None) -> Node:
    """Return the language of ``least`` to ``most`` words of ``body``, joined."""
    if body is EMPTY or (body.boolean and body.is_empty):
        return EPSILON if least == 0 else EMPTY
    if most == 0 or body is EPSILON:
        return EPSILON
    if body.nullable:
        least = 0
    if isinstance(body, Repetition) and body.max_count is None and body.min_count <= 1:
        return repetition(body.body, least * body.min_count, None)
    if most == 1:
        return body if least == 1 else optional(body)
    return intern_node(("Repetition", id(body), least, most), lambda: Repetition(body, least, most))


def optional(body: Node) -> Node:
    """Return the language of ``body`` and the empty word."""
    return body if body.nullable else union((EPSILON, body))
