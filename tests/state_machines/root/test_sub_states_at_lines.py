"""Sub-states that follow free text at the start of a line, in compositions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest

from state_machines import RegexStateMachine, StateMachine, Vocabulary
from state_machines.regex import compile_pattern
from state_machines.root import Choice, LineStart, Marker, Optional, RootStateMachine, Series, Text

TEXTS = ["".join(word) for n in range(7) for word in product("a#\n", repeat=n)]


@dataclass(frozen=True, eq=False)
class Title(LineStart):
    """A title, which is certain after its first letter."""

    def machine(self) -> StateMachine:
        return RegexStateMachine("#a+")


TITLE = Title("title", headings=compile_pattern("#a", search=False))


def divided(text: str, least: int, most: int | None) -> tuple[str, str] | None:
    """Return a text and the title behind it; ``None`` if there is no such division."""
    for start in range(len(text) + 1):
        before, title = text[:start], text[start:]
        if start and before[-1] != "\n":
            continue
        if title.startswith("#a"):
            is_title = set(title[1:]) == {"a"} and least <= start
            return (before, title) if is_title and (most is None or start <= most) else None
    is_text = least <= len(text) and (most is None or len(text) <= most)
    return (text, "") if is_text else None


@pytest.mark.parametrize("is_required", [False, True])
@pytest.mark.parametrize("bound", [(0, None), (0, 0), (0, 2), (2, 3), (3, None)])
def test_title_follows_text_at_the_start_of_a_line(
    bound: tuple[int, int | None], is_required: bool
) -> None:
    text = Text("text", min_chars=bound[0], max_chars=bound[1])
    machine = RootStateMachine(Series(text, TITLE if is_required else Optional(TITLE)))
    for written in TEXTS:
        expected = divided(written, *bound)
        if is_required and expected is not None and not expected[1]:
            expected = None
        assert machine.matches(written) == (expected is not None), written
        if expected is not None:
            found = {piece.part.name: piece.text.decode() for piece in machine.pieces(written)}  # type: ignore[attr-defined]
            assert (found.get("text", ""), found.get("title", "")) == expected


@pytest.mark.parametrize("bound", [(0, None), (0, 0), (0, 3), (2, 3)])
def test_title_in_place_of_the_text_follows_no_line(bound: tuple[int, int | None]) -> None:
    text = Text("text", min_chars=bound[0], max_chars=bound[1])
    machine = RootStateMachine(Choice(TITLE, text))
    for written in TEXTS:
        is_title = written.startswith("#a")
        is_text = bound[0] <= len(written) and (bound[1] is None or len(written) <= bound[1])
        expected = set(written[1:]) == {"a"} if is_title else is_text
        assert machine.matches(written) == expected, written
        if expected and written:
            (piece,) = machine.pieces(written)
            assert piece.part.name == ("title" if is_title else "text")  # type: ignore[attr-defined]


def test_text_ends_at_a_marker_or_a_title() -> None:
    text, stop = Text("text"), Marker("stop", "##")
    machine = RootStateMachine(Series(text, Optional(Series(Optional(stop), TITLE))))
    assert [(p.part.name, p.text) for p in machine.pieces("a\n###a")] == [  # type: ignore[attr-defined]
        ("text", b"a\n"),
        ("stop", b"##"),
        ("title", b"#a"),
    ]
    assert not machine.matches("#aa\n")
    assert machine.matches("a #a\n#")


def test_end_of_texts_leaves_a_title_that_has_begun() -> None:
    forms = [bytes([byte]) for byte in range(256)]
    vocabulary = Vocabulary([*forms, b"<end>"], end_token_ids=[256])
    matcher = RootStateMachine(Series(Text("text"), Optional(TITLE))).matcher(vocabulary)
    for byte in b"a\n#":
        matcher.advance(byte)
    matcher.end_texts()
    assert {i for i in range(257) if matcher.allowed_tokens()[i]} == {ord("a"), 256}
    matcher.advance(ord("a"))
    assert [piece.text for piece in matcher.take_pieces(is_last=True)][-1] == b"#a"
