"""The tokens of a vocabulary by their spellings (:mod:`state_machines.grammar.tokens`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from state_machines.budgets import spend
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import bytes_in
from state_machines.grammar.tokens import (
    MAX_TOKEN_ID,
    SPECIAL_MARK,
    SPELLING_MARK,
    begins_with_spelling,
    spelling,
)
from state_machines.masks.token_trie import Ids, concatenated
from state_machines.vocabulary import PerVocabulary, Vocabulary

_MARK = SPECIAL_MARK[0]

_ANY_LETTER = 0
"""A byte by which it is seen that a state accepts all texts."""


class SpelledTokens(PerVocabulary):
    """Finds the tokens whose spellings a state accepts. Thread-safe."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._forms = vocabulary.token_bytes
        ends = vocabulary.end_token_ids
        self._is_token = np.array(
            [form is not None and i not in ends for i, form in enumerate(self._forms)], np.bool_
        )
        texts = (self.text(token_id) + SPECIAL_MARK for token_id in range(len(self._forms)))
        self._first = np.array([text[0] for text in texts], np.uint8)

    def text(self, token_id: int) -> bytes:
        """Return the bytes of an ordinary token, the name of a special one."""
        return (self._forms[token_id] or b"").removeprefix(SPECIAL_MARK)

    def form(self, token_id: int) -> bytes:
        """Return the form of a token in a set: the spelling."""
        return spelling(token_id, self.text(token_id))

    def after(self, state: Node, token_id: int) -> Node:
        """Return the derivative of a state by the spelling of a token."""
        if not begins_with_spelling(state) or token_id > MAX_TOKEN_ID:
            return EMPTY
        if not self._is_token[token_id]:
            return EMPTY
        return state.word_derivative(self.form(token_id))

    def targets(self, state: Node) -> Iterator[tuple[Node, Ids]]:
        """Yield the states after tokens that a state accepts by their spelling, with their ids.

        The ids are int32, ascending; states may repeat.
        """
        if not begins_with_spelling(state):
            return
        spelled = state.compute_word_derivative(SPELLING_MARK)
        for high, after_high in spelled.transitions:
            for middle, after_middle in after_high.transitions:
                for low, after_id in after_middle.transitions:
                    spend()
                    ids = self._ids(high, middle, low)
                    if len(ids):
                        yield from self._by_text(after_id, ids)

    def ids(self, state: Node) -> Ids:
        """Return the tokens that a state accepts by their spelling: int32."""
        return concatenated([ids for _, ids in self.targets(state)])

    def _ids(self, high: int, middle: int, low: int) -> Ids:
        """Return the tokens whose number has its bytes in three sets."""
        tops = [byte for byte in bytes_in(high) if byte << 16 < len(self._forms)]
        first, second, third = (
            np.array(part, np.int32) for part in (tops, bytes_in(middle), bytes_in(low))
        )
        tens = (first[:, None] << 16 | second << 8).reshape(-1)
        tens = tens[tens < len(self._forms)]
        numbers = (tens[:, None] | third).reshape(-1)
        numbers = numbers[numbers < len(self._forms)]
        spend(len(numbers) // 256)
        found: Ids = numbers[self._is_token[numbers]].astype(np.int32)
        return found

    def _by_text(self, node: Node, ids: Ids) -> Iterator[tuple[Node, Ids]]:
        """Yield the states after the texts of tokens, with the tokens."""
        first = self._first[ids]
        for members, target in node.transitions:
            own = ids[np.isin(first, bytes_in(members))]
            if not len(own):
                continue
            if target.derivative(_ANY_LETTER) is target:
                # A set by number accepts the texts of all tokens.
                after = target if members >> _MARK & 1 else target.derivative(_MARK)
                if after is not EMPTY:
                    yield after, own
                continue
            yield from self._one_by_one(target, own)

    def _one_by_one(self, node: Node, ids: Ids) -> Iterator[tuple[Node, Ids]]:
        found: dict[Node, list[int]] = {}
        for token_id in ids.tolist():
            spend()
            target = node.compute_word_derivative((self.text(token_id) + SPECIAL_MARK)[1:])
            if target is not EMPTY:
                found.setdefault(target, []).append(token_id)
        for target, members in found.items():
            yield target, np.array(members, np.int32)
