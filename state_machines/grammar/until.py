"""Free text up to the first occurrence of any of several strings, such as ``</think>``.

The automaton of Aho & Corasick ("Efficient string matching: an aid to bibliographic search", CACM
1975) finds the strings, so a state is a vertex of their trie; bounds on the length are counters.
The alphabet is code points; :mod:`state_machines.grammar.encoding` spells them in bytes.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator

from state_machines.budgets import spend
from state_machines.caches import LruCache, WeakValueLruCache
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    SharedDerivatives,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.limits import LIMITS

_STRING_AUTOMATON_DERIVATIVES = 1 << 14
"""Derivatives stored by one automaton that finds the end of a text."""

_STRING_AUTOMATON_TRANSITIONS = 1 << 12
"""States of such an automaton whose transitions are stored."""

FAR = 256
"""Number of characters above which the states of a counter do not store their derivatives."""

_SHARED_DERIVATIVES: SharedDerivatives = LruCache(LIMITS.shared_derivatives)

STATES_PER_STEP = 16
"""States of an automaton that are built or visited in one step of a budget."""


class AhoCorasick:
    """An automaton that finds the first of several strings in a text.

    It is built in time and memory linear in the length of the strings.

    Args:
        strings: The strings.
        first: More strings, which are found only at the beginning of the text.

    Attributes:
        start: The state at the beginning of the text.
        longest: Length of the longest of ``strings``.
        depth: By state, how many of the last characters may be the beginning of a string.
        found: By state, the longest string that ends with the last character, or ``None``. Strings
            of ``first`` have the lowest precedence.
    """

    def __init__(self, strings: tuple[str, ...], first: tuple[str, ...] = ()) -> None:
        self.strings = strings
        self.first = first
        self.longest = max(map(len, strings), default=0)
        self.depth = array("i")
        self.found: list[str | None] = []
        # The first child of a state is the next state; ``_letters_on`` has the letter between them.
        self._letters_on: list[str] = []
        self._branches: dict[tuple[int, str], int] = {}
        # Suffix links. The link of a state of ``first`` is the state of the same text without it.
        self._links = array("i")
        self._letters = sorted({letter for string in strings + first for letter in string})
        self._known = frozenset(self._letters)
        self._next_states: dict[tuple[int, str], int] = {}
        self._transitions: dict[int, tuple[tuple[CodePointSet, int], ...]] = {}
        self._others = ANY_CODE_POINT & ~CodePointSet.of("".join(self._letters))
        self._add_state()
        for string in strings:
            self.found[self._add(0, string)] = string
        self._link()
        self.start = 0
        if first:
            self._add_first(first)

    def _add_state(self) -> int:
        self.depth.append(0)
        self.found.append(None)
        self._letters_on.append("")
        self._links.append(0)
        return len(self._links) - 1

    def _add(self, state: int, string: str) -> int:
        """Add the states of a string, and return the last one."""
        spend(1 + len(string) // STATES_PER_STEP)
        for letter in string:
            child = self._child(state, letter)
            if child is None:
                child = self._add_state()
                if child == state + 1 and not self._letters_on[state]:
                    self._letters_on[state] = letter
                else:
                    self._branches[state, letter] = child
            state = child
        return state

    def _child(self, state: int, letter: str) -> int | None:
        if self._letters_on[state] == letter:
            return state + 1
        return self._branches.get((state, letter))

    def _children(self, state: int) -> Iterator[tuple[str, int]]:
        if self._letters_on[state]:
            yield self._letters_on[state], state + 1
        for letter in self._branching.get(state, ()):
            yield letter, self._branches[state, letter]

    def _link(self) -> None:
        """Set links, depths and found strings in the order of depth."""
        self._branching: dict[int, list[str]] = {}
        for state, letter in self._branches:
            self._branching.setdefault(state, []).append(letter)
        queue = deque([0])
        while queue:
            state = queue.popleft()
            for letter, child in self._children(state):
                link = self._after(self._links[state], letter) if state else 0
                self._links[child] = link
                self.depth[child] = self.depth[state] + 1
                self.found[child] = self.found[child] or self.found[link]
                queue.append(child)
            spend(state % STATES_PER_STEP == 0)

    def _add_first(self, first: tuple[str, ...]) -> None:
        self.start = self._add_state()
        for string in first:
            state = self.start
            for letter in string:
                before, state = state, self._add(state, letter)
                link = self._links[state] = self._after(self._links[before], letter)
                self.depth[state] = self.depth[link]
                self.found[state] = self.found[state] or self.found[link]
            self.found[state] = self.found[state] or string

    def _after(self, state: int, letter: str) -> int:
        while True:
            child = self._child(state, letter)
            if child is not None:
                return child
            if not state:
                return 0
            state = self._links[state]

    def next_state(self, state: int, letter: str) -> int:
        """Return the next state."""
        if letter not in self._known:
            return 0
        known = self._next_states
        path = []
        target = known.get((state, letter))
        while target is None:
            target = self._child(state, letter)
            if target is None:
                path.append((state, letter))
                state = self._links[state]
                target = known.get((state, letter)) if path[-1][0] else 0
        if path:
            spend(len(path) // STATES_PER_STEP)
            if len(known) > _STRING_AUTOMATON_DERIVATIVES:
                known.clear()
            known.update(dict.fromkeys(path, target))
        return target

    def transitions(self, state: int) -> tuple[tuple[CodePointSet, int], ...]:
        """Return the transitions of a state: disjoint sets of characters, each with a state."""
        transitions = self._transitions.get(state)
        if transitions is None:
            by_target: dict[int, list[str]] = {}
            for letter in self._letters:
                by_target.setdefault(self.next_state(state, letter), []).append(letter)
            spend(1 + len(self._letters) // 8)
            sets = {target: CodePointSet.of("".join(c)) for target, c in by_target.items()}
            sets[0] = sets[0] | self._others if 0 in sets else self._others
            transitions = tuple((letters, target) for target, letters in sets.items())
            if len(self._transitions) > _STRING_AUTOMATON_TRANSITIONS:
                self._transitions.clear()
            self._transitions[state] = transitions
        return transitions

    def first_in(self, text: str) -> str | None:
        """Return the string whose first occurrence in a text ends first."""
        state = 0
        for letter in text:
            state = self.next_state(state, letter)
            if self.found[state] is not None:
                return self.found[state]
        return None


_AUTOMATA: WeakValueLruCache[tuple[frozenset[str], frozenset[str]], AhoCorasick] = (
    WeakValueLruCache(LIMITS.held_languages)
)


def aho_corasick(strings: frozenset[str], first: frozenset[str] = frozenset()) -> AhoCorasick:
    """Return the automaton of two sets of non-empty strings; see :class:`AhoCorasick`."""
    return _AUTOMATA.get(
        (strings, first), lambda: AhoCorasick(tuple(sorted(strings)), tuple(sorted(first)))
    )


class UntilText(Node):
    """The rest of a text; ``state`` is the state of the automaton.

    With a ``wanted`` string the text ends with it, and has ``min_chars`` to ``max_chars`` more
    characters before it (both may be negative while the string may have begun). Without one the
    text contains none of the strings.
    """

    __slots__ = ("automaton", "max_chars", "min_chars", "state", "wanted")

    def __init__(
        self,
        automaton: AhoCorasick,
        wanted: str | None,
        state: int,
        min_chars: int,
        max_chars: int | None,
    ) -> None:
        ending = len(wanted) if wanted is not None else 0
        shortest = (
            max(1, ending - automaton.depth[state]) if wanted is not None else max(0, min_chars)
        )
        super().__init__(
            nullable=wanted is None and min_chars <= 0,
            min_length=shortest,
            max_length=None if max_chars is None else max(0, max_chars + ending),
        )
        self.automaton = automaton
        self.wanted = wanted
        self.state = state
        self.min_chars = min_chars
        self.max_chars = max_chars
        if max(min_chars, max_chars or 0) > FAR:
            self.shared_derivatives = _SHARED_DERIVATIVES

    def character_derivative(self, point: int) -> Node:
        """Return the derivative by a code point."""
        max_chars = None if self.max_chars is None else self.max_chars - 1
        state = self.automaton.next_state(self.state, chr(point))
        return _until(self.automaton, self.wanted, state, self.min_chars - 1, max_chars)

    def compute_transitions(self) -> Transitions:
        max_chars = None if self.max_chars is None else self.max_chars - 1
        return collect_transitions(
            (letters, _until(self.automaton, self.wanted, state, self.min_chars - 1, max_chars))
            for letters, state in self.automaton.transitions(self.state)
        )

    def near(self, length: int) -> UntilText:
        """Return a text with the same beginnings up to ``length``; equal for all bounds beyond."""
        min_chars = min(self.min_chars, length + self.automaton.longest + 1)
        far = self.max_chars is not None and self.max_chars > length + self.automaton.longest
        max_chars = None if far else self.max_chars
        return _interned(self.automaton, self.wanted, self.state, min_chars, max_chars)

    def without_min_chars(self) -> UntilText:
        """Return the text without its lower bound."""
        lowest = 0 if self.wanted is None else -self.automaton.longest
        return _interned(self.automaton, self.wanted, self.state, lowest, self.max_chars)

    def without_end(self) -> UntilText:
        """Return the texts of any length that contain none of the strings."""
        return _interned(self.automaton, None, self.state, 0, None)

    def ends_with(self, text: bytes) -> bool:
        """Whether bytes end with the wanted string, given that no beginning of them does."""
        try:
            letters = text.decode()
        except UnicodeDecodeError:
            return False
        state = self.state
        for letter in letters:
            state = self.automaton.next_state(state, letter)
        return self.automaton.found[state] == self.wanted

    def shortest(self) -> Node:
        """Return the rest of the text with the fewest characters."""
        max_chars = max(self.min_chars, 0)
        if self.max_chars is not None:
            max_chars = min(max_chars, self.max_chars)
        while True:
            # The text may need a character more, so that it ends with no other string.
            node = _until(self.automaton, self.wanted, self.state, self.min_chars, max_chars)
            if node is not EMPTY:
                return node
            max_chars += 1


def text_without(
    strings: Iterable[str],
    min_chars: int = 0,
    max_chars: int | None = None,
    first: Iterable[str] = (),
) -> Node:
    """Return the texts that contain none of the strings and begin with none of ``first``.

    They have ``min_chars`` to ``max_chars`` characters.
    """
    automaton = aho_corasick(frozenset(strings), frozenset(first))
    return _until(automaton, None, automaton.start, min_chars, max_chars)


def text_until(
    wanted: str,
    strings: Iterable[str] = (),
    min_chars: int = 0,
    max_chars: int | None = None,
    first: Iterable[str] = (),
) -> Node:
    """Return the texts that end with the string ``wanted``.

    Before the end, neither ``wanted`` nor one of the strings occurs. If several strings end at the
    end, ``wanted`` is the longest of them. A text begins with one of ``first`` only if it is that
    string. There are ``min_chars`` to ``max_chars`` characters before ``wanted``.
    """
    automaton = aho_corasick(frozenset(strings) | {wanted}, frozenset(first))
    if automaton.first_in(wanted) != wanted:
        return EMPTY
    # The counters include the wanted string, and a lower bound of zero is no bound.
    return _until(automaton, wanted, automaton.start, min_chars or -automaton.longest, max_chars)


def _until(
    automaton: AhoCorasick, wanted: str | None, state: int, min_chars: int, max_chars: int | None
) -> Node:
    string = automaton.found[state]
    if string is not None:
        if string != wanted:
            return EMPTY
        # The counters include the string.
        is_within = min_chars <= -len(string) and (max_chars is None or max_chars >= -len(string))
        return EPSILON if is_within else EMPTY
    if not _can_end(automaton, wanted, state, min_chars, max_chars):
        return EMPTY
    if wanted is None and max_chars == 0:
        return EPSILON
    # Lower values of the counter are equivalent.
    lowest = 0 if wanted is None else -automaton.longest
    return _interned(automaton, wanted, state, max(min_chars, lowest), max_chars)


def _interned(
    automaton: AhoCorasick, wanted: str | None, state: int, min_chars: int, max_chars: int | None
) -> UntilText:
    key = ("UntilText", automaton.strings, automaton.first, wanted, state, min_chars, max_chars)
    return intern_node(key, lambda: UntilText(automaton, wanted, state, min_chars, max_chars))


def _can_end(
    automaton: AhoCorasick, wanted: str | None, state: int, min_chars: int, max_chars: int | None
) -> bool:
    """Whether there is a path to the end.

    Some characters occur in none of the strings, so a path always exists where one of them may
    still be written.
    """
    if max_chars is None:
        return True
    if wanted is None:
        return max_chars >= max(min_chars, 0)
    if max_chars + automaton.depth[state] < 0:
        return False
    if min_chars <= max_chars and (max_chars > 0 or (max_chars == 0 and state == 0)):
        return True
    for letters, target in automaton.transitions(state):
        string = automaton.found[target]
        if string is None:
            # Only characters of the wanted string may follow.
            if automaton.depth[target] and _can_end(
                automaton, wanted, target, min_chars - 1, max_chars - 1
            ):
                return True
        elif string == wanted and letters and min_chars - 1 <= -len(string) <= max_chars - 1:
            return True
    return False
