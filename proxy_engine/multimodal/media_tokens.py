"""The placeholder tokens of media in a prompt: which medium each stands for, and its cache key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module

Kind: TypeAlias = Literal["image", "audio"]
Ids: TypeAlias = npt.NDArray[np.int64]

_ATTRIBUTES: Mapping[Kind, tuple[str, ...]] = {
    "image": (
        "image_token_id",
        "image_token_index",
        "img_context_token_id",
        "media_placeholder_token_id",
        "image_patch_token_id",
        "image_patch_id",
        "img_id",
    ),
    "audio": ("audio_token_id", "audio_token_index", "sound_context_token_id"),
}
"""Attributes of configurations with the id of the token that stands for a part of a medium."""


def placeholder_ids(model: Module, kind: Kind) -> frozenset[int]:
    """Return the ids of the tokens whose embeddings a model computes from media.

    Args:
        model: mlx-vlm's model.
        kind: The kind of media.
    """
    # Models that also speak have the configuration of the part that reads inside their own.
    sources = (model.config, getattr(model.config, "thinker_config", None))
    values = (getattr(source, name, None) for source in sources for name in _ATTRIBUTES[kind])
    return frozenset(value for value in values if isinstance(value, int))


def find_placeholders(token_ids: Ids, ids: frozenset[int], kind: Kind) -> Ids:
    """Return the positions of a kind's placeholder tokens, ascending.

    Some processors write images as negative ids.
    """
    found = np.isin(token_ids, list(ids))
    if kind == "image":
        found |= token_ids < 0
    return np.flatnonzero(found).astype(np.int64)


def by_medium(positions: Ids, count: int, alone: Callable[[int], int]) -> list[Ids] | None:
    """Return the positions of the placeholder tokens of each medium, in order.

    A medium may be several runs of tokens: some processors write an image as rows or tiles.

    Args:
        positions: Positions of all placeholder tokens, ascending.
        count: Number of media.
        alone: Returns the number of placeholder tokens of a medium that is the only one of a
            prompt; negative if it is not known.

    Returns:
        ``None`` if the tokens cannot be assigned.
    """
    if count == 1:
        return [positions]
    runs = np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)
    if len(runs) == count:
        return list(runs)
    counts = [alone(number) for number in range(count)]
    if min(counts) < 0 or sum(counts) != len(positions):
        return None
    return list(np.split(positions, np.cumsum(counts)[:-1]))


def cache_keys(digest: bytes, count: int) -> Ids:
    """Return the identities of a medium's tokens in prompt caches, negative numbers.

    They depend on the medium's content and its number of tokens. Two media share a number with a
    probability of 2^-63.

    Args:
        digest: Digest of the medium's content.
        count: Number of its tokens.
    """
    stream = hashlib.shake_256(count.to_bytes(8, "little") + digest).digest(8 * count)
    return np.frombuffer(stream, dtype="<i8").astype(np.int64) | np.int64(-(2**63))


def joint_digest(digests: Sequence[bytes]) -> bytes:
    """Return the digest of several media."""
    return hashlib.sha256(b"".join(hashlib.sha256(digest).digest() for digest in digests)).digest()
