"""Concatenation and union, and the normal form of unions.

States of ambiguous grammars are unions over the derivations of the text so far. Derivations that
have reached equal states must become one state, so :func:`union` normalises its members by laws of
Kleene algebra:

* ``A | A = A``, ``∅ | A = A``; a member that another one subsumes is dropped; members of one family
  are merged: symbol sets are united, as are counters of one body whose intervals touch.
* ``A·B | A·C = A·(B | C)`` and ``A·C | B·C = (A | B)·C``: common heads and tails are factored. A
  member that is a tail of another counts as ``ε·tail``.
* If ``A`` is nullable, ``A·B`` subsumes ``B``.

Each law is an equation between languages, so the result is the union of the members, whichever of
them apply. Factoring ends, since each application lowers the number of members.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Hashable, Iterable, Iterator
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Symbols,
    Transitions,
    add_node,
    collect_transitions,
    intern_node,
    known_node,
    merge_transitions,
)

MEMBERS_PER_STEP = 4
"""Members of a union that are charged as one step."""


class Concatenation(Node):
    """``head`` then ``tail``; right-nested, so ``head`` is never a concatenation."""

    __slots__ = ("head", "rule_book", "tail")

    def __init__(self, head: Node, tail: Node) -> None:
        # Without the base's constructor: most nodes are concatenations.
        first, rest = head.max_length, tail.max_length
        is_optional = head.nullable
        self.nullable = is_optional and tail.nullable
        self.min_length = head.min_length + tail.min_length
        self.max_length = None if first is None or rest is None else first + rest
        self.boolean = head.boolean or tail.boolean
        self.known_first_bytes = self.mask = self._transitions = self._derivatives = None
        self.head = head
        self.tail = tail
        self.rule_book = head.rule_book or tail.rule_book
        shared = head.shared_derivatives
        if shared is None and is_optional:
            shared = tail.shared_derivatives
        self.shared_derivatives = shared

    @property
    def is_empty(self) -> bool:
        return self.boolean and (self.head.is_empty or self.tail.is_empty)

    @property
    def leading_text(self) -> bytes:
        return b"" if self.head.nullable else self.head.leading_text

    def compute_transitions(self) -> Transitions:
        # Not recursive: there may be thousands of nullable heads in a row.
        rows = [self._head_transitions()]
        node: Node = self
        while isinstance(node, Concatenation) and node.head.nullable:
            node = node.tail
            if isinstance(node, Concatenation) and node._transitions is None:
                rows.append(node._head_transitions())
            else:
                rows.append(node.transitions)
                break
        return merge_transitions(rows, union) if len(rows) > 1 else rows[0]

    def _head_transitions(self) -> Transitions:
        tail = self.tail
        # Many targets differ in their heads alone.
        known: dict[Node, Node] = {}
        found: list[tuple[Symbols, Node]] = []
        for symbols, target in self.head.transitions:
            if type(target) is not Concatenation:
                found.append((symbols, _join(target, tail)))
                continue
            rest = known.get(target.tail)
            if rest is None:
                rest = known[target.tail] = _join(target.tail, tail)
            found.append((symbols, EMPTY if rest is EMPTY else _cons(target.head, rest)))
        return collect_transitions(found)

    def compute_first_bytes(self) -> int:
        first = 0
        node: Node = self
        while isinstance(node, Concatenation) and node.known_first_bytes is None:
            first |= node.head.first_bytes
            if not node.head.nullable:
                return first
            node = node.tail
        return first | node.first_bytes

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        if self.head.nullable:
            return position + 1, self.derivative(text[position])
        position, head = self.head.run_derivative(text, position)
        return position, _join(head, self.tail)

    def direct_derivative(self, text: bytes) -> Node | None:
        # Else a text that begins a word of the head may also end in the tail.
        if not self.head.is_prefix_free:
            return None
        head = self.head.known_word_derivative(text)
        # A text that begins no word of the head may end in the tail.
        return None if head is None or head is EMPTY else _join(head, self.tail)

    def release(self) -> Iterable[Node]:
        # Inlined for speed: most nodes are concatenations.
        derivatives, transitions = self._derivatives, self._transitions
        self._derivatives = self._transitions = None
        found = [self.tail, self.head]
        if derivatives:
            found += derivatives.values()
        if transitions:
            found += [target for _, target in transitions]
        return found

    def compute_derivative(self, byte: int) -> Node:
        if not self.head.nullable:
            return _join(self.head.derivative(byte), self.tail)
        found = []
        node: Node = self
        while isinstance(node, Concatenation):
            found.append(_join(node.head.derivative(byte), node.tail))
            if not node.head.nullable:
                break
            node = node.tail
        else:
            found.append(node.derivative(byte))
        return union(found)


def concatenation(*parts: Node) -> Node:
    """Return the language of one word of each part, in order."""
    result = EPSILON
    for part in reversed(parts):
        result = part if result is EPSILON else _join(part, result)
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
    while type(head) is Concatenation:
        spine.append(head.head)
        head = head.tail
    node = _cons(head, tail)
    for part in reversed(spine):
        node = _cons(part, node)
    return node


def _cons(head: Node, tail: Node) -> Node:
    if head.is_closed and (tail is head or (type(tail) is Concatenation and tail.head is head)):
        return tail
    # A number is no container: the garbage collector neither counts nor visits it.
    key = id(head) << 64 | id(tail)
    node: Node | None = known_node(key)
    if node is None:
        spend()
        node = add_node(key, Concatenation(head, tail))
    return node


class Union(Node):
    """Any of ``members``: at least two, none of them a union."""

    __slots__ = ("members", "rule_book")

    def __init__(self, members: tuple[Node, ...]) -> None:
        # One loop: many unions are made in a mask.
        nullable = boolean = False
        shortest: int = members[0].min_length
        longest: int | None = 0
        rule_book = shared = None
        for member in members:
            nullable = nullable or member.nullable
            boolean = boolean or member.boolean
            rule_book = rule_book or member.rule_book
            shortest = min(shortest, member.min_length)
            length = member.max_length
            longest = None if longest is None or length is None else max(longest, length)
            # An empty cache is falsy, so the comparison is with ``None``.
            shared = member.shared_derivatives if shared is None else shared
        super().__init__(nullable, shortest, longest, boolean)
        self.members = members
        self.rule_book = rule_book
        self.shared_derivatives = shared

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
    """Return the union of languages, in the normal form that the module describes."""
    # Fast path: most derivatives of a union are those of one member.
    found = [member for member in members if member is not EMPTY]
    if len(found) <= 1:
        return found[0] if found else EMPTY
    flat = _simplified(found)
    if len(flat) <= 1:
        return next(iter(flat), EMPTY)
    return _factored(flat) if _can_be_factored(flat) else _any_of(flat)


def _any_of(flat: dict[Node, None]) -> Node:
    found = tuple(flat)
    return intern_node(array("Q", sorted(map(id, found))).tobytes(), lambda: Union(found))


def _simplified(members: Iterable[Node]) -> dict[Node, None]:
    """Flatten the members of a union, and drop subsumed members."""
    flat: dict[Node, None] = {}
    for member in members:
        if isinstance(member, Union):
            flat.update(dict.fromkeys(member.members))
        elif member is not EMPTY:
            flat[member] = None
    if len(flat) > MEMBERS_PER_STEP:
        spend(len(flat) // MEMBERS_PER_STEP)
    return _absorb(flat) if len(flat) > 1 else flat


def _absorb(flat: dict[Node, None]) -> dict[Node, None]:
    """Merge members of one family, and drop members that another member subsumes."""
    families: dict[Hashable, list[Node]] = {}
    optional_heads: list[Concatenation] = []
    nullable = 0
    for node in flat:
        nullable += node.nullable
        if type(node) is Concatenation:
            if node.head.nullable:
                optional_heads.append(node)
            continue
        if node.is_universal:
            return {node: None}
        key = node.merge_key
        if key is not None:
            families.setdefault(key, []).append(node)
    dropped: set[Node] = set()
    merged: list[Node] = []
    if nullable > 1 and EPSILON in flat:
        dropped.add(EPSILON)
    for member in optional_heads:
        dropped.update(_tails_within(member, flat))
    for group in families.values():
        if len(group) > 1:
            found = group[0].merge(group)
            dropped.update(node for node in group if node not in found)
            merged += found
    if dropped:
        flat = {node: None for node in flat if node not in dropped}
    flat.update(dict.fromkeys(merged))
    return flat


def _tails_within(member: Concatenation, flat: dict[Node, None]) -> Iterator[Node]:
    """Yield the members that equal a concatenation without its first, nullable parts."""
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
    """Return the union of members with common heads or tails.

    The states of ambiguous grammars are as deep as their texts are long, and share most of their
    parts. Therefore the stack is explicit, and no union of the same members is made twice.
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
    assert answer is not None, "the last generator on the stack has returned"
    return answer


def _factoring(flat: dict[Node, None]) -> _Factoring:
    """Factor heads, then tails. Yields the members of a union, and is sent the union."""
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
