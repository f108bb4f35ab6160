"""The positions of an answer automaton, and the parts that can follow each of them.

A composition of parts is an automaton whose edges are languages (Glushkov's construction). A
:class:`Position` is the list of parts that are still to be written. A :class:`FollowEntry` is one
sub-state, text or marker that can come next, with the position after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from state_machines.errors import CompositionError
from state_machines.grammar.node import Node
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

__all__ = ["FollowEntry", "Position", "Positions", "Spelled", "part_name"]

_SPECIAL_MARK = b"\xff"


@dataclass(eq=False, slots=True, repr=False)
class Position:
    """What is still to come: a part, and then what follows it. Equal to itself alone.

    ``entries`` are kept by whether it comes right after free text.
    """

    part: Part | None
    rest: Position | None
    entries: dict[bool, tuple[FollowEntry, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class FollowEntry:
    """A part that may stand at a place, and the place ``after`` it.

    The sub-states ``before`` it are left empty.
    """

    part: SubState | Text | Marker
    after: Position
    before: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Spelled:
    """The bytes of a marker up to an end token, which ``ends`` the output; whether any is special.

    End tokens are no text of a vocabulary, so they are left to the end of the output itself.
    """

    form: bytes
    ends: bool
    is_special: bool


@dataclass(frozen=True, eq=False)
class _Bare(Part):
    """A sub-state or text without its delimiters."""

    part: SubState | Text


@dataclass(frozen=True, eq=False)
class _Rounds(Part):
    """The rounds of a loop that are left."""

    loop: Loop
    min_count: int
    max_count: int | None
    is_first: bool


class Positions:
    """The places of one composition, made as they are met. Several threads may use them.

    Raises :class:`~state_machines.errors.CompositionError`, see :mod:`state_machines.root.parts`.
    """

    def __init__(self, part: Part, spell: Spell, end_tokens: Collection[str]) -> None:
        self._spell = spell
        self._ends = frozenset(name.encode() for name in end_tokens)
        self._known: dict[tuple[int, int], Position] = {}
        self._opened: dict[int, Part] = {}
        self._rounds: dict[tuple[int, int, int | None, bool], _Rounds] = {}
        self._languages: dict[int, Node] = {}
        self._empty: dict[Position, tuple[Part, ...] | None] = {}
        self._between: set[int] = set()
        self._check(part)
        self.end = Position(None, None)
        self.start = self._place(part, self.end)

    def entries(self, place: Position, is_after_text: bool) -> tuple[FollowEntry, ...]:
        """Return what may stand at a place, what is preferred first.

        Right after free text no text begins that can be left out; so there, what comes beyond such
        texts, and beyond sub-states that can be empty, is among them.
        """
        known = place.entries.get(is_after_text)
        if known is None:
            # Another thread may have been quicker: entries are told apart by identity.
            found = tuple(self._entries(place, is_after_text))
            known = place.entries.setdefault(is_after_text, found)
        return known

    def nothing(self, place: Position) -> tuple[Part, ...] | None:
        """Return which sub-states are left empty if the answer ends here; ``None``: it cannot."""
        if place not in self._empty:
            self._empty[place] = self._nothing_at(place)
        return self._empty[place]

    def language(self, state: SubState) -> Node:
        """Return what a sub-state may write."""
        node = self._languages.get(id(state))
        if node is None:
            node = self._languages.setdefault(id(state), state.language(self._spell))
        return node

    def spelled(self, marker: Marker) -> Spelled:
        """Return how a marker is written where no text comes before it."""
        form = self._spell(marker.text)
        before, mark, name = form.rpartition(_SPECIAL_MARK)
        ends = bool(mark) and name in self._ends
        spelled = Spelled(before if ends else form, ends, is_special=bool(mark))
        for special in spelled.form.split(_SPECIAL_MARK)[1:]:
            if any(special.startswith(name) for name in self._ends):
                raise CompositionError(
                    f"a token within {marker.text!r} ends the output",
                    part=marker.name,
                    hint="Leave out what comes after it",
                )
        return spelled

    def beginnings(self, entries: tuple[FollowEntry, ...]) -> set[str]:
        """Return what answers begin with that go on with one of the markers among entries.

        A marker between two rounds of a loop is no such beginning by itself.
        """
        found: set[str] = set()
        for entry in entries:
            if not isinstance(entry.part, Marker) or self.spelled(entry.part).is_special:
                continue
            text = entry.part.text
            if id(entry.part) in self._between:
                beyond = self.beginnings(self.entries(entry.after, False))
                found |= {text + after for after in beyond}
            else:
                found.add(text)
        return found

    def _entries(self, place: Position, is_after_text: bool) -> Iterator[FollowEntry]:
        part, rest = place.part, place.rest
        if part is None or rest is None:
            return
        match part:
            case Sequence():
                for inner in reversed(part.parts):
                    rest = self._place(inner, rest)
                yield from self.entries(rest, is_after_text)
            case Choice():
                for option in part.options:
                    yield from self.entries(self._place(option, rest), is_after_text)
            case Optional():
                yield from self.entries(self._place(part.part, rest), is_after_text)
                yield from self.entries(rest, is_after_text)
            case Loop():
                rounds = self._rounds_left(part, part.min_count, part.max_count, is_first=True)
                yield from self.entries(self._place(rounds, rest), is_after_text)
            case _Rounds():
                yield from self._entries_of_rounds(part, rest, is_after_text)
            case Marker():
                yield FollowEntry(part, rest)
            case _Bare(part=Text() as text):
                if is_after_text and text.min_chars == 0:
                    yield from self.entries(rest, True)
                else:
                    yield FollowEntry(text, rest)
            case _Bare(part=SubState() as state):
                yield FollowEntry(state, rest)
                if is_after_text and self.language(state).nullable:
                    for entry in self.entries(rest, True):
                        yield replace(entry, before=(state, *entry.before))
            case _:
                yield from self.entries(self._place(self._open(part), rest), is_after_text)

    def _entries_of_rounds(
        self, rounds: _Rounds, rest: Position, is_after_text: bool
    ) -> Iterator[FollowEntry]:
        loop = rounds.loop
        if rounds.max_count != 0:
            max_count = None if rounds.max_count is None else rounds.max_count - 1
            left = self._rounds_left(loop, max(rounds.min_count - 1, 0), max_count, is_first=False)
            body = self._place(loop.part, self._place(left, rest))
            if loop.between is not None and not rounds.is_first:
                body = self._place(loop.between, body)
            yield from self.entries(body, is_after_text)
        if rounds.min_count == 0:
            yield from self.entries(rest, is_after_text)

    def _open(self, part: Part) -> Part:
        """Return a sub-state or text with its delimiters as parts of their own."""
        inner = self._opened.get(id(part))
        if inner is None:
            if not isinstance(part, SubState | Text):
                raise AssertionError(f"{part!r} has been checked")
            inner = self._opened.setdefault(id(part), Sequence(*_delimited(part)))
        return inner

    def _place(self, part: Part, rest: Position) -> Position:
        # The places are kept, and they hold on to the parts: ids stay what they are.
        key = (id(part), id(rest))
        place = self._known.get(key)
        if place is None:
            place = self._known.setdefault(key, Position(part, rest))
        return place

    def _rounds_left(
        self, loop: Loop, min_count: int, max_count: int | None, *, is_first: bool
    ) -> _Rounds:
        key = (id(loop), min_count, max_count, is_first)
        rounds = self._rounds.get(key)
        if rounds is None:
            rounds = self._rounds.setdefault(key, _Rounds(loop, min_count, max_count, is_first))
        return rounds

    def _nothing_at(self, place: Position) -> tuple[Part, ...] | None:
        empty: tuple[Part, ...] = ()
        while place.rest is not None:
            inner = () if place.part is None else self._nothing(place.part)
            if inner is None:
                return None
            empty += inner
            place = place.rest
        return empty

    def _nothing(self, part: Part) -> tuple[Part, ...] | None:
        """Return the sub-states that are empty where a part is; ``None`` if it cannot be."""
        match part:
            case Sequence():
                empty: tuple[Part, ...] = ()
                for inner in map(self._nothing, part.parts):
                    if inner is None:
                        return None
                    empty += inner
                return empty
            case Choice():
                options = (self._nothing(option) for option in part.options)
                return next((option for option in options if option is not None), None)
            case Optional():
                return self._nothing(part.part) or ()
            case Loop() | _Rounds():
                return () if part.min_count == 0 else None
            case Marker():
                return () if self.spelled(part) == Spelled(b"", True, True) else None
            case _Bare(part=Text() as text):
                return () if text.min_chars == 0 else None
            case _Bare(part=SubState() as state):
                return (state,) if self.language(state).nullable else None
        return self._nothing(self._open(part))

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
                    self._between.update(map(id, _markers(part.between)))
                if self._nothing(part.part) is not None:
                    raise CompositionError(
                        "a part that can be empty cannot be repeated",
                        part=part_name(part.part),
                        hint="Let it write at least one character, as with min_chars=1 for a text",
                    )
            case Marker() | SubState() | Text():
                pass
            case _:
                raise CompositionError(
                    f"a value of type {type(part).__name__} is no part of an answer",
                    part=_shown(part),
                    hint="Parts are Text, Structured or another SubState, Marker, Sequence, "
                    "Choice, Optional and Loop",
                )


def _shown(value: object) -> str:
    try:
        return str(value)[:80]
    except (ValueError, RecursionError):
        # A number of too many digits, or a list that is nested too deeply.
        return type(value).__name__


def part_name(part: Part | None) -> str:
    """Return what a part is called in errors."""
    if isinstance(part, _Bare):
        part = part.part
    return getattr(part, "name", type(part).__name__.lower().strip("_"))


def _delimited(part: SubState | Text) -> Iterator[Part]:
    if part.begin:
        yield Marker(part.name, part.begin)
    yield _Bare(part)
    if isinstance(part, Text) and part.stop:
        yield Optional(Choice(*(Marker(part.name, stop) for stop in part.stop)))
    if part.end:
        yield Marker(part.name, part.end)


def _markers(part: Part) -> Iterator[Marker]:
    match part:
        case Marker():
            yield part
        case Sequence(parts=parts) | Choice(options=parts):
            for inner in parts:
                yield from _markers(inner)
        case Optional():
            yield from _markers(part.part)
