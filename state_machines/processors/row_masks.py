"""The masks of the rows of a generate loop, found by their histories.

A logits processor is called with all tokens of each row: the prompt and what follows it. The first
call shows the prompts. Later rows are recognised by their tokens, not by their place:

* beam search moves, copies and drops rows between two calls;
* speculative decoding repeats rows and cuts them back;
* several sequences may share one processor.

Every loop calls its processors at each position of a text. So **a row continues a text if all its
tokens but the last one have been seen as a row**; a row that has been seen is the same text again,
and any other row is a new prompt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, Generic, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from state_machines.caches import LruCache
from state_machines.completion import Guard
from state_machines.errors import (
    GrammarBudgetError,
    InvalidArgumentError,
    TokenRejectedError,
    VocabularyError,
)
from state_machines.machine import StateMachine
from state_machines.matcher import Matcher
from state_machines.vocabulary import Vocabulary

Mask = npt.NDArray[np.bool_]
TokenIds = npt.NDArray[np.int32]

MAX_ROWS = 16_384
"""Rows that a processor remembers, the last used ones; one takes about 1 KB."""

T = TypeVar("T")

MAX_COPIES = 256
"""Copies that are cached; one over 150,000 tokens takes 150 KB."""

_DIGEST_BYTES = 16

_LOGGER = logging.getLogger(__name__)

_Text: TypeAlias = Matcher | Guard
"""A text so far, with a guard if it has a limit on tokens; never advanced, but copied."""

_Row: TypeAlias = tuple[_Text | None]
"""The text of a row; ``None`` if it has left the grammar."""


class RowMasks:
    """Follows the rows of a generate loop and computes their masks. Not thread-safe.

    Base class of the logits processors.

    Args:
        machine: The language of the texts behind the prompts.
        vocabulary: The model's tokens.
        max_tokens: Number of tokens within which each text is complete, end tokens not counted;
            ``None``: texts are not limited.

    Raises:
        MaxTokensTooSmallError: No text fits into ``max_tokens``.
        GrammarBudgetError: No completion was found within the step budget.
        InvalidArgumentError: Rules of the machine have a temperature, which masks cannot set.
    """

    def __init__(
        self, machine: StateMachine, vocabulary: Vocabulary, max_tokens: int | None = None
    ) -> None:
        if machine.temperatures:
            raise InvalidArgumentError(
                "rules of the grammar have a temperature, which a logits processor cannot set",
                argument="output",
                hint="Leave out the option temperature of the rules",
            )
        matcher = machine.matcher(vocabulary)
        self._empty: _Text = matcher if max_tokens is None else Guard(matcher, max_tokens)
        self.vocabulary = vocabulary
        ends = np.zeros(vocabulary.size, np.bool_)
        ends[list(vocabulary.end_token_ids)] = True
        ends.flags.writeable = False
        self.ends: Mask = ends
        """The mask of a row that has ended or left the grammar: bool, shape (vocabulary size,)."""
        self.reset()

    def reset(self) -> None:
        """Forget all rows, so that the next call begins with prompts."""
        self._seen: LruCache[bytes, _Row] = LruCache(MAX_ROWS)

    def copy(self) -> Self:
        """Return an independent object for the same language, which has seen no rows."""
        twin = type(self).__new__(type(self))
        twin.vocabulary, twin.ends, twin._empty = self.vocabulary, self.ends, self._empty
        twin.reset()
        return twin

    def masks(self, rows: npt.NDArray[np.integer[Any]]) -> list[Mask]:
        """Return the mask of the next token of each row: bool, shape (vocabulary size,).

        Masks that may recur are read-only.

        Args:
            rows: The token ids: prompt, then text. Integer, shape (rows, tokens).

        Raises:
            TokenRejectedError: All rows have left the grammar: the loop does not use the masks.
            GrammarBudgetError: A mask takes too much work.
        """
        ids = np.asarray(rows, dtype=np.int32)
        texts = [self._text(row) for row in ids]
        self._check(ids, texts)
        return [self._mask(text) for text in texts]

    def _mask(self, text: _Text | None) -> Mask:
        """Return the mask behind a text; the plan's mask if the exact mask takes too much work."""
        if text is None or _matcher(text).is_finished:
            return self.ends
        if not isinstance(text, Guard):
            return text.allowed_tokens()
        try:
            # A loop cannot be asked for another token, so the mask must be exact.
            return text.mask(text.matcher.allowed_tokens(), exact=True)
        except GrammarBudgetError:
            return text.plan_mask()

    def _text(self, tokens: TokenIds) -> _Text | None:
        """Return the text of a row."""
        hasher = blake2b(tokens[:-1].tobytes(), digest_size=_DIGEST_BYTES)
        before_key = hasher.digest()
        hasher.update(tokens[-1:].tobytes())
        key = hasher.digest()
        known = self._seen.get(key)
        if known is None:
            # A prompt may have no tokens, as with ``inputs_embeds`` of transformers.
            before = self._seen.get(before_key)
            text = self._empty if before is None else _after(before[0], int(tokens[-1]))
            known = self._seen.put(key, (text,))
        return known[0]

    def _check(self, ids: TokenIds, texts: list[_Text | None]) -> None:
        """Raise if all rows have left the grammar.

        Some may: where too few tokens are allowed, beam search fills its beams with forbidden ones,
        which have no probability.
        """
        left = [row for row, text in enumerate(texts) if text is None]
        if not left:
            return
        token_id = int(ids[left[0], -1])
        _LOGGER.debug("Row %d has left the grammar with token %d", left[0], token_id)
        if len(left) == len(texts):
            self.reset()
            raise TokenRejectedError(
                f"token {token_id} was forbidden, but the loop has taken it",
                token_id=token_id,
                hint="Put this processor last, behind others that change logits, and use a new "
                "one for each generation, or call reset()",
            )


