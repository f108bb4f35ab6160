"""The intern table of nodes: one living node for each key."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import ref

from state_machines.budgets import spend

_N = TypeVar("_N")


class _NodeReference(ref[Any]):
    """The table's weak reference to a node, with the node's key."""

    __slots__ = ("key",)

    key: Hashable


_TABLE: dict[Hashable, _NodeReference] = {}
"""The living nodes by key. A plain dict is several times as fast as a WeakValueDictionary."""

_TABLE_LOCK = threading.RLock()
"""Held to replace or remove an entry, so that no thread removes one that another has just added."""

_DEAD: deque[_NodeReference] = deque()


def known_node(key: Hashable) -> Any:
    """Return the living node of a key, if there is one, before its parts are made."""
    known = _TABLE.get(key)
    if known is None:
        return None
    spend()
    return known()


def intern_node(key: Hashable, make: Callable[[], _N]) -> _N:
    """Return the living node of a key, or make it. The table does not keep nodes alive.

    A key must not hold a node, or the table would: a key names an object that the node holds by
    the object's ``id``. The garbage collector skips keys that are no tuples, which are those of the
    most frequent nodes: a concatenation's is a number, a union's is bytes, a literal's is a string.
    Other keys are tuples that begin with the kind of node.
    """
    spend()
    known = _TABLE.get(key)
    node = known and known()
    return add_node(key, make()) if node is None else node  # type: ignore[return-value]


def add_node(key: Hashable, made: _N) -> _N:
    """Add a node that :func:`known_node` did not find, and return it.

    Returns another one if another thread has added it meanwhile.
    """
    entry = _NodeReference(made, _forget)
    entry.key = key
    # This replaces no entry, so it needs no lock.
    known = _TABLE.setdefault(key, entry)
    if known is not entry:
        with _TABLE_LOCK:
            # The entry may have been removed meanwhile, and another thread may add one without the
            # lock, but only where there is none.
            known = _TABLE.setdefault(key, entry)
            node = made if known is entry else known()
            if node is not None and node is not made:
                return node
            _TABLE[key] = entry
    if _DEAD:
        _remove_dead()
    return made


def _forget(
    entry: _NodeReference,
    dead: deque[_NodeReference] = _DEAD,
    table: dict[Hashable, _NodeReference] = _TABLE,
    lock: Any = _TABLE_LOCK,
) -> None:
    """Remove the entry of a node that has died.

    A weak reference calls this in any thread, at any allocation. Waiting for the lock could
    deadlock: if another thread holds it, that thread or the next one removes the entry.
    """
    # At the end of the process the names of the module are gone, so these are arguments.
    if not lock.acquire(blocking=False):
        dead.append(entry)
        return
    try:
        if table.get(entry.key) is entry:
            del table[entry.key]
    finally:
        lock.release()


def _remove_dead() -> None:
    while _DEAD and _TABLE_LOCK.acquire(blocking=False):
        try:
            while _DEAD:
                entry = _DEAD.popleft()
                if _TABLE.get(entry.key) is entry:
                    del _TABLE[entry.key]
        finally:
            _TABLE_LOCK.release()
