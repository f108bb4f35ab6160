"""The mask of one state: its alternatives taken apart, walked, and put together again."""

from __future__ import annotations

from weakref import ref

import numpy as np
import numpy.typing as npt

from state_machines.grammar.boolean import everything
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import sequence
from state_machines.grammar.symbols import ANY_BYTE
from state_machines.masks.lexeme_walk import Beyond, LexemeWalk
from state_machines.masks.lexemes import Lexemes
from state_machines.masks.token_trie import Ids, TokenTrie, joined
from state_machines.masks.trie_walk import TrieWalk
from state_machines.masks.ways import Split, alternatives, exceptional_words, is_narrow, split, without_taken
from state_machines.vocabulary import Vocabulary

__all__ = ["MaskMaker", "TokenMask"]

WIDE = 256
"""Tokens a lexeme may begin with, from which on its walk is kept for all schemas."""

NO_IDS: Ids = np.zeros(0, np.int32)


class TokenMask:
    """A set of token ids: those inside a lexeme (if there is one) but ``less``, and ``others``."""

    __slots__ = ("less", "lexeme", "others", "shared")

    def __init__(self, lexeme: LexemeWalk | None, others: Ids, less: Ids = NO_IDS) -> None:
        self.lexeme = lexeme
        self.others = others
        self.less = less
        self.shared: ref[npt.NDArray[np.bool_]] | None = None
        """The array that was last handed out for it, while it lives."""

    def dense(self, size: int) -> npt.NDArray[np.bool_]:
        """Return the set as a read-only bool array of shape (size,)."""
        mask = np.zeros(size, np.bool_) if self.lexeme is None else self.lexeme.inside.copy()
        mask[self.less] = False
        mask[self.others] = True
        mask.flags.writeable = False
        return mask


class _Parts:
    """What a mask is put together from."""

    __slots__ = ("few", "ids", "lexemes")

    def __init__(self) -> None:
        self.few: list[int] = []
        self.ids: list[Ids] = []
        self.lexemes: list[tuple[LexemeWalk, Ids]] = []

    def mask(self) -> TokenMask:
        """Return all of it as one set."""
        self.ids.append(np.array(self.few, np.int32))
        if not self.lexemes:
            return TokenMask(None, joined(self.ids))
        main, less = max(self.lexemes, key=lambda found: len(found[0].inside_ids))
        for walk, excepted in self.lexemes:
            if walk is not main:
                inside = walk.inside_ids
                self.ids.append(inside if not len(excepted) else np.setdiff1d(inside, excepted))
        return TokenMask(main, joined(self.ids), less)


class MaskMaker:
    """Makes the masks of a vocabulary. Not safe for threads by itself."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._size = vocabulary.size
        self._forms = vocabulary.token_bytes
        self._trie = TokenTrie(vocabulary)
        self._end_ids: Ids = np.array(sorted(vocabulary.end_token_ids), np.int32)
        self._trie_walk = TrieWalk(self._trie)
        self._lexemes = Lexemes(self._trie, self._size)
        self._is_excepted = np.zeros(self._size, np.bool_)

    def mask(self, state: Node) -> TokenMask:
        """Return the tokens allowed in a state."""
        parts = _Parts()
        if state.nullable:
            parts.ids.append(self._end_ids)
        self._collect(state, parts)
        return parts.mask()

    def _collect(self, state: Node, parts: _Parts) -> None:
        for way in alternatives(state):
            self._collect_way(way, parts)

    def _collect_way(self, state: Node, parts: _Parts) -> None:
        wider = without_taken(state)
        if wider is not None:
            parts.ids.append(self._less_taken(state, *wider))
            return
        found = split(state)
        if found is None or self._is_narrow(found):
            parts.few += self._trie_walk.tokens(state)
            return
        walk = self._lexemes.walk(found.lexeme)
        excepted = self._exceptions(state, found, walk, parts)
        parts.lexemes.append((walk, excepted))
        if found.rest is None:
            return
        self._collect_beyond(state, found, walk.beyond(found.rest), excepted, parts.ids)
        if found.lexeme.nullable:
            self._collect(found.rest, parts)

    def _is_narrow(self, found: Split) -> bool:
        """Whether a state is walked vertex by vertex."""
        return self._trie.count_from_root(found.lexeme.first_bytes) < WIDE or is_narrow(found.text)

    def _collect_beyond(
        self, state: Node, found: Split, leaving: list[Beyond], excepted: Ids, parts: list[Ids]
    ) -> None:
        """Collect the tokens that go on beyond a lexeme."""
        for beyond in leaving:
            ids = beyond.ids
            if found.captures:
                unsure = np.zeros(len(beyond.suffixes.texts), np.bool_)
                for capture in found.captures:
                    unsure |= beyond.suffixes.ending_another(capture.then)
                is_unsure = unsure[beyond.suffix]
                if is_unsure.any():
                    parts.append(self._exactly(state, ids[is_unsure]))
                    ids = ids[~is_unsure]
            parts.append(self._without(ids, excepted))

    def _without(self, ids: Ids, excepted: Ids) -> Ids:
        if not len(excepted):
            return ids
        self._is_excepted[excepted] = True
        kept = ids[~self._is_excepted[ids]]
        self._is_excepted[excepted] = False
        return kept

    def _exceptions(self, state: Node, found: Split, walk: LexemeWalk, parts: _Parts) -> Ids:
        """Return the tokens that end a captured text which is an exception.

        Those of them that are allowed go into ``parts``.
        """
        words = True if found.rest is None else exceptional_words(found)
        if words is None:
            return NO_IDS
        trie = self._trie
        if isinstance(words, bool) or walk.leads is None:
            doubtful = walk.leaving_ids()
            parts.ids.append(self._exactly(state, doubtful))
            return doubtful
        excepted: list[Ids] = []
        for word in words:
            spelled = _plain_spelling(word)
            if spelled is None:
                doubtful = walk.ending(word)
                excepted.append(doubtful)
                parts.ids.append(self._exactly(state, doubtful))
                continue
            for lead in walk.leads:
                text = lead + spelled
                vertex = trie.vertex(text)
                if vertex is None:
                    continue
                excepted.append(trie.tokens_from(vertex))
                node = state.after(text)
                if node is not EMPTY:
                    trie.add_tokens_at(vertex, parts.few)
                    parts.few += self._trie_walk.tokens(node, vertex)
        return joined(excepted)

    def _less_taken(self, state: Node, wider: Node, taken: list[Node]) -> Ids:
        """Return the tokens of a wider state, less those that lead into what is taken."""
        allowed = self.mask(wider).dense(self._size).copy()
        beginning = [sequence(text, everything(ANY_BYTE)) for text in taken]
        listed = [i for node in beginning for i in self._trie_walk.tokens(node)]
        doubtful = np.array(listed, np.int32)
        doubtful = doubtful[allowed[doubtful]]
        allowed[doubtful] = False
        allowed[self._exactly(state, doubtful)] = True
        return np.flatnonzero(allowed).astype(np.int32)

    def _exactly(self, state: Node, token_ids: Ids) -> Ids:
        forms = self._forms
        kept = [i for i in token_ids.tolist() if state.after(forms[i] or b"") is not EMPTY]
        return np.array(kept, np.int32)


def _plain_spelling(word: str) -> bytes | None:
    """Return the only spelling of a text in a JSON string, with the quote that closes it."""
    if word.isascii() and word.isprintable() and '"' not in word and "\\" not in word:
        return word.encode() + b'"'
    return None