def _after(text: _Text | None, token_id: int) -> _Text | None:
    """Return a text after a token; ``None`` if it leaves the grammar."""
    if text is None or _matcher(text).is_finished:
        return text
    text = text.copy()
    try:
        text.advance(token_id)
    except TokenRejectedError:
        return None
    return text


def _matcher(text: _Text) -> Matcher:
    return text.matcher if isinstance(text, Guard) else text


class MaskCopies(Generic[T]):
    """LRU cache of the copies of masks. Grammar states share mask arrays, so masks recur.

    Args:
        convert: Makes an array of the runtime from a mask: bool, shape (width,).
    """

    def __init__(self, convert: Callable[[Mask], T]) -> None:
        self._convert = convert
        self._copies: LruCache[tuple[int, int], tuple[Mask, T]] = LruCache(MAX_COPIES)

    @classmethod
    def shared(
        cls, vocabulary: Vocabulary, device: Hashable, convert: Callable[[Mask], T]
    ) -> MaskCopies[T]:
        """Return the copies of a vocabulary's masks on a device, kept as long as the vocabulary.

        Args:
            vocabulary: The vocabulary.
            device: The runtime and its device.
            convert: As for the constructor.
        """
        return _shared.setdefault(vocabulary, {}).setdefault(device, cls(convert))

    def of(self, mask: Mask, width: int) -> T:
        """Return the copy of a mask, as wide as the logits.

        Args:
            mask: Bool, shape (vocabulary size,). Must never change if it is read-only.
            width: The size of the last axis of the logits. Tokens behind the vocabulary are
                forbidden.

        Raises:
            VocabularyError: The logits are narrower than the vocabulary.
        """
        if mask.flags.writeable:  # Made for this token, so it will not come again.
            return self._convert(_padded(mask, width))
        key = (id(mask), width)
        known = self._copies.get(key)
        if known is None:
            # The mask is stored, so that its id is not used again.
            known = self._copies.put(key, (mask, self._convert(_padded(mask, width))))
        return known[1]


def _padded(mask: Mask, width: int) -> Mask:
    size = len(mask)
    if width == size:
        return mask
    if width < size:
        raise VocabularyError(
            f"the model has logits for {width} tokens, the vocabulary has {size}",
            hint="Give Vocabulary.from_tokenizer(tokenizer, size=width) in place of the tokenizer",
        )
    padded = np.zeros(width, np.bool_)
    padded[:size] = mask
    return padded


_shared: WeakKeyDictionary[Vocabulary, dict[Hashable, MaskCopies[Any]]] = WeakKeyDictionary()
