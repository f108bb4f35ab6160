"""Attribution of an output's bytes to the parts of the answer.

After ``I see. <tool`` the last bytes may be text, or the beginning of the marker ``<tool_call>``.

The output is followed along all its derivations in order of preference, as a matcher without
backtracking follows its threads (Pike; see Cox, "Regular Expression Matching: the Virtual Machine
Approach", 2009). A byte is attributed when all remaining threads agree on its part, so no
attribution is ever revised. Where several threads remain at the end, the first thread counts.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.line_starts import is_line_start, with_shortest_text
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.tokens import begins_with_spelling
from state_machines.root.answer_automaton import AnswerAutomaton, AutomatonState, Transition
from state_machines.root.parts import Marker, Part, Text
from state_machines.root.positions import Skipped

_LINE_FEED = ord("\n")

History: TypeAlias = tuple[tuple[Part, int], ...]
"""Parts in the order they were entered, each with the number of bytes before it."""


class Piece(NamedTuple):
    """Bytes that one part has written. A marker is a separate piece."""

    part: Part
    text: bytes


class Derivation(NamedTuple):
    """One derivation of the output so far.

    Attributes:
        transition: The transition that it is in.
        node: What remains of the transition's language.
        history: The parts that it has entered.
        text: The bytes written in the transition, if its target depends on them.
    """

    transition: Transition
    node: Node
    history: History
    text: bytes = b""


class Attribution:
    """Follows an output byte by byte. Cheap to copy."""

    def __init__(self, automaton: AnswerAutomaton) -> None:
        self._automaton = automaton
        self._bytes = b""
        """The last bytes of the output, which are not attributed yet."""
        self._length = 0
        """The number of bytes of the whole output."""
        self._is_behind_line_feed = False
        self._accepted: History | None = None
        """The history of the preferred thread for which the output is complete."""
        self.threads: list[Derivation] = []
        """The remaining threads, those preferred first."""
        self._enter(automaton.start, (), set())

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that the next byte may belong to, in order of preference."""
        return tuple(dict.fromkeys(thread.transition.part for thread in self.threads))

    def feed(self, text: bytes, spelling: bytes = b"") -> list[Piece]:
        """Read bytes that the answer may continue with; return the pieces that are now certain.

        Args:
            text: The bytes.
            spelling: The spelling of the token that they are, if they are one: threads that go on
                with tokens by name or number read it.
        """
        spelled = [
            _moved(thread, thread.node.compute_word_derivative(spelling), text)
            for thread in self.threads
            if spelling and begins_with_spelling(thread.node)
        ]
        self._bytes += text
        position = 0
        while position < len(text):
            read, threads = position + 1, self.threads
            spend(1 + len(threads) // 4)
            if len(threads) == 1:
                # A single thread may read several bytes in one step.
                read, node = threads[0].node.run_derivative(text, position)
                moved = [_moved(threads[0], node, text[position:read])]
            else:
                byte = text[position : position + 1]
                moved = [
                    _moved(thread, thread.node.derivative(byte[0]), byte) for thread in threads
                ]
            self._length += read - position
            self._is_behind_line_feed = text[read - 1] == _LINE_FEED
            position = read
            if position == len(text):
                moved += spelled
            self._replace_threads(moved)
        return self._settle(*self._certain_history())

    def finish(self) -> list[Piece]:
        """Return the remaining pieces at the end of the output.

        If the output is not complete, the preferred thread decides.
        """
        history = self._accepted
        if history is None:
            history = self.threads[0].history if self.threads else ()
        self._accepted, self.threads = None, []
        return self._pieces(history, self._length, is_last=True)

    def end_texts(self) -> None:
        """Restrict free texts to their shortest continuation."""
        threads = [
            thread._replace(node=with_shortest_text(thread.node))
            if isinstance(thread.transition.part, Text)
            else thread
            for thread in self.threads
        ]
        self.threads = [thread for thread in threads if thread.node is not EPSILON]

    def copy(self) -> Attribution:
        """Return an independent attribution at the same point of the output."""
        twin = Attribution.__new__(Attribution)
        # The threads are replaced, and never changed.
        twin.__dict__.update(self.__dict__)
        return twin

    def _replace_threads(self, moved: list[Derivation]) -> None:
        """Move all threads, and add new threads where a moved thread may end."""
        self._accepted = None
        self.threads = []
        seen: set[tuple[Transition, Node]] = set()
        for thread in moved:
            if thread.node is not EMPTY:
                self._add(thread, seen)

    def _add(self, thread: Derivation, seen: set[tuple[Transition, Node]]) -> None:
        transition, node, history, text = thread
        if (transition, node) in seen:
            return
        seen.add((transition, node))
        if node is not EPSILON:
            self.threads.append(thread)
        if node.nullable:
            if transition.marker is not None:
                start = self._length - transition.marker_length
                history = _entered(history, transition.skipped_before_marker, start)
                history = (*history, (transition.marker, start))
            target = transition.after(text) if transition.is_distinct else transition.target
            self._enter(target, history, seen)
            if (
                transition.line_target is not None
                and (self._is_behind_line_feed or node is transition.node)
                and is_line_start(node)
            ):
                self._enter(transition.line_target, history, seen)

    def _enter(
        self, state: AutomatonState, history: History, seen: set[tuple[Transition, Node]]
    ) -> None:
        if self._accepted is None:
            skipped = self._automaton.skipped_to_end(state.position)
            if skipped is not None:
                self._accepted = _entered(history, skipped, self._length)
        for each in self._automaton.transitions(state):
            entered = _entered(history, (*each.skipped, each.part), self._length)
            self._add(Derivation(each, each.node, entered), seen)

    def _certain_history(self) -> tuple[History, int]:
        """Return a history and the number of bytes up to which all threads agree with it."""
        histories = [thread.history for thread in self.threads]
        until = self._length
        for transition, _, history, _ in self.threads:
            if transition.prefixes is not None:
                unread = self._bytes[max(history[-1][1] - self._start, 0) :]
                until = min(until, self._length - transition.prefixes.length_at_end(unread))
        if self._accepted is not None:
            histories.append(self._accepted)
        first, *others = histories or [()]
        for other in others:
            until = min(until, _common_length(first, other, until))
        return first, until

    @property
    def _start(self) -> int:
        """The number of bytes before ``_bytes``."""
        return self._length - len(self._bytes)

    def _settle(self, history: History, until: int) -> list[Piece]:
        if until <= self._start:
            return []
        pieces = self._pieces(history, until)
        self.threads = [
            thread
            if len(thread.history) == 1
            else thread._replace(history=_since(thread.history, until))
            for thread in self.threads
        ]
        if self._accepted is not None:
            self._accepted = _since(self._accepted, until)
        return pieces

    def _pieces(self, history: History, until: int, *, is_last: bool = False) -> list[Piece]:
        """Return the pieces of a history up to an offset; remove their bytes from ``_bytes``."""
        start = self._start
        pieces = []
        for index, (part, entered) in enumerate(history):
            left = history[index + 1][1] if index + 1 < len(history) else until
            first, last = max(entered, start), min(left, until)
            # An empty sub-state is reported once the part after it is certain.
            is_empty = entered == left and (is_last or left < until)
            if last > first or (is_empty and not isinstance(part, Marker | Text)):
                pieces.append(Piece(part, self._bytes[first - start : last - start]))
        self._bytes = self._bytes[until - start :]
        return pieces


def _moved(thread: Derivation, node: Node, text: bytes) -> Derivation:
    """Return a thread after a text."""
    transition, _, history, written = thread
    return Derivation(transition, node, history, written + text if transition.is_distinct else b"")


def _entered(history: History, parts: Skipped, offset: int) -> History:
    """Return a history in which parts were entered at an offset; repeats of the last part aside."""
    for part in parts:
        if not history or history[-1][0] is not part:
            history = (*history, (part, offset))
    return history


def _common_length(left: History, right: History, until: int) -> int:
    """Return the number of bytes, up to ``until``, that two histories attribute alike."""
    if left == right:
        return until
    for first, second in zip(left, right, strict=False):
        if first != second:
            return min(until, first[1], second[1])
    longer = left if len(left) > len(right) else right
    return min(until, longer[min(len(left), len(right))][1])


def _since(history: History, offset: int) -> History:
    """Return the end of a history, from the part that an offset is in."""
    first = bisect_left(history, offset, key=itemgetter(1))
    if first == len(history) or history[first][1] > offset:
        first = max(first - 1, 0)
    return history[first:]
