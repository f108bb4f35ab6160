"""Intersection and complement, and whether they are empty.

An intersection other than ``EMPTY`` can have no word. :func:`_find_word` decides that by a search
for a nullable derivative. Transitions drop empty targets, so every state that a matcher can reach
has a word. :class:`SymbolProofs` shows in few steps that an intersection is empty: one member needs
a symbol that another never has. Without it, a search visits every state of the one member: all leap
seconds of ``date-time``, say, for a pattern that needs a ``T`` after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from state_machines.budgets import Verdict, spend
from state_machines.grammar.lazy import Deferred
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Symbols,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.nodes import (
    MEMBERS_PER_STEP,
    Branch,
    Concatenation,
    Repetition,
    SymbolNode,
    Union,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.shortest import (
    has_all_lengths,
    has_endless_words,
    has_word_within,
    shortest_length,
)
from state_machines.grammar.symbols import is_whole_alphabet
from state_machines.grammar.word_lists import ListedText, ListedTexts, symbol_set
from state_machines.graphs import Edge, Visit, best_first
from state_machines.limits import LIMITS

_FEW_STATES = 16
"""States that an emptiness search visits before it looks for proofs that a state has no word."""


class _Boolean(Node):
    """A node whose raw transitions may lead to states without a word."""

    __slots__ = ("_empty", "_raw")

    def __init__(self, *, nullable: bool, min_length: int, max_length: int | None) -> None:
        super().__init__(
            nullable=nullable, min_length=min_length, max_length=max_length, boolean=True
        )
        self._empty: bool | None = False if nullable else None
        self._raw: Transitions | None = None

    @property
    def raw_transitions(self) -> Transitions:
        """The derivatives, also derivatives without a word."""
        raw = self._raw
        if raw is None:
            raw = self._raw = self._make_raw_transitions()
        return raw

    def _make_raw_transitions(self) -> Transitions:
        raise NotImplementedError  # pragma: no cover - abstract

    def compute_transitions(self) -> Transitions:
        return collect_transitions(self.raw_transitions)

    @property
    def is_empty(self) -> bool:
        if self._empty is None:
            # Where it is not known, nothing that depends on it is: neither the schema, nor a mask.
            self._empty = not _find_word(self).decided(
                "whether an intersection is empty", LIMITS.emptiness_states
            )
        return self._empty

    def release(self) -> Iterable[Node]:
        raw, self._raw = self._raw, None
        return (*super().release(), *(target for _, target in raw or ()))


class Intersection(_Boolean):
    """The words that are in all ``members``."""

    __slots__ = ("members",)

    def __init__(self, members: tuple[Node, ...]) -> None:
        bounds = [member.max_length for member in members if member.max_length is not None]
        super().__init__(
            nullable=all(member.nullable for member in members),
            min_length=max(member.min_length for member in members),
            max_length=min(bounds) if bounds else None,
        )
        self.members = members

    def release(self) -> Iterable[Node]:
        return (*super().release(), *self.members)

    def _make_raw_transitions(self) -> Transitions:
        refined: list[tuple[Symbols, tuple[Node, ...]]] = [
            (s, (target,)) for s, target in self.members[0].transitions
        ]
        for member in self.members[1:]:
            cells = refined
            refined = []
            for s, targets in cells:
                spend(1 + len(member.transitions) // 8)
                refined += [
                    (common, (*targets, target))
                    for other, target in member.transitions
                    if (common := s & other)
                ]
        return _collect_raw((s, intersection(targets)) for s, targets in refined)


class Complement(_Boolean):
    """The words over ``alphabet`` that are not in ``body``."""

    __slots__ = ("alphabet", "body")

    def __init__(self, body: Node, alphabet: Symbols) -> None:
        super().__init__(
            nullable=not body.nullable, min_length=1 if body.nullable else 0, max_length=None
        )
        self.body = body
        self.alphabet = alphabet

    def _make_raw_transitions(self) -> Transitions:
        rest = self.alphabet
        pairs = []
        for s, target in self.body.transitions:
            rest = rest & ~s
            pairs.append((s, complement(target, self.alphabet)))
        if rest:
            pairs.append((rest, everything(self.alphabet)))
        return _collect_raw(pairs)


def _collect_raw(pairs: Iterable[tuple[Symbols, Node]]) -> Transitions:
    by_target: dict[Node, Symbols] = {}
    for s, target in pairs:
        if target is not EMPTY:
            known = by_target.get(target)
            by_target[target] = s if known is None else known | s
    return tuple((s, target) for target, s in by_target.items())


def everything(alphabet: Symbols) -> Node:
    """Return the language of all words over the alphabet."""
    return repetition(symbols(alphabet), 0, None)


def complement(body: Node, alphabet: Symbols) -> Node:
    """Return the words over the alphabet that are not in ``body``."""
    if isinstance(body, Complement) and body.alphabet == alphabet:
        return body.body
    if body is EMPTY:
        return everything(alphabet)
    if isinstance(body, Repetition) and counts_any_symbol(body):
        return union(_lengths_beside(body))
    return intern_node(("Complement", id(body), alphabet), lambda: Complement(body, alphabet))


def _lengths_beside(counter: Repetition) -> Iterable[Node]:
    """Return the words that are too short or too long for a counter of any symbols."""
    if counter.min_count > 0:
        yield repetition(counter.body, 0, counter.min_count - 1)
    if counter.max_count is not None:
        yield repetition(counter.body, counter.max_count + 1, None)


def difference(body: Node, minus: Node, alphabet: Symbols) -> Node:
    """Return the words of ``body`` that are not in ``minus``."""
    return intersection((body, complement(minus, alphabet)))


def intersection(members: Iterable[Node]) -> Node:
    """Return the words that are in all members; at least one member."""
    flat: dict[Node, None] = {}
    for member in members:
        if isinstance(member, Intersection):
            flat.update(dict.fromkeys(member.members))
        else:
            flat[member] = None
    if EMPTY in flat:
        return EMPTY
    if len(flat) > 1:
        spend(1 + len(flat) // MEMBERS_PER_STEP)
        for node in flat:
            if isinstance(node, Complement) and isinstance(node.body, Intersection):
                reduced = _without_common_members(node, flat)
                if reduced is not node:
                    return intersection(reduced if each is node else each for each in flat)
        flat = _simplified(flat)
    if len(flat) == 1:
        return next(iter(flat))
    min_length = max(node.min_length for node in flat)
    if any(node.max_length is not None and node.max_length < min_length for node in flat):
        return EMPTY
    if EPSILON in flat:
        return EPSILON if all(node.nullable for node in flat) else EMPTY
    if any(isinstance(node, Complement) and node.body in flat for node in flat):
        return EMPTY
    found = tuple(flat)
    return intern_node(("Intersection", *sorted(map(id, found))), lambda: Intersection(found))


def _simplified(flat: dict[Node, None]) -> dict[Node, None]:
    """Drop universal members, merge bounds on the length, and drop implied bounds."""
    lengths: list[Repetition] = []
    rest: dict[Node, None] = {}
    for node in flat:
        if isinstance(node, Repetition) and counts_any_symbol(node):
            if not node.is_universal:
                lengths.append(node)
        else:
            rest[node] = None
    if not lengths:
        return rest or dict.fromkeys(list(flat)[:1])
    min_count = max(node.min_count for node in lengths)
    tops = [node.max_count for node in lengths if node.max_count is not None]
    max_count = min(tops) if tops else None
    if max_count is not None and max_count < min_count:
        return {EMPTY: None}
    low = max((node.min_length for node in rest), default=0)
    highs = [node.max_length for node in rest if node.max_length is not None]
    implied = (
        bool(rest)
        and low >= min_count
        and (max_count is None or bool(highs and min(highs) <= max_count))
    )
    if not implied:
        rest[repetition(lengths[0].body, min_count, max_count)] = None
    return rest


def _without_common_members(node: Complement, flat: dict[Node, None]) -> Node:
    """Return a member of an intersection, simplified beside the others: ``L - (A & L) = L - A``."""
    members = node.body.members if isinstance(node.body, Intersection) else ()
    rest = [member for member in members if member not in flat]
    if len(rest) == len(members):
        return node
    return complement(intersection(rest), node.alphabet) if rest else EMPTY


def counts_any_symbol(node: Repetition) -> bool:
    """Whether a repetition restricts only the length of words."""
    return isinstance(node.body, SymbolNode) and is_whole_alphabet(node.body.symbols)


def bounds_and_rest(node: Node) -> tuple[Repetition, Node] | None:
    """Return an intersection with a bound on the length as that bound and the other members."""
    if not isinstance(node, Intersection):
        return None
    bounds = next(
        (each for each in node.members if isinstance(each, Repetition) and counts_any_symbol(each)),
        None,
    )
    if bounds is None:
        return None
    return bounds, intersection(each for each in node.members if each is not bounds)


def _find_word(start: Node) -> Verdict:
    """Whether a nullable state can be reached; the visited states store the answer too.

    Best-first by ``min_length`` alone, so that a counter is run down before others are explored.
    """
    if start.max_length is not None and start.min_length > start.max_length:
        return Verdict.NO
    bounded = bounds_and_rest(start)
    if bounded is not None:
        bounds, rest = bounded
        verdict = rest.has_length_between(bounds.min_count, bounds.max_count)
        top = bounds.max_count
        if (
            verdict is Verdict.UNKNOWN
            and top is not None
            and bounds.min_count <= rest.min_length
            and not rest.boolean
        ):
            # Each character changes the bound, but a text has few states.
            verdict = has_word_within(rest, top, LIMITS.emptiness_states)
        elif verdict is Verdict.UNKNOWN and bounds.min_count > _FEW_STATES and _has_word(rest):
            # A search would visit a state for each length.
            if top is None:
                verdict = has_endless_words(rest)
            elif has_all_lengths(rest) is Verdict.YES:
                verdict = Verdict.of(shortest_length(rest) <= top)
        if verdict is not Verdict.UNKNOWN:
            return verdict
    visited: list[_Boolean] = []
    proofs = SymbolProofs()

    def edges(visit: Visit[Node, None]) -> list[Edge[Node, None]]:
        state = visit.state
        is_refuted = (
            len(visited) > _FEW_STATES
            and isinstance(state, Intersection)
            and proofs.refute(state.members)
        )
        return [] if is_refuted else _raw_edges(state)

    for number, visit in enumerate(best_first(start, edges, attrgetter("min_length"))):
        if _is_live(visit.state):
            step: Visit[Node, None] | None = visit
            while step is not None:
                if isinstance(step.state, _Boolean):
                    step.state._empty = False
                step = step.previous
            return Verdict.YES
        if isinstance(visit.state, _Boolean):
            visited.append(visit.state)
        if number > LIMITS.emptiness_states:
            return Verdict.UNKNOWN
    for node in visited:
        node._empty = True
    return Verdict.NO


def _has_word(node: Node) -> bool:
    """Whether a language is known to have a word."""
    if isinstance(node, _Boolean) and node._empty is None:
        found = _find_word(node)
        if found is not Verdict.UNKNOWN:
            node._empty = found is Verdict.NO
    return _is_live(node) or (not isinstance(node, _Boolean) and _find_word(node) is Verdict.YES)


def _raw_edges(node: Node) -> list[Edge[Node, None]]:
    transitions = node.raw_transitions if isinstance(node, _Boolean) else node.transitions
    spend(1 + len(transitions) // 4)
    return [(target, None, 0) for _, target in transitions]


def _is_live(node: Node) -> bool:
    if node.nullable or not node.boolean:
        return node is not EMPTY
    return isinstance(node, _Boolean) and node._empty is False


_LISTED_WORDS = 64
"""Words of a list up to which their symbols are collected."""

_MAX_PARTS = 256
"""Parts of a member up to which its symbols are collected."""

_MAX_FAILURES = 32
"""Failed attempts in a row after which a search attempts no more proofs."""

_MAX_DEPTH = 8
"""Nested unions and repetitions up to which needed symbols are collected."""


class SymbolProofs:
    """Proofs that the intersections of one search are empty."""

    def __init__(self) -> None:
        self._failures = 0
        self._needed: dict[Node, set[Symbols]] = {}
        self._occurring: dict[Node, set[Symbols] | None] = {}

    def refute(self, members: Sequence[Node]) -> bool:
        """Return whether one member lacks a symbol that all words of another have.

        ``False`` where the parts of the members do not show it.
        """
        if self._failures > _MAX_FAILURES:
            return False
        spend(4)
        needed = set[Symbols]().union(*map(self._needed_by, members))
        for found in map(self._occurring_in, members) if needed else ():
            if found is not None and any(all(not each & s for each in found) for s in needed):
                self._failures = 0
                return True
        self._failures += 1
        return False

    def _needed_by(self, member: Node) -> set[Symbols]:
        if member not in self._needed:
            self._needed[member] = _needed(member)
        return self._needed[member]

    def _occurring_in(self, member: Node) -> set[Symbols] | None:
        if member not in self._occurring:
            self._occurring[member] = _occurring(member)
        return self._occurring[member]


def _needed(node: Node, depth: int = 0) -> set[Symbols]:
    """Return sets of symbols; every word contains a symbol of each set."""
    found: set[Symbols] = set()
    if depth > _MAX_DEPTH:
        return found
    for _ in range(_MAX_PARTS):
        spend()
        head, rest = (node.head, node.tail) if isinstance(node, Concatenation) else (node, None)
        match head:
            case SymbolNode():
                found.add(head.symbols)
            case Union():
                found |= set.intersection(*(_needed(each, depth + 1) for each in head.members))
            case Repetition() if head.min_count:
                found |= _needed(head.body, depth + 1)
            case ListedText():
                found |= {symbol_set(head.text, at) for at in range(head.start, len(head.text))}
        if rest is None:
            break
        node = rest
    return found


def _occurring(start: Node) -> set[Symbols] | None:
    """Return sets whose union has all symbols of the words; ``None`` if they are not known."""
    found: set[Symbols] = set()
    pending, seen = [start], {start}
    while pending:
        if len(seen) > _MAX_PARTS:
            return None
        spend()
        node = pending.pop()
        parts: Iterable[Node] = ()
        match node:
            case SymbolNode():
                found.add(node.symbols)
            case Deferred() if node.symbols is not None:
                found.add(node.symbols)
            case Concatenation():
                parts = (node.head, node.tail)
            case Union():
                parts = node.members
            case Repetition():
                parts = (node.body,)
            case Branch():
                found.update(symbols for symbols, _ in node.transitions)
                parts = (target for _, target in node.transitions)
            case ListedText():
                found |= _needed(node)
                parts = (node.end,)
            case ListedTexts() if node.last - node.first <= _LISTED_WORDS:
                texts = node.words.texts[node.first : node.last]
                found |= {symbol_set(text, at) for text in texts for at in range(len(text))}
                parts = node.words.different_ends
            case _ if node is not EPSILON and node is not EMPTY:
                return None
        new = [part for part in parts if part not in seen]
        pending += new
        seen.update(new)
    return None if any(map(is_whole_alphabet, found)) else found
