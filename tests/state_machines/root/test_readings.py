"""What compositions admit and who writes what, against a reading that tries everything."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from root_compiling import compiled
from root_reference import SPECIAL, Reference, as_bytes
from root_strategies import LETTERS, compositions, vocabularies
from schema_strategies import examples

from state_machines import Vocabulary
from state_machines.grammar.node import leading_bytes
from state_machines.root import RootStateMachine

SHORT = ["".join(word) for length in range(5) for word in product(LETTERS + SPECIAL, repeat=length)]
WALKS = 12


def walk(machine: RootStateMachine, random: Random) -> bytes | None:
    """Write at random, and end soon; ``None`` where no end is found. Fails at a dead end."""
    node, text = machine.start, bytearray()
    for step in range(40):
        live = leading_bytes(node)
        if node.nullable and (not live or random.random() < 0.15 or step > 20):
            return bytes(text)
        assert live, f"dead end after {bytes(text)!r}"
        byte = random.choice([byte for byte in live if byte < 128 or byte == 255] or live)
        text.append(byte)
        node = node.derivative(byte)
    return None


def as_text(written: bytes) -> str | None:
    """Return the bytes of a text in which one character is a special token."""
    try:
        return written.replace(as_bytes(SPECIAL), SPECIAL.encode()).decode()
    except UnicodeDecodeError:
        return None


def named(pieces: list[tuple[Any, Any]]) -> list[tuple[str, str, bytes]]:
    """Return pieces in a form that can be compared: delimiters are made anew by each reader."""
    return [
        (type(part).__name__, part.name, as_bytes(own) if isinstance(own, str) else own)
        for part, own in pieces
    ]


@examples(50)
@given(compositions(), vocabularies(), st.integers(0, 2**32))
def test_language_and_pieces_equal_the_reference(
    composition: Any, vocabulary: Vocabulary, seed: int
) -> None:
    part, patterns = composition
    machine = compiled(part, vocabulary)
    reference = Reference(part, patterns)
    random = Random(seed)
    walked = [as_text(text) for _ in range(WALKS) if (text := walk(machine, random)) is not None]
    longer = [text for text in walked if text and 4 < len(text) < 12]
    near = [_changed(text, random) for text in longer]
    for text in (*SHORT, *longer, *near):
        expected = reference.reading(text)
        assert machine.matches(as_bytes(text)) == (expected is not None), text
        if expected is not None:
            assert named(machine.pieces(as_bytes(text))) == named(expected), text


def _changed(text: str, random: Random) -> str:
    at = random.randrange(len(text))
    letter = random.choice(LETTERS + SPECIAL)
    return text[:at] + random.choice(["", letter, letter + text[at]]) + text[at + 1 :]
