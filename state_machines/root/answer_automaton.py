"""The answer automaton: positions between the parts of an answer, and transitions between them.

A :class:`Transition` leads from one position (:mod:`state_machines.root.positions`) through one
sub-state, text or marker to the next. The grammar of an answer is built from the transitions;
:mod:`state_machines.root.attribution` follows the same ones to find which part wrote which bytes.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from state_machines.errors import CompositionError
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import branch, concatenation, literal, optional, union
from state_machines.grammar.until import Finder, finder, text_until, text_without
from state_machines.limits import LIMITS
from state_machines.root.parts import Marker, Part, Spell, SubState, Text
from state_machines.root.positions import FollowEntry, Position, Positions, part_name

__all__ = ["AnswerAutomaton", "Position", "Transition", "speller"]

_SPECIAL_MARK = b"\xff"

# Not by identity: nodes may outlive their automaton, and its memory is reused.
_serial_numbers = itertools.count()


@dataclass(frozen=True, eq=False, slots=True)
class Transition:
    """What ``part`` may write at a place, as ``node``, and the place ``after`` it.

    The last ``trailing`` bytes are those of ``marker``, if there is one. Sub-states ``before`` the
    part are left empty, and those ``between`` the part and the marker.

    ``beginnings`` are the byte strings that, at the end of a text, may turn out to be no text: the
    ``longest`` has so many bytes, and they end with one of ``letters``.
    """

    part: Part
    node: Node
    after: Position
    before: tuple[Part, ...] = ()
    is_free: bool = False
    marker: Marker | None = None
    trailing: int = 0
    between: tuple[Part, ...] = ()
    beginnings: frozenset[bytes] = frozenset()
    longest: int = 0
    letters: frozenset[int] = frozenset()


class AnswerAutomaton:
    """All ways of one composition, made as they are met. Several threads may use them.

    ``end_tokens`` are the names of tokens that end the output: a marker that is one is left to the
    end itself. Raises :class:`~state_machines.errors.CompositionError`.
    """

    def __init__(self, part: Part, spell: Spell, end_tokens: Collection[str] = ()) -> None:
        self._places = Positions(part, spell, end_tokens)
        self.start = self._places.start
        self._ways: dict[tuple[Position, bool], tuple[Transition, ...]] = {}
        self._nodes: dict[tuple[Position, bool], Node] = {}
        self._number = next(_serial_numbers)
        self._explore()

    def ways(self, place: Position, is_after_text: bool = False) -> tuple[Transition, ...]:
        """Return the ways from a place, those that are preferred first.

        After a text without a marker at its end there is no way of more text, and none through a
        marker that the text itself would have ended with.
        """
        ways = self._ways.get((place, is_after_text))
        if ways is None:
            # Another thread may have been quicker: ways are told apart by identity.
            found = tuple(self._found(place, is_after_text))
            ways = self._ways.setdefault((place, is_after_text), found)
        return ways

    def node(self, place: Position, is_after_text: bool = False) -> Node:
        """Return everything that may still come from a place."""
        if place is self._places.end:
            return EPSILON
        node = self._nodes.get((place, is_after_text))
        if node is None:
            # By reference, since a loop without bound comes back to its places.
            node = self._nodes[place, is_after_text] = reference(
                ("Position", self._number, id(place), is_after_text),
                lambda: self._make_node(place, is_after_text),
                nullable=self.nothing(place) is not None,
            )
        return node

    def follow(self, way: Transition, node: Node) -> Node:
        """Return what may come where ``node`` is left of a way."""
        return concatenation(node, self.node(way.after, way.is_free))

    def nothing(self, place: Position) -> tuple[Part, ...] | None:
        """Return which sub-states are left empty if the answer ends here; ``None``: it cannot."""
        return self._places.nothing(place)

    def _make_node(self, place: Position, is_after_text: bool) -> Node:
        node = union(self.follow(way, way.node) for way in self.ways(place, is_after_text))
        return node if self.nothing(place) is None else optional(node)

    def _found(self, place: Position, is_after_text: bool) -> Iterator[Transition]:
        entries = self._places.entries(place, is_after_text)
        for entry in entries:
            part = entry.part
            if isinstance(part, Marker):
                yield from self._ways_of_marker(part, entry, is_after_text)
            elif isinstance(part, SubState):
                node = self._places.language(part)
                if is_after_text and node.nullable:
                    # What comes where it is empty is among the entries.
                    node = branch(node.transitions)
                if node is not EMPTY:
                    yield Transition(part, node, entry.after, entry.before)
            elif not is_after_text:
                yield from self._ways_of_text(part, entry.after, entries)

    def _ways_of_marker(
        self, marker: Marker, entry: FollowEntry, is_after_text: bool
    ) -> Iterator[Transition]:
        spelled = self._places.spelled(marker)
        if spelled.ends and self.nothing(entry.after) is None:
            raise CompositionError(
                f"{marker.text!r} ends the output, but something must come after it",
                part=marker.name,
                hint="Let the vocabulary have other end tokens, or end the answer here",
            )
        if spelled.form and (spelled.is_special or not is_after_text):
            yield Transition(marker, literal(spelled.form), self._after(entry), entry.before)

    def _after(self, entry: FollowEntry) -> Position:
        if isinstance(entry.part, Marker) and self._places.spelled(entry.part).ends:
            return self._places.end
        return entry.after

    def _ways_of_text(
        self, text: Text, rest: Position, beside: tuple[FollowEntry, ...]
    ) -> Iterator[Transition]:
        beyond = self._places.entries(rest, True)
        openers = [(entry.part, entry) for entry in beyond if isinstance(entry.part, Marker)]
        strings = [*text.excluding, *(marker.text for marker, _ in openers)]
        first = self._places.beginnings(beside)
        forms = [marker.text.encode() for marker, _ in openers]
        beginnings = frozenset(form[:n] for form in forms for n in range(1, len(form)))
        longest = max(map(len, beginnings), default=0)
        letters = frozenset(beginning[-1] for beginning in beginnings)
        self._check_text(text, beyond)
        for marker, entry in openers:
            until = text_until(marker.text, strings, text.min_chars, text.max_chars, first)
            if until is not EMPTY:
                yield Transition(
                    text,
                    encoded(until, RAW),
                    self._after(entry),
                    marker=marker,
                    trailing=len(marker.text.encode()),
                    between=entry.before,
                    beginnings=beginnings,
                    longest=longest,
                    letters=letters,
                )
        if self.nothing(rest) is not None or self.ways(rest, is_after_text=True):
            free = encoded(text_without(strings, text.min_chars, text.max_chars, first), RAW)
            yield Transition(
                text,
                free,
                rest,
                is_free=True,
                beginnings=beginnings,
                longest=longest,
                letters=letters,
            )

    def _check_text(self, text: Text, beyond: tuple[FollowEntry, ...]) -> None:
        """Look for what could not be written after a text."""
        markers = [(entry, entry.part) for entry in beyond if isinstance(entry.part, Marker)]
        found = finder(frozenset((*text.excluding, *(marker.text for _, marker in markers))))
        for entry, marker in markers:
            hiding = _first_in(marker.text, found)
            if hiding == marker.text or self._places.spelled(marker).is_special:
                continue
            # A stop string may well begin with another one.
            if not any(m.text == hiding and e.after is entry.after for e, m in markers):
                raise CompositionError(
                    f"{marker.text!r} cannot come after the text {text.name!r}, which ends "
                    f"before, with {hiding!r}"
                    if any(m.text == hiding for _, m in markers)
                    else f"{marker.text!r} cannot come after the text {text.name!r}, which "
                    f"must not contain {hiding!r}",
                    part=marker.name,
                    hint="Choose markers of which none contains another",
                )
        for entry in beyond:
            if isinstance(entry.part, Text) and entry.part is not text:
                raise CompositionError(
                    f"where the text {text.name!r} ends and another begins cannot be told",
                    part=entry.part.name,
                    hint="Put a marker between them, or let the later text be empty (min_chars=0)",
                )

    def _check_rounds(self, way: Transition) -> None:
        """Look for a sub-state that follows itself, and nothing tells where one of them ends."""
        part = way.part
        if isinstance(part, SubState):
            following = self._places.entries(way.after, False)
            if any(entry.part is part and not entry.before for entry in following):
                raise CompositionError(
                    f"nothing tells where one {part.name!r} ends and the next begins",
                    part=part.name,
                    hint="Put a marker between them: Loop(…, between=Marker(…))",
                )

    def _explore(self) -> None:
        """Look at the places there are, so that what cannot be written is found at once."""
        seen = {(self.start, False)}
        queue = deque(seen)
        while queue and len(seen) < LIMITS.answer_positions:
            place, is_after_text = queue.popleft()
            ways = self.ways(place, is_after_text)
            if not ways and self.nothing(place) is None:
                raise CompositionError(
                    "nothing can be written that may stand here",
                    part=part_name(place.part),
                    hint="Two texts need a marker between them, and a text must not have to begin "
                    "with a marker that may stand in its place",
                )
            for way in ways:
                self._check_rounds(way)
                if (step := (way.after, way.is_free)) not in seen:
                    seen.add(step)
                    queue.append(step)


def speller(special_tokens: Collection[str]) -> Spell:
    """Return how texts are spelled where these special tokens occur in them.

    A special token has the form that :class:`~state_machines.Vocabulary` gives it. Where several
    fit, the longest is meant.
    """
    if not special_tokens:
        return str.encode
    names = sorted(special_tokens, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, names)))

    def spell(text: str) -> bytes:
        spelled = bytearray()
        start = 0
        for match in pattern.finditer(text):
            spelled += text[start : match.start()].encode() + _SPECIAL_MARK + match[0].encode()
            start = match.end()
        return bytes(spelled + text[start:].encode())

    return spell


def _first_in(text: str, found: Finder) -> str | None:
    """Return the first of a finder's strings that ends in a text."""
    state = 0
    for letter in text:
        state = found.step(state, letter)
        if found.found[state] is not None:
            return found.found[state]
    return None
