"""Sets of tokens, as a list of ids or as one bit for each token."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from state_machines.masks.token_trie import Ids

FEW_TOKENS = 512
"""Tokens up to which a set is a list."""

DIGEST_BYTES = 20
"""Length of the digests of sets."""

Bits = npt.NDArray[np.uint8]
"""One bit for each token; token *i* is bit ``i % 8``, from the lowest, of byte ``i // 8``."""


class TokenSet:
    """A set of tokens, in one of two forms.

    Attributes:
        few: The ids, int32, which may repeat; ``None`` if there are many.
        bits: One bit for each token; ``None`` if there are few. Bytes at the end may be missing.
        digest: Equal for sets that are stored as equal arrays.
    """

    __slots__ = ("bits", "digest", "few")

    def __init__(self, few: Ids | None, bits: Bits | None) -> None:
        self.few = few
        self.bits = bits
        self.digest = digest_of(self._stored)

    @property
    def _stored(self) -> Ids | Bits:
        if self.few is not None:
            return self.few
        assert self.bits is not None, "one of the two forms"
        return self.bits

    @property
    def nbytes(self) -> int:
        """The size of the array."""
        return self._stored.nbytes

    @property
    def ids(self) -> Ids:
        """The ids, int32; they may repeat."""
        if self.bits is None:
            assert self.few is not None, "one of the two forms"
            return self.few
        return np.flatnonzero(np.unpackbits(self.bits, bitorder="little")).astype(np.int32)


def few_tokens(parts: list[Ids]) -> TokenSet:
    """Return the union of several short lists."""
    return TokenSet(np.unique(np.concatenate(parts)).astype(np.int32), None)


def packed(ids: Ids) -> TokenSet:
    """Return the set of tokens with the given ids, which may repeat."""
    if len(ids) <= FEW_TOKENS:
        return TokenSet(ids, None)
    members = np.zeros(int(ids.max()) + 1, np.bool_)
    members[ids] = True
    return TokenSet(None, np.packbits(members, bitorder="little"))


def united(sets: Iterable[TokenSet]) -> tuple[list[Ids], Bits | None]:
    """Return the ids of the short sets, and the union of the others if there are any."""
    distinct = {each.digest: each for each in sets}.values()
    few = [each.few for each in distinct if each.few is not None]
    many = [each.bits for each in distinct if each.bits is not None]
    if not many:
        return few, None
    if len(many) == 1:
        return few, many[0]
    union = np.zeros(max(map(len, many)), np.uint8)
    for bits in many:
        union[: len(bits)] |= bits
    return few, union


def digest_of(numbers: npt.NDArray[np.int32] | Bits) -> bytes:
    """Return a digest that is equal for equal arrays."""
    return blake2b(numbers.tobytes(), digest_size=DIGEST_BYTES).digest()
