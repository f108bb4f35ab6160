"""What is known of rules before they are compiled.

* How long their shortest texts are, in bytes; so which match the empty text, and which match none
  (Knuth, "A generalization of Dijkstra's algorithm", IPL 1977).
* Which are recursive, and which can begin with themselves: left recursion, hidden or not.
* Which are regular and of bounded length, so that they are one language of characters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from state_machines.budgets import spend
from state_machines.context_free.syntax import (
    PARTS_PER_STEP,
    Alternatives,
    Characters,
    Expression,
    Reference,
    Repeat,
    Rule,
    Series,
    Text,
    references,
)
from state_machines.errors import GrammarSyntaxError
from state_machines.graphs import components

__all__ = ["Analysis"]


class Analysis:
    """What is known of the rules that ``start`` leads to.

    ``shortest`` has the length of each rule's shortest text, ``math.inf`` if there is none;
    ``hollow`` the names of those that match the empty text alone.
    ``order`` has the rules in components, those that others lead to first; ``left_order`` the same
    where only what a rule can begin with leads anywhere. ``recursive`` and ``left_recursive`` are
    the names of those on circles. Raises :class:`~state_machines.errors.GrammarSyntaxError` for
    a rule that is not there.
    """

    def __init__(self, rules: dict[str, Rule], start: str) -> None:
        self.rules = _reachable(rules, start)
        self._sizes = {name: _size(rule.body) for name, rule in self.rules.items()}
        below = {
            name: list(dict.fromkeys(found.name for found in references(rule.body)))
            for name, rule in self.rules.items()
        }
        self.shortest = self._shortest_lengths(below)
        self.hollow = self._hollow_rules(below)
        # What matches nothing, or the empty text alone, leads nowhere.
        self._edges = {name: self._productive(names) for name, names in below.items()}
        self.order = components(self._edges)
        self.recursive = _on_circles(self.order, self._edges)
        left = {
            name: self._productive(dict.fromkeys(self.corners(rule.body)))
            for name, rule in self.rules.items()
        }
        self.left_order = components(left)
        self.left_recursive = _on_circles(self.left_order, left)
        self._bounded: set[str] = set()
        for name, *_ in self.order:
            if name not in self.recursive and self.is_bounded(self.rules[name].body):
                self._bounded.add(name)

    def _productive(self, names: Iterable[str]) -> list[str]:
        return [
            name for name in names if self.shortest[name] < math.inf and name not in self.hollow
        ]

    def length(self, expression: Expression) -> float:
        """Return the length of an expression's shortest text in bytes; ``math.inf``: none."""
        return _length(expression, self.shortest)

    def nullable(self, expression: Expression) -> bool:
        """Whether an expression matches the empty text."""
        return self.length(expression) == 0

    def is_bounded(self, expression: Expression) -> bool:
        """Whether an expression is regular, without a repetition that has no bound."""
        match expression:
            case Reference(name=name):
                return name in self._bounded
            case Series(parts=parts) | Alternatives(branches=parts):
                return all(map(self.is_bounded, parts))
            case Repeat(body=body, most=most):
                return most is not None and self.is_bounded(body)
        return True

    def corners(self, expression: Expression) -> Iterator[str]:
        """Yield the names of the rules that an expression can begin with."""
        match expression:
            case Reference(name=name):
                yield name
            case Series(parts=parts):
                for part in parts:
                    yield from self.corners(part)
                    if not self.nullable(part):
                        break
            case Alternatives(branches=branches):
                for branch in branches:
                    yield from self.corners(branch)
            case Repeat(body=body, most=most) if most != 0:
                yield from self.corners(body)

    def _hollow_rules(self, below: dict[str, list[str]]) -> set[str]:
        hollow = {name for name in below if self.shortest[name] == 0}
        above = _turned(below)
        stack = list(hollow)
        while stack:
            name = stack.pop()
            spend(1 + self._sizes[name] // PARTS_PER_STEP)
            if name in hollow and self._says_more(self.rules[name].body, hollow):
                hollow.discard(name)
                stack.extend(above[name])
        return hollow

    def _says_more(self, expression: Expression, hollow: set[str]) -> bool:
        """Whether an expression matches more than the empty text, if some rules do not."""
        if self.length(expression) == math.inf:
            return False
        match expression:
            case Reference(name=name):
                return name not in hollow
            case Series(parts=parts) | Alternatives(branches=parts):
                return any(self._says_more(part, hollow) for part in parts)
            case Repeat(body=body, most=most):
                return most != 0 and self._says_more(body, hollow)
            case Text(text=text):
                return bool(text)
        return True

    def _shortest_lengths(self, below: dict[str, list[str]]) -> dict[str, float]:
        """Settle the rules in the order of their lengths: each knows all it needs then."""
        above = _turned(below)
        settled = dict.fromkeys(below, math.inf)
        first = ((_length(rule.body, settled), name) for name, rule in self.rules.items())
        queue = [(length, name) for length, name in first if length < math.inf]
        heapify(queue)
        while queue:
            length, name = heappop(queue)
            if settled[name] < math.inf:
                continue
            settled[name] = length
            for other in above[name]:
                if settled[other] == math.inf:
                    spend(1 + self._sizes[other] // PARTS_PER_STEP)
                    hope = _length(self.rules[other].body, settled)
                    if hope < math.inf:
                        heappush(queue, (hope, other))
        return settled


def _size(expression: Expression) -> int:
    """Return the number of expressions in one, itself included."""
    size = 0
    stack = [expression]
    while stack:
        size += 1
        if not size % PARTS_PER_STEP:
            spend()
        match stack.pop():
            case Series(parts=parts) | Alternatives(branches=parts):
                stack.extend(parts)
            case Repeat(body=body):
                stack.append(body)
    return size


def _turned(below: dict[str, list[str]]) -> dict[str, list[str]]:
    above: dict[str, list[str]] = {name: [] for name in below}
    for name, names in below.items():
        for other in names:
            above[other].append(name)
    return above


def _length(expression: Expression, known: dict[str, float]) -> float:
    match expression:
        case Text(text=text):
            return len(text.encode())
        case Characters(members=members):
            return len(chr(members.ranges[0][0]).encode()) if members else math.inf
        case Reference(name=name):
            return known[name]
        case Series(parts=parts):
            return sum(_length(part, known) for part in parts)
        case Alternatives(branches=branches):
            return min(_length(branch, known) for branch in branches)
        case Repeat(body=body, least=least):
            return least * _length(body, known) if least else 0


def _reachable(rules: dict[str, Rule], start: str) -> dict[str, Rule]:
    """Return the rules that a rule leads to, itself included, after a look at all of them."""
    if start not in rules:
        raise GrammarSyntaxError(
            f"there is no rule {start!r}, with which texts begin",
            line=1,
            column=1,
            rule=start,
            hint=f"There are {', '.join(list(rules)[:8])}",
        )
    for rule in rules.values():
        for found in references(rule.body):
            if found.name not in rules:
                line, column = found.position
                raise GrammarSyntaxError(
                    f"there is no rule {found.name!r}",
                    line=line,
                    column=column,
                    rule=rule.name,
                    hint='Texts stand in "quotes"',
                )
    seen = {start: rules[start]}
    stack = [start]
    while stack:
        for found in references(rules[stack.pop()].body):
            if found.name not in seen:
                seen[found.name] = rules[found.name]
                stack.append(found.name)
    return seen


def _on_circles(order: list[list[str]], edges: dict[str, list[str]]) -> set[str]:
    return {
        name for members in order for name in members if len(members) > 1 or name in edges[name]
    }
