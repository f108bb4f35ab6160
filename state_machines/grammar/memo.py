"""Nodes that are dear to make, found again by what they were made from.

A node keeps what was computed for it, and for all that it leads to; a cache that held on to nodes
would so grow with every text. This one lets go of a node when nobody else holds it, but for a few
of those last asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from weakref import WeakValueDictionary

from state_machines.grammar.node import Node

__all__ = ["NodeMemo"]


class NodeMemo:
    """Nodes by key: all that are alive, of which the last ``keep`` are kept so.

    Safe to use from several threads; two that ask at once may both make the node.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._living: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()
        self._kept: OrderedDict[Hashable, Node] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], Node]) -> Node:
        """Return the node of a key, from ``make()`` if there is none."""
        node = self._living.get(key)
        if node is None:
            node = make()
        freed = None
        with self._lock:
            self._living[key] = node
            self._kept[key] = node
            self._kept.move_to_end(key)
            if len(self._kept) > self._keep:
                freed = self._kept.popitem(last=False)
        del freed  # Only now, for it may have a finalizer.
        return node
