"""Narrows a mask to the tokens after which a text can be completed within some tokens.

Most tokens that are allowed inside a string lead to few states. So a state is split as it is for
masks: tokens that stay inside the lexeme are grouped by the lexeme's state, tokens that leave it by
the bytes beyond its end. Only the remaining tokens are tried one by one.
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
from state_machines.grammar.token_limits import Fits
from state_machines.limits import LIMITS
from state_machines.masks.automaton import Automaton, states_at_vertices
from state_machines.masks.spelled_tokens import SpelledTokens
from state_machines.masks.token_trie import TokenTrie, intervals
from state_machines.vocabulary import Vocabulary

_NARROWED_WALKS = 12
"""Walks of lexemes cached to narrow masks: an int32 for each token."""

Mask = npt.NDArray[np.bool_]

FEW = 2048
"""Tokens up to which each is tried by itself."""

CAPTURE_MARGIN = 3
"""Extra tokens that a captured text may need so as not to repeat one that is taken."""


_RECURSION_BUDGET = recursion_budget()


class _Walk:
    """The states of a lexeme after each token. Arrays: int32, shape (vocabulary size,).

    Attributes:
        nodes: The states of the lexeme.
        after: Index into ``nodes`` of the state after a token; 0 if the token leaves the lexeme.
        depth: Length of the longest prefix of a token that completes the lexeme; 0 if none does.
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
        # Tokens leave the lexeme at the last vertex of their path where it may end.
        ends = np.array([node.nullable for node in self.nodes], np.bool_)
        exits = np.flatnonzero(ends[states])
        first, last = trie.low[exits], trie.high[exits]
        self.depth = np.zeros(size, np.int32)
        # Vertices are numbered by level, so the deepest is entered last.
        self.depth[trie.ids[intervals(first, last)]] = np.repeat(trie.depth[exits], last - first)


