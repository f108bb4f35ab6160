"""Languages that several formats are built from."""

from __future__ import annotations

from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import branch, repetition, symbols
from state_machines.grammar.symbols import ANY_CODE_POINT, code_points
from state_machines.grammar.word_lists import literals
from state_machines.regex import compile_pattern


def full_match(pattern: str) -> Node:
    """Return the strings that a regular expression matches as a whole."""
    return compile_pattern(pattern, search=False)


def exact_text(text: str) -> Node:
    """Return the language of one string."""
    return literals([text])


def max_characters(count: int, language: Node) -> Node:
    """Return the strings of a language that have at most ``count`` characters."""
    return intersection((language, repetition(symbols(ANY_CODE_POINT), 0, count)))


def max_octets(count: int) -> Node:
    """Return the strings that have at most ``count`` octets in UTF-8."""
    widths = (
        (1, code_points(0, 0x7F)),
        (2, code_points(0x80, 0x7FF)),
        (3, code_points(0x800, 0xFFFF)),
        (4, code_points(0x10000, 0x10FFFF)),
    )
    nodes = [EPSILON]
    for octets in range(1, count + 1):
        transitions = (
            (members, nodes[octets - width]) for width, members in widths if width <= octets
        )
        nodes.append(branch(transitions, nullable=True))
    return nodes[count]
