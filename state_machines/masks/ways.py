"""A state taken apart into what masks are made of: alternatives, lexemes, and the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.boolean import Complement, Intersection, intersection
from state_machines.grammar.capture import Captured, captured
from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.exclusion import Exclusion
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import Concatenation, Repetition, Union, concatenation, union
from state_machines.limits import LIMITS

__all__ = [
    "Split",
    "Tail",
    "Way",
    "alternatives",
    "exceptional_words",
    "is_narrow",
    "joined",
    "split",
    "ways_of",
    "without_exclusion",
    "without_taken",
]

SHORT = 4
"""Length up to which what stands before a text is walked together with it."""

FEW_BEGINNINGS = 96
"""Beginnings of up to so many characters up to which a text is walked vertex by vertex."""


Tail: TypeAlias = "Way | None"
Way: TypeAlias = "tuple[Node, Tail]"
"""Nodes one after the other, not joined: to be taken apart at once, they need not be one node."""


@dataclass(frozen=True, slots=True)
class Split:
    """A state as a lexeme, which is ``text`` with something ``before`` it, and the rest.

    The rest is ``None`` where it depends on what the lexeme will be. ``captures`` are captured
    texts around the lexeme, outermost first; where there are such, the rest is exact only up to
    the end of the next captured text, and not after the exceptions.
    """

    before: Node
    text: EncodedText
    rest: Node | None
    captures: tuple[Captured, ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether it is any text, with nothing before it."""
        text = self.text.text
        return self.before is EPSILON and isinstance(text, Repetition) and text.is_universal


def alternatives(node: Node, tail: Tail = None, room: int = SHORT) -> Iterator[Way]:
    """Yield ways that are together a node and its tail, none of them with a choice near its front.

    ``room`` is how many more bytes count as near. An optional byte is no choice: the ways on are
    the same with it and without.
    """
    # Not by recursion: choices may stand in the tails of others without end.
    stack: list[tuple[Node, Tail, int]] = [(node, tail, room)]
    while stack:
        node, tail, room = stack.pop()
        while isinstance(node, Concatenation):
            tail, node = (node.tail, tail), node.head
        if isinstance(node, EncodedText) or (
            isinstance(node, Captured) and isinstance(node.rest, EncodedText)
        ):
            yield node, tail
        elif isinstance(node, Union) and not (node.nullable and node.max_length == 1 and room):
            for member in reversed(node.members):
                if member is not EPSILON:
                    stack.append((member, tail, room))
                elif tail is not None:
                    stack.append((*tail, room))
        elif isinstance(node, Captured):
            for rest in alternatives(node.rest, None, room):
                yield captured(joined(rest), node.then, node.text), tail
        elif isinstance(node, Lazy) and room == SHORT:
            stack.append((node.expansion, tail, room - 1))
        elif node.max_length is not None and node.max_length <= room and tail is not None:
            for rest in alternatives(*tail, room - node.max_length):
                yield node, rest
        else:
            yield node, tail


def ways_of(state: Node) -> list[Way] | None:
    """Return ways that are together a state, as :func:`alternatives` does.

    Where there are many, ways with the same first node are merged. Returns ``None`` where to find
    them takes more than ``LIMITS.factored_parts`` steps.
    """
    found: list[Way] = []
    for way in alternatives(state):
        found.append(way)
        if len(found) > LIMITS.walked_configurations:
            return _by_head(state)
    return found


def _by_head(state: Node) -> list[Way] | None:
    """Return the nodes that a state can begin with, each with all that comes after it.

    Parts that may be left out stand in a row, or in each other, as often as a text was read in
    another way. Each of them is looked at once.
    """
    rests: dict[Node, dict[Node, None]] = {}
    seen: set[tuple[Node, Node, bool]] = set()
    stack: list[tuple[Node, Node, bool]] = [(state, EPSILON, False)]
    while stack:
        node, rest, is_expanded = stack.pop()
        while isinstance(node, Concatenation):
            rest = concatenation(node.tail, rest)
            node = node.head
        if (node, rest, is_expanded) in seen:
            continue
        if len(seen) >= LIMITS.factored_parts:
            return None
        spend()
        seen.add((node, rest, is_expanded))
        if isinstance(node, Union):
            stack.extend((member, rest, is_expanded) for member in reversed(node.members))
        elif isinstance(node, Lazy) and not isinstance(node, EncodedText) and not is_expanded:
            stack.append((node.expansion, rest, True))
        elif node is not EPSILON:
            rests.setdefault(node, {})[rest] = None
        elif rest is not EPSILON:
            stack.append((rest, EPSILON, is_expanded))
    return [(node, (union(after), None)) for node, after in rests.items()]