class MaskNarrowing:
    """Narrows masks of one vocabulary. Thread-safe."""

    def __init__(self, vocabulary: Vocabulary, trie: TokenTrie, fits: Fits) -> None:
        self._fits = fits
        self._spelled = SpelledTokens.of(vocabulary)
        self._forms = vocabulary.token_bytes
        self._sizes = np.array([len(form or b"") for form in self._forms], np.int32)
        self._ends = np.array(sorted(vocabulary.end_token_ids), np.intp)
        self._trie = trie
        self._walks: WeakKeyLruCache[Node, _Walk] = WeakKeyLruCache(_NARROWED_WALKS)

    def within(
        self,
        state: Node,
        allowed: Mask,
        max_tokens: int,
        length: Callable[[Node], int],
        steps: int = LIMITS.full_narrowing_steps,
    ) -> Mask:
        """Return the allowed tokens after which ``length`` is at most ``max_tokens``.

        Args:
            state: The state before the token.
            allowed: The state's mask: bool, shape (vocabulary size,).
            max_tokens: Number of tokens that may follow.
            length: Gives the tokens that complete a state.
            steps: Work budget. Tokens that are not decided within it are left out.

        Returns:
            A mask of the same shape. End tokens stay as they are. Of more than
            ``LIMITS.narrowed_tokens`` tokens that fit no group, the longest are left out.
        """
        result = np.zeros_like(allowed)
        result[self._ends] = allowed[self._ends]
        open_ids = allowed.copy()
        open_ids[self._ends] = False
        near = _Near(length, max_tokens, self._fits)
        try:
            with step_budget(steps), _RECURSION_BUDGET:
                self._enter(state, near, open_ids, result)
        except GrammarBudgetError:
            # Undecided tokens are left out.
            pass
        return result

    def _enter(self, state: Node, near: _Near, open_ids: Mask, result: Mask) -> None:
        for target, spelled in self._spelled.targets(state):
            if near(target):
                result[spelled] |= open_ids[spelled]
        decided = np.zeros_like(open_ids)
        if np.count_nonzero(open_ids) > FEW:
            # A token that is not near its end in one configuration may be so in another.
            for configuration in configurations(state):
                split = split_lexeme(configuration)
                if split is not None and split.continuation is not None:
                    self._by_lexeme(split, split.continuation, near, open_ids, result, decided)
        ids = np.flatnonzero(open_ids & ~decided)
        if len(ids) > LIMITS.narrowed_tokens:
            ids = ids[np.argsort(self._sizes[ids], kind="stable")[: LIMITS.narrowed_tokens]]
        self._one_by_one(state, ids.tolist(), near, result)

    def _one_by_one(self, state: Node, ids: list[int], near: _Near, result: Mask) -> None:
        """Try tokens one by one."""
        forms = self._forms
        path, text = [state], b""
        # Sorted, so that a common prefix is walked once.
        for form, token_id in sorted((forms[token_id] or b"", token_id) for token_id in ids):
            shared = 0
            while shared < len(text) and text[shared : shared + 1] == form[shared : shared + 1]:
                shared += 1
            del path[shared + 1 :]
            spend()
            for byte in form[len(path) - 1 :]:
                path.append(path[-1].derivative(byte))
            text = form
            result[token_id] |= near(path[-1])

    def _by_lexeme(
        self,
        split: LexemeSplit,
        rest: Node,
        near: _Near,
        open_ids: Mask,
        result: Mask,
        decided: Mask,
    ) -> None:
        """Decide tokens that stay inside a lexeme or leave it, and mark them in ``decided``."""
        if any(capture.dispatch.context_dependent(b"") for capture in split.captures):
            return
        walk = self._walk(concatenation(split.prefix, split.lexeme))
        captured = split.captures[-1] if split.captures else None
        margin = 0 if captured is None else CAPTURE_MARGIN
        ends = np.array([node.nullable for node in walk.nodes], np.bool_)
        walked = walk.after > 0
        if captured is not None:
            # Where a captured text may end, its continuation depends on the text.
            walked &= ~ends[walk.after]
        suits = np.zeros(len(walk.nodes), np.bool_)
        for number in np.unique(walk.after[open_ids & walked]).tolist():
            suits[number] = near(concatenation(walk.nodes[number], rest), margin)
        result |= suits[walk.after] & open_ids & walked
        leaving = np.flatnonzero(open_ids & (walk.depth > 0) & ~walked)
        decided |= walked
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
            decided[token_id] = True
            result[token_id] |= near(after, min(margin, 1))

    def _walk(self, text: Node) -> _Walk:
        walk = self._walks.get(text)
        if walk is None:
            walk = self._walks.put(text, _Walk(text, self._trie, len(self._forms)))
        return walk


def _is_exceptional(captured: Captured, end: bytes, beyond: bytes) -> bool:
    """Whether a captured text that ends with ``end`` may have its own continuation."""
    dispatch = captured.dispatch
    if dispatch.context_dependent(beyond):
        return True
    return dispatch.has_exceptions and "" in dispatch.exceptions(captured.written + end[:-1])


class _Near:
    """Whether states can be completed within ``max_tokens`` tokens; memoized."""

    __slots__ = ("_fits", "_known", "_length", "_max_tokens")

    def __init__(self, length: Callable[[Node], int], max_tokens: int, fits: Fits) -> None:
        self._fits = fits
        self._length = length
        self._max_tokens = max_tokens
        self._known: dict[tuple[Node, int], bool] = {}

    def __call__(self, node: Node, margin: int = 0) -> bool:
        if node is EMPTY:
            return False
        if node.counts_tokens:
            node = node.after_token(self._fits)
            if node is EMPTY:
                return False
        known = self._known.get((node, margin))
        if known is None:
            try:
                known = self._length(node) + margin <= self._max_tokens
            except (GrammarBudgetError, UnwritableTextError):
                # Later states may be cached, so they are still asked.
                known = False
            self._known[node, margin] = known
        return known
