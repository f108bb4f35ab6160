"""All masks of one vocabulary: computed once a state, kept within bounds, shared by all machines.

Three caches, each least recently used out: lexeme walks (the dear part, shared across schemas),
what is allowed in a state (compact, forgotten with the state), and the arrays handed out (one for
each different mask).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt

from state_machines.effort import MASK_STEPS, bounded_effort
from state_machines.grammar.boolean import Complement, Intersection, everything, intersection
from state_machines.grammar.capture import Captured, Continuation, captured
from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import Choice, Sequence, leading_literal, sequence
from state_machines.grammar.symbols import ANY_BYTE
from state_machines.masks.lexeme_walk import LexemeWalk
from state_machines.masks.lexemes import Lexemes
from state_machines.masks.recent import Recent, RecentWeak
from state_machines.masks.token_trie import Ids, TokenTrie, joined
from state_machines.vocabulary import Vocabulary

__all__ = ["MaskStore", "TokenMask"]

SHORT = 4
"""Length up to which what stands before a text is walked together with it."""

WIDE = 256
"""Tokens a lexeme may begin with, from which on its walk is kept for all schemas."""

MAX_STATE_BYTES = 64 << 20
MAX_DENSE_BYTES = 48 << 20

STATE_OVERHEAD = 1500
"""Bytes that a state's own nodes and its cache entry take, roughly."""


class TokenMask:
    """A set of token ids: the tokens inside a lexeme (if there is one) and ``others``."""

    __slots__ = ("lexeme", "others", "shared")

    def __init__(self, lexeme: LexemeWalk | None, others: Ids) -> None:
        self.lexeme = lexeme
        self.others = others
        self.shared: ref[npt.NDArray[np.bool_]] | None = None
        """The array that was last handed out for it, while it lives."""

    def dense(self, size: int) -> npt.NDArray[np.bool_]:
        """Return the set as a read-only bool array of shape (size,)."""
        mask = np.zeros(size, np.bool_) if self.lexeme is None else self.lexeme.inside.copy()
        mask[self.others] = True
        mask.flags.writeable = False
        return mask


