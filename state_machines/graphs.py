"""Strongly connected components of a graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from state_machines.budgets import spend

VISITS_PER_STEP = 4
"""Visits of a vertex that cost one step of work."""

_V = TypeVar("_V", bound=Hashable)


def components(edges: Mapping[_V, Sequence[_V]]) -> list[list[_V]]:
    """Return the strongly connected components, each after its successors.

    Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972, without
    recursion.
    """
    index: dict[_V, int] = {}
    low: dict[_V, int] = {}
    open_: dict[_V, None] = {}
    found: list[list[_V]] = []
    visits = 0
    for root in edges:
        if root in index:
            continue
        stack = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        open_[root] = None
        while stack:
            vertex, ahead = stack[-1]
            visits += 1
            if not visits % VISITS_PER_STEP:
                spend()
            for target in ahead:
                if target not in index:
                    index[target] = low[target] = len(index)
                    open_[target] = None
                    stack.append((target, iter(edges[target])))
                    break
                if target in open_:
                    low[vertex] = min(low[vertex], index[target])
            else:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[vertex])
                if low[vertex] == index[vertex]:
                    members: list[_V] = []
                    while not members or members[-1] != vertex:
                        members.append(open_.popitem()[0])
                    found.append(members)
    return found
