"""Short texts that complete states, composed from the texts of their parts.

The shortest word of ``a·b`` is the shortest word of ``a`` with the shortest word of ``b`` behind
it; the shortest word of ``a|b`` is the shorter of both. So a word is found without walking the
states byte by byte, and the word of a part serves all states that contain the part. Knuth, "A
generalization of Dijkstra's algorithm", 1977, solves such systems of equations; here they are
unfolded on demand, depth first, with an upper bound on the weight that can still be an improvement.
The result is a word of the language, but not always the shortest: parts are compared by their
weight in tokens, and the search takes the first word when its budget is spent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from itertools import chain

from state_machines.budgets import derivative_budget, spend
from state_machines.caches import WeakKeyLruCache
from state_machines.completion.leaf_texts import LeafTexts
from state_machines.completion.texts import (
    NOTHING,
    SHORT,
    TOKEN_WEIGHT,
    CompletionText,
    Segmenter,
    joined,
)
from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.lazy import Deferred, Lazy, WordTransitions
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import Concatenation, Literal, Repetition, Union
from state_machines.grammar.remembered import Remembered
from state_machines.grammar.rule_options import TokenLimited
from state_machines.grammar.tokens import TokenNode
from state_machines.limits import LIMITS
from state_machines.masks.spelled_tokens import SpelledTokens

_COMPLETION_TEXTS = 1 << 16
"""States whose completing text is cached."""

_COMPLETION_WEIGHTS = 1 << 14
"""States for which a lower bound on the weight of that text is cached."""

_REMEMBERED_WORD_BYTES = 1 << 14
"""Bytes of a remembered word that is tried."""

WEIGHT_LIMITS = (1 << 12, 1 << 16, 1 << 20)
"""Upper bounds on the weight of a text: about 200, 3,000 and 50,000 tokens."""

LONG_LITERAL = 512
"""Bytes of a literal above which its weight is estimated."""


_COMPOSED = (
    Concatenation,
    Union,
    Lazy,
    Repetition,
    WordTransitions,
    Remembered,
    Literal,
    TokenNode,
    TokenLimited,
)

_Steps = Generator["tuple[Node, int]", "CompletionText | None", "CompletionText | None"]


@dataclass(slots=True)
class _NodeFrame:
    """A node that is being evaluated.

    Attributes:
        node: The node.
        limit: Upper bound on the weight of its text.
        steps: The evaluation.
        above: Smallest depth of a frame whose node was met again below this one.
    """

    node: Node
    limit: int
    steps: _Steps
    above: int = 1 << 30


class ShortestTexts:
    """Finds short texts that complete states. Thread-safe.

    Results are cached and shared by all searches; each search has its own working state.
    """

    def __init__(self, segmenter: Segmenter, spelled: SpelledTokens) -> None:
        self.segmenter = segmenter
        self.leaves = LeafTexts(segmenter, spelled)
        self.known: WeakKeyLruCache[Node, CompletionText] = WeakKeyLruCache(_COMPLETION_TEXTS)
        self.floors: WeakKeyLruCache[Node, int] = WeakKeyLruCache(_COMPLETION_WEIGHTS)

    def text(self, node: Node, steps: int) -> CompletionText | None:
        """Return a short text that completes a state that is not dead; ``None`` if none is found.

        Raises:
            GrammarBudgetError: The search takes more than ``steps`` steps.
        """
        known = self.known.get(node)
        if known is not None:
            return known
        if node.nullable:
            return NOTHING
        if type(node) is Concatenation:
            # Most new states are a new head before a known tail.
            tail = self.known.get(node.tail)
            head = None if tail is None else self.known.get(node.head)
            if tail is not None and head is not None:
                return self.known.put(node, joined(head, tail))
        with derivative_budget(steps):
            solver = _TextSearch(self)
            for limit in WEIGHT_LIMITS:
                found = solver.solve(node, limit)
                if found is not None:
                    return self.known.put(node, found)
        return None


class _TextSearch:
    """One search. ``passing`` holds texts that may improve once a cycle has been left."""

    def __init__(self, shared: ShortestTexts) -> None:
        self._segmenter = shared.segmenter
        self._leaves = shared.leaves
        self._known = shared.known
        self._floors = shared.floors
        self._passing: dict[Node, tuple[CompletionText, int]] = {}
        self._steps = 0

    def solve(self, root: Node, limit: int) -> CompletionText | None:
        """Return the lightest text within a weight limit, if there is one."""
        known, passing = self._known, self._passing
        stack = [_NodeFrame(root, limit, self._evaluate(root, limit))]
        depth_of = {root: 0}
        answer: CompletionText | None = None
        while True:
            self._steps += 1
            spend()
            frame = stack[-1]
            try:
                child, child_limit = frame.steps.send(answer)
            except StopIteration as done:
                answer = done.value
                stack.pop()
                del depth_of[frame.node]
                self._keep(frame, answer, len(stack))
                if not stack:
                    return answer
                if answer is not None and answer.weight > frame.limit:
                    answer = None
                parent = stack[-1]
                if frame.above < len(stack):
                    parent.above = min(parent.above, frame.above)
                continue
            answer = known.get(child)
            if answer is None and child in passing:
                answer, above = passing[child]
                frame.above = min(frame.above, above)
            if answer is not None:
                if answer.weight > child_limit:
                    answer = None
                continue
            if child.nullable:
                answer = NOTHING
                continue
            at = depth_of.get(child)
            if at is not None:
                # No shortest text passes through its own state.
                frame.above = min(frame.above, at)
                continue
            if self._floor(child) > child_limit:
                continue
            depth_of[child] = len(stack)
            stack.append(_NodeFrame(child, child_limit, self._evaluate(child, child_limit)))

    def _keep(self, frame: _NodeFrame, answer: CompletionText | None, depth: int) -> None:
        is_final = frame.above >= depth or self._steps > LIMITS.completion_improvement_steps
        if answer is not None:
            if is_final:
                self._known.put(frame.node, answer)
            else:
                self._passing[frame.node] = answer, frame.above
        elif frame.above >= depth:
            self._floors.put(frame.node, frame.limit + 1)

    def _floor(self, node: Node) -> int:
        """Return a lower bound on the weight of a node's text, from cached results."""
        total = 0
        for _ in range(8):
            if type(node) is not Concatenation:
                break
            total += self._floor_of(node.head)
            node = node.tail
        return total + self._floor_of(node)

    def _floor_of(self, node: Node) -> int:
        if node.nullable:
            return 0
        if type(node) is Literal and len(node.text) <= LONG_LITERAL:
            return self._segmenter.weight(node.text)
        known = self._known.get(node)
        if known is not None:
            return known.weight
        floor = self._floors.get(node)
        if floor is None:
            # An estimate, so that arguments of other tools are not built to be compared.
            is_unknown = type(node) is Deferred and node.is_deferred
            floor = TOKEN_WEIGHT * (node.min_length if is_unknown else 1) + node.min_length
        return floor

    def _evaluate(self, node: Node, limit: int) -> _Steps:
        """Yield the nodes whose texts are needed, each with a limit; return the node's text.

        Its weight may exceed the limit.
        """
        if isinstance(node, Concatenation):
            room = limit - self._floor(node.tail)
            head = yield node.head, room
            if head is None:
                return None
            tail = yield node.tail, limit - head.weight
            return None if tail is None else joined(head, tail)
        if isinstance(node, Union):
            spend(len(node.members))
            members = sorted(node.members, key=self._floor)
            return (yield from self._shortest_of(((b"", member) for member in members), limit))
        if isinstance(node, EncodedText):
            found = self._leaves.encoded(node)
            if found is not None:
                return found
            # Its shortest text may be too long.
            return None if node.min_length > limit else (yield node.expansion, limit)
        if isinstance(node, Lazy):
            return (yield node.expansion, limit)
        if isinstance(node, Literal):
            return self._segmenter.text(node.text)
        if isinstance(node, TokenNode):
            return self._leaves.token(node)
        if isinstance(node, Repetition):
            body = yield node.body, limit // node.min_count
            return None if body is None else self._segmenter.repeated(body, node.min_count)
        if isinstance(node, TokenLimited):
            return (yield node.body, limit)
        if isinstance(node, WordTransitions):
            return (yield from self._shortest_of(node.word_transitions(), limit))
        if isinstance(node, Remembered):
            return (yield from self._remembered(node, limit))
        beginning = node.leading_text
        if len(beginning) > SHORT:
            # A long literal text.
            after = node.compute_word_derivative(beginning)
            return (yield from self._shortest_of(((beginning, after),), limit))
        return (yield from self._shortest_of(self._leaves.branches(node, _COMPOSED), limit))

    def _shortest_of(self, branches: Iterable[tuple[bytes, Node]], limit: int) -> _Steps:
        """Return the lightest text of several branches: a text, followed by a node."""
        best: CompletionText | None = None
        for text, then in branches:
            spend()
            beginning = self._segmenter.text(text)
            weight = beginning.weight
            if weight > limit:
                continue
            if then.nullable:
                found: CompletionText | None = NOTHING
            elif weight + self._floor(then) > limit:
                continue
            else:
                found = yield then, limit - weight
            if found is not None:
                best = joined(beginning, found)
                limit = best.weight - 1
                if self._steps > LIMITS.completion_improvement_steps:
                    break
        return best

    def _remembered(self, node: Remembered, limit: int) -> _Steps:
        """Return a text whose remembered word has a continuation; not every word has one."""
        shortest = yield node.lexeme, limit
        if shortest is None:
            return None
        required = node.required()
        first = [required] if required is not None else []
        if shortest.size <= _REMEMBERED_WORD_BYTES:
            first.append(shortest.flat)
        others = self._leaves.several(node.lexeme, LIMITS.remembered_words)
        for word in chain(first, others):
            spend(1 + len(word) // 64)
            then = node.dispatch.after(node.written + word)
            if then is not EMPTY and not then.is_empty:
                return (yield from self._shortest_of(((word, then),), limit))
        return None
