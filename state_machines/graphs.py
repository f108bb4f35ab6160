"""Search in graphs that are generated on demand, and strongly connected components."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeAlias, TypeVar

from state_machines.budgets import spend

VISITS_PER_STEP = 4
"""Visits of a vertex that cost one step of work."""

S = TypeVar("S", bound=Hashable)
L = TypeVar("L")

Edge: TypeAlias = tuple[S, L, int]
"""A target state, the label of the edge, and its weight (not negative)."""


@dataclass(eq=False, slots=True)
class Visit(Generic[S, L]):
    """A state that a search has reached, by a path of a cost."""

    state: S
    cost: int
    previous: Visit[S, L] | None = None
    label: L | None = None

    @property
    def path(self) -> list[L]:
        """The labels of the edges from the start."""
        labels: list[L] = []
        visit = self
        while visit.previous is not None:
            labels.append(visit.label)  # type: ignore[arg-type]
            visit = visit.previous
        labels.reverse()
        return labels


def best_first(
    start: S,
    edges: Callable[[Visit[S, L]], Iterable[Edge[S, L]]],
    bound: Callable[[S], int],
    *,
    deepest_first: bool = True,
) -> Iterator[Visit[S, L]]:
    """Yield states in the order of their cost plus the bound on the cost still to come (A*).

    Hart, Nilsson & Raphael, "A Formal Basis for the Heuristic Determination of Minimum Cost Paths",
    1968. If the bound never exceeds the cost that is still to come, the first goal that is visited
    is a nearest one. With a bound of 0 this is Dijkstra's algorithm.

    The caller stops at its goal, and charges the work by :func:`~state_machines.budgets.spend`. A
    state comes again if a cheaper path to it is found later.

    Args:
        start: The first state.
        edges: Gives the edges of a state. Called after the state was yielded, unless the caller
            has stopped; gives none for a state beyond which nothing is looked for.
        bound: A lower bound on the cost from a state to a goal.
        deepest_first: Among equals, visit the state of the highest cost first, since it is nearest
            to a goal; otherwise the state that was reached first.
    """
    costs = {start: 0}
    order = count()
    sign = -1 if deepest_first else 0
    queue = [(bound(start), 0, next(order), Visit[S, L](start, 0))]
    while queue:
        visit = heappop(queue)[3]
        if visit.cost > costs[visit.state]:
            continue
        yield visit
        for target, label, weight in edges(visit):
            cost = visit.cost + weight
            if cost < costs.get(target, cost + 1):
                costs[target] = cost
                reached = Visit(target, cost, visit, label)
                heappush(queue, (cost + bound(target), sign * cost, next(order), reached))


def reachable(start: S, successors: Callable[[S], Iterable[S]]) -> Iterator[S]:
    """Yield everything reachable from a start, breadth first."""
    seen, queue = {start}, deque([start])
    while queue:
        each = queue.popleft()
        yield each
        for target in successors(each):
            if target not in seen:
                seen.add(target)
                queue.append(target)


def components(edges: Mapping[S, Sequence[S]]) -> list[list[S]]:
    """Return the strongly connected components, each after its successors.

    Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972, without
    recursion.
    """
    index: dict[S, int] = {}
    low: dict[S, int] = {}
    open_: dict[S, None] = {}
    found: list[list[S]] = []
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
                    members: list[S] = []
                    while not members or members[-1] != vertex:
                        members.append(open_.popitem()[0])
                    found.append(members)
    return found
