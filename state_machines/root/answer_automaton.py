"""The answer automaton: transitions between the positions of an answer.

A :class:`Transition` leads from one state through one sub-state, text or marker to the next. The
grammar of an answer is built from the transitions; :mod:`state_machines.root.attribution` follows
the same transitions to find which part wrote which bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

from state_machines.caches import LruCache
from state_machines.errors import CompositionError
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.exclusion import exclusion
from state_machines.grammar.lazy import reference
from state_machines.grammar.line_starts import ending_with_line, without_headings
from state_machines.grammar.node import EMPTY, EPSILON, Node, SharedDerivatives
from state_machines.grammar.nodes import branch, concatenation, literal, optional, union
from state_machines.grammar.remembered import Dispatch, SuffixTest, always, remembered
from state_machines.grammar.tokens import Spell
from state_machines.grammar.until import aho_corasick, text_until, text_without
from state_machines.grammar.word_lists import word_list
from state_machines.graphs import reachable
from state_machines.limits import LIMITS
from state_machines.root.parts import (
    DistinctSubState,
    DistinctValue,
    LineStart,
    Marker,
    MarkerPrefixes,
    Part,
    SubState,
    Text,
    leaves,
)
from state_machines.root.positions import FollowEntry, Position, Positions, Skipped, part_name
from state_machines.vocabulary import Vocabulary

_ANSWER_POSITIONS = 2000
"""Positions of an answer that are checked before generation starts."""

_ANSWER_BRANCHES = 64
"""Transitions of a position that are followed for that, since calls of many tools are alike."""

_DISTINCT_STATES = 256
"""Positions of an answer behind tool calls that are held."""

_UNKNOWN: Skipped = (Marker("unknown", "unknown"),)

# Nodes may outlive their automaton, whose identity may then be reused, so keys hold a number.
_serial_numbers = itertools.count()


class AutomatonState(NamedTuple):
    """A position, and properties of the text before it.

    Attributes:
        position: The position.
        is_after_text: Whether free text without a marker at its end precedes it. After such a text
            no other text follows, and no marker that would have ended the text itself.
        values: The values of the distinct sub-states so far.
        is_at_line: Whether such a text ends at the start of a line, where a :class:`LineStart`
            follows.
    """

    position: Position
    is_after_text: bool = False
    values: frozenset[DistinctValue] = frozenset()
    is_at_line: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Transition:
    """One part that can come next, with the marker that ends it.

    Attributes:
        part: The part.
        node: The language of its texts in bytes, the marker at the end included.
        target: The state after it.
        skipped: Sub-states before the part that match the empty text.
        marker: The marker that ends a free text.
        marker_length: The number of bytes of ``marker``.
        skipped_before_marker: Sub-states between the text and the marker.
        prefixes: The proper prefixes of the markers that may end a free text.
        is_distinct: Whether the value of the text must not come again. :meth:`after` adds it.
        line_target: The state after a text that ends at the start of a line, where a
            :class:`LineStart` may follow.
    """

    part: Part
    node: Node
    target: AutomatonState
    skipped: Skipped = ()
    marker: Marker | None = None
    marker_length: int = 0
    skipped_before_marker: Skipped = ()
    prefixes: MarkerPrefixes | None = None
    is_distinct: bool = False
    line_target: AutomatonState | None = None

    def after(self, text: bytes) -> AutomatonState:
        """Return the state after a text of the part."""
        if not self.is_distinct or not isinstance(self.part, DistinctSubState):
            return self.target
        plain = text.replace(Vocabulary.SPECIAL_MARK, b"").decode()
        value = self.part.value_of(plain)
        return self.target._replace(values=self.target.values | ({value} if value else set()))


class AnswerAutomaton:
    """The transitions of one composition, created when they are first needed. Thread-safe.

    Args:
        part: The composition.
        spell: Returns the bytes of a marker's text.
        end_tokens: The names of the tokens that end the output. A marker that is one of them is
            left to the end itself.

    Raises:
        CompositionError: The composition is ambiguous or cannot be written.
    """

    def __init__(self, part: Part, spell: Spell, end_tokens: Collection[str] = ()) -> None:
        self._positions = Positions(part, spell, end_tokens)
        self._transitions: dict[AutomatonState, tuple[Transition, ...]] = {}
        self._nodes: dict[AutomatonState, Node] = {}
        self._skipped_to_end: dict[Position, Skipped | None] = {}
        self.number = next(_serial_numbers)
        # States after distinct values: there may be any number of them.
        self._later_transitions: LruCache[AutomatonState, tuple[Transition, ...]] = LruCache(
            _DISTINCT_STATES
        )
        self._counts: dict[SubState, int] = {}
        self._distinct = [leaf for leaf in leaves(part) if isinstance(leaf, DistinctSubState)]
        excluded = frozenset(value for leaf in self._distinct for value in leaf.excluded)
        self.start = AutomatonState(self._positions.start, values=excluded)
        self.shared_derivatives: SharedDerivatives = LruCache(LIMITS.machine_shared_derivatives)
        self._check_reachable_states()
        self.machines = self._positions.machines
        """The machines of the parts."""

    def transitions(self, state: AutomatonState) -> tuple[Transition, ...]:
        """Return the transitions from a state in order of preference."""
        if state.values != self.start.values:
            found = self._later_transitions.get(state)
            if found is None:
                found = self._open_transitions(state)
                self._later_transitions.put(state, found)
            return found
        transitions = self._transitions.get(state)
        if transitions is None:
            # All threads must see the same objects, which are compared by identity.
            transitions = self._transitions.setdefault(state, self._open_transitions(state))
        return transitions

    def _open_transitions(self, state: AutomatonState) -> tuple[Transition, ...]:
        """Return the transitions from which the end of the answer can be reached."""
        found = tuple(self._find_transitions(state))
        if any(self._is_exhausted(part, state.values) for part in self._distinct):
            known: set[AutomatonState] = set()
            found = tuple(
                transition for transition in found if self._reaches_end(transition.target, known)
            )
        return found

    def _is_exhausted(self, part: DistinctSubState, values: frozenset[DistinctValue]) -> bool:
        """Whether all values of a sub-state have been written."""
        written = sum(value.kind == part.kind for value in values)
        if not written:
            # A sub-state without any text is found by its language.
            return False
        if written < self._counts.get(part, 0):
            return False
        counted = self._counts[part] = part.count_values(2 * written + 1)
        return written >= counted and self._language(part, values).is_empty

    def _reaches_end(self, start: AutomatonState, known: set[AutomatonState]) -> bool:
        """Whether the answer can be completed without a sub-state that has no value left.

        Args:
            start: The state.
            known: States that are known to reach the end; more are added.
        """
        seen = {start}
        # The states on the way, each with the states after it that are still to be tried.
        path = [(start, self._following(start))]
        while path:
            state, following = path[-1]
            if state in known or self.skipped_to_end(state.position) is not None:
                known.update(each for each, _ in path)
                return True
            target = next((target for target in following if target not in seen), None)
            if target is None:
                path.pop()
            else:
                seen.add(target)
                path.append((target, self._following(target)))
        return False

    def _following(self, state: AutomatonState) -> Iterator[AutomatonState]:
        """Yield the states after a state. What ends the calls is listed last, so it comes first."""
        for each in reversed(list(self._find_transitions(state))):
            yield each.target

    def _language(self, part: SubState, values: frozenset[DistinctValue]) -> Node:
        """Return the texts of a sub-state whose values have not come before."""
        node = self._positions.language(part)
        if not values or not isinstance(part, DistinctSubState):
            return node
        excluded = sorted(value for value in values if value.kind == part.kind)
        return exclusion(node, map(part.spellings, excluded))

    def node(self, state: AutomatonState) -> Node:
        """Return the language of everything that may follow a state."""
        position = state.position
        if position is self._positions.end:
            return EPSILON
        node = self._nodes.get(state)
        if node is None:
            # A lazy reference, since the states of an unbounded loop form a cycle.
            node = reference(
                ("Position", self.number, id(position), *state[1:]),
                partial(self._make_node, state),
                nullable=self.skipped_to_end(position) is not None,
                min_length=max(1, self._positions.min_length(position)),
            )
            if state.values == self.start.values:
                self._nodes[state] = node
        return node

    def node_after(self, transition: Transition, remainder: Node, text: bytes = b"") -> Node:
        """Return the language of the rest of the answer, ``remainder`` of a transition first.

        Args:
            transition: The transition.
            remainder: What remains of its language.
            text: The part of the transition's text that has been written.
        """
        if transition.is_distinct:
            return remembered(remainder, _DistinctText(self, transition), text)
        node = concatenation(remainder, self.node(transition.target))
        if transition.line_target is None:
            return node
        lines = concatenation(ending_with_line(remainder), self.node(transition.line_target))
        return union((node, lines))

    def skipped_to_end(self, position: Position) -> Skipped | None:
        """Return the sub-states that are skipped if the answer ends here; ``None`` if it cannot."""
        # Each byte of a free text asks.
        known = self._skipped_to_end.get(position, _UNKNOWN)
        if known is _UNKNOWN:
            known = self._skipped_to_end[position] = self._positions.skipped_to_end(position)
        return known

    def _make_node(self, state: AutomatonState) -> Node:
        markers: list[tuple[bytes, Node]] = []
        others: list[Node] = []
        for each in self.transitions(state):
            if isinstance(each.part, Marker):
                text = self._positions.spelling(each.part).form
                markers.append((text, self.node(each.target)))
            else:
                others.append(self.node_after(each, each.node))
        if len(markers) == 1:
            others.append(concatenation(literal(markers[0][0]), markers[0][1]))
        else:
            # The heads of hundreds of tools begin alike: they are one sorted list.
            others.append(word_list(markers))
        node = union(others)
        return node if self.skipped_to_end(state.position) is None else optional(node)

    def _find_transitions(self, state: AutomatonState) -> Iterator[Transition]:
        position, is_after_text, values, is_at_line = state
        entries = self._positions.follow(position, is_after_text)
        for entry in entries:
            part = entry.part
            if is_after_text and isinstance(part, LineStart) != is_at_line:
                continue
            if isinstance(part, Marker):
                yield from self._marker_transitions(part, entry, state)
            elif isinstance(part, SubState):
                if isinstance(part, DistinctSubState) and self._is_exhausted(part, values):
                    continue
                node = self._language(part, values)
                if is_after_text and node.nullable:
                    # The entries contain what follows if the sub-state is empty.
                    node = branch(node.transitions)
                if node is not EMPTY:
                    yield Transition(
                        part,
                        node,
                        AutomatonState(entry.target, values=values),
                        entry.skipped,
                        is_distinct=self._may_come_again(part, entry.target),
                    )
            elif isinstance(part, Text) and not is_after_text:
                yield from self._text_transitions(part, entry.target, entries, values)

    def _marker_transitions(
        self, marker: Marker, entry: FollowEntry, state: AutomatonState
    ) -> Iterator[Transition]:
        spelling = self._positions.spelling(marker)
        if spelling.ends_output and self.skipped_to_end(entry.target) is None:
            raise CompositionError(
                f"{marker.text!r} ends the output, but something must follow it",
                part=marker.name,
                hint="Let the vocabulary have other end tokens, or end the answer here",
            )
        if spelling.form and (spelling.is_special or not state.is_after_text):
            target = self._target_of_marker(entry, state.values)
            yield Transition(marker, literal(spelling.form), target, entry.skipped)

    def _target_of_marker(
        self, entry: FollowEntry, values: frozenset[DistinctValue]
    ) -> AutomatonState:
        if isinstance(entry.part, Marker) and self._positions.spelling(entry.part).ends_output:
            return AutomatonState(self._positions.end)
        return AutomatonState(entry.target, values=values)

    def _may_come_again(self, part: SubState, position: Position) -> bool:
        """Whether a sub-state of the same kind may follow."""
        return isinstance(part, DistinctSubState) and part.kind in self._positions.distinct_kinds(
            position
        )

    def _text_transitions(
        self,
        text: Text,
        target: Position,
        alternatives: tuple[FollowEntry, ...],
        values: frozenset[DistinctValue],
    ) -> Iterator[Transition]:
        """Yield a free text up to each marker that may end it, and the text without a marker.

        The text cannot begin with a marker or heading among its ``alternatives``. Where a sub-state
        may follow at the start of a line, the text that ends anywhere may also end there.
        """
        following = self._positions.follow(target, True)
        closing = [
            (entry.part, entry)
            for entry in following
            if isinstance(entry.part, Marker) and not self._positions.is_turn(entry.part)
        ]
        strings = [*text.excluding, *(marker.text for marker, _ in closing)]
        excluded_starts = self._positions.leading_texts(alternatives)
        prefixes = MarkerPrefixes(marker.text for marker, _ in closing)
        lines = [entry.part for entry in following if isinstance(entry.part, LineStart)]
        headings = union(dict.fromkeys(part.headings for part in lines))
        instead = [entry.part for entry in alternatives if isinstance(entry.part, LineStart)]
        first = union(dict.fromkeys(part.headings for part in (*lines, *instead)))
        self._check_text(text, following)
        free = text_without(strings, text.min_chars, text.max_chars, excluded_starts)
        for marker, entry in closing:
            until = text_until(
                marker.text, strings, text.min_chars, text.max_chars, excluded_starts
            )
            if until is not EMPTY:
                yield Transition(
                    text,
                    encoded(without_headings(until, headings, first), RAW),
                    self._target_of_marker(entry, values),
                    marker=marker,
                    marker_length=len(marker.text.encode()),
                    skipped_before_marker=entry.skipped,
                    prefixes=prefixes,
                )
        after_text = AutomatonState(target, True, values)
        at_line = AutomatonState(target, True, values, is_at_line=True) if lines else None
        if self.skipped_to_end(target) is not None or self.transitions(after_text):
            node = encoded(without_headings(free, headings, first), RAW)
            yield Transition(text, node, after_text, prefixes=prefixes, line_target=at_line)
        elif at_line is not None:
            node = ending_with_line(encoded(without_headings(free, headings, first), RAW))
            yield Transition(text, node, at_line, prefixes=prefixes)

    def _check_text(self, text: Text, following: tuple[FollowEntry, ...]) -> None:
        """Raise if a part that follows a text could not be written or not be recognised."""
        markers = [(entry, entry.part) for entry in following if isinstance(entry.part, Marker)]
        found = aho_corasick(frozenset((*text.excluding, *(marker.text for _, marker in markers))))
        for entry, marker in markers:
            first = found.first_in(marker.text)
            if first == marker.text or self._positions.spelling(marker).is_special:
                continue
            # A stop string may begin with another one, since both lead to the same position.
            if not any(m.text == first and e.target is entry.target for e, m in markers):
                ends = any(m.text == first for _, m in markers)
                raise CompositionError(
                    f"{marker.text!r} cannot follow the text {text.name!r}, which "
                    f"{'ends earlier, with' if ends else 'must not contain'} {first!r}",
                    part=marker.name,
                    hint="Choose markers none of which contains another",
                )
        for entry in following:
            if isinstance(entry.part, Text) and entry.part is not text:
                raise CompositionError(
                    f"the end of the text {text.name!r} cannot be distinguished from the start of "
                    f"the text {entry.part.name!r}",
                    part=entry.part.name,
                    hint="Put a marker between them, or let the later text be empty (min_chars=0)",
                )

    def _check_repetition(self, transition: Transition) -> None:
        """Raise if a sub-state directly follows itself, as no boundary could be recognised."""
        part = transition.part
        if isinstance(part, SubState):
            following = self._positions.follow(transition.target.position, False)
            if any(entry.part is part and not entry.skipped for entry in following):
                raise CompositionError(
                    f"the end of one {part.name!r} cannot be distinguished from the start of the "
                    "next",
                    part=part.name,
                    hint="Put a marker between them: Repeat(…, between=Marker(…))",
                )

    def _check_reachable_states(self) -> None:
        """Raise for errors in the first states, so that a request fails before it generates.

        Whether a later state has an error is not known. It is raised where the state is first
        reached: by the completion plan, which precedes every token, or by the mask.
        """
        start = self.start
        if start.values and not self._reaches_end(start, set()):
            raise CompositionError(
                "every value that the answer may have is excluded",
                part=self._distinct[0].name,
                hint="Exclude fewer, or let the answer have none",
            )
        states = reachable(
            self.start,
            lambda state: [
                transition.target for transition in self.transitions(state)[:_ANSWER_BRANCHES]
            ],
        )
        for state in islice(states, _ANSWER_POSITIONS):
            transitions = self.transitions(state)
            if not transitions and self.skipped_to_end(state.position) is None:
                raise CompositionError(
                    "nothing can be written here",
                    part=part_name(state.position.part),
                    hint="Put a marker between two texts. A text cannot begin with a marker that "
                    "may stand in its place",
                )
            for transition in transitions:
                self._check_repetition(transition)


@dataclass(frozen=True, slots=True)
class _DistinctText(Dispatch):
    """Maps the text of a distinct sub-state to the rest of the answer."""

    automaton: AnswerAutomaton
    transition: Transition

    @property
    def key(self) -> Hashable:
        """Equal for dispatches that behave equally."""
        number, part, target = self.automaton.number, self.transition.part, self.transition.target
        return (type(self), number, id(part), id(target.position), target.values)

    @property
    def shared_derivatives(self) -> SharedDerivatives:
        """Where the derivatives within the text are stored."""
        return self.automaton.shared_derivatives

    def after(self, word: bytes) -> Node:
        """Return the node after the text."""
        return self.automaton.node(self.transition.after(word))

    def default(self) -> Node:
        """Return the node after a text whose value may come again."""
        return self.automaton.node(self.transition.target)

    @property
    def context_dependent(self) -> SuffixTest:
        """All suffixes: the text may have the last value that was left."""
        return always
