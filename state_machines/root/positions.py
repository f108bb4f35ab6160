"""The positions of an answer automaton, and the parts that can follow each of them.

A composition of parts is an automaton whose edges are languages (Glushkov's construction). A
:class:`Position` is the list of parts that are still to be written. A :class:`FollowEntry` is one
sub-state, text or marker that can come next, with the position after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from state_machines.errors import CompositionError
from state_machines.grammar.node import Node
from state_machines.grammar.tokens import Spell
from state_machines.machine import StateMachine
from state_machines.root.parts import (
    Choice,
    DistinctSubState,
    Marker,
    Optional,
    Part,
    Repeat,
    Series,
    SubState,
    Text,
    leaves,
)
from state_machines.root.spellings import END_TOKEN, MarkerSpelling, inner_speller
from state_machines.vocabulary import Vocabulary

Skipped: TypeAlias = tuple[Part, ...]
"""Sub-states that stand in the answer and match the empty text, in their order."""


@dataclass(eq=False, slots=True, repr=False)
class Position:
    """A linked list of the parts that are still to be written. Equal to itself alone.

    Attributes:
        part: The next part; ``None`` at the end of the answer.
        rest: The position after it.
        follow: The parts that can come next, by whether free text precedes them.
    """

    part: Part | None
    rest: Position | None
    follow: dict[bool, tuple[FollowEntry, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class FollowEntry:
    """A part that can come next at a position, or the end of the answer.

    Attributes:
        part: The part, without its delimiters; ``None`` for the end.
        target: The position after it.
        skipped: Sub-states before it that match the empty text.
    """

    part: SubState | Text | Marker | None
    target: Position
    skipped: Skipped = ()


@dataclass(frozen=True, eq=False)
class _Undelimited(Part):
    """A sub-state or text without its delimiters."""

    part: SubState | Text


@dataclass(frozen=True)
class _Rounds(Part):
    """The remaining rounds of a repetition. Equal if loop and numbers are."""

    loop: Repeat
    min_count: int
    max_count: int | None
    is_first: bool


class Positions:
    """The positions of one composition, created when they are first reached. Thread-safe.

    Raises :class:`~state_machines.errors.CompositionError`, see :mod:`state_machines.root.parts`.
    """

    def __init__(self, part: Part, spell: Spell, end_tokens: Collection[str]) -> None:
        self._spell = spell
        self._end_tokens = frozenset(name.encode() for name in end_tokens)
        self._spell_inside = inner_speller(spell, self._end_tokens)
        # Parts are compared by identity, also if a caller's subclass defines equality.
        self._known: dict[tuple[int | _Rounds, Position], Position] = {}
        self._delimited: dict[int, Part] = {}
        self._languages: dict[int, Node] = {}
        self._spellings: dict[int, MarkerSpelling] = {}
        self._min_lengths: dict[Position, int] = {}
        self._body_lengths: dict[int, int] = {}
        self._kinds: dict[int | Position, frozenset[str]] = {}
        self.machines: list[StateMachine] = []
        """The machines of the sub-states."""
        self._separators: set[int] = set()
        """Identities of the markers that stand between two rounds of a repetition."""
        self.end = Position(None, None)
        self._check(part)
        self.start = self._position(part, self.end)

    def follow(self, position: Position, is_after_text: bool) -> tuple[FollowEntry, ...]:
        """Return the parts that can come next, in order of preference.

        Free text that may be empty cannot begin directly after free text, so what follows it is
        among the entries there, as is what follows sub-states that may be empty.
        """
        known = position.follow.get(is_after_text)
        if known is None:
            # All threads must see the same objects, which are compared by identity.
            found = tuple(self._find_follow(position, is_after_text))
            known = position.follow.setdefault(is_after_text, found)
        return known

    def skipped_to_end(self, position: Position) -> Skipped | None:
        """Return the sub-states that are skipped if the answer ends here; ``None`` if it cannot."""
        part = position.part
        if isinstance(part, Marker) and self.spelling(part) != END_TOKEN:
            return None
        # After free text, the entries include what follows the sub-states that may be empty.
        ends = (entry.skipped for entry in self.follow(position, True) if entry.part is None)
        return next(ends, None)

    def language(self, sub_state: SubState) -> Node:
        """Return the texts of a sub-state, in bytes."""
        node = self._languages.get(id(sub_state))
        if node is None:
            machine = sub_state.spelled_machine(self._spell_inside)
            self.machines.append(machine)
            node = self._languages.setdefault(id(sub_state), machine.start)
        return node

    def spelling(self, marker: Marker) -> MarkerSpelling:
        """Return the bytes of a marker that no text precedes."""
        known = self._spellings.get(id(marker))
        if known is None:
            known = self._spellings[id(marker)] = self._find_spelling(marker)
        return known

    def _find_spelling(self, marker: Marker) -> MarkerSpelling:
        form = self._spell(marker.text)
        before, mark, name = form.rpartition(Vocabulary.SPECIAL_MARK)
        if marker.continues:
            return MarkerSpelling(form, ends_output=False, is_special=bool(mark))
        ends_output = bool(mark) and name in self._end_tokens
        spelling = MarkerSpelling(
            before if ends_output else form, ends_output, is_special=bool(mark)
        )
        for special in spelling.form.split(Vocabulary.SPECIAL_MARK)[1:]:
            if any(special.startswith(name) for name in self._end_tokens):
                raise CompositionError(
                    f"a token inside {marker.text!r} ends the output",
                    part=marker.name,
                    hint="Leave out what follows the token",
                )
        return spelling

    def min_length(self, position: Position) -> int:
        """Return a lower bound on the bytes of the rest of an answer."""
        path: list[Position] = []
        at: Position | None = position
        while at is not None and at not in self._min_lengths:
            path.append(at)
            at = at.rest
        length = 0 if at is None else self._min_lengths[at]
        for each in reversed(path):
            length += 0 if each.part is None else self._min_length_of(each.part)
            self._min_lengths[each] = length
        return length

    def _min_length_of(self, part: Part) -> int:
        """Return a lower bound on the bytes of a part."""
        match part:
            case Series(parts=inner):
                return sum(map(self._min_length_of, inner))
            case Choice(options=options):
                return min(map(self._min_length_of, options))
            case Repeat() if part.min_count:
                return part.min_count * self._min_length_of_body(part)
            case _Rounds() if part.min_count:
                return part.min_count * self._min_length_of_body(part.loop)
            case Marker():
                return len(self.spelling(part).form)
            case SubState():
                return self.language(part).min_length
            case _Undelimited(part=SubState() as sub_state):
                return self.language(sub_state).min_length
            case _:
                # Optional, or a text, which may be empty.
                return 0

    def _min_length_of_body(self, loop: Repeat) -> int:
        known = self._body_lengths.get(id(loop))
        if known is None:
            known = self._body_lengths[id(loop)] = self._min_length_of(loop.part)
        return known

    def distinct_kinds(self, position: Position) -> frozenset[str]:
        """Return the kinds of the distinct sub-states that may follow a position."""
        path: list[Position] = []
        at: Position | None = position
        while at is not None and at not in self._kinds:
            path.append(at)
            at = at.rest
        kinds = frozenset[str]() if at is None else self._kinds[at]
        for each in reversed(path):
            own = self._kinds_in(each.part)
            kinds = kinds if own <= kinds else kinds | own
            self._kinds[each] = kinds
        return kinds

    def _kinds_in(self, part: Part | None) -> frozenset[str]:
        """Return the kinds of the distinct sub-states in a part."""
        if isinstance(part, _Undelimited):
            part = part.part
        if isinstance(part, _Rounds):
            if part.max_count == 0:
                return frozenset()
            part = part.loop
        if part is None:
            return frozenset()
        known = self._kinds.get(id(part))
        if known is None:
            kinds = (leaf.kind for leaf in leaves(part) if isinstance(leaf, DistinctSubState))
            known = self._kinds[id(part)] = frozenset(kinds)
        return known

    def is_turn(self, marker: Marker) -> bool:
        """Whether a marker ends a turn by special tokens, for which no other tokens count."""
        return marker.continues and self.spelling(marker).is_special

    def leading_texts(self, entries: tuple[FollowEntry, ...]) -> set[str]:
        """Return the texts of the markers among some entries.

        A marker between two rounds of a repetition counts together with the marker after it.
        """
        found: set[str] = set()
        for entry in entries:
            if not isinstance(entry.part, Marker) or self.spelling(entry.part).is_special:
                continue
            text = entry.part.text
            if id(entry.part) in self._separators:
                following = self.leading_texts(self.follow(entry.target, False))
                found |= {text + after for after in following}
            else:
                found.add(text)
        return found

    def _find_follow(self, position: Position, is_after_text: bool) -> Iterator[FollowEntry]:
        part, rest = position.part, position.rest
        if part is None or rest is None:
            yield FollowEntry(None, position)
        else:
            yield from self._entries(part, rest, is_after_text)

    def _entries(self, part: Part, rest: Position, is_after_text: bool) -> Iterator[FollowEntry]:
        """Yield the entries of a part before ``rest``. A leading part gets no position."""
        match part:
            case Series(parts=()):
                yield from self.follow(rest, is_after_text)
            case Series(parts=(first, *others)):
                for inner in reversed(others):
                    rest = self._position(inner, rest)
                yield from self._entries(first, rest, is_after_text)
            case Choice():
                for option in part.options:
                    yield from self._entries(option, rest, is_after_text)
            case Optional():
                yield from self._entries(part.part, rest, is_after_text)
                yield from self.follow(rest, is_after_text)
            case Repeat():
                rounds = _Rounds(part, part.min_count, part.max_count, is_first=True)
                yield from self.follow(self._position(rounds, rest), is_after_text)
            case _Rounds():
                yield from self._follow_of_rounds(part, rest, is_after_text)
            case Marker():
                yield FollowEntry(part, rest)
                if self.spelling(part) == END_TOKEN:
                    # The end itself is the marker.
                    yield from (entry for entry in self.follow(rest, True) if entry.part is None)
            case _Undelimited(part=inner) if isinstance(inner, Text):
                if is_after_text and inner.min_chars == 0:
                    yield from self.follow(rest, True)
                else:
                    yield FollowEntry(inner, rest)
            case _Undelimited(part=SubState() as inner):
                yield from self._entries_of(inner, rest, is_after_text)
            case SubState(begin="", end=""):
                yield from self._entries_of(part, rest, is_after_text)
            case _:
                yield from self._entries(self._with_delimiters(part), rest, is_after_text)

    def _entries_of(
        self, sub_state: SubState, rest: Position, is_after_text: bool
    ) -> Iterator[FollowEntry]:
        """Yield the entries of a sub-state without delimiters."""
        yield FollowEntry(sub_state, rest)
        if is_after_text and self.language(sub_state).nullable:
            for entry in self.follow(rest, True):
                yield replace(entry, skipped=(sub_state, *entry.skipped))

    def _follow_of_rounds(
        self, rounds: _Rounds, rest: Position, is_after_text: bool
    ) -> Iterator[FollowEntry]:
        loop = rounds.loop
        if rounds.max_count != 0:
            max_count = None if rounds.max_count is None else rounds.max_count - 1
            left = _Rounds(loop, max(rounds.min_count - 1, 0), max_count, is_first=False)
            body = self._position(loop.part, self._position(left, rest))
            if loop.between is not None and not rounds.is_first:
                body = self._position(loop.between, body)
            yield from self.follow(body, is_after_text)
        if rounds.min_count == 0:
            yield from self.follow(rest, is_after_text)

    def _with_delimiters(self, part: Part) -> Part:
        """Return a sub-state or text as a sequence with its delimiters."""
        assert isinstance(part, SubState | Text)
        # All threads must see the same objects, which are compared by identity.
        return self._delimited.setdefault(id(part), Series(*_delimited(part)))

    def _position(self, part: Part, rest: Position) -> Position:
        key = part if isinstance(part, _Rounds) else id(part)
        known = self._known.get((key, rest))
        return known or self._known.setdefault((key, rest), Position(part, rest))

    def _can_be_empty(self, part: Part) -> bool:
        """Whether a part matches the empty text."""
        match part:
            case Series(parts=inner):
                return all(map(self._can_be_empty, inner))
            case Choice(options=options):
                return any(map(self._can_be_empty, options))
            case Optional():
                return True
            case Repeat():
                return part.min_count == 0 or self._can_be_empty(part.part)
            case Marker():
                return self.spelling(part) == END_TOKEN
            case _Undelimited(part=Text() as text):
                return text.min_chars == 0
            case _Undelimited(part=SubState() as sub_state):
                return self.language(sub_state).nullable
            case _:
                return self._can_be_empty(self._with_delimiters(part))

    def _check(self, part: Part) -> None:
        match part:
            case Series(parts=inner) | Choice(options=inner):
                for each in inner:
                    self._check(each)
            case Optional():
                self._check(part.part)
            case Repeat():
                self._check(part.part)
                if part.between is not None:
                    self._check(part.between)
                    separators = (leaf for leaf in leaves(part.between) if isinstance(leaf, Marker))
                    self._separators.update(map(id, separators))
                if self._can_be_empty(part.part):
                    raise CompositionError(
                        "a part that can be empty cannot be repeated",
                        part=part_name(part.part),
                        hint="Give it at least one character, as with min_chars=1 for a text",
                    )
                _check_distinct(part)
            case SubState():
                # Its tokens and limits count, however far from the start it stands.
                self.language(part)
            case Marker() | Text():
                pass
            case _:
                raise CompositionError(
                    f"a value of type {type(part).__name__} is no part of an answer",
                    part=_shown(part),
                    hint="Parts are Text, Structured or another SubState, Marker, Series, "
                    "Choice, Optional and Repeat",
                )


def _check_distinct(loop: Repeat) -> None:
    """Raise if there may be too few different values for the rounds that a repetition requires."""
    parts = [part for part in leaves(loop.part) if isinstance(part, DistinctSubState)]
    if not parts or loop.min_count < 2:
        return
    counts: dict[str, int] = {}
    for part in parts:
        counted = part.count_values(loop.min_count)
        counts[part.kind] = max(counted, counts.get(part.kind, 0))
    if sum(counts.values()) < loop.min_count:
        raise CompositionError(
            f"there may be fewer than {loop.min_count} different values",
            part=parts[0].name,
            hint="Require fewer, or admit more values",
        )


def _shown(value: object) -> str:
    try:
        return str(value)[:80]
    except (ValueError, RecursionError):
        # An integer with too many digits, or a container that is nested too deeply.
        return type(value).__name__


def part_name(part: Part | None) -> str:
    """Return the name of a part for errors."""
    if isinstance(part, _Undelimited):
        part = part.part
    return getattr(part, "name", type(part).__name__.lower().strip("_"))


def _delimited(part: SubState | Text) -> Iterator[Part]:
    if part.begin:
        yield Marker(part.name, part.begin)
    yield _Undelimited(part)
    if isinstance(part, Text) and part.stop:
        yield Optional(Choice(*(Marker(part.name, stop) for stop in part.stop)))
    if part.end:
        yield Marker(part.name, part.end)
