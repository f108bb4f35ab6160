"""Which of the allowed tokens leave an end within reach, without trying them one by one.

Most tokens that are allowed inside a string leave it where it was. So a state is taken apart as it
is for masks: tokens that stay inside a lexeme are told apart by the lexeme's state alone, those
that leave it by what they write beyond, and only what is left is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from state_machines.budgets import recursion_budget, spend, step_budget
from state_machines.caches import WeakKeyLruCache
from state_machines.errors import GrammarBudgetError, UnwritableTextError
from state_machines.grammar.capture import Captured
from state_machines.grammar.configurations import LexemeSplit, configurations, split_lexeme
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation
from state_machines.grammar.symbols import byte_ranges
from state_machines.limits import LIMITS
from state_machines.masks.automaton import Automaton, states_at_vertices
from state_machines.masks.token_trie import TokenTrie, intervals
from state_machines.vocabulary import Vocabulary

__all__ = ["Outcomes"]

Mask = npt.NDArray[np.bool_]

FEW = 2048
"""Tokens up to which each is looked at."""

CAPTURE_MARGIN = 3
"""Tokens more that a text may take which must not be one that is taken."""


_RECURSION_BUDGET = recursion_budget()


class _Walk:
    """What a lexeme makes of the tokens; int32, shape (vocabulary size,).

    ``after`` is the number of the state among ``nodes``; 0: the lexeme is left. ``depth`` is how
    many bytes of a token are the longest word of the lexeme that it begins with; 0: there is none.
    """

    __slots__ = ("after", "depth", "nodes", "text")

    def __init__(self, text: Node, trie: TokenTrie, size: int) -> None:
        self.text = text
        automaton = Automaton(text, byte_ranges)
        states = states_at_vertices(automaton, trie)
        self.nodes = automaton.nodes
        at = trie.vertex_of
        self.after = np.zeros(size, np.int32)
        self.after[trie.ids] = states[at]
        # Where tokens leave the lexeme: the last vertex on their way where it may end.
        ends = np.array([node.nullable for node in self.nodes], np.bool_)
        exits = np.flatnonzero(ends[states])
        first, last = trie.low[exits], trie.high[exits]
        self.depth = np.zeros(size, np.int32)
        # Vertices are numbered by level, so the deepest is entered last.
        self.depth[trie.ids[intervals(first, last)]] = np.repeat(trie.depth[exits], last - first)


class Outcomes:
    """Groups tokens by the states they lead to. Safe to use from several threads."""

    def __init__(self, vocabulary: Vocabulary, trie: TokenTrie) -> None:
        self._forms = vocabulary.token_bytes
        self._sizes = np.array([len(form or b"") for form in self._forms], np.int32)
        self._ends = np.array(sorted(vocabulary.end_token_ids), np.intp)
        self._trie = trie
        self._walks: WeakKeyLruCache[Node, _Walk] = WeakKeyLruCache(LIMITS.narrowed_walks)

    def within(
        self,
        state: Node,
        allowed: Mask,
        most: int,
        length: Callable[[Node], int],
        steps: int = LIMITS.full_narrowing_steps,
    ) -> Mask:
        """Return the allowed tokens after which ``length`` is at most ``most``.

        ``allowed`` and what is returned: bool, shape (vocabulary size,); end tokens stay as they
        are. Where tokens are too many and too different, some may be left out, as are those for
        which ``steps`` steps are not enough.
        """
        result = np.zeros_like(allowed)
        result[self._ends] = allowed[self._ends]
        open_ids = allowed.copy()
        open_ids[self._ends] = False
        near = _Near(length, most)
        try:
            with step_budget(steps), _RECURSION_BUDGET:
                self._enter(state, near, open_ids, result)
        except GrammarBudgetError:
            # What was not looked at is left out.
            pass
        return result

    def _enter(self, state: Node, near: _Near, open_ids: Mask, result: Mask) -> None:
        told = np.zeros_like(open_ids)
        if np.count_nonzero(open_ids) > FEW:
            # A token that is not near its end in one configuration may be so in another.
            for configuration in configurations(state):
                split = split_lexeme(configuration)
                if split is not None and split.continuation is not None:
                    self._by_lexeme(split, split.continuation, near, open_ids, result, told)
        ids = np.flatnonzero(open_ids & ~told)
        if len(ids) > LIMITS.narrowed_tokens:
            ids = ids[np.argsort(self._sizes[ids], kind="stable")[: LIMITS.narrowed_tokens]]
        self._one_by_one(state, ids.tolist(), near, result)

    def _one_by_one(self, state: Node, ids: list[int], near: _Near, result: Mask) -> None:
        """Enter tokens after each of which an end is near enough."""
        forms = self._forms
        path, text = [state], b""
        # In order, so that what they have in common is walked once.
        for form, token_id in sorted((forms[token_id] or b"", token_id) for token_id in ids):
            shared = 0
            while shared < len(text) and text[shared : shared + 1] == form[shared : shared + 1]:
                shared += 1
            del path[shared + 1 :]
            spend()
            for byte in form[len(path) - 1 :]:
                path.append(path[-1].derivative(byte))
            text = form
            result[token_id] = near(path[-1])

    def _by_lexeme(
        self, split: LexemeSplit, rest: Node, near: _Near, open_ids: Mask, result: Mask, told: Mask
    ) -> None:
        """Enter the tokens that stay in a lexeme or leave it; those looked at are ``told``."""
        if any(capture.dispatch.context_dependent(b"") for capture in split.captures):
            return
        walk = self._walk(concatenation(split.prefix, split.lexeme))
        captured = split.captures[-1] if split.captures else None
        margin = 0 if captured is None else CAPTURE_MARGIN
        ends = np.array([node.nullable for node in walk.nodes], np.bool_)
        walked = walk.after > 0
        if captured is not None:
            # Where a captured text ends, more has to be looked at.
            walked &= ~ends[walk.after]
        suits = np.zeros(len(walk.nodes), np.bool_)
        for number in np.unique(walk.after[open_ids & walked]).tolist():
            suits[number] = near(concatenation(walk.nodes[number], rest), margin)
        result |= suits[walk.after] & open_ids & walked
        leaving = np.flatnonzero(open_ids & (walk.depth > 0) & ~walked)
        told |= walked
        if captured is not None and (split.prefix is not EPSILON or len(split.captures) > 1):
            return
        live: dict[bytes, Node] = {}
        for token_id in leaving.tolist():
            spend()
            form = self._forms[token_id] or b""
            depth = walk.depth[token_id]
            beyond = form[depth:]
            after = live.get(beyond)
            if after is None:
                after = live[beyond] = rest.compute_word_derivative(beyond)
            if after is EMPTY or (captured and _is_exceptional(captured, form[:depth], beyond)):
                continue
            told[token_id] = True
            result[token_id] |= near(after, min(margin, 1))

    def _walk(self, text: Node) -> _Walk:
        walk = self._walks.get(text)
        if walk is None:
            walk = self._walks.put(text, _Walk(text, self._trie, len(self._forms)))
        return walk


def _is_exceptional(captured: Captured, end: bytes, beyond: bytes) -> bool:
    """Whether what follows a text may be other than what follows any; ``end`` is its last part."""
    dispatch = captured.dispatch
    if dispatch.context_dependent(beyond):
        return True
    return dispatch.has_exceptions and "" in dispatch.exceptions(captured.written + end[:-1])


class _Near:
    """Whether states are near enough to an end; asked once of each."""

    __slots__ = ("_known", "_length", "_most")

    def __init__(self, length: Callable[[Node], int], most: int) -> None:
        self._length = length
        self._most = most
        self._known: dict[tuple[Node, int], bool] = {}

    def __call__(self, node: Node, margin: int = 0) -> bool:
        if node is EMPTY:
            return False
        known = self._known.get((node, margin))
        if known is None:
            try:
                known = self._length(node) + margin <= self._most
            except (GrammarBudgetError, UnwritableTextError):
                # Others may be known, and cost nothing.
                known = False
            self._known[node, margin] = known
        return known
