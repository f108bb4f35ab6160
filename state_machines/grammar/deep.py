"""Steps through states: text that is forced, and derivatives of states that are nested deeply.

States of ambiguous grammars can be as deep as their texts are long. The derivative of a state is
computed from the derivatives of its parts, which store them. Where this recursion is too deep, the
derivatives of the parts are computed first, innermost parts first.
"""

from __future__ import annotations

from collections.abc import Callable

from state_machines.budgets import derivative_budget, spend
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import Concatenation, Union
from state_machines.grammar.symbols import bytes_in


def word_derivative(node: Node, text: bytes) -> Node:
    """Return the derivative by a byte string, and store it as :meth:`Node.word_derivative` does.

    Raises:
        GrammarBudgetError: The state is too deep.
    """
    return _without_recursion(node, text, Node.word_derivative)


def compute_word_derivative(node: Node, text: bytes) -> Node:
    """Return the derivative by a byte string, and do not store it; see :func:`word_derivative`."""
    return _without_recursion(node, text, Node.compute_word_derivative)


def forced_step(node: Node) -> bytes:
    """Return text that all words of a node that is not nullable begin with; maybe none."""
    text = node.leading_text
    if text:
        return text
    first = node.first_bytes
    return b"" if first & (first - 1) else bytes(bytes_in(first))


def _without_recursion(node: Node, text: bytes, compute: Callable[[Node, bytes], Node]) -> Node:
    try:
        return compute(node, text)
    except RecursionError:
        pass
    with derivative_budget():
        state = node
        for byte in text:
            if state is EMPTY:
                break
            for part in _innermost_first(state):
                _ = part.first_bytes
                if part.first_bytes >> byte & 1:
                    part.derivative(byte)
            state = state.derivative(byte)
        return compute(node, text)


def _innermost_first(node: Node) -> list[Node]:
    """Return the parts of a state whose derivatives it needs, each after its own parts."""
    found: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        part, is_left = stack.pop()
        if is_left:
            found.append(part)
            continue
        if part in seen:
            continue
        spend()
        seen.add(part)
        if isinstance(part, Union):
            stack.append((part, True))
            stack.extend((member, False) for member in part.members)
        elif isinstance(part, Concatenation):
            stack += [(part, True), (part.head, False)]
            if part.head.nullable:
                stack.append((part.tail, False))
    return found
