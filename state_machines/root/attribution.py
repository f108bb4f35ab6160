"""Who wrote what: the parts that an output's bytes belong to, told as soon as it is certain.

The output is followed along all ways that it can be read, in the order of preference, as a
backtracking-free matcher follows its threads (Pike's, see Cox, "Regular Expression Matching: the
Virtual Machine Approach", 2009). A byte's part is certain when all readings that are left agree;
where several are left at the end, the preferred one holds.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.until import ended
from state_machines.root.course import Course, Place, Way
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

    way: Way
    node: Node
    history: History


class Attribution:
    """Follows an output byte by byte. Cheap to copy."""

    __slots__ = ("_accepted", "_bytes", "_course", "_length", "threads")

    def __init__(self, course: Course) -> None:
        self._course = course
        self._bytes = b""
        self._length = 0
        """Bytes of the output so far; the last of them are in ``_bytes``, not yet attributed."""
        self._accepted: History | None = None
        self.threads: list[Thread] = []
        self._begin(self._enter(course.start, False, (), 0))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that the next byte may belong to, those preferred first."""
        return tuple(dict.fromkeys(thread.way.part for thread in self.threads))

    def feed(self, text: bytes) -> list[Piece]:
        """Read bytes that the answer may go on with; return what is certain by now."""
        for byte in text:
            self._length += 1
            entered: list[tuple[Way, Node, History]] = []
            for way, node, history in self.threads:
                target = node.derivative(byte)
                if target is not EMPTY:
                    entered.append((way, target, history))
            self._begin(entered)
        self._bytes += text
        return self._settle(self._certain())

    def finish(self) -> list[Piece]:
        """Return the rest, at the end of the output; where that is not complete, as it seems."""
        history = self._accepted
        if history is None:
            history = self.threads[0].history if self.threads else ()
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
        twin._course = self._course
        twin._bytes = self._bytes
        twin._length = self._length
        twin._accepted = self._accepted
        twin.threads = list(self.threads)
        return twin

    def _begin(self, entered: list[tuple[Way, Node, History]]) -> None:
        self._accepted = None
        self.threads = []
        seen: set[tuple[Way, Node]] = set()
        stack = entered[::-1]
        while stack:
            way, node, history = stack.pop()
            if (way, node) in seen:
                continue
            seen.add((way, node))
            if node is not EPSILON:
                self.threads.append(Thread(way, node, history))
            if node.nullable:
                if way.marker is not None:
                    history = (*history, (way.marker, self._length - way.trailing))
                stack += self._enter(way.after, way.is_free, history, self._length)[::-1]

    def _enter(
        self, place: Place, is_after_text: bool, history: History, position: int
    ) -> list[tuple[Way, Node, History]]:
        if self._accepted is None and self._course.may_end(place):
            self._accepted = history
        ways = self._course.ways(place, is_after_text)
        return [(way, way.node, (*history, (way.part, position))) for way in ways]

    def _certain(self) -> tuple[History, int]:
        """Return a history, and up to where all that are left agree with it."""
        histories = [thread.history for thread in self.threads]
        until = self._length
        for thread in self.threads:
            until = min(until, self._length - self._held_back(thread))
        if self._accepted is not None:
            histories.append(self._accepted)
        first, *others = histories or [()]
        for other in others:
            until = min(until, _agreement(first, other, until))
        return first, until

    def _held_back(self, thread: Thread) -> int:
        """Return how many of a text's last bytes may be the beginning of a marker."""
        written = self._bytes[max(thread.history[-1][1] - self._start, 0) :]
        longest = max(map(len, thread.way.forms), default=0)
        for length in range(min(longest - 1, len(written)), 0, -1):
            ending = written[-length:]
            if any(form.startswith(ending) for form in thread.way.forms):
                return length
        return 0

    @property
    def _start(self) -> int:
        return self._length - len(self._bytes)

    def _settle(self, certain: tuple[History, int]) -> list[Piece]:
        history, until = certain
        if until <= self._start:
            return []
        pieces = self._emit(history, until)
        self.threads = [
            thread._replace(history=_since(thread.history, until)) for thread in self.threads
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


def _agreement(one: History, other: History, until: int) -> int:
    """Return up to where two histories name the same parts."""
    ends = sorted({entered for _, entered in (*one, *other)} | {until})
    agreed = 0
    for end in ends:
        if end > until or _owner(one, agreed) is not _owner(other, agreed):
            break
        agreed = end
    return agreed


def _owner(history: History, position: int) -> Part | None:
    """Return the part that the byte at a position belongs to."""
    owner = None
    for part, entered in history:
        if entered <= position:
            owner = part
    return owner


def _since(history: History, position: int) -> History:
    """Return what is left of a history: the part that goes on at a position, and those after it."""
    first = 0
    for index, (_, entered) in enumerate(history):
        if entered <= position:
            first = index
        if entered == position:
            break
    return history[first:]
