"""Walks that are kept as long as the language they are of, within bounds."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.node import Node
from state_machines.limits import LIMITS
from state_machines.masks.lexeme_walk import LexemeWalk

__all__ = ["WalksByText"]

_K = TypeVar("_K", bound=Hashable)
_W = TypeVar("_W", bound=LexemeWalk)


class WalksByText(Generic[_K, _W]):
    """Several walks of a language by what tells them apart; least recently used out.

    Languages that several schemas share live longer than one schema, and so do their walks. Safe to
    use from several threads.
    """

    def __init__(self, most_bytes: int) -> None:
        self._texts: WeakKeyLruCache[Node, Mapping[_K, _W]] = WeakKeyLruCache(most_bytes)
        self._lock = threading.RLock()

    def get(self, text: Node, kind: _K) -> _W | None:
        """Return a walk; ``None`` where there is none."""
        walks = self._texts.get(text)
        return None if walks is None else walks.get(kind)

    def put(self, text: Node, kind: _K, walk: _W) -> _W:
        """Keep a walk, and return it."""
        with self._lock:
            # A copy: other threads may be reading the old one.
            walks = dict(self._texts.get(text) or ())
            while len(walks) >= LIMITS.walks_per_language:
                del walks[next(iter(walks))]
            walks[kind] = walk
            self._texts.put(text, walks, sum(known.weight for known in walks.values()))
        return walk
