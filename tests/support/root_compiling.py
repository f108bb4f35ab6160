"""Compositions compiled, and pieces put together."""

from __future__ import annotations

from hypothesis import assume, event

from state_machines import Vocabulary
from state_machines.errors import CompositionError
from state_machines.grammar.node import Node
from state_machines.root import Part, Piece, RootStateMachine

__all__ = ["compiled", "joined", "shortest_ending"]

USUAL = "ab<é".encode()
"""Bytes that there are tokens for."""


def compiled(part: Part, vocabulary: Vocabulary) -> RootStateMachine:
    """Compile, or pass over a composition that is refused by name."""
    try:
        return RootStateMachine(part, vocabulary)
    except CompositionError as error:
        assert error.part
        assert error.hint
        event(error.what[:30])
    assume(False)
    raise AssertionError


def joined(pieces: list[Piece]) -> list[Piece]:
    """Put neighbours of one part together."""
    found: list[Piece] = []
    for part, own in pieces:
        if found and found[-1].part is part:
            found[-1] = Piece(part, found[-1].text + own)
        else:
            found.append(Piece(part, own))
    return found


def shortest_ending(state: Node, most: int = 3000) -> bytes | None:
    """Return a shortest word of a language, or ``None`` if the search exceeds its states."""
    layer = [(b"", state)]
    seen = {state}
    while layer and len(seen) < most:
        further = []
        for word, node in layer:
            if node.nullable:
                return word
            for symbols, target in node.transitions:
                if target not in seen:
                    seen.add(target)
                    usual = (byte for byte in USUAL if symbols >> byte & 1)
                    byte = next(usual, symbols.bit_length() - 1)
                    further.append((word + bytes((byte,)), target))
        layer = further
    return None
