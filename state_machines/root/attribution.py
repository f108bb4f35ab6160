"""Who wrote what: the parts that an output's bytes belong to, told as soon as it is certain.

The output is followed along all ways that it can be read, in the order of preference, as a
backtracking-free matcher follows its threads (Pike's, see Cox, "Regular Expression Matching: the
Virtual Machine Approach", 2009). A byte's part is certain when all readings that are left agree;
where several are left at the end, the preferred one holds.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.until import ended
from state_machines.root.answer_automaton import AnswerAutomaton, Position, Transition
from state_machines.root.parts import Marker, Part, Text

__all__ = ["Attribution", "Piece", "Thread"]

History: TypeAlias = tuple[tuple[Part, int], ...]
"""Parts in the order they were entered, each with the number of bytes before it."""


class Piece(NamedTuple):
    """Bytes that one part has written. Markers are pieces of their own."""

    part: Part
    text: bytes


class Thread(NamedTuple):
    """One way to read the output: where it stands, and how it came there."""

    way: Transition
    node: Node
    history: History


class Attribution:
    """Follows an output byte by byte. Cheap to copy."""

    __slots__ = ("_accepted", "_automaton", "_bytes", "_length", "threads")

    def __init__(self, automaton: AnswerAutomaton) -> None:
        self._automaton = automaton
        self._bytes = b""
        self._length = 0
        """Bytes of the output so far; the last of them are in ``_bytes``, not yet attributed."""
        self._accepted: History | None = None
        self.threads: list[Thread] = []
        """The readings that are left, those preferred first."""
        self._enter(automaton.start, False, (), set())

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that the next byte may belong to, those preferred first."""
        return tuple(dict.fromkeys(thread.way.part for thread in self.threads))

    def feed(self, text: bytes) -> list[Piece]:
        """Read bytes that the answer may go on with; return what is certain by now."""
        self._bytes += text
        position = 0
        while position < len(text):
            read, threads = position + 1, self.threads
            spend(1 + len(threads) // 4)
            if len(threads) == 1:
                # A thread that is alone may take several bytes in one step.
                way, node, history = threads[0]
                read, node = node.run_derivative(text, position)
                moved = [Thread(way, node, history)]
            else:
                byte = text[position]
                moved = [
                    Thread(way, node.derivative(byte), history) for way, node, history in threads
                ]
            self._length += read - position
            position = read
            self._go_on(moved)
        return self._settle(*self._certain())

    def finish(self) -> list[Piece]:
        """Return the rest, at the end of the output; where that is not complete, as it seems."""
        history = self._accepted
        if history is None:
            history = self.threads[0].history if self.threads else ()
        self._accepted, self.threads = None, []
        return self._emit(history, self._length, is_last=True)

    def end_texts(self) -> None:
        """Let no free text grow any further than it must."""
        threads = [
            thread._replace(node=ended(thread.node))
            if isinstance(thread.way.part, Text)
            else thread
            for thread in self.threads
        ]
        self.threads = [thread for thread in threads if thread.node is not EPSILON]

    def copy(self) -> Attribution:
        """Return an independent attribution at the same place."""
        twin = Attribution.__new__(Attribution)
        twin._automaton = self._automaton
        twin._bytes = self._bytes
        twin._length = self._length
        twin._accepted = self._accepted
        twin.threads = list(self.threads)
        return twin

    def _go_on(self, moved: list[Thread]) -> None:
        """Take up threads that have read on, and those that begin where these may end."""
        self._accepted = None
        self.threads = []
        seen: set[tuple[Transition, Node]] = set()
        for thread in moved:
            if thread.node is not EMPTY:
                self._add(thread, seen)

    def _add(self, thread: Thread, seen: set[tuple[Transition, Node]]) -> None:
        way, node, history = thread
        if (way, node) in seen:
            return
        seen.add((way, node))
        if node is not EPSILON:
            self.threads.append(thread)
        if node.nullable:
            if way.marker is not None:
                left = self._length - way.trailing
                history = _with(history, way.between, left)
                history = (*history, (way.marker, left))
            self._enter(way.after, way.is_free, history, seen)

    def _enter(
        self,
        place: Position,
        is_after_text: bool,
        history: History,
        seen: set[tuple[Transition, Node]],
    ) -> None:
        if self._accepted is None:
            empty = self._automaton.nothing(place)
            if empty is not None:
                self._accepted = _with(history, empty, self._length)
        for way in self._automaton.ways(place, is_after_text):
            entered = _with(history, (*way.before, way.part), self._length)
            self._add(Thread(way, way.node, entered), seen)

    def _certain(self) -> tuple[History, int]:
        """Return a history, and up to where all that are left agree with it."""
        histories = [thread.history for thread in self.threads]
        until = self._length
        for way, _, history in self.threads:
            if way.beginnings:
                until = min(until, self._length - self._held_back(way, history[-1][1]))
        if self._accepted is not None:
            histories.append(self._accepted)
        first, *others = histories or [()]
        for other in others:
            until = min(until, _agreement(first, other, until))
        return first, until

    def _held_back(self, way: Transition, entered: int) -> int:
        """Return how many of a text's last bytes may be the beginning of a marker."""
        own = self._bytes[max(entered - self._start, 0) :]
        if own and own[-1] not in way.letters:
            return 0
        for length in range(min(way.longest, len(own)), 0, -1):
            if own[-length:] in way.beginnings:
                return length
        return 0

    @property
    def _start(self) -> int:
        return self._length - len(self._bytes)

    def _settle(self, history: History, until: int) -> list[Piece]:
        if until <= self._start:
            return []
        pieces = self._emit(history, until)
        self.threads = [
            thread
            if len(thread.history) == 1
            else thread._replace(history=_since(thread.history, until))
            for thread in self.threads
        ]
        if self._accepted is not None:
            self._accepted = _since(self._accepted, until)
        return pieces

    def _emit(self, history: History, until: int, *, is_last: bool = False) -> list[Piece]:
        start = self._start
        pieces = []
        for index, (part, entered) in enumerate(history):
            left = history[index + 1][1] if index + 1 < len(history) else until
            first, last = max(entered, start), min(left, until)
            # What wrote nothing is told of when what comes after it is certain.
            is_empty = entered == left and (is_last or left < until)
            if last > first or (is_empty and not isinstance(part, Marker | Text)):
                pieces.append(Piece(part, self._bytes[first - start : last - start]))
        self._bytes = self._bytes[until - start :]
        return pieces


def _with(history: History, parts: tuple[Part, ...], position: int) -> History:
    """Return a history in which parts have been entered; going on with the same one is none."""
    for part in parts:
        if not history or history[-1][0] is not part:
            history = (*history, (part, position))
    return history


def _agreement(one: History, other: History, until: int) -> int:
    """Return up to where two histories are the same."""
    if one == other:
        return until
    for first, second in zip(one, other, strict=False):
        if first != second:
            return min(until, first[1], second[1])
    longer = one if len(one) > len(other) else other
    return min(until, longer[min(len(one), len(other))][1])


def _since(history: History, position: int) -> History:
    """Return what is left of a history: the part that goes on at a position, and those after it."""
    first = 0
    for index, (_, entered) in enumerate(history):
        if entered <= position:
            first = index
        if entered == position:
            break
    return history[first:]
