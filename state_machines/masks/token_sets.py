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
    """A set of tokens, as ids or as bits.

    Attributes:
        few: The ids, int32, which may repeat; ``None`` if there are many.
        bits: One bit for each token; ``None`` if there are few. Bytes at the end may be missing.
    """

    __slots__ = ("_digest", "bits", "few")

    def __init__(self, few: Ids | None, bits: Bits | None) -> None:
        self.few = few
        self.bits = bits
        self._digest: bytes | None = None

    @classmethod
    def stored_as(cls, stored: Ids | Bits) -> TokenSet:
        """Return the set of an array that is :attr:`stored`."""
        return cls(None, stored) if stored.dtype == np.uint8 else cls(stored, None)  # type: ignore[arg-type]

    @property
    def digest(self) -> bytes:
        """Equal for sets that are stored as equal arrays."""
        digest = self._digest
        if digest is None:
            digest = self._digest = digest_of(self.stored.tobytes())
        return digest

    @property
    def stored(self) -> Ids | Bits:
        """The array. Caches hold it alone, since the garbage collector does not visit arrays."""
        if self.few is not None:
            return self.few
        assert self.bits is not None, "one of the two forms"
        return self.bits

    @property
    def nbytes(self) -> int:
        """The size of the array."""
        return self.stored.nbytes

    def dense(self, size: int) -> npt.NDArray[np.bool_]:
        """Return the set as an array: bool, shape (size,), read-only."""
        if self.bits is None:
            array = np.zeros(size, np.bool_)
            array[self.ids] = True
        else:
            array = np.unpackbits(self.bits, count=size, bitorder="little").view(np.bool_)
        array.flags.writeable = False
        return array

    def contains(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Return which of several tokens are in the set: bool, of the shape of ``ids``."""
        if self.bits is None:
            return np.isin(ids, self.ids)
        known = ids < 8 * len(self.bits)
        return known & (self.bits[np.where(known, ids >> 3, 0)] >> (ids & 7) & 1 > 0)

    @property
    def ids(self) -> Ids:
        """The ids, int32; they may repeat."""
        if self.bits is None:
            assert self.few is not None, "one of the two forms"
            return self.few
        return np.flatnonzero(np.unpackbits(self.bits, bitorder="little")).astype(np.int32)


def packed(ids: Ids) -> TokenSet:
    """Return the set of tokens with the given ids, which may repeat."""
    return TokenSet(ids, None) if len(ids) <= FEW_TOKENS else TokenSet(None, _bits(ids))


def _bits(ids: Ids) -> Bits:
    is_member = np.zeros(int(ids.max(initial=-1)) + 1, np.bool_)
    is_member[ids] = True
    return np.packbits(is_member, bitorder="little")


def without(tokens: TokenSet, ids: Ids) -> TokenSet:
    """Return a set without some tokens."""
    if not len(ids):
        return tokens
    if tokens.bits is None:
        return packed(np.setdiff1d(tokens.ids, ids))
    is_member = np.unpackbits(tokens.bits, bitorder="little")
    is_member[ids[ids < len(is_member)]] = 0
    return TokenSet(None, np.packbits(is_member, bitorder="little"))


def within(tokens: TokenSet, bits: Bits) -> TokenSet:
    """Return the tokens of a set that are also in a set of bits, which has all of their ids."""
    if tokens.bits is None:
        ids = tokens.ids
        return TokenSet(ids[bits[ids >> 3] >> (ids & 7) & 1 > 0], None)
    return TokenSet(None, tokens.bits & bits[: len(tokens.bits)])


def united(sets: Iterable[TokenSet], few: Ids) -> TokenSet:
    """Return the union of several sets and a list of ids, which may repeat."""
    distinct = {each.digest: each for each in sets}.values()
    many = [each.bits for each in distinct if each.bits is not None]
    few = np.concatenate([few, *(each.few for each in distinct if each.few is not None)])
    if not many:
        return packed(few)
    union = np.zeros(max(int(few.max(initial=0)) // 8 + 1, *map(len, many)), np.uint8)
    for bits in many:
        union[: len(bits)] |= bits
    np.bitwise_or.at(union, few >> 3, np.left_shift(1, few & 7).astype(np.uint8))
    return TokenSet(None, union)


def digest_of(text: bytes) -> bytes:
    """Return a digest that is equal for equal byte strings."""
    return blake2b(text, digest_size=DIGEST_BYTES).digest()


NO_TOKENS = packed(np.zeros(0, np.int32))
