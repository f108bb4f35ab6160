"""Decompose a grammar state into ``prefix · lexeme · continuation``.

Which tokens stay inside a string does not depend on what follows the string. Masks are therefore
assembled per lexeme: one walk over the vocabulary serves every state that has the same next lexeme.

A state is first written as a union of configurations, then each of these is split after its first
lexeme. Both steps preserve the language: the union distributes over the concatenation with what
follows, and a lazy node is equal to its expansion. Only a split with remembered words is
approximate, as :class:`LexemeSplit` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.exclusion import Exclusion
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import (
    Branch,
    Concatenation,
    Literal,
    Repetition,
    SymbolNode,
    Union,
    concatenation,
    union,
)
from state_machines.grammar.remembered import Remembered, remembered
from state_machines.limits import LIMITS

MAX_PREFIX_BYTES = 4
"""Greatest length of a prefix that is walked together with the lexeme after it."""

_PLAIN = frozenset((Branch, Literal, Repetition, SymbolNode))
"""Kinds of nodes that are neither taken apart nor expanded."""

Stack: TypeAlias = "Configuration | None"
Configuration: TypeAlias = "tuple[Node, Stack]"
"""A node and the stack of nodes that follow it.

The nodes are not concatenated: most are taken apart at once, and need not be made.
"""


class LexemeSplit(NamedTuple):
    """A state written as ``prefix · lexeme · continuation``.

    Attributes:
        prefix: What precedes the lexeme; at most :data:`MAX_PREFIX_BYTES` bytes.
        lexeme: The encoded text over which the vocabulary is walked.
        continuation: What follows the lexeme; ``None`` if it depends on the remembered word.
        distance: Least number of bytes from the end of the lexeme to that of the innermost
            remembered word; no shorter suffix is context-dependent.
        remembered: Enclosing remembered words, outermost first. With them, ``continuation`` is the
            default of the innermost one: exact except after its exceptions, and for suffixes that
            are context-dependent in one of them.
    """

    prefix: Node
    lexeme: EncodedText
    continuation: Node | None
    remembered: tuple[Remembered, ...] = ()
    distance: int = 0

    @property
    def is_any_text(self) -> bool:
        """Whether the lexeme is any text, without a prefix."""
        text = self.lexeme.text
        return self.prefix is EPSILON and isinstance(text, Repetition) and text.is_universal


def configurations(
    node: Node, stack: Stack = None, lookahead: int = MAX_PREFIX_BYTES
) -> Iterator[Configuration]:
    """Split ``node`` followed by ``stack`` into configurations without a union near the front.

    The union of the yielded configurations is the language of ``node`` followed by ``stack``. An
    optional single byte does not count as a union: both branches reach the same configuration.

    Args:
        node: The first node.
        stack: The nodes that follow it.
        lookahead: Number of leading bytes within which unions are expanded.
    """
    # Not recursive: unions may be nested in the tails of others to any depth.
    pending: list[tuple[Node, Stack, int]] = [(node, stack, lookahead)]
    while pending:
        node, stack, lookahead = pending.pop()
        while type(node) is Concatenation:
            stack, node = (node.tail, stack), node.head
        kind = type(node)
        if kind is Union:
            if not (node.nullable and node.max_length == 1 and lookahead):
                for member in reversed(node.members):  # type: ignore[attr-defined]
                    if member is not EPSILON:
                        pending.append((member, stack, lookahead))
                    elif stack is not None:
                        pending.append((*stack, lookahead))
                continue
        elif kind in _PLAIN:
            pass
        elif isinstance(node, Remembered):
            if isinstance(node.lexeme, EncodedText):
                yield node, stack
                continue
            for inner in configurations(node.lexeme, None, lookahead):
                yield remembered(joined(inner), node.dispatch, node.written), stack
            continue
        elif isinstance(node, Lazy):
            if isinstance(node, EncodedText):
                yield node, stack
                continue
            if lookahead == MAX_PREFIX_BYTES:
                pending.append((node.expansion, stack, lookahead - 1))
                continue
        if node.max_length is not None and node.max_length <= lookahead and stack is not None:
            for following in configurations(*stack, lookahead - node.max_length):
                yield node, following
        else:
            yield node, stack


def all_configurations(state: Node) -> list[Configuration] | None:
    """Return the configurations of a state; merge many with the same first node.

    Returns:
        ``None`` if merging them visits more than ``LIMITS.factored_parts`` parts.
    """
    head = state.head if type(state) is Concatenation else state
    # Most states are within a string or a literal.
    text = head.lexeme if type(head) is Remembered else head
    is_long = type(head) is Literal and len(head.text) > MAX_PREFIX_BYTES
    if is_long or isinstance(text, EncodedText):
        return [(head, None if head is state else (state.tail, None))]  # type: ignore[attr-defined]
    found: list[Configuration] = []
    for configuration in configurations(state):
        found.append(configuration)
        if len(found) > LIMITS.walked_configurations:
            return _merged_configurations(state)
    return found


def _merged_configurations(state: Node) -> list[Configuration] | None:
    """Return the nodes that a state can begin with, each with the union of what follows it.

    In a state of an ambiguous grammar, optional parts are repeated and nested once for every
    derivation of the text. Each is visited once.
    """
    continuations: dict[Node, dict[Node, None]] = {}
    seen: set[tuple[Node, Node, bool]] = set()
    pending: list[tuple[Node, Node, bool]] = [(state, EPSILON, False)]
    while pending:
        node, rest, is_expanded = pending.pop()
        while isinstance(node, Concatenation):
            rest = concatenation(node.tail, rest)
            node = node.head
        if (node, rest, is_expanded) in seen:
            continue
        if len(seen) >= LIMITS.factored_parts:
            return None
        spend()
        seen.add((node, rest, is_expanded))
        if isinstance(node, Union):
            pending.extend((member, rest, is_expanded) for member in reversed(node.members))
        elif isinstance(node, Lazy) and not isinstance(node, EncodedText) and not is_expanded:
            pending.append((node.expansion, rest, True))
        elif node is not EPSILON:
            continuations.setdefault(node, {})[rest] = None
        elif rest is not EPSILON:
            pending.append((rest, EPSILON, is_expanded))
    return [(node, (union(rests), None)) for node, rests in continuations.items()]


def joined(stack: Stack) -> Node:
    """Return the concatenation of a configuration or stack."""
    if stack is not None and stack[1] is None:
        return stack[0]
    parts: list[Node] = []
    while stack is not None:
        part, stack = stack
        parts.append(part)
    return concatenation(*parts)


def split_lexeme(configuration: Configuration) -> LexemeSplit | None:
    """Split a configuration after its first lexeme; ``None`` if it does not begin with one."""
    prefix: list[Node] = []
    words: list[Remembered] = []
    has_default = True
    end_of_word: Stack = None
    is_in_word = False
    node, stack = configuration
    while True:
        while type(node) is Concatenation:
            stack, node = (node.tail, stack), node.head
        if type(node) in _PLAIN:
            if stack is None:
                return None
            prefix.append(node)
            is_in_word = is_in_word and stack is not end_of_word
            node, stack = stack
        elif isinstance(node, EncodedText):
            continuation = joined(stack) if has_default else None
            distance = _min_length(stack, end_of_word) if is_in_word else 0
            return LexemeSplit(concatenation(*prefix), node, continuation, tuple(words), distance)
        elif isinstance(node, Remembered):
            words.append(node)
            default = node.dispatch.default_before(joined(stack))
            if default is EMPTY and not isinstance(node.lexeme, EncodedText):
                return None
            if default is None:
                has_default = False
            stack = end_of_word = None if default is None else (default, None)
            is_in_word = True
            node = node.lexeme
        elif stack is None or isinstance(node, Lazy):
            return None
        else:
            prefix.append(node)
            is_in_word = is_in_word and stack is not end_of_word
            node, stack = stack


def _min_length(stack: Stack, end: Stack) -> int:
    """Return a lower bound on the bytes that a stack writes before a given node."""
    length = 0
    while stack is not None and stack is not end:
        node, stack = stack
        length += node.min_length
    return length


def without_exclusion(configuration: Configuration) -> tuple[Node, Exclusion] | None:
    """Return a configuration without the exclusion of its remembered word, and that exclusion.

    ``None`` if no word is excluded.
    """
    head, stack = configuration
    if isinstance(head, Concatenation):
        stack, head = (head.tail, stack), head.head
    if not isinstance(head, Remembered) or not isinstance(head.lexeme, Exclusion):
        return None
    wider = remembered(head.lexeme.body, head.dispatch, head.written)
    return joined((wider, stack)), head.lexeme
