"""How an answer can go on: the places between its parts, and the ways that lead from them.

A composition of parts is an automaton whose edges are whole languages. A :class:`Place` is what is
still to come, as a list of parts; a :class:`Way` leads from it through one sub-state, text or
marker to the next place. The answer's grammar is made of ways, and whoever wants to know which part
wrote what follows the same ones (:mod:`state_machines.root.attribution`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from state_machines.errors import CompositionError
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import choice, literal, optional, sequence
from state_machines.grammar.until import text_until, text_without
from state_machines.root.parts import (
    Choice,
    Loop,
    Marker,
    Optional,
    Part,
    Sequence,
    Spell,
    SubState,
    Text,
)

__all__ = ["Course", "Place", "Way", "speller"]

_SPECIAL_MARK = b"\xff"

MAX_EXPLORED = 2000
"""Places that are looked at before an answer begins."""


class Place:
    """What is still to come: a part, and then what follows it. Equal to itself alone."""

    __slots__ = ("nodes", "part", "rest", "ways")

    def __init__(self, part: Part | None, rest: Place | None) -> None:
        self.part = part
        self.rest = rest
        self.ways: dict[bool, tuple[Way, ...]] = {}
        self.nodes: dict[bool, Node] = {}


@dataclass(frozen=True, eq=False, slots=True)
class Way:
    """What ``part`` may write at a place, as ``node``, and the place ``after`` it.

    The last ``trailing`` bytes are those of ``marker``, if there is one. ``forms`` are the byte
    strings whose beginning, at the end of a text, may turn out to be no text.
    """

    part: Part
    node: Node
    after: Place
    is_free: bool = False
    marker: Marker | None = None
    trailing: int = 0
    forms: tuple[bytes, ...] = ()


@dataclass(frozen=True, eq=False)
class _Bare(Part):
    """A sub-state or text without its delimiters."""

    part: SubState | Text


@dataclass(frozen=True, eq=False)
class _Rounds(Part):
    """The rounds of a loop that are left."""

    loop: Loop
    least: int
    most: int | None
    is_first: bool


class Course:
    """All places of one composition, made as they are met.

    ``end_tokens`` are the names of tokens that end the output: a marker that is one is left to the
    end itself. Raises :class:`~state_machines.errors.CompositionError`.
    """

    def __init__(self, part: Part, spell: Spell, end_tokens: Collection[str] = ()) -> None:
        self._spell = spell
        self._ends = frozenset(end_tokens)
        self.end = Place(None, None)
        self._places: dict[tuple[int, int], Place] = {}
        self._inner: dict[int, Part] = {}
        self._rounds: dict[tuple[int, int, int | None, bool], _Rounds] = {}
        self._languages: dict[int, Node] = {}
        self._check(part)
        self.start = self._place(part, self.end)
        self._explore()

    def ways(self, place: Place, is_after_text: bool = False) -> tuple[Way, ...]:
        """Return the ways from a place, those that are preferred first.

        After a text without a marker at its end there is no way of more text, and none through a
        marker that the text itself would have ended with.
        """
        ways = place.ways.get(is_after_text)
        if ways is None:
            ways = place.ways[is_after_text] = tuple(self._ways(place, is_after_text))
        return ways

    def node(self, place: Place, is_after_text: bool = False) -> Node:
        """Return everything that may still come from a place."""
        if place is self.end:
            return EPSILON
        node = place.nodes.get(is_after_text)
        if node is None:
            # By reference, since a loop without bound comes back to its places.
            node = place.nodes[is_after_text] = reference(
                ("Place", id(self), id(place), is_after_text),
                lambda: self._make_node(place, is_after_text),
                nullable=self.may_end(place),
            )
        return node

    def follow(self, way: Way, node: Node) -> Node:
        """Return what may come where ``node`` is left of a way."""
        return sequence(node, self.node(way.after, way.is_free))

    def may_end(self, place: Place) -> bool:
        """Whether the answer may be over at a place."""
        while place.rest is not None:
            if place.part is not None and not self._is_nullable(place.part):
                return False
            place = place.rest
        return True

    def _make_node(self, place: Place, is_after_text: bool) -> Node:
        node = choice(self.follow(way, way.node) for way in self.ways(place, is_after_text))
        return optional(node) if self.may_end(place) else node

    def _ways(self, place: Place, is_after_text: bool) -> Iterator[Way]:
        part, rest = place.part, place.rest
        if part is None or rest is None:
            return
        match part:
            case Sequence():
                for inner in reversed(part.parts):
                    rest = self._place(inner, rest)
                yield from self.ways(rest, is_after_text)
            case Choice():
                for option in part.options:
                    yield from self.ways(self._place(option, rest), is_after_text)
            case Optional():
                yield from self.ways(self._place(part.part, rest), is_after_text)
                yield from self.ways(rest, is_after_text)
            case Loop():
                rounds = self._rounds_left(part, part.least, part.most, is_first=True)
                yield from self.ways(self._place(rounds, rest), is_after_text)
            case _Rounds():
                yield from self._ways_of_rounds(part, rest, is_after_text)
            case Marker():
                yield from self._ways_of_marker(part, rest, is_after_text)
            case _Bare(part=Text() as text):
                yield from self._ways_of_text(text, rest, is_after_text)
            case _Bare(part=SubState() as state):
                yield Way(state, self._language(state), rest)
            case _:
                yield from self.ways(self._place(self._opened(part), rest), is_after_text)

    def _ways_of_rounds(self, rounds: _Rounds, rest: Place, is_after_text: bool) -> Iterator[Way]:
        loop = rounds.loop
        if rounds.most != 0:
            most = None if rounds.most is None else rounds.most - 1
            left = self._rounds_left(loop, max(rounds.least - 1, 0), most, is_first=False)
            after = self._place(left, rest)
            body = self._place(loop.part, after)
            if loop.between is not None and not rounds.is_first:
                body = self._place(loop.between, body)
            yield from self.ways(body, is_after_text)
        if rounds.least == 0:
            yield from self.ways(rest, is_after_text)

    def _ways_of_marker(self, marker: Marker, rest: Place, is_after_text: bool) -> Iterator[Way]:
        if marker.text in self._ends:
            yield from self.ways(rest, is_after_text)
            return
        form = self._spell(marker.text)
        if not is_after_text or _SPECIAL_MARK in form:
            yield Way(marker, literal(form), rest)

    def _ways_of_text(self, text: Text, rest: Place, is_after_text: bool) -> Iterator[Way]:
        if is_after_text and text.least == 0:
            yield from self.ways(rest, is_after_text=True)
            return
        openers = list(self._markers_past_text(rest))
        strings = [*text.excluding, *(marker.text for marker, _ in openers)]
        forms = tuple(string.encode() for string in strings)
        for marker, after in openers:
            until = text_until(marker.text, strings, text.least, text.most)
            if until is not EMPTY:
                yield Way(
                    text,
                    encoded(until, RAW),
                    after,
                    marker=marker,
                    trailing=len(marker.text.encode()),
                    forms=forms,
                )
        if self.may_end(rest) or self.ways(rest, is_after_text=True):
            free = text_without(strings, text.least, text.most)
            yield Way(text, encoded(free, RAW), rest, is_free=True, forms=forms)

    def _markers_past_text(self, place: Place) -> Iterator[tuple[Marker, Place]]:
        """Yield the markers that may stand at a place, or beyond texts that are left out."""
        for way in self.ways(place):
            if isinstance(way.part, Marker):
                yield way.part, way.after
            elif way.is_free and way.node.nullable:
                yield from self._markers_past_text(way.after)

    def _opened(self, part: Part) -> Part:
        """Return a sub-state or text with its delimiters as parts of their own."""
        inner = self._inner.get(id(part))
        if inner is None:
            if not isinstance(part, SubState | Text):
                raise AssertionError(f"{part!r} has been checked")
            inner = self._inner[id(part)] = Sequence(*_delimited(part))
        return inner

    def _language(self, state: SubState) -> Node:
        node = self._languages.get(id(state))
        if node is None:
            node = self._languages[id(state)] = state.language(self._spell)
        return node

    def _place(self, part: Part, rest: Place) -> Place:
        # The places are kept, and they hold on to the parts: ids stay what they are.
        key = (id(part), id(rest))
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = Place(part, rest)
        return place

    def _rounds_left(self, loop: Loop, least: int, most: int | None, *, is_first: bool) -> _Rounds:
        key = (id(loop), least, most, is_first)
        rounds = self._rounds.get(key)
        if rounds is None:
            rounds = self._rounds[key] = _Rounds(loop, least, most, is_first)
        return rounds

    def _is_nullable(self, part: Part) -> bool:
        match part:
            case Sequence():
                return all(map(self._is_nullable, part.parts))
            case Choice():
                return any(map(self._is_nullable, part.options))
            case Optional():
                return True
            case Loop() | _Rounds():
                return part.least == 0
            case Marker():
                return part.text in self._ends
            case _Bare(part=Text() as text):
                return text.least == 0
            case _Bare(part=SubState() as state):
                return self._language(state).nullable
        return self._is_nullable(self._opened(part))

    def _explore(self) -> None:
        """Look at the places there are, so that what cannot be written is found at once."""
        seen = {(self.start, False)}
        queue = deque(seen)
        while queue and len(seen) < MAX_EXPLORED:
            place, is_after_text = queue.popleft()
            ways = self.ways(place, is_after_text)
            if not ways and not self.may_end(place):
                raise CompositionError(
                    "what must come here is part of what the text before must not contain",
                    part=_identifier(place.part),
                    hint="Choose markers of which none contains another.",
                )
            for way in ways:
                if (step := (way.after, way.is_free)) not in seen:
                    seen.add(step)
                    queue.append(step)

    def _check(self, part: Part) -> None:
        match part:
            case Sequence():
                for inner in part.parts:
                    self._check(inner)
            case Choice():
                for inner in part.options:
                    self._check(inner)
            case Optional():
                self._check(part.part)
            case Loop():
                self._check(part.part)
                if part.between is not None:
                    self._check(part.between)
                if self._is_nullable(part.part):
                    raise CompositionError(
                        "a part that can be empty cannot be repeated", part=_identifier(part.part)
                    )
            case Marker():
                pass
            case SubState() | Text():
                pass
            case _:
                raise CompositionError(f"{part!r} is no part of an answer", part=str(part))


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


def _delimited(part: SubState | Text) -> Iterator[Part]:
    if part.begin:
        yield Marker(part.identifier, part.begin)
    yield _Bare(part)
    if isinstance(part, Text) and part.stop:
        yield Optional(Choice(*(Marker(part.identifier, stop) for stop in part.stop)))
    if part.end:
        yield Marker(part.identifier, part.end)


def _identifier(part: Part | None) -> str:
    return getattr(part, "identifier", type(part).__name__.lower())