class MaskStore:
    """Computes and keeps the masks of a vocabulary. Safe to use from several threads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._size = vocabulary.size
        self._forms = vocabulary.token_bytes
        self._trie = TokenTrie(vocabulary)
        self._end_ids: Ids = np.array(sorted(vocabulary.end_token_ids), np.int32)
        self._lock = threading.RLock()
        self._lexemes = Lexemes(self._trie, self._size)
        self._states: RecentWeak[Node, TokenMask] = RecentWeak(MAX_STATE_BYTES)
        self._dense: Recent[Hashable, npt.NDArray[np.bool_]] = Recent(MAX_DENSE_BYTES)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> MaskStore:
        """Return the store of a vocabulary, made on first use and kept as long as it lives."""
        with _STORES_LOCK:
            store = _STORES.get(vocabulary)
            if store is None:
                store = _STORES[vocabulary] = cls(vocabulary)
            return store

    def allowed(self, state: Node) -> npt.NDArray[np.bool_]:
        """Return the tokens allowed in a state: bool, shape (vocabulary size,), read-only."""
        with self._lock:
            mask = self._states.get(state)
            if mask is None:
                with bounded_effort(MASK_STEPS):
                    mask = self._compute(state)
                self._states.put(state, mask, STATE_OVERHEAD + mask.others.nbytes)
            shared = None if mask.shared is None else mask.shared()
            if shared is not None:
                return shared
            key = (mask.lexeme, mask.others.tobytes())
            dense = self._dense.get(key)
            if dense is None:
                dense = self._dense.put(key, mask.dense(self._size), self._size)
            mask.shared = ref(dense)
            return dense

    def _compute(self, state: Node) -> TokenMask:
        parts: list[Ids] = [self._end_ids] if state.nullable else []
        lexeme: LexemeWalk | None = None
        for walk in self._ways(state, parts):
            if lexeme is None:
                lexeme = walk
            else:
                parts.append(np.flatnonzero(walk.inside).astype(np.int32))
        return TokenMask(lexeme, joined(parts))

    def _ways(self, state: Node, parts: list[Ids]) -> Iterator[LexemeWalk]:
        """Collect the tokens of a state: ids into ``parts``, lexemes as they come."""
        for way in _alternatives(state):
            yield from self._way(way, parts)

    def _way(self, state: Node, parts: list[Ids]) -> Iterator[LexemeWalk]:
        wider = _without_taken(state)
        if wider is not None:
            parts.append(self._less_taken(state, *wider))
            return
        split = _split(state)
        if split is None or self._trie.count_from_root(split.lexeme.first_bytes) < WIDE:
            self._walk(state, parts)
            return
        walk = self._lexemes.walk(split.lexeme)
        yield walk
        for found in walk.beyond(split.rest):
            unsure = np.zeros(len(found.ids), np.bool_)
            for then in split.captures:
                unsure |= found.suffixes.ending_another(then)[found.suffix]
            parts.append(found.ids[~unsure] if split.captures else found.ids)
            if unsure.any():
                parts.append(self._exactly(state, found.ids[unsure]))
        if split.lexeme.nullable:
            yield from self._ways(split.rest, parts)

    def _walk(self, state: Node, parts: list[Ids]) -> None:
        """Collect the tokens that a state allows, vertex by vertex."""
        trie = self._trie
        stack = [(state, 0)]
        while stack:
            node, vertex = stack.pop()
            lead = leading_literal(node)
            if lead is not None:
                path = trie.path(lead[0], vertex)
                parts.extend(trie.tokens_at(at) for at in path if trie.has_tokens(at))
                if len(path) == len(lead[0]) and trie.has_children(path[-1]):
                    stack.append((lead[1], path[-1]))
                continue
            for byte, child in trie.children_in(vertex, node.first_bytes):
                token_ids = trie.tokens_at(child)
                if len(token_ids):
                    parts.append(token_ids)
                if trie.has_children(child):
                    stack.append((node.step(byte), child))

    def _less_taken(self, state: Node, wider: Node, taken: list[Node]) -> Ids:
        """Return the tokens of a wider state, less those that lead into what is taken."""
        allowed = self._compute(wider).dense(self._size).copy()
        parts: list[Ids] = []
        for text in taken:
            self._walk(sequence(text, everything(ANY_BYTE)), parts)
        doubtful = joined(parts)
        doubtful = doubtful[allowed[doubtful]]
        allowed[doubtful] = False
        allowed[self._exactly(state, doubtful)] = True
        return np.flatnonzero(allowed).astype(np.int32)

    def _exactly(self, state: Node, token_ids: Ids) -> Ids:
        forms = self._forms
        kept = [i for i in token_ids.tolist() if state.after(forms[i] or b"") is not EMPTY]
        return np.array(kept, np.int32)


@dataclass(frozen=True, slots=True)
class _Split:
    """A state as a lexeme and the rest.

    ``captures`` are what goes on after captured texts around the lexeme; where there are such, the
    rest is exact only up to the end of the next captured text.
    """

    lexeme: Node
    rest: Node
    captures: tuple[Continuation, ...] = ()


def _alternatives(state: Node, room: int = SHORT) -> Iterator[Node]:
    """Yield nodes that are together the state, none of them with a choice near its front.

    ``room`` is how many more bytes count as near.
    """
    head, tail = (state.head, state.tail) if isinstance(state, Sequence) else (state, EPSILON)
    if isinstance(head, Choice):
        for member in head.members:
            yield from _alternatives(sequence(member, tail), room)
    elif isinstance(head, Captured):
        for rest in _alternatives(head.rest, room):
            yield sequence(captured(rest, head.then, head.text), tail)
    elif isinstance(head, Lazy) and not isinstance(head, EncodedText) and room == SHORT:
        yield from _alternatives(sequence(head.expansion, tail), room - 1)
    elif head.max_length is not None and head.max_length <= room and tail is not EPSILON:
        for rest in _alternatives(tail, room - head.max_length):
            yield sequence(head, rest)
    else:
        yield state


def _without_taken(state: Node) -> tuple[Node, list[Node]] | None:
    """Return a state with texts in it that are taken, and these; ``None`` if it has none.

    They differ from other texts in few tokens, which are looked at one by one.
    """
    head, tail = (state.head, state.tail) if isinstance(state, Sequence) else (state, EPSILON)
    if not isinstance(head, Captured) or not isinstance(head.rest, Intersection):
        return None
    members = head.rest.members
    taken = [member.body for member in members if isinstance(member, Complement)]
    others = [member for member in members if not isinstance(member, Complement)]
    if not taken or not others:
        return None
    return sequence(captured(intersection(others), head.then, head.text), tail), taken


def _split(state: Node) -> _Split | None:
    """Split a state after the first text in it; ``None`` where there is none at the front."""
    before: list[Node] = []
    captures: list[Continuation] = []
    while True:
        head, rest = (state.head, state.tail) if isinstance(state, Sequence) else (state, EPSILON)
        if isinstance(head, EncodedText):
            return _Split(sequence(*before, head), rest, tuple(captures))
        if isinstance(head, Captured):
            after = head.then.after_any()
            if after is None:
                return None
            captures.append(head.then)
            state = sequence(head.rest, after, rest)
            continue
        if rest is EPSILON or isinstance(head, Lazy):
            return None
        before.append(head)
        state = rest


_STORES: WeakKeyDictionary[Vocabulary, MaskStore] = WeakKeyDictionary()
_STORES_LOCK = threading.Lock()