def joined(way: Tail) -> Node:
    """Return the node of a way or tail."""
    parts: list[Node] = []
    while way is not None:
        part, way = way
        parts.append(part)
    return concatenation(*parts)


def without_taken(way: Way) -> tuple[Node, list[Node]] | None:
    """Return a way with texts in it that are taken, and these; ``None`` if it has none.

    They differ from other texts in few tokens, which are looked at one by one.
    """
    head, tail = way
    if isinstance(head, Concatenation):
        tail, head = (head.tail, tail), head.head
    if not isinstance(head, Captured) or not isinstance(head.rest, Intersection):
        return None
    members = head.rest.members
    taken = [member.body for member in members if isinstance(member, Complement)]
    others = [member for member in members if not isinstance(member, Complement)]
    if not taken or not others:
        return None
    return joined((captured(intersection(others), head.then, head.text), tail)), taken


def without_exclusion(way: Way) -> tuple[Node, Exclusion] | None:
    """Return a way without the words excluded from its captured text, and the exclusion.

    ``None`` if nothing is excluded.
    """
    head, tail = way
    if isinstance(head, Concatenation):
        tail, head = (head.tail, tail), head.head
    if not isinstance(head, Captured) or not isinstance(head.rest, Exclusion):
        return None
    return joined((captured(head.rest.body, head.then, head.text), tail)), head.rest


def split(way: Way) -> Split | None:
    """Split a way after the first text in it; ``None`` where there is none at the front."""
    before: list[Node] = []
    captures: list[Captured] = []
    head, tail = way
    while True:
        while isinstance(head, Concatenation):
            tail, head = (head.tail, tail), head.head
        if isinstance(head, EncodedText):
            return Split(concatenation(*before), head, joined(tail), tuple(captures))
        if isinstance(head, Captured):
            captures.append(head)
            after = head.then.any_before(joined(tail))
            if isinstance(head.rest, EncodedText):
                return Split(concatenation(*before), head.rest, after, tuple(captures))
            if after is None:
                inner = split((head.rest, None))
                if inner is None:
                    return None
                return Split(
                    concatenation(*before, inner.before), inner.text, None, tuple(captures)
                )
            if after is EMPTY:
                return None
            head, tail = head.rest, (after, None)
            continue
        if tail is None or isinstance(head, Lazy):
            return None
        before.append(head)
        head, tail = tail


def is_narrow(text: Node) -> bool:
    """Whether a language of characters has few beginnings, so that few tokens suit it."""
    stack = [(text, 0)]
    beginnings = 0
    while stack:
        node, depth = stack.pop()
        for characters, target in node.transitions:
            beginnings += len(characters)
            if beginnings > FEW_BEGINNINGS:
                return False
            if depth < SHORT - 1:
                stack.extend((target, depth + 1) for _ in range(len(characters)))
    return True


def exceptional_words(found: Split) -> list[str] | bool | None:
    """Return what is still to be written of the exceptions to what goes on after a captured text.

    ``None`` where there are none; ``True`` where they cannot be told, since the text that was
    captured ends within a character.
    """
    if not found.captures or not found.captures[-1].then.has_exceptions:
        return None
    capture = found.captures[-1]
    prefix = ""
    if capture.text:
        if not isinstance(capture.rest, EncodedText):
            return True
        prefix = json.loads(b'"' + capture.text + b'"')
    words = [word[len(prefix) :] for word in capture.then.exceptions(prefix)]
    return words or None
