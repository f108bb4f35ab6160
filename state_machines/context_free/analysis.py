"""Properties of a grammar's rules that the compiler needs.

* The length of each rule's shortest text in bytes, so also which rules match the empty text or no
  text at all (Knuth, "A generalization of Dijkstra's algorithm", IPL 1977).
* Which rules are recursive, and which are left-recursive, directly or through others.
* Which rules are regular and of bounded length, so that they are one language of characters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from state_machines.budgets import spend
from state_machines.errors import GrammarSyntaxError
from state_machines.grammar.symbols import bytes_in
from state_machines.graphs import Edge, Visit, best_first, components, reachable
from state_machines.syntax_tree import (
    EXPRESSIONS_PER_STEP,
    Characters,
    Choice,
    Expression,
    NamedTokens,
    Reference,
    Repeat,
    Rule,
    Series,
    String,
    Terminal,
    walk,
)


class Analysis:
    """The rules that are reachable from ``start``, and their properties.

    Attributes:
        rules: The reachable rules by name.
        shortest: The length of each rule's shortest text in bytes; ``math.inf`` if there is none.
        order: Strongly connected components of the rules, a rule after those it refers to.
            References to rules that match nothing do not count.
        left_edges: The rules that are left corners of a rule, other than such ones.
        left_order: The same as ``order``, where only these references count.
        recursive: Names of the rules that refer to themselves, directly or through others.
        left_recursive: Names of the rules that are their own left corner.

    Raises:
        GrammarSyntaxError: A rule is referred to and not defined.
    """

    def __init__(self, rules: dict[str, Rule], start: str) -> None:
        self._sizes: dict[str, int] = {}
        callees = self._callees(rules, start)
        self.rules = {name: rules[name] for name in callees}
        self.shortest: dict[str, float] = dict.fromkeys(callees, math.inf)
        self._callers: dict[str, list[str]] = {name: [] for name in callees}
        for name, targets in callees.items():
            for target in targets:
                self._callers[target].append(name)
        self._find_shortest()
        edges = {name: self._productive(names) for name, names in callees.items()}
        self.order = components(edges)
        self.recursive = _in_cycles(self.order, edges)
        self.left_edges = {
            name: self._productive(dict.fromkeys(self.left_corners(rule.body)))
            for name, rule in self.rules.items()
        }
        self.left_order = components(self.left_edges)
        self.left_recursive = _in_cycles(self.left_order, self.left_edges)
        self._bounded: set[str] = set()
        for name, *_ in self.order:
            if name not in self.recursive and self.is_bounded(self.rules[name].body):
                self._bounded.add(name)

    def _callees(self, rules: dict[str, Rule], start: str) -> dict[str, list[str]]:
        """Return the rules that each reachable rule refers to; check the references of all."""
        if start not in rules:
            hint = f"There are {', '.join(list(rules)[:8])}"
            what = f"there is no rule {start!r} to start with"
            raise GrammarSyntaxError.at((1, 1), what, start, hint)
        callees: dict[str, list[str]] = {}
        for rule in rules.values():
            names: dict[str, None] = {}
            size = 0
            for found in walk(rule.body):
                size += 1
                if not isinstance(found, Reference):
                    continue
                names[found.name] = None
                if found.name not in rules:
                    what, hint = f"there is no rule {found.name!r}", 'Texts stand in "quotes"'
                    raise GrammarSyntaxError.at(found.position, what, rule.name, hint)
            callees[rule.name], self._sizes[rule.name] = list(names), size
        return {name: callees[name] for name in reachable(start, callees.__getitem__)}

    def _productive(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.shortest[name] < math.inf]

    def shortest_length(self, expression: Expression) -> float:
        """Return the bytes of an expression's shortest text; ``math.inf`` if there is none."""
        match expression:
            case Terminal() | NamedTokens():
                return 1
            case String(text=text):
                return len(text.encode())
            case Characters(members=members):
                return len(chr(members.ranges[0][0]).encode()) if members else math.inf
            case Reference(name=name):
                return self.shortest[name]
            case Series(parts=parts):
                return sum(map(self.shortest_length, parts))
            case Choice(branches=branches):
                return min(map(self.shortest_length, branches))
            case Repeat(body=body, min_count=min_count):
                return min_count * self.shortest_length(body) if min_count else 0
        raise AssertionError(f"{expression!r} is not an expression of a grammar")

    def nullable(self, expression: Expression) -> bool:
        """Return whether an expression matches the empty text."""
        return self.shortest_length(expression) == 0

    def is_bounded(self, expression: Expression) -> bool:
        """Return whether an expression is regular and has no unbounded repetition."""
        match expression:
            case Reference(name=name):
                return name in self._bounded
            case Repeat(max_count=None) | Terminal() | NamedTokens():
                return False
        return all(map(self.is_bounded, expression.children))

    def left_corners(self, expression: Expression) -> Iterator[str]:
        """Yield the names of the rules that an expression can begin with."""
        match expression:
            case Reference(name=name):
                yield name
            case Series(parts=parts):
                for part in parts:
                    yield from self.left_corners(part)
                    if not self.nullable(part):
                        break
            case Choice(branches=branches):
                for branch in branches:
                    yield from self.left_corners(branch)
            case Repeat(body=body, max_count=max_count) if max_count != 0:
                yield from self.left_corners(body)

    def followers(self) -> dict[int, int]:
        """Return the terminals that can come next in a shortest completion, by terminal, as sets.

        A set may contain too many, never too few. Of ``start: A B? C``, ``C`` follows ``A``: a
        shortest completion has no optional part.
        """
        edges = dict.fromkeys(self.rules, (0, 0))
        behind: dict[int, int] = {}

        def ends(expression: Expression) -> tuple[bool, int, int]:
            """Return whether an expression is nullable, its first and its last terminals.

            The first ones are those of shortest texts, if the expression is not nullable.
            """
            match expression:
                case Terminal(number=number):
                    behind.setdefault(1 << number, 0)
                    return False, 1 << number, 1 << number
                case Reference(name=name):
                    return self.shortest[name] == 0, *edges[name]
                case Choice(branches=branches):
                    is_nullable, first, last = False, 0, 0
                    for branch in branches:
                        is_optional, branch_first, branch_last = ends(branch)
                        is_nullable |= is_optional
                        first, last = first | branch_first, last | branch_last
                    return is_nullable, 0 if is_nullable else first, last
                case Series(parts=parts):
                    is_nullable, first, last = True, 0, 0
                    for part in parts:
                        is_optional, part_first, part_last = ends(part)
                        if is_optional:
                            last |= part_last
                            continue
                        behind[last] = behind.get(last, 0) | part_first
                        first, last = part_first if is_nullable else first, part_last
                        is_nullable = False
                    return is_nullable, first, last
                case Repeat(body=body, min_count=min_count, max_count=max_count) if max_count != 0:
                    is_nullable, first, last = ends(body)
                    if min_count > 1:
                        behind[last] = behind.get(last, 0) | first
                    is_nullable |= not min_count
                    return is_nullable, 0 if is_nullable else first, last
            return self.nullable(expression), 0, 0

        for members in self.order:
            pending, component = dict.fromkeys(members), set(members)
            while pending:
                name = next(iter(pending))
                del pending[name]
                spend(1 + self._sizes[name] // EXPRESSIONS_PER_STEP)
                _, first, last = ends(self.rules[name].body)
                if (first, last) != edges[name]:
                    edges[name] = first, last
                    pending |= dict.fromkeys(filter(component.__contains__, self._callers[name]))
        found_behind: dict[int, int] = {}
        for terminals, following in behind.items():
            for number in bytes_in(terminals):
                found_behind[number] = found_behind.get(number, 0) | following
        return found_behind

    def _find_shortest(self) -> None:
        """Settle the rules in the order of their lengths, as Dijkstra's algorithm does."""

        def edges(visit: Visit[str, None]) -> Iterator[Edge[str, None]]:
            for caller in self._callers[visit.state] if visit.state else self.rules:
                if self.shortest[caller] == math.inf:
                    spend(1 + self._sizes[caller] // EXPRESSIONS_PER_STEP)
                    length = self.shortest_length(self.rules[caller].body)
                    if length < math.inf:
                        yield caller, None, int(length) - visit.cost

        # The start is no rule; its edges lead to the rules whose length depends on no other.
        for visit in best_first("", edges, lambda _: 0):
            if visit.state:
                self.shortest[visit.state] = visit.cost


def _in_cycles(order: list[list[str]], edges: dict[str, list[str]]) -> set[str]:
    return {
        name for members in order for name in members if len(members) > 1 or name in edges[name]
    }
